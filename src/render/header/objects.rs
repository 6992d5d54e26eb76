//! The BPF objects whose programs were events, and what these had counted at the end.

use std::io;
use std::io::Write;

use crate::btf::Btf;
use crate::perfdata::private::BpfObject;
use crate::perfdata::private::Message;
use crate::perfdata::private::ObjectValues;
use crate::render::escape::escape;

/// Writes what `messages` tell of objects.
///
/// # Errors
///
/// Whatever `out` says.
pub fn write_objects(messages: &[Message], out: &mut dyn Write) -> io::Result<()> {
    for message in messages {
        match message {
            Message::Object(object) => write_object(object, out)?,
            Message::Values(values) => write_values(std::slice::from_ref(values), "# ", out)?,
            _ => {}
        }
    }
    Ok(())
}

fn write_object(object: &BpfObject, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# bpf object {}", text(&object.path))?;
    for program in &object.programs {
        let (name, section) = (text(&program.name), text(&program.section));
        let drops = match &program.decides_for_all {
            Some(tracepoint) => {
                format!(", may take samples of {} from every recorder", text(tracepoint))
            }
            None if program.can_drop => ", may drop samples".to_owned(),
            None => String::new(),
        };
        writeln!(out, "#   program {name} ({section}, id {}{drops})", program.id)?;
    }
    let btf = Btf::parse(object.btf_bytes()).ok();
    for output in &object.outputs {
        let name = |id: &u32| btf.as_ref()?.type_name(*id).map(|it| escape(it).into_owned());
        let types: Vec<String> = output.types.iter().filter_map(name).collect();
        let of = if types.is_empty() { String::new() } else { format!(", {}", types.join(" or ")) };
        let (event, map) = (text(&output.event), text(&output.map));
        writeln!(out, "#   event {event}: from map {map} ({}{of})", text(&output.kind))?;
    }
    Ok(())
}

/// Writes what the programs of objects have counted, each line with `margin` before it.
///
/// # Errors
///
/// Whatever `out` says.
pub fn write_values(values: &[ObjectValues], margin: &str, out: &mut dyn Write) -> io::Result<()> {
    for object in values {
        writeln!(out, "{margin}values of {}:", text(&object.path))?;
        for variable in &object.variables {
            writeln!(out, "{margin}  {} = {}", text(&variable.name), text(&variable.value))?;
        }
        for map in &object.maps {
            let name = text(&map.name);
            for (key, value) in &map.entries {
                writeln!(out, "{margin}  {name}[{}] = {}", text(key), text(value))?;
            }
            match map.n_left_out {
                0 if map.entries.is_empty() => writeln!(out, "{margin}  {name}: nothing")?,
                0 => {}
                n => writeln!(out, "{margin}  {name}: {n} more")?,
            }
        }
    }
    Ok(())
}

fn text(name: &str) -> String {
    escape(name.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::testing::Builder;
    use crate::perfdata::private::ObjectMap;
    use crate::perfdata::private::ObjectOutput;
    use crate::perfdata::private::ObjectProgram;
    use crate::perfdata::private::ObjectVariable;
    use crate::perfdata::private::digits;

    #[track_caller]
    fn check(message: Message, want: &str) {
        let mut out = Vec::new();
        write_objects(&[message], &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn an_object_is_told_with_its_programs_and_what_they_write() {
        let mut btf = Builder::little();
        let id = btf.structure("event", 0, &[]);
        let program = |name: &str, can_drop, tracepoint: Option<&str>| ObjectProgram {
            name: name.to_owned(),
            section: "tp/a/b".to_owned(),
            id: 7,
            decides_for_all: tracepoint.map(str::to_owned),
            can_drop,
        };
        let output = ObjectOutput {
            event: "p".to_owned(),
            map: "m\x1b".to_owned(),
            kind: "ringbuf".to_owned(),
            types: vec![id, 99],
        };
        let object = BpfObject {
            path: "a.bpf.o".to_owned(),
            programs: vec![
                program("p", false, None),
                program("q", true, None),
                program("r", true, Some("a:b")),
            ],
            outputs: vec![output],
            btf: digits(&btf.raw()),
            ..BpfObject::default()
        };
        check(
            Message::Object(object),
            "# bpf object a.bpf.o\n\
             #   program p (tp/a/b, id 7)\n\
             #   program q (tp/a/b, id 7, may drop samples)\n\
             #   program r (tp/a/b, id 7, may take samples of a:b from every recorder)\n\
             #   event p: from map m\\x1b (ringbuf, event)\n",
        );
    }

    #[test]
    fn values_are_told_by_name_and_key() {
        let map = |name: &str, entries: &[(&str, &str)], n_left_out| ObjectMap {
            name: name.to_owned(),
            kind: "hash".to_owned(),
            entries: entries.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect(),
            n_left_out,
        };
        let values = ObjectValues {
            path: "a.bpf.o".to_owned(),
            variables: vec![ObjectVariable { name: "n".to_owned(), value: "-7".to_owned() }],
            maps: vec![map("m", &[("1", "2"), ("\"x\"", "{\"a\":3}")], 5), map("none", &[], 0)],
            ..ObjectValues::default()
        };
        check(
            Message::Values(values),
            "# values of a.bpf.o:\n\
             #   n = -7\n\
             #   m[1] = 2\n\
             #   m[\"x\"] = {\"a\":3}\n\
             #   m: 5 more\n\
             #   none: nothing\n",
        );
    }
}
