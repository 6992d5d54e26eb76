//! Breakpoints: `mem:ADDR[/LEN][:ACCESS]`, where data is touched or code is run.
//!
//! Source: `parse_events_add_breakpoint()` in `tools/perf/util/parse-events.c` for what is meant
//! where nothing is said, `HW_BREAKPOINT_*` in `include/uapi/linux/hw_breakpoint.h`.

use super::Error;
use super::column;
use super::list::Draft;
use super::list::Parser;
use super::modifiers;
use super::modifiers::Modifiers;
use super::names::KIND_BREAKPOINT;
use super::terms;
use super::terms::number;
use crate::perfdata::Attr;

const READ: u32 = 1;
const WRITE: u32 = 2;
const EXECUTE: u32 = 4;

/// How much data is watched where nothing is said, in bytes.
const USUAL_LEN: u64 = 4;
/// The length that the kernel wants for code: that of a `long`.
const CODE_LEN: u64 = size_of::<usize>() as u64;

/// The breakpoint at the parser's place.
pub(super) fn parse(parser: &mut Parser<'_>, drafts: &mut Vec<Draft>) -> Result<(), Error> {
    let from = parser.at;
    parser.at += "mem:".len();
    let bad =
        |parser: &Parser<'_>, at: usize, value: &str, term: &str, wanted: &str| Error::BadValue {
            list: parser.list.to_owned(),
            value: value.to_owned(),
            term: term.to_owned(),
            wanted: wanted.to_owned(),
            column: column(parser.list, at),
        };
    let at = parser.at;
    let addr = parser.until(&[':', '/', ',', '{', '}']).trim_end();
    let Some(config1) = number(addr) else {
        return Err(bad(parser, at, addr, "mem", "an address"));
    };
    let mut len = None;
    let digits =
        parser.rest().strip_prefix('/').filter(|it| it.starts_with(|it: char| it.is_ascii_digit()));
    if digits.is_some() {
        parser.at += 1;
        let at = parser.at;
        let text = parser.until(&[':', '/', ',', '{', '}']).trim_end();
        let wanted = "a length of 1, 2, 4 or 8 bytes";
        let number = number(text).filter(|it| matches!(it, 1 | 2 | 4 | 8));
        len = Some(number.ok_or_else(|| bad(parser, at, text, "mem", wanted))?);
    }
    let mut access = None;
    let mut modifiers = Modifiers::default();
    while parser.eat(':') {
        let at = parser.at;
        let text = parser.until(&[':', '/', ',', '{', '}']).trim_end();
        match (access, accesses(text)) {
            (None, Some(found)) => access = Some(found),
            _ => modifiers = modifiers::parse(modifiers, parser.list, text, at)?,
        }
    }
    let terms = if parser.rest().starts_with('/') { Some(parser.terms()?) } else { None };
    if let Some(terms) = &terms {
        let (letters, at) = terms.letters;
        modifiers = modifiers::parse(modifiers, parser.list, letters, at)?;
    }
    let bp_type = access.unwrap_or(READ | WRITE);
    let usual = if bp_type == EXECUTE { CODE_LEN } else { USUAL_LEN };
    let config2 = len.unwrap_or(usual);
    let attr = Attr { kind: KIND_BREAKPOINT, bp_type, config1, config2, ..Attr::default() };
    let text = parser.list.get(from..parser.at).unwrap_or_default().trim_end();
    let mut draft = Draft::new(text, attr, modifiers);
    if let Some(found) = terms {
        terms::apply(parser.list, "mem", &found.terms, &mut draft)?;
    }
    drafts.push(draft);
    Ok(())
}

/// The accesses of `rwx`, or `None` if these are other letters or one stands twice.
fn accesses(text: &str) -> Option<u32> {
    let mut accesses = 0;
    for letter in text.chars() {
        let access = match letter {
            'r' => READ,
            'w' => WRITE,
            'x' => EXECUTE,
            _ => return None,
        };
        if accesses & access != 0 {
            return None;
        }
        accesses |= access;
    }
    (accesses != 0).then_some(accesses)
}

#[cfg(test)]
mod tests {
    use super::super::testing::one;
    use super::super::testing::parsed;
    use super::super::testing::refused;
    use crate::perfdata::AttrFlags;

    #[track_caller]
    fn check(list: &str, bp_type: u32, addr: u64, len: u64) {
        let event = one(list);
        let attr = event.attr;
        assert_eq!((event.name.as_str(), attr.kind), (list, 5));
        assert_eq!((attr.bp_type, attr.config1, attr.config2), (bp_type, addr, len), "{list}");
    }

    #[test]
    fn four_bytes_are_watched_for_reads_and_writes_unless_told_otherwise() {
        check("mem:0x1000", 3, 0x1000, 4);
        check("mem:4096:w", 2, 0x1000, 4);
        check("mem:0x1000/8:rw", 3, 0x1000, 8);
        check("mem:0x1000:x", 4, 0x1000, 8);
        check("mem:0x1000/1", 3, 0x1000, 1);
    }

    #[test]
    fn modifiers_follow_the_access_or_stand_in_its_place() {
        let user = one("mem:0x1000:u").attr;
        assert!(user.flags.contains(AttrFlags::EXCLUDE_KERNEL) && user.bp_type == 3);
        let user = one("mem:0x1000/2:w:u").attr;
        assert!(user.flags.contains(AttrFlags::EXCLUDE_KERNEL) && user.bp_type == 2);
        assert_eq!(one("mem:0x1000/name=q/").name, "q");
        assert_eq!(parsed("{mem:0x10:w,cs}").len(), 2);
    }

    #[test]
    fn what_is_no_breakpoint_is_told_with_its_column() {
        refused(
            "cs,mem:y:w",
            "`y` at column 8 of `cs,mem:y:w` is no value of `mem`, which is an address",
            None,
        );
        refused(
            "mem:0x10/3",
            "`3` at column 10 of `mem:0x10/3` is no value of `mem`, which is a length of 1, 2, 4 \
             or 8 bytes",
            None,
        );
        refused("mem:0x10:wq", "`w` at column 10 of `mem:0x10:wq` is no event modifier", None);
    }
}
