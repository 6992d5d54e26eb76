//! What a program's owner says of it: the `bpf_metadata_*` variables of its read-only data.
//!
//! The convention is bpftool's; perf 7.3 keeps it, too.

use std::collections::HashMap;
use std::os::fd::AsFd;

use libbpf_rs::libbpf_sys as raw;

use super::btfs::Btfs;
use crate::btf::Btf;
use crate::btf::Variable;
use crate::btf::cut;
use crate::sys::bpf;

/// What the names of the variables begin with.
const PREFIX: &[u8] = b"bpf_metadata_";

/// The longest key of a `PERF_RECORD_BPF_METADATA` entry, in bytes, without its zero.
const MAX_KEY_LEN: usize = 63;

/// The longest value of a `PERF_RECORD_BPF_METADATA` entry, in bytes, without its zero.
const MAX_VALUE_LEN: usize = 255;

/// The most entries that fit in a record of less than 64 KiB, at 320 bytes each.
const MAX_ENTRIES: usize = 200;

/// One statement of a program's owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataEntry {
    /// The variable's name after `bpf_metadata_`, at most 63 bytes.
    pub key: String,
    /// Its value, printed by its type, at most 255 bytes.
    pub value: String,
}

/// The statements found in maps so far, by map id.
#[derive(Debug, Default)]
pub(super) struct MetadataMaps(HashMap<u32, Vec<MetadataEntry>>);

impl MetadataMaps {
    /// The statements in the map `id`; none if it is no read-only data, or gone.
    pub(super) fn entries(&mut self, id: u32, btfs: &mut Btfs) -> &[MetadataEntry] {
        self.0.entry(id).or_insert_with(|| fetch(id, btfs).unwrap_or_default())
    }
}

fn fetch(id: u32, btfs: &mut Btfs) -> Option<Vec<MetadataEntry>> {
    let map = bpf::map_fd(id).ok()?;
    let info = bpf::map_info(map.as_fd()).ok()?;
    let is_read_only =
        info.flags & raw::BPF_F_RDONLY_PROG != 0 || info.name.windows(7).any(|it| it == b".rodata");
    if !is_read_only || info.max_entries != 1 || info.btf_value_type_id == 0 {
        return None;
    }
    let btf = btfs.fetch(info.btf_id)?;
    // The value can be as large as a program's data: look first whether it is of use.
    if !btf.variables(info.btf_value_type_id).any(|it| it.name.starts_with(PREFIX)) {
        return None;
    }
    let value = bpf::array_value(map.as_fd(), &info, 0).ok()?;
    Some(entries(btf, info.btf_value_type_id, &value))
}

/// The statements in a section of read-only data.
fn entries(btf: &Btf, section: u32, data: &[u8]) -> Vec<MetadataEntry> {
    let entry = |variable: Variable<'_>| {
        let key = variable.name.strip_prefix(PREFIX)?;
        let data = data.get(usize::try_from(variable.offset).ok()?..)?;
        let value = btf.print(variable.type_id, data, MAX_VALUE_LEN)?;
        let mut key = String::from_utf8_lossy(key).into_owned();
        cut(&mut key, MAX_KEY_LEN);
        Some(MetadataEntry { key, value })
    };
    btf.variables(section).filter_map(entry).take(MAX_ENTRIES).collect()
}
