//! Where the BPF programs of a recording sat, who held them, what they cost.

use std::io;
use std::io::Write;

use crate::perfdata::private::LinkState;
use crate::render::escape::escape;
use crate::replay::Programs;
use crate::replay::programs::Attachment;
use crate::replay::programs::Program;

/// Writes what the recording tells of each program beyond its code, and of the programs on each
/// recorded tracepoint; nothing where it tells nothing.
///
/// # Errors
///
/// Whatever `out` says.
pub fn write_programs(programs: &Programs<'_>, out: &mut dyn Write) -> io::Result<()> {
    for program in programs.all() {
        write_program(program, out)?;
    }
    for tracepoint in programs.tracepoints() {
        let event = text(&tracepoint.event);
        if let Some(why) = &tracepoint.refused {
            writeln!(out, "# tracepoint {event}: the kernel does not tell: {}", text(why))?;
            continue;
        }
        let names: Vec<String> = tracepoint
            .programs
            .iter()
            .map(|it| {
                let drops = if it.can_drop { ", may drop samples" } else { "" };
                format!("{} {} ({}{drops})", it.id, text(&it.name), text(&it.how))
            })
            .collect();
        let names = if names.is_empty() { "no program".to_owned() } else { names.join(", ") };
        writeln!(out, "# tracepoint {event}: {names}")?;
    }
    Ok(())
}

fn write_program(program: &Program<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Some(id) = program.id else { return Ok(()) };
    let state = &program.state;
    let mut lines = Vec::new();
    let mut add = |label: &str, items: Vec<String>| {
        if !items.is_empty() {
            lines.push(format!("{label}: {}", items.join(", ")));
        }
    };
    add("attached", state.links.iter().map(link).collect());
    let on = |it: &Attachment| format!("{} by {}", text(&it.event), text(&it.how));
    add("on recorded tracepoints", state.attachments.iter().map(on).collect());
    let pins = state.pins.iter().chain(state.links.iter().flat_map(|it| &it.pins));
    add("pinned", pins.map(|it| text(it)).collect());
    let map = |name: &str, kind: &str, id: u32| format!("{} ({} {id})", text(name), text(kind));
    add("maps", state.maps.iter().map(|it| map(&it.name, &it.kind, it.id)).collect());
    let holder = |comm: &str, pid: i32| format!("{} ({pid})", text(comm));
    let mut holders: Vec<String> =
        state.holders.iter().map(|it| holder(&it.comm, it.pid)).collect();
    holders.dedup();
    add("held by", holders);
    if let Some(cost) = program.cost {
        let misses = match cost.recursion_misses {
            0 => String::new(),
            n => format!(", passed over {n} times"),
        };
        let (runs, ns) = (cost.runs, cost.run_time_ns);
        add("ran", vec![format!("{runs} times, {ns} ns{misses}")]);
    }
    if lines.is_empty() {
        return Ok(());
    }
    let name = String::from_utf8_lossy(&program.name);
    let kind = program.type_name().unwrap_or("unknown type");
    let tag = program.tag.map(|it| format!(", tag {it}")).unwrap_or_default();
    writeln!(out, "# bpf program {id}: {kind} {}{tag}", text(&name))?;
    lines.iter().try_for_each(|it| writeln!(out, "#   {it}"))
}

fn link(link: &LinkState) -> String {
    let kind = link.attach_type.as_ref().unwrap_or(&link.kind);
    let target = link.target.as_ref().map(|it| format!(" {}", text(it))).unwrap_or_default();
    format!("{}{target} (link {})", text(kind), link.id)
}

fn text(name: &str) -> String {
    escape(name.as_bytes()).into_owned()
}
