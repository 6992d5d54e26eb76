//! The letters after an event's colon.

use bitflags::bitflags;

use super::Error;
use super::Precision;
use super::column;
use super::names::KIND_HARDWARE;
use super::names::KIND_HARDWARE_CACHE;
use super::names::KIND_RAW;
use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;

/// What the letters say, of one event or of its group as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Modifiers {
    flags: AttrFlags,
    has_place: bool,
    has_guest_or_host: bool,
    precise: u8,
    is_best: bool,
    marks: Marks,
}

bitflags! {
    /// Letters that say nothing to the event's own attribute.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct Marks: u8 {
        /// `S`.
        const READS_GROUP = 1 << 0;
        /// `W`.
        const WEAK = 1 << 1;
        /// `R`.
        const RETIRE_LATENCY = 1 << 2;
    }
}

impl Modifiers {
    /// Those of `P`.
    pub(super) const BEST: Self = Self {
        flags: AttrFlags::empty(),
        has_place: false,
        has_guest_or_host: false,
        precise: 3,
        is_best: true,
        marks: Marks::empty(),
    };

    /// Whether a sample holds the values of the whole group.
    pub(super) fn reads_group(self) -> bool {
        self.marks.contains(Marks::READS_GROUP)
    }

    /// Whether a group may be opened event by event.
    pub(super) fn is_weak(self) -> bool {
        self.marks.contains(Marks::WEAK)
    }

    /// Whether a sample holds how long its instruction took to retire.
    pub(super) fn has_retire_latency(self) -> bool {
        self.marks.contains(Marks::RETIRE_LATENCY)
    }

    /// `attr` as the letters want it.
    pub(super) fn apply(self, mut attr: Attr) -> Attr {
        attr.flags |= self.flags;
        if self.precise & 1 != 0 {
            attr.flags |= AttrFlags::PRECISE_IP_LOW;
        }
        if self.precise & 2 != 0 {
            attr.flags |= AttrFlags::PRECISE_IP_HIGH;
        }
        // Precise sampling of guests is what hardware refuses.
        let is_hardware = [KIND_HARDWARE, KIND_HARDWARE_CACHE, KIND_RAW].contains(&attr.kind);
        if is_hardware && self.precise > 0 && !self.has_guest_or_host {
            attr.flags |= AttrFlags::EXCLUDE_GUEST;
        }
        attr
    }

    pub(super) fn precision(self) -> Precision {
        if self.is_best { Precision::Best } else { Precision::Exact }
    }

    /// The first letter of a kind excludes all of that kind, each letter then lets its own in.
    fn place(&mut self, place: AttrFlags) {
        if !self.has_place {
            self.flags |=
                AttrFlags::EXCLUDE_USER | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
            self.has_place = true;
        }
        self.flags.remove(place);
    }

    fn side(&mut self, side: AttrFlags) {
        if !self.has_guest_or_host {
            self.flags |= AttrFlags::EXCLUDE_GUEST | AttrFlags::EXCLUDE_HOST;
            self.has_guest_or_host = true;
        }
        self.flags.remove(side);
    }
}

/// The modifiers `letters`, which begin at byte `at` of `list`, on top of those in `base`.
pub(super) fn parse(
    base: Modifiers,
    list: &str,
    letters: &str,
    at: usize,
) -> Result<Modifiers, Error> {
    let mut modifiers = base;
    let (mut seen, mut precise) = (Vec::new(), 0);
    for (i, letter) in letters.char_indices() {
        let column = column(list, at + i);
        let repeatable = letter == 'p' && precise < 3;
        if seen.contains(&letter) && !repeatable {
            return Err(Error::DuplicateModifier { list: list.to_owned(), letter, column });
        }
        seen.push(letter);
        match letter {
            'u' => modifiers.place(AttrFlags::EXCLUDE_USER),
            'k' => modifiers.place(AttrFlags::EXCLUDE_KERNEL),
            'h' => modifiers.place(AttrFlags::EXCLUDE_HV),
            'G' => modifiers.side(AttrFlags::EXCLUDE_GUEST),
            'H' => modifiers.side(AttrFlags::EXCLUDE_HOST),
            'I' => modifiers.flags |= AttrFlags::EXCLUDE_IDLE,
            'D' => modifiers.flags |= AttrFlags::PINNED,
            'e' => modifiers.flags |= AttrFlags::EXCLUSIVE,
            'p' => {
                precise += 1;
                modifiers.precise = if modifiers.is_best { 3 } else { precise };
            }
            'P' => (modifiers.precise, modifiers.is_best) = (3, true),
            'S' => modifiers.marks |= Marks::READS_GROUP,
            'W' => modifiers.marks |= Marks::WEAK,
            'R' => modifiers.marks |= Marks::RETIRE_LATENCY,
            // How a counter is read, and which groups are formed for it: nothing of a recording's.
            'b' | 'X' => {}
            _ => return Err(Error::UnknownModifier { list: list.to_owned(), letter, column }),
        }
    }
    Ok(modifiers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(letters: &str, flags: AttrFlags, precise: u8) {
        let attr = parse(Modifiers::default(), letters, letters, 0)
            .unwrap()
            .apply(Attr { kind: 1, ..Attr::default() });
        let precision = AttrFlags::PRECISE_IP_LOW | AttrFlags::PRECISE_IP_HIGH;
        assert_eq!((attr.flags - precision, attr.precise_ip()), (flags, precise), "{letters}");
    }

    #[test]
    fn a_place_excludes_the_places_that_are_not_named() {
        let (user, kernel, hv) =
            (AttrFlags::EXCLUDE_USER, AttrFlags::EXCLUDE_KERNEL, AttrFlags::EXCLUDE_HV);
        check("u", kernel | hv, 0);
        check("k", user | hv, 0);
        check("uk", hv, 0);
        check("h", user | kernel, 0);
        check("", AttrFlags::empty(), 0);
    }

    #[test]
    fn precision_counts_its_letters_up_to_three() {
        check("p", AttrFlags::empty(), 1);
        check("ppp", AttrFlags::empty(), 3);
        check("P", AttrFlags::empty(), 3);
        let error = parse(Modifiers::default(), "pppp", "pppp", 0).unwrap_err();
        assert_eq!(error.to_string(), "modifier `p` stands twice, again at column 4 of `pppp`");
    }

    #[test]
    fn guest_and_host_exclude_each_other() {
        check("G", AttrFlags::EXCLUDE_HOST, 0);
        check("GH", AttrFlags::empty(), 0);
    }

    #[test]
    fn precise_hardware_events_leave_guests_out() {
        let cycles = parse(Modifiers::default(), "pp", "pp", 0).unwrap().apply(Attr::default());
        assert!(cycles.flags.contains(AttrFlags::EXCLUDE_GUEST));
        let both = parse(Modifiers::default(), "ppGH", "ppGH", 0).unwrap().apply(Attr::default());
        assert!(!both.flags.contains(AttrFlags::EXCLUDE_GUEST));
    }

    #[test]
    fn a_groups_letters_come_on_top_of_an_events_own() {
        let own = parse(Modifiers::default(), "u", "u", 0).unwrap();
        let both = parse(own, "kS", "kS", 0).unwrap();
        let attr = both.apply(Attr::default());
        assert_eq!(attr.flags, AttrFlags::EXCLUDE_HV);
        assert!(both.reads_group() && !own.reads_group() && !both.is_weak());
        let precise = parse(parse(Modifiers::default(), "pp", "pp", 0).unwrap(), "p", "p", 0);
        assert_eq!(precise.unwrap().precise, 1);
    }
}
