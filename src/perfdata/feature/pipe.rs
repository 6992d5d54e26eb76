//! Features in a pipe: records of type `PERF_RECORD_HEADER_FEATURE`.

use super::Feature;
use super::FeatureId;

/// What [`pipe_bodies`] made of the features.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipeBodies {
    /// The bodies of the records, each without its header of 8 bytes; the last ends the features.
    pub bodies: Vec<Vec<u8>>,
    /// Features that no record has room for.
    pub too_long: Vec<FeatureId>,
}

/// The most bytes of a body: perf sends no record longer than 65,527 bytes with its header.
///
/// Source: `__do_write_buf()` in `tools/perf/util/header.c`.
const BODY_MAX: usize = 0xffff - 8 - 8;

/// Turns features into the bodies of records for a pipe, the end mark included.
///
/// Features that perf sends in files alone are left out. Program infos and BTFs are spread over as
/// many records as they need, since readers add those of each to the ones before; any other
/// feature has to fit into one.
pub fn pipe_bodies(features: &[Feature]) -> PipeBodies {
    let mut this = PipeBodies::default();
    for feature in features.iter().filter(|it| it.id().is_in_pipes()) {
        let mut bytes = Vec::new();
        feature.encode(&mut bytes);
        let entry_len: Option<EntryLen> = match feature {
            Feature::BpfProgInfo(_) => Some(prog_info_len),
            Feature::BpfBtf(_) => Some(btf_len),
            _ => None,
        };
        if bytes.len() <= DATA_MAX {
            this.push(feature.id(), &bytes);
        } else if let Some(entry_len) = entry_len {
            this.push_entries(feature.id(), &bytes, entry_len);
        } else {
            this.too_long.push(feature.id());
        }
    }
    this.push(FeatureId::END, &[]);
    this
}

/// The most bytes of a feature in one record.
const DATA_MAX: usize = BODY_MAX - 8;

/// How many bytes the entry at the start of its argument takes, if it is whole.
type EntryLen = fn(&[u8]) -> Option<usize>;

/// `u32 info_len; u32 data_len; u64 arrays`, then both parts.
fn prog_info_len(bytes: &[u8]) -> Option<usize> {
    let (info_len, bytes) = split_u32(bytes)?;
    let (data_len, _) = split_u32(bytes)?;
    info_len.checked_add(data_len)?.checked_add(16)
}

/// `u32 btf_id; u32 data_size`, then the data.
fn btf_len(bytes: &[u8]) -> Option<usize> {
    let (_, bytes) = split_u32(bytes)?;
    split_u32(bytes)?.0.checked_add(8)
}

fn split_u32(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((usize::try_from(u32::from_ne_bytes(*number)).ok()?, rest))
}

impl PipeBodies {
    fn push(&mut self, id: FeatureId, data: &[u8]) {
        let mut body = Vec::with_capacity(data.len().saturating_add(8));
        body.extend(u64::from(id.0).to_ne_bytes());
        body.extend(data);
        self.bodies.push(body);
    }

    /// Packs the entries that follow a count into as few records as they fit in, in order.
    fn push_entries(&mut self, id: FeatureId, bytes: &[u8], entry_len: EntryLen) {
        let Some((_, mut rest)) = split_u32(bytes) else { return };
        let (mut n_packed, mut packed) = (0_u32, Vec::new());
        while let Some((entry, after)) = entry_len(rest).and_then(|len| rest.split_at_checked(len))
        {
            rest = after;
            if entry.len().saturating_add(4) > DATA_MAX {
                self.too_long.push(id);
                continue;
            }
            if packed.len().saturating_add(entry.len()).saturating_add(4) > DATA_MAX {
                self.push_counted(id, n_packed, &packed);
                (n_packed, packed) = (0, Vec::new());
            }
            packed.extend(entry);
            n_packed = n_packed.saturating_add(1);
        }
        if n_packed != 0 {
            self.push_counted(id, n_packed, &packed);
        }
    }

    fn push_counted(&mut self, id: FeatureId, n_entries: u32, entries: &[u8]) {
        self.push(id, &[&n_entries.to_ne_bytes(), entries].concat());
    }
}
