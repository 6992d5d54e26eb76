//! The quantities that cross stages, each a type of its own: an address is not a file offset.

use std::fmt;
use std::ops::{Add, Sub};

/// A virtual address in the recorded machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Addr(pub u64);

/// A position in a file, in bytes from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileOffset(pub u64);

/// A time in nanoseconds on the recording's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// A process (thread group) id; -1 stands for the kernel or for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub i32);

/// A thread id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub i32);

/// A user's id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(pub u32);

/// A CPU number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpu(pub u32);

/// The id that the kernel gave a loaded BPF program (`bpf_prog_info.id`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgId(pub u32);

/// The hash of a BPF program's instructions (`bpf_prog_info.tag`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BpfTag(pub [u8; 8]);

/// The build id of an ELF file: up to 20 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BuildId {
    bytes: [u8; Self::MAX],
    len: u8,
}

impl BuildId {
    /// The most bytes that `perf.data` has room for.
    pub const MAX: usize = 20;

    /// A build id, or `None` if `bytes` is empty or longer than [`BuildId::MAX`].
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let len = u8::try_from(bytes.len()).ok()?;
        let mut this = Self { bytes: [0; Self::MAX], len };
        this.bytes.get_mut(..bytes.len()).filter(|it| !it.is_empty())?.copy_from_slice(bytes);
        Some(this)
    }

    /// The bytes themselves, 1 to 20 of them.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// A moment on a wall clock, in the time zone of whoever reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// The year.
    pub year: i32,
    /// The month, 1 to 12.
    pub month: u8,
    /// The day of the month, 1 to 31.
    pub day: u8,
    /// The day of the week, 0 for Sunday.
    pub weekday: u8,
    /// The hour, 0 to 23.
    pub hour: u8,
    /// The minute, 0 to 59.
    pub minute: u8,
    /// The second, 0 to 60.
    pub second: u8,
}

impl LocalTime {
    /// The form of ISO 8601 with a space: `2026-11-29 22:05:17`.
    pub fn iso(&self) -> String {
        let Self { year, month, day, hour, minute, second, .. } = self;
        format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

impl fmt::Display for LocalTime {
    /// The form of ctime(3): `Sun Nov 29 22:05:17 2026`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let Self { year, month, day, weekday, hour, minute, second } = self;
        let weekday = WEEKDAYS.get(usize::from(*weekday)).unwrap_or(&"???");
        let month = usize::from(*month).checked_sub(1).and_then(|it| MONTHS.get(it));
        let month = month.unwrap_or(&"???");
        write!(f, "{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

impl fmt::Display for BuildId {
    /// Lower-case hexadecimal, two digits a byte.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(self.as_bytes(), f)
    }
}

impl fmt::Display for BpfTag {
    /// Sixteen lower-case hexadecimal digits, as in the kernel's symbol names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Display for Addr {
    /// Lower-case hexadecimal without a prefix, as perf prints addresses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

impl fmt::Display for FileOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

macro_rules! decimal {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )*};
}
decimal!(Pid, Tid, UserId, Cpu, ProgId);

impl Sub for Addr {
    type Output = u64;

    /// The distance between two addresses, wrapping like the machine's own arithmetic.
    fn sub(self, other: Self) -> u64 {
        self.0.wrapping_sub(other.0)
    }
}

impl Add<u64> for Addr {
    type Output = Self;

    /// The address `bytes` further on, wrapping like the machine's own arithmetic.
    fn add(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

fn hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Whether a terminal would do something else than show this: controls, and marks that turn the
/// direction of text or end a line.
pub fn is_unfit(it: char) -> bool {
    it.is_control()
        || matches!(it, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_has_one_to_twenty_bytes() {
        assert_eq!(BuildId::new(&[]), None);
        assert_eq!(BuildId::new(&[0; 21]), None);
        assert_eq!(BuildId::new(&[0xab, 1]).unwrap().to_string(), "ab01");
    }

    #[test]
    fn a_local_time_prints_as_by_ctime_and_as_iso() {
        let (year, month, day, weekday) = (2026, 3, 1, 0);
        let time = LocalTime { year, month, day, weekday, hour: 7, minute: 5, second: 9 };
        assert_eq!(time.to_string(), "Sun Mar  1 07:05:09 2026");
        assert_eq!(time.iso(), "2026-03-01 07:05:09");
    }

    #[test]
    fn a_tag_prints_as_in_kallsyms() {
        assert_eq!(
            BpfTag([7, 0xdf, 0x90, 0x15, 0x60, 0x6e, 0x41, 0x40]).to_string(),
            "07df9015606e4140"
        );
    }
}
