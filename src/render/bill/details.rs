//! What stands below the row of a program.

use std::io;
use std::io::Write;

use crate::profile::Charge;
use crate::profile::Weight;
use crate::render::escape::escape;
use crate::replay::programs::Program;
use crate::replay::resolved::Resolved;

use super::MAX_HOT;
use super::cell;
use super::share;

/// Writes what is known of `program` beside its row, a line each.
pub(super) fn of_program(out: &mut dyn Write, program: &Program<'_>) -> io::Result<()> {
    let text = |it: &str| escape(it.as_bytes()).into_owned();
    let mut line = |what: &str, text: &str| writeln!(out, "          {what:<9} {text}");
    for (key, value) in &program.metadata {
        line("metadata", &format!("{} = {}", text(key), text(value)))?;
    }
    for function in &program.functions {
        let len = function.end - function.start;
        let name = escape(&function.name);
        line("function", &format!("{} {name}, {len} bytes at 0x{}", function.idx, function.start))?;
    }
    let state = &program.state;
    for link in &state.links {
        let pins: Vec<String> =
            link.pins.iter().map(|it| format!(", pinned as {}", text(it))).collect();
        let how = cell::link(link);
        match link.id {
            // An event attaches it, without a link.
            0 => line("event", &how)?,
            id => line("link", &format!("{id} {how}{}", pins.concat()))?,
        }
    }
    for attachment in &state.attachments {
        let how = text(&attachment.how);
        let drops = if attachment.can_drop { ", and may drop its samples" } else { "" };
        line("on", &format!("{} by {how}{drops}", text(&attachment.event)))?;
    }
    for map in &state.maps {
        line("map", &format!("{} {} {}", map.id, text(&map.kind), text(&map.name)))?;
    }
    for pin in &state.pins {
        line("pin", &text(pin))?;
    }
    for holder in &state.holders {
        let (comm, via) = (text(&holder.comm), text(&holder.via));
        line("holder", &format!("{comm}[{}] by its {via}", holder.pid))?;
    }
    if let Some(loader) = &program.loader {
        line("loader", &format!("{}[{}]", escape(&loader.comm), loader.pid))?;
    }
    Ok(())
}

/// Writes the callees and lines of a program on which most samples fell.
pub(super) fn hot(
    out: &mut dyn Write,
    resolved: &Resolved,
    charge: &Charge,
    base: u64,
) -> io::Result<()> {
    let percent = |it: Weight| cell::percent(share(it, base));
    for callee in charge.callees.iter().take(MAX_HOT) {
        let location = resolved.locations.get(callee.location.0 as usize);
        let symbol = location.and_then(|it| resolved.symbols.get(it.symbol?.0 as usize));
        let name = match (symbol, location) {
            (Some(symbol), _) => escape(symbol.name.as_bytes()).into_owned(),
            (None, Some(location)) => format!("0x{}", location.ip),
            (None, None) => continue,
        };
        writeln!(out, "{:>9}           calls {name}", percent(callee.weight))?;
    }
    for line in charge.lines.iter().take(MAX_HOT) {
        let (file, text) = (escape(&line.file), escape(line.text.trim_ascii()));
        let [total, own] = [line.total, line.own].map(percent);
        writeln!(out, "{total:>9} {own:>7}   line {file}:{}  {text}", line.line)?;
    }
    Ok(())
}
