//! What went wrong without stopping the replay.

use std::collections::BTreeMap;
use std::fmt;

use crate::perfdata::RecordKind;

/// What went wrong without stopping us. The command prints it once, at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    /// Records that the kernel dropped because a ring was full (`PERF_RECORD_LOST`).
    pub lost: u64,
    /// Samples that the kernel dropped (`PERF_RECORD_LOST_SAMPLES`).
    pub lost_samples: u64,
    /// Times that sampling was too fast and paused.
    pub throttled: u64,
    /// Records of a known kind whose body could not be decoded.
    pub undecodable: u64,
    /// Samples whose id belongs to no event.
    pub orphans: u64,
    /// Records of a kind this version does not know, by kind.
    pub unknown: BTreeMap<RecordKind, u64>,
    /// Records that hold compressed ones.
    pub compressed: u64,
    /// Records of AUX area data, which is not decoded.
    pub aux: u64,
    /// Records of jitdumps that make no sense, or were half written.
    pub odd_jit: u64,
    /// Saved files that would inflate to more than the length of the recording allows.
    pub inflated: u64,
    /// Bytes at the end of the file that are no whole record.
    pub cut_bytes: u64,
    /// Bytes that the header promises and the file does not have.
    pub missing_bytes: u64,
}

impl Anomalies {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Anomalies {
    /// One line, only what is not zero: `120 records lost, 3 of unknown type 200 skipped`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No `..`: a new field must be shown too.
        let Self {
            lost,
            lost_samples,
            throttled,
            undecodable,
            orphans,
            unknown,
            compressed,
            aux,
            odd_jit,
            inflated,
            cut_bytes,
            missing_bytes,
        } = self;
        let counts = [
            (*lost, "records lost"),
            (*lost_samples, "samples lost"),
            (*throttled, "times throttled"),
            (*undecodable, "records could not be decoded"),
            (*orphans, "samples of no known event skipped"),
            (*compressed, "compressed records skipped"),
            (*aux, "records of AUX data skipped"),
            (*odd_jit, "records of jitdumps that make no sense skipped"),
            (
                *inflated,
                "saved files left out, which inflate to more than the recording's length allows",
            ),
            (*cut_bytes, "bytes dropped at the end, no whole record"),
            (*missing_bytes, "bytes missing at the end"),
        ];
        let mut separator = "";
        for (count, what) in counts.into_iter().filter(|(count, _)| *count != 0) {
            write!(f, "{separator}{count} {what}")?;
            separator = ", ";
        }
        for (kind, count) in unknown {
            write!(f, "{separator}{count} records of unknown type {} skipped", kind.0)?;
            separator = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_zero_is_told() {
        let unknown = BTreeMap::from([(RecordKind(200), 3)]);
        let anomalies = Anomalies { lost: 120, unknown, ..Anomalies::default() };
        assert_eq!(
            anomalies.to_string(),
            "120 records lost, 3 records of unknown type 200 skipped"
        );
        assert_eq!(Anomalies::default().to_string(), "");
    }
}
