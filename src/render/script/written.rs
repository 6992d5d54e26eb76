//! What BPF programs wrote into samples: by its type where the recording has one, else byte by byte.

use std::fmt::Write;

use crate::btf::Btf;
use crate::events::is_bpf_output;
use crate::perfdata::private::Message;
use crate::replay::Event;

/// The longest text of a value, in bytes.
const TEXT_MAX: usize = 4096;

/// How many bytes a line shows.
const LINE: usize = 8;

/// What the samples of output events are printed by.
#[derive(Debug, Default)]
pub(super) struct Written {
    btfs: Vec<Btf>,
    /// By event of the recording: the types that its samples may be of, with their lengths.
    types: Vec<Vec<Type>>,
}

#[derive(Clone, Copy, Debug)]
struct Type {
    /// Its place in `btfs`.
    btf: usize,
    id: u32,
    len: usize,
}

impl Written {
    /// What `messages` say of the types of `events`.
    pub(super) fn new(events: &[Event], messages: &[Message]) -> Self {
        let mut this = Self { btfs: Vec::new(), types: vec![Vec::new(); events.len()] };
        let objects = messages.iter().filter_map(|it| match it {
            Message::Object(object) => Some(object),
            _ => None,
        });
        for object in objects {
            let Ok(btf) = Btf::parse(object.btf_bytes()) else { continue };
            let at = this.btfs.len();
            for output in &object.outputs {
                let is_it = |it: &&(&Event, &mut Vec<Type>)| {
                    it.0.name == output.event && is_bpf_output(&it.0.attr) && it.1.is_empty()
                };
                let Some((_, types)) = events.iter().zip(&mut this.types).find(|it| is_it(&it))
                else {
                    continue;
                };
                let known = output.types.iter().filter_map(|id| Some((*id, btf.len_of(*id)?)));
                types.extend(known.map(|(id, len)| Type { btf: at, id, len }));
            }
            this.btfs.push(btf);
        }
        this
    }

    /// Whether samples of the event with index `event` have a type.
    pub(super) fn is_typed(&self, event: usize) -> bool {
        self.types.get(event).is_some_and(|it| !it.is_empty())
    }

    /// Appends `raw` of the event with index `event` by the first of its types that it can be; else
    /// says that it is of none.
    pub(super) fn print(&self, event: usize, raw: &[u8], out: &mut Vec<u8>) -> bool {
        for Type { btf, id, len } in self.types.get(event).into_iter().flatten() {
            // Zeros fill raw data up, so that 8 divides its length and that of its own length.
            if !(*len..len.saturating_add(8)).contains(&raw.len()) {
                continue;
            }
            let text = self.btfs.get(*btf).and_then(|it| it.print_members(*id, raw, TEXT_MAX));
            if let Some(text) = text {
                out.extend_from_slice(text.as_bytes());
                return true;
            }
        }
        false
    }
}

/// Appends `raw` as perf shows it, but for bytes beyond ASCII, which are points here.
///
/// Source: `sample__fprintf_bpf_output()` and `perf_sample__fprintf_bpf_output()` in
/// `tools/perf/builtin-script.c`.
pub(super) fn dump(raw: &[u8], out: &mut Vec<u8>) {
    out.push(b'\n');
    let mut text = String::new();
    for (n, line) in raw.chunks(LINE).enumerate() {
        let label = if n == 0 { "BPF output:" } else { "" };
        let mut push = |it: std::fmt::Arguments<'_>| {
            // Writing to a string cannot fail.
            text.write_fmt(it).unwrap_or_default();
        };
        push(format_args!("{label:>17} {:04x}:", n * LINE));
        for byte in line {
            push(format_args!(" {byte:02x}"));
        }
        let chars: String = line.iter().map(|it| shown(*it)).collect();
        let n_missing = 3 * (LINE - line.len());
        push(format_args!("{:n_missing$}  {chars:LINE$}\n", ""));
    }
    out.extend_from_slice(text.as_bytes());
    if let Some(string) = string(raw) {
        out.extend_from_slice(format!("{:>17} \"{string}\"\n", "BPF string:").as_bytes());
    }
}

fn shown(byte: u8) -> char {
    if byte == b' ' || byte.is_ascii_graphic() { char::from(byte) } else { '.' }
}

/// The text that `raw` is, with nothing but zeros behind its end.
fn string(raw: &[u8]) -> Option<&str> {
    let len = raw.iter().position(|it| *it == 0)?;
    let (text, rest) = raw.split_at(len);
    let is_text = text.iter().all(|it| shown(*it) != '.' || *it == b'.');
    let is_filled = rest.iter().all(|it| *it == 0);
    std::str::from_utf8(text).ok().filter(|_| is_text && is_filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::testing::Builder;
    use crate::perfdata::private::BpfObject;

    #[track_caller]
    fn check(raw: &[u8], want: &str) {
        let mut out = Vec::new();
        dump(raw, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    /// Raw data of `len` bytes, the first of which is 7, by types of 4 and of 20 bytes.
    #[track_caller]
    fn check_typed(len: usize, want: Option<&str>) {
        let mut btf = Builder::little();
        let int = btf.int("int", 4, 0, 32);
        let short = btf.structure("short", 4, &[("n", int, 0)]);
        let long = btf.structure("long", 20, &[("first", int, 0), ("last", int, 128)]);
        let types = [(short, 4), (long, 20), (99, 28)].map(|(id, len)| Type { btf: 0, id, len });
        let written = Written { btfs: vec![btf.build()], types: vec![types.into()] };
        let mut raw = vec![0; len];
        raw[0] = 7;
        let mut out = Vec::new();
        let is_typed = written.print(0, &raw, &mut out);
        assert_eq!(is_typed.then(|| String::from_utf8(out).unwrap()).as_deref(), want);
        assert!(!written.print(1, &raw, &mut Vec::new()));
    }

    #[test]
    fn the_first_type_that_the_length_fits_is_meant() {
        check_typed(4, Some("n=7"));
        // Zeros fill it up.
        check_typed(11, Some("n=7"));
        check_typed(12, None);
        check_typed(20, Some("first=7 last=0"));
        check_typed(28, None);
    }

    #[test]
    fn damaged_types_are_none() {
        let object = BpfObject { btf: "9feb01".to_owned(), ..BpfObject::default() };
        let written = Written::new(&[], &[Message::Object(object)]);
        assert!(written.btfs.is_empty() && !written.is_typed(0));
    }

    #[test]
    fn bytes_are_shown_in_lines_of_eight() {
        check(
            b"\x00\x01abcdef\xd9 g\x1b",
            "\n      BPF output: 0000: 00 01 61 62 63 64 65 66  ..abcdef\
             \n                  0008: d9 20 67 1b              . g.    \n",
        );
    }

    #[test]
    fn what_is_a_text_is_shown_as_one_too() {
        check(
            b"hi\0\0",
            "\n      BPF output: 0000: 68 69 00 00              hi..    \
             \n      BPF string: \"hi\"\n",
        );
        for raw in [&b"hi"[..], b"h\x1b\0\0", b"hi\0x", b"\xc3\xa9\0\0"] {
            assert_eq!(string(raw), None);
        }
    }
}
