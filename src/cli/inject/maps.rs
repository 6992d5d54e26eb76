//! Mappings told with the build id of their file.

use crate::perfdata::Cursor;
use crate::perfdata::Endian;
use crate::perfdata::Mmap;
use crate::perfdata::Mmap2;
use crate::perfdata::MmapId;
use crate::perfdata::RawRecord;
use crate::perfdata::Record;
use crate::perfdata::RecordKind;
use crate::perfdata::SampleIdLayout;
use crate::perfdata::misc;
use crate::units::Tid;

use super::Fate;
use super::buildid_list::BuildIds;

/// Which mappings are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Those of files that samples fell on; the others are left out.
    Hit,
    /// All.
    All,
}

/// Rewrites the records of mappings.
#[derive(Debug)]
pub(super) struct Maps<'a> {
    pub(super) which: Which,
    /// The files, with what is known of them.
    pub(super) files: &'a BuildIds,
    pub(super) layout: SampleIdLayout,
}

/// `PROT_READ`, what a mapping of data surely has.
const READ: u32 = 1;
/// `PROT_EXEC`, what one of code has.
const EXEC: u32 = 4;

impl Maps<'_> {
    /// Writes `raw` to `out` as what it is to be.
    pub(super) fn record(&self, raw: &RawRecord<'_>, out: &mut Vec<u8>) -> Fate {
        let (fields, _) = self.layout.split(raw.body, Endian::NATIVE);
        let trailer = raw.body.get(fields.len()..).unwrap_or_default();
        let mut cursor = Cursor::new(fields, raw.at, Endian::NATIVE);
        let Ok(record) = Record::decode(raw.header, &mut cursor) else { return Fate::Kept };
        let map = match record {
            Record::Mmap(Mmap { pid, tid, addr, len, pgoff, filename }) => {
                let prot = if raw.header.misc & misc::MMAP_DATA == 0 { EXEC } else { READ };
                let (tid, id) = (Tid(tid.0), MmapId::BuildId(None));
                Mmap2 { pid, tid, addr, len, pgoff, id, prot, flags: 0, filename }
            }
            Record::Mmap2(it) => it,
            _ => return Fate::Kept,
        };
        let found = match self.files.get(path_of(map.filename)) {
            Some(Some(found)) => *found,
            None if self.which == Which::Hit => return Fate::Dropped,
            None | Some(None) => return Fate::Kept,
        };
        let record = Record::Mmap2(Mmap2 { id: MmapId::BuildId(Some(found)), ..map });
        let misc = raw.header.misc | misc::MMAP_BUILD_ID;
        let done = record.encode(RecordKind::MMAP2, misc, trailer, out);
        // Only a path of 64 KiB has no room for more.
        if done.is_ok() { Fate::Written } else { Fate::Kept }
    }
}

/// The path of a mapped file as lists have it.
fn path_of(path: &[u8]) -> &[u8] {
    const KERNEL: &[u8] = b"[kernel.kallsyms]";
    if path.starts_with(KERNEL) { KERNEL } else { path }
}
