//! What BPF programs hand over through a ring of messages, as samples.
//!
//! The kernel writes no record of a message, so it is not known who was running on which CPU: the
//! sample says -1 of each, and its time is when the message was read.

use std::time::Duration;
use std::time::Instant;

use nix::sys::time::TimeSpec;
use nix::time::ClockId;
use nix::time::clock_gettime;

use crate::perfdata::RecordKind;
use crate::perfdata::SampleType;
use crate::record::control::Sampling;
use crate::sys::message_ring::MessageRing;
use crate::units::Nanos;

/// A ring of messages, and the event that they become samples of.
#[derive(Debug)]
pub(in crate::record) struct Messages {
    ring: MessageRing,
    form: Form,
    clock: ClockId,
    /// Whether they are to be samples; else they are passed over.
    is_on: bool,
    /// Until when nobody waits for the next one.
    rests_until: Option<Instant>,
}

/// How long the next message waits where few come.
///
/// Each one would wake the recorder, whose own doings may be what the next one tells of.
const REST: Duration = Duration::from_millis(1);

/// What the samples of an event of messages look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::record) struct Form {
    /// Their fields.
    pub(in crate::record) fields: SampleType,
    /// The event's id.
    pub(in crate::record) id: u64,
}

/// How many messages came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Those that are samples.
    pub(super) n_taken: u64,
    /// Those that are too long for one.
    pub(super) n_too_long: u64,
}

/// Who or where, if nobody knows.
const UNKNOWN: u32 = u32::MAX;

impl Messages {
    /// The messages of `ring`, with times on the clock of this number.
    pub(super) fn new(ring: MessageRing, form: Form, clock: i32) -> Self {
        Self { ring, form, clock: ClockId::from_raw(clock), is_on: false, rests_until: None }
    }

    /// Until when messages are not worth waking up for; `None` where there are many.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.rests_until
    }

    /// What has something to read when there are messages.
    pub(super) fn ring(&self) -> &MessageRing {
        &self.ring
    }

    /// From now on messages are samples, but none that came before; or they are passed over.
    pub(super) fn turn(&mut self, sampling: Sampling) {
        let is_on = sampling == Sampling::On;
        if is_on && !self.is_on {
            self.ring.take(&mut |_| {});
        }
        self.is_on = is_on;
    }

    /// Appends the messages that are there as samples.
    pub(super) fn take(&mut self, out: &mut Vec<u8>) -> Taken {
        let Self { ring, form, clock, is_on, rests_until } = self;
        let mut n_bytes = 0;
        let time = now(*clock);
        let mut taken = Taken::default();
        ring.take(&mut |message| {
            n_bytes += message.len();
            let is_taken = is_on.then(|| form.encode(message, time, out).is_some());
            taken.n_taken += u64::from(is_taken == Some(true));
            taken.n_too_long += u64::from(is_taken == Some(false));
        });
        let is_few = 0 < n_bytes && n_bytes < ring.data_len() / 8;
        *rests_until = is_few.then(|| Instant::now() + REST);
        taken
    }
}

impl Form {
    /// Appends a sample with `message` as its raw data; `None` if that is too long.
    ///
    /// Source: `perf_output_sample()` in `kernel/events/core.c`, for the order of fields; the size of
    /// raw data is such that its end is one of 8 bytes, zeros included (`perf_prepare_sample()`).
    fn encode(self, message: &[u8], time: Nanos, out: &mut Vec<u8>) -> Option<()> {
        let mut words = Vec::with_capacity(8);
        let pair = |a: u32, b: u32| {
            let [a, b] = [a.to_ne_bytes(), b.to_ne_bytes()];
            u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]])
        };
        let all = [
            (SampleType::IDENTIFIER, self.id),
            (SampleType::IP, 0),
            (SampleType::TID, pair(UNKNOWN, UNKNOWN)),
            (SampleType::TIME, time.0),
            (SampleType::CPU, pair(UNKNOWN, 0)),
            (SampleType::PERIOD, 1),
        ];
        words.extend(all.iter().filter(|it| self.fields.contains(it.0)).map(|it| it.1));
        let raw_len = message.len().checked_add(4)?.checked_next_multiple_of(8)? - 4;
        let of_cgroup = if self.fields.contains(SampleType::CGROUP) { 8 } else { 0 };
        let len = 8 + 8 * words.len() + 4 + raw_len + of_cgroup;
        let size = u16::try_from(len).ok()?;
        let end = out.len() + len;
        out.extend(RecordKind::SAMPLE.0.to_ne_bytes());
        out.extend([0; 2]);
        out.extend(size.to_ne_bytes());
        out.extend(words.iter().flat_map(|it| it.to_ne_bytes()));
        out.extend(u32::try_from(raw_len).ok()?.to_ne_bytes());
        out.extend_from_slice(message);
        // The rest of the raw data, and the cgroup that nobody knows.
        out.resize(end, 0);
        Some(())
    }
}

fn now(clock: ClockId) -> Nanos {
    let nanos = |it: TimeSpec| {
        let seconds = u64::try_from(it.tv_sec()).ok()?;
        seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(it.tv_nsec()).ok()?)
    };
    Nanos(clock_gettime(clock).ok().and_then(nanos).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: SampleType = SampleType::IDENTIFIER
        .union(SampleType::IP)
        .union(SampleType::TID)
        .union(SampleType::TIME)
        .union(SampleType::CPU)
        .union(SampleType::PERIOD)
        .union(SampleType::RAW);

    #[test]
    fn a_message_is_a_sample_of_nobody_in_particular() {
        let form = Form { fields: FIELDS, id: 0xabcd };
        let mut out = Vec::new();
        form.encode(b"abcde", Nanos(500), &mut out).unwrap();
        let mut want = vec![9, 0, 0, 0, 0, 0, 72, 0];
        for word in [0xabcd_u64, 0, u64::MAX, 500, u64::from(u32::MAX), 1] {
            want.extend(word.to_ne_bytes());
        }
        want.extend(12_u32.to_ne_bytes());
        want.extend(b"abcde\0\0\0\0\0\0\0");
        assert_eq!(out, want);
    }

    #[test]
    fn the_cgroup_comes_last_and_what_is_not_asked_for_not_at_all() {
        let fields = SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::CGROUP;
        let mut out = Vec::new();
        Form { fields, id: 7 }.encode(b"abcd", Nanos(500), &mut out).unwrap();
        assert_eq!(out.len(), 8 + 24 + 8 + 8);
        assert_eq!(out[32..], [4, 0, 0, 0, 97, 98, 99, 100, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_no_record_has_room_for_is_none() {
        let form = Form { fields: FIELDS, id: 7 };
        let mut out = Vec::new();
        assert_eq!(form.encode(&vec![0; 65_536], Nanos(0), &mut out), None);
        assert_eq!(form.encode(&vec![0; 65_468], Nanos(0), &mut out), Some(()));
        assert_eq!((out.len(), out[6], out[7]), (65_528, 0xf8, 0xff));
    }
}
