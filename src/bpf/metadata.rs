//! What a program's owner says of it: the `bpf_metadata_*` variables of its read-only data.
//!
//! The convention is bpftool's; perf 7.3 keeps it, too.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::AsFd;

use libbpf_rs::libbpf_sys as raw;

use super::btfs::Btfs;
use crate::btf::Btf;
use crate::btf::Variable;
use crate::btf::cut;
use crate::sys::bpf;

/// What the names of the variables begin with.
const PREFIX: &[u8] = b"bpf_metadata_";

/// The longest value that is kept, in bytes: this is for people, not for data.
const MAX_VALUE_LEN: usize = 64 << 10;

/// One statement of a program's owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataEntry {
    /// The variable's name after `bpf_metadata_`.
    pub key: String,
    /// Its value, printed by its type; one of more than 64 KiB ends in dots.
    pub value: String,
}

/// The statements found in maps so far. A map that could not be asked for is not among them, as the
/// next answer may be another.
#[derive(Debug, Default)]
pub(super) struct MetadataMaps {
    by_id: HashMap<u32, Said>,
    /// The newest map that was looked at.
    newest: u32,
}

/// What one map says.
#[derive(Debug, Default)]
struct Said {
    /// The BTF object that describes the map; 0 if none does.
    btf_id: u32,
    entries: Vec<MetadataEntry>,
}

impl MetadataMaps {
    /// Passes over the maps that are there already: their programs are, too.
    pub(super) fn skip_old(&mut self) {
        while let Ok(Some(id)) = bpf::next_map_id(self.newest)
            && self.newest < id
        {
            self.newest = id;
        }
    }

    /// The statements in the map `id`; none if it is no read-only data, or gone.
    pub(super) fn entries(&mut self, id: u32, btfs: &mut Btfs) -> &[MetadataEntry] {
        match self.by_id.entry(id) {
            Entry::Occupied(known) => &known.into_mut().entries,
            Entry::Vacant(place) => match fetch(id, btfs) {
                Some(said) => &place.insert(said).entries,
                None => &[],
            },
        }
    }

    /// The maps with statements that are described by the BTF object `btf_id` and came meanwhile:
    /// what is loaded with that object and has them not yet is about to get them.
    ///
    /// libbpf makes the maps of an object file first and loads the programs then; the maps that a
    /// program does not speak of, it binds after the load (`bpf_object_load_prog()`).
    pub(super) fn new_of(&mut self, btf_id: u32, btfs: &mut Btfs) -> impl Iterator<Item = u32> {
        // Ids only rise, until they begin anew after two billion.
        while let Ok(Some(id)) = bpf::next_map_id(self.newest)
            && self.newest < id
        {
            self.newest = id;
            self.entries(id, btfs);
        }
        let speaks = move |it: &(&u32, &Said)| it.1.btf_id == btf_id && !it.1.entries.is_empty();
        self.by_id.iter().filter(speaks).map(|(id, _)| *id)
    }
}

/// What the map `id` says, which may be nothing; `None` if it, or what describes it, cannot be had.
fn fetch(id: u32, btfs: &mut Btfs) -> Option<Said> {
    let map = bpf::map_fd(id).ok()?;
    let info = bpf::map_info(map.as_fd()).ok()?;
    let is_read_only =
        info.flags & raw::BPF_F_RDONLY_PROG != 0 || info.name.windows(7).any(|it| it == b".rodata");
    if !is_read_only || info.max_entries != 1 || info.btf_value_type_id == 0 {
        return Some(Said::default());
    }
    let btf = btfs.fetch(info.btf_id)?;
    // The value can be as large as a program's data: look first whether it is of use.
    if !btf.variables(info.btf_value_type_id).any(|it| it.name.starts_with(PREFIX)) {
        return Some(Said::default());
    }
    let value = bpf::array_value(map.as_fd(), &info, 0).ok()?;
    let entries = entries(btf, info.btf_value_type_id, &value);
    Some(Said { btf_id: info.btf_id, entries })
}

/// The statements in a section of read-only data.
fn entries(btf: &Btf, section: u32, data: &[u8]) -> Vec<MetadataEntry> {
    let entry = |variable: Variable<'_>| {
        let key = variable.name.strip_prefix(PREFIX)?;
        let data = data.get(usize::try_from(variable.offset).ok()?..)?;
        let value = btf.print(variable.type_id, data, MAX_VALUE_LEN);
        let value = value.unwrap_or_else(|| bytes(data, variable.len));
        Some(MetadataEntry { key: String::from_utf8_lossy(key).into_owned(), value })
    };
    btf.variables(section).filter_map(entry).collect()
}

/// A value of a type that cannot be printed, as the bytes that it has.
fn bytes(data: &[u8], len: u32) -> String {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let mut text = "0x".to_owned();
    for byte in data.iter().take(len.min(MAX_VALUE_LEN)) {
        text.extend(
            [byte >> 4, byte & 15].iter().filter_map(|&it| char::from_digit(it.into(), 16)),
        );
    }
    cut(&mut text, MAX_VALUE_LEN);
    text
}
