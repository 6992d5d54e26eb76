//! The PMUs of the recorded machine.

use crate::perfdata::Cursor;
use crate::perfdata::Result;

use super::Text;
use super::encode_list;
use super::list;

/// One PMU of `HEADER_PMU_MAPPINGS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmuMapping {
    /// The number that stands in `perf_event_attr.type`.
    pub kind: u32,
    /// The PMU's name.
    pub name: Text,
}

impl PmuMapping {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self { kind: cursor.u32("PMU type")?, name: Text::decode(cursor, "PMU name")? })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self { kind, name } = self;
        out.extend(kind.to_ne_bytes());
        name.encode(out);
    }
}

/// One capability of a PMU: `branches` is `32`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmuCap {
    /// The file's name in the PMU's `caps` folder.
    pub name: Text,
    /// What it holds.
    pub value: Text,
}

impl PmuCap {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let name = Text::decode(cursor, "PMU capability")?;
        Ok(Self { name, value: Text::decode(cursor, "PMU capability value")? })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self { name, value } = self;
        name.encode(out);
        value.encode(out);
    }
}

/// The capabilities of one PMU of `HEADER_PMU_CAPS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmuCaps {
    /// The capabilities.
    pub caps: Vec<PmuCap>,
    /// The PMU's name.
    pub pmu: Text,
}

impl PmuCaps {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let caps = list(cursor, "number of PMU capabilities", PmuCap::decode)?;
        Ok(Self { caps, pmu: Text::decode(cursor, "PMU name")? })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self { caps, pmu } = self;
        encode_list(caps, out, PmuCap::encode);
        pmu.encode(out);
    }
}
