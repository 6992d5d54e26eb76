//! Times in a header.

use crate::perfdata::Cursor;
use crate::perfdata::Error;
use crate::perfdata::Result;
use crate::units::Nanos;

/// `HEADER_SAMPLE_TIME`: the times of the first and last sample; both 0 if nobody looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleTime {
    /// The time of the first sample.
    pub first: Nanos,
    /// The time of the last sample.
    pub last: Nanos,
}

impl SampleTime {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let first = Nanos(cursor.u64("time of the first sample")?);
        Ok(Self { first, last: Nanos(cursor.u64("time of the last sample")?) })
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        let Self { first, last } = self;
        out.extend(first.0.to_ne_bytes());
        out.extend(last.0.to_ne_bytes());
    }
}

/// `HEADER_CLOCK_DATA`: one moment on two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockData {
    /// The recording's clock, as `clock_gettime(2)` numbers them.
    pub clockid: u32,
    /// The moment in ns since 1970.
    pub time_of_day_ns: u64,
    /// The moment on the recording's clock.
    pub clock: Nanos,
}

impl ClockData {
    const VERSION: u32 = 1;

    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let at = cursor.at();
        let version = cursor.u32("clock data version")?;
        if version != Self::VERSION {
            let (field, value) = ("clock data version", u64::from(version));
            return Err(Error::BadField { field, at, value });
        }
        Ok(Self {
            clockid: cursor.u32("clock id")?,
            time_of_day_ns: cursor.u64("time of day")?,
            clock: Nanos(cursor.u64("clock time")?),
        })
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        let Self { clockid, time_of_day_ns, clock } = self;
        out.extend(Self::VERSION.to_ne_bytes());
        out.extend(clockid.to_ne_bytes());
        out.extend(time_of_day_ns.to_ne_bytes());
        out.extend(clock.0.to_ne_bytes());
    }
}
