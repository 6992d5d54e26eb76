//! BPF objects whose programs are events, and what these have counted.

use std::fmt::Write;

use serde::Deserialize;
use serde::Serialize;

/// A BPF object whose programs are events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BpfObject {
    /// The file, as it was named.
    pub path: String,
    /// Tells objects of one recording apart: one file can be loaded twice.
    pub number: u32,
    /// Its programs that were loaded.
    pub programs: Vec<ObjectProgram>,
    /// The events that its programs write into.
    pub outputs: Vec<ObjectOutput>,
    /// The types of what they write: BTF in hexadecimal digits.
    pub btf: String,
}

/// A program of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectProgram {
    /// Its name, uncut, which is that of its event.
    pub name: String,
    /// Its section, which says where it runs.
    pub section: String,
    /// Its id; 0 if it is not known.
    pub id: u32,
    /// The tracepoint whose samples it decides of for every recorder, if it does.
    pub decides_for_all: Option<String>,
    /// Whether it may return 0, and so take samples away.
    pub can_drop: bool,
}

/// An event that programs write into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectOutput {
    /// The event.
    pub event: String,
    /// The map that they write to.
    pub map: String,
    /// The kind of the map: `perf_event_array` or `ringbuf`.
    pub kind: String,
    /// What a sample's raw data may be, by number of the type: the first that it can be is meant.
    pub types: Vec<u32>,
}

/// What the programs of an object have counted and noted in its variables and maps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectValues {
    /// The file, as it was named.
    pub path: String,
    /// The object's number.
    pub number: u32,
    /// The moment, in nanoseconds since boot (`CLOCK_BOOTTIME`).
    pub boot_ns: u64,
    /// Its global variables that are not constant.
    pub variables: Vec<ObjectVariable>,
    /// Its small maps.
    pub maps: Vec<ObjectMap>,
}

/// A global variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectVariable {
    /// Its name.
    pub name: String,
    /// What it holds, as text.
    pub value: String,
}

/// A map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectMap {
    /// Its name, uncut.
    pub name: String,
    /// Its type in the words of `enum bpf_map_type`, lower case.
    pub kind: String,
    /// Keys and values as text, ordered by key; of a map per CPU numbers are the sums of all CPUs.
    pub entries: Vec<(String, String)>,
    /// How many more there were; at least so many, where there are many.
    pub n_left_out: u64,
}

impl BpfObject {
    /// The types of what its programs write, as BTF; nothing if the digits are none.
    pub fn btf_bytes(&self) -> Vec<u8> {
        let digits = self.btf.as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        digits.chunks(2).map(byte).collect::<Option<_>>().unwrap_or_default()
    }
}

/// `bytes` as hexadecimal digits.
pub fn digits(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        // Writing to a string cannot fail.
        write!(digits, "{byte:02x}").unwrap_or_default();
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_carried_as_digits() {
        let of = |btf: &str| BpfObject { btf: btf.to_owned(), ..BpfObject::default() }.btf_bytes();
        let bytes = [0x9f, 0xeb, 0, 10];
        assert_eq!(digits(&bytes), "9feb000a");
        assert_eq!(of("9feb000a"), bytes);
        assert_eq!((of("9feb0"), of("xy"), of("\u{e9}")), (vec![0x9f, 0xeb, 0], vec![], vec![]));
    }
}
