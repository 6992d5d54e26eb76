//! What debug information said of addresses, kept from one run for the next.
//!
//! In come the functions and lines of addresses, out comes a text, and the other way round. A text that
//! is of another version, of other files, or damaged is none at all.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::Serialize;

use crate::units::Addr;

use super::NativeLine;
use super::SourceFrame;
use super::debug_files::crc32;

/// The functions that addresses of one file are in, each with its line.
#[derive(Debug, Default)]
pub struct KnownLines {
    tables: Tables,
    /// Where the frames of each address are.
    by_addr: FxHashMap<Addr, (usize, usize)>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Tables {
    /// Names of functions and paths of files.
    texts: Vec<String>,
    /// Function, file, line, column: texts by number.
    frames: Vec<(Option<usize>, Option<usize>, u32, u32)>,
    /// The number of frames of each address, in the order of the frames.
    addresses: Vec<(u64, usize)>,
}

/// The most addresses of a file that are kept.
const MAX_ADDRESSES: usize = 1 << 19;

/// The first line of a text: whose it is, of what, and the sum of the rest.
fn head(stamp: &str, body: &[u8]) -> String {
    format!("bpfperf {} lines of {stamp}, {:08x}\n", env!("CARGO_PKG_VERSION"), crc32(body))
}

impl KnownLines {
    /// Reads what was kept of the files with this stamp; `None` if `text` is not that.
    pub fn parse(text: &[u8], stamp: &str) -> Option<Self> {
        let end = text.iter().position(|&byte| byte == b'\n')? + 1;
        let (first, body) = text.split_at_checked(end)?;
        if first != head(stamp, body).as_bytes() {
            return None;
        }
        let tables: Tables = serde_json::from_slice(body).ok()?;
        let mut by_addr = FxHashMap::default();
        let mut start = 0_usize;
        for &(addr, n) in &tables.addresses {
            let end = start.checked_add(n).filter(|it| *it <= tables.frames.len())?;
            by_addr.insert(Addr(addr), (start, end));
            start = end;
        }
        Some(Self { tables, by_addr })
    }

    /// The functions that the code at `addr` is in, as they were once found; `None` if that address was
    /// not asked for.
    pub fn frames(&self, addr: Addr) -> Option<impl Iterator<Item = SourceFrame<'_>>> {
        let &(start, end) = self.by_addr.get(&addr)?;
        let text = |it: usize| self.tables.texts.get(it).map(String::as_str);
        let frames = self.tables.frames.get(start..end)?.iter();
        Some(frames.map(move |&(function, file, line, column)| SourceFrame {
            function: function.and_then(text),
            line: file.and_then(text).map(|file| NativeLine { file, line, column }),
        }))
    }

    /// The text to keep for the files with this stamp: what is known already, and what was found of more
    /// addresses.
    pub fn with<'l>(
        &'l self,
        found: impl IntoIterator<Item = (Addr, Vec<SourceFrame<'l>>)>,
        stamp: &str,
    ) -> Vec<u8> {
        let known = self.by_addr.keys().filter_map(|&it| Some((it, self.frames(it)?.collect())));
        // In order, so that the same knowledge makes the same text.
        let all: BTreeMap<Addr, Vec<SourceFrame<'_>>> =
            known.chain(found).take(MAX_ADDRESSES).collect();
        let mut tables = Tables::default();
        let mut numbers: FxHashMap<&str, usize> = FxHashMap::default();
        for (addr, frames) in &all {
            tables.addresses.push((addr.0, frames.len()));
            for SourceFrame { function, line } in frames {
                let mut number = |text| {
                    *numbers.entry(text).or_insert_with(|| {
                        tables.texts.push(text.to_owned());
                        tables.texts.len() - 1
                    })
                };
                let file = line.map(|it| number(it.file));
                let (line, column) = line.map_or((0, 0), |it| (it.line, it.column));
                tables.frames.push((function.map(&mut number), file, line, column));
            }
        }
        let body = serde_json::to_vec(&tables).unwrap_or_default();
        [head(stamp, &body).into_bytes(), body].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: &str = "8:1:77 at 5";

    fn frame<'l>(function: Option<&'l str>, line: Option<(&'l str, u32)>) -> SourceFrame<'l> {
        let line = line.map(|(file, line)| NativeLine { file, line, column: 3 });
        SourceFrame { function, line }
    }

    fn text() -> Vec<u8> {
        let inlined = vec![frame(Some("f\n\u{7f}é"), Some(("/a b", 7))), frame(None, None)];
        KnownLines::default().with([(Addr(16), inlined), (Addr(u64::MAX), Vec::new())], STAMP)
    }

    #[test]
    fn what_was_found_is_known_again_and_more_is_added() {
        let known = KnownLines::parse(&text(), STAMP).unwrap();
        let more = [(Addr(3), vec![frame(None, Some(("/a b", 1)))])];
        let text = known.with(more, STAMP);
        let known = KnownLines::parse(&text, STAMP).unwrap();
        let frames = |addr| known.frames(Addr(addr)).map(Iterator::collect::<Vec<_>>);
        let inlined = vec![frame(Some("f\n\u{7f}é"), Some(("/a b", 7))), frame(None, None)];
        assert_eq!(frames(16), Some(inlined));
        assert_eq!(frames(u64::MAX), Some(Vec::new()));
        assert_eq!(frames(3), Some(vec![frame(None, Some(("/a b", 1)))]));
        assert_eq!(frames(4), None);
    }

    #[test]
    fn what_is_of_other_files_or_damaged_is_nothing() {
        let text = text();
        assert!(KnownLines::parse(&text, "8:1:77 at 6").is_none());
        for at in 0..text.len() {
            let mut damaged = text.clone();
            damaged[at] ^= 1;
            assert!(KnownLines::parse(&damaged, STAMP).is_none(), "{at}");
            assert!(KnownLines::parse(&text[..at], STAMP).is_none(), "{at}");
        }
    }

    #[test]
    fn numbers_that_lead_nowhere_are_no_frames() {
        for body in [
            r#"{"texts":[],"frames":[],"addresses":[[1,1]]}"#,
            r#"{"texts":[],"frames":[[9,9,1,1]],"addresses":[[1,18446744073709551615],[2,5]]}"#,
            "[]",
        ] {
            let text = head(STAMP, body.as_bytes()) + body;
            assert!(KnownLines::parse(text.as_bytes(), STAMP).is_none(), "{body}");
        }
        let body = r#"{"texts":[],"frames":[[9,9,1,1]],"addresses":[[1,1]]}"#;
        let known = KnownLines::parse((head(STAMP, body.as_bytes()) + body).as_bytes(), STAMP);
        let known = known.unwrap();
        let frames: Vec<_> = known.frames(Addr(1)).unwrap().collect();
        assert_eq!(frames, [SourceFrame::default()]);
    }
}
