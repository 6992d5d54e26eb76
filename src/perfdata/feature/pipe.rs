//! Features in a pipe: records of type `PERF_RECORD_HEADER_FEATURE`.

use super::Feature;
use super::FeatureId;
use super::id::Way;

/// What [`pipe_bodies`] made of the features.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipeBodies {
    /// The bodies of the records, each without its header of 8 bytes.
    pub bodies: Vec<Vec<u8>>,
    /// The payloads that no record has room for, and those that perf has in files alone.
    pub apart: Vec<(FeatureId, Vec<u8>)>,
    /// How many of these no record has room for.
    pub n_too_long: u64,
}

/// The most bytes of a body: perf sends no record longer than 65,527 bytes with its header.
///
/// Source: `__do_write_buf()` in `tools/perf/util/header.c`.
const BODY_MAX: usize = 0xffff - 8 - 8;

/// The most bytes of a feature in one record.
const DATA_MAX: usize = BODY_MAX - 8;

/// Turns features into the bodies of records for a pipe.
///
/// Those that tell how a file is laid out are left out, as are those that have records of their own.
/// Of program infos and BTFs there may be several, since readers add those of each record to the ones
/// before.
pub fn pipe_bodies(features: &[Feature]) -> PipeBodies {
    let mut this = PipeBodies::default();
    for feature in features {
        let id = feature.id();
        let way = id.way();
        if way == Way::Otherwise {
            continue;
        }
        let mut data = Vec::new();
        feature.encode(&mut data);
        if way == Way::Record && data.len() <= DATA_MAX {
            this.bodies.push(body(id, &data));
        } else {
            this.n_too_long = this.n_too_long.saturating_add(u64::from(way == Way::Record));
            this.apart.push((id, data));
        }
    }
    this
}

/// The body of the record that ends the features.
pub fn pipe_end() -> Vec<u8> {
    body(FeatureId::END, &[])
}

fn body(id: FeatureId, data: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(data.len().saturating_add(8));
    body.extend(u64::from(id.0).to_ne_bytes());
    body.extend(data);
    body
}
