//! A ring that keeps the latest records: a flight recorder.

use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use super::Ring;
use crate::sys::Refused;
use crate::sys::perf_event::EventFd;

/// How long a record takes that was begun before its ring was paused: the kernel writes them with
/// interrupts off. It is not slept, since whoever sleeps on a busy machine is away for long.
const SETTLE: Duration = Duration::from_micros(50);

/// How often it is copied, if the head moves meanwhile.
const MOST_COPIES: u32 = 3;

/// A ring that the kernel writes from its end to its beginning and over the oldest records, so that
/// the latest can be read from `data_head` on, each at its header.
///
/// ```text
///    map + page_len                                        map + page_len + data_len
///    | older, cut by the latest | latest | ... | older |
///                               ^ data_head, which counts down
/// ```
///
/// It is read while it is paused, so nobody writes to what is looked at.
///
/// Source: `perf_event_attr.write_backward` in `include/uapi/linux/perf_event.h`, since Linux 4.7, and
/// `__perf_output_begin()` in `kernel/events/ring_buffer.c`.
#[derive(Debug)]
pub struct BackwardRing {
    ring: Ring,
    /// Where `data_head` stood when it was read last.
    read_at: u64,
}

impl BackwardRing {
    /// Maps a ring of `data_len` bytes, a power of two of whole pages, for an event that writes
    /// backward.
    ///
    /// # Errors
    ///
    /// As [`Ring::map`].
    pub fn map(event: &EventFd, data_len: usize) -> Result<Self, Refused> {
        let event = event.as_fd().as_raw_fd();
        // The kernel overwrites what is unread in a ring that is mapped read-only.
        let ring = Ring::map_with(data_len, libc::PROT_READ, libc::MAP_SHARED, event)?;
        Ok(Self { ring, read_at: 0 })
    }

    /// Appends to `records` what came since the last time, the latest first, as far as it was not
    /// overwritten: then the last record, or what is in its place, may be cut.
    ///
    /// `event` owns the ring. Whatever happens in the time that this takes, far less than 1 ms, is lost, and counted
    /// by the kernel.
    ///
    /// # Errors
    ///
    /// What the kernel says to the pause or to its end.
    pub fn read_latest(&mut self, event: &EventFd, records: &mut Vec<u8>) -> Result<(), Refused> {
        // Before the pause, since new memory takes its time.
        records.reserve(self.ring.data_len());
        event.pause_output()?;
        let paused = Instant::now();
        while paused.elapsed() < SETTLE {
            std::hint::spin_loop();
        }
        let n_before = records.len();
        for _ in 0..MOST_COPIES {
            let head = self.copy(records);
            if head == self.head() {
                self.read_at = head;
                break;
            }
            // Somebody was not done.
            records.truncate(n_before);
        }
        event.resume_output()
    }

    fn head(&self) -> u64 {
        // Acquire pairs with the kernel's barrier before it moves `data_head`, as in `Ring::unread`.
        self.ring.head().load(Ordering::Acquire)
    }

    /// Copies what is new, and says where the head stood.
    fn copy(&self, records: &mut Vec<u8>) -> u64 {
        let head = self.head();
        let new = self.read_at.wrapping_sub(head);
        let new = usize::try_from(new).unwrap_or(usize::MAX).min(self.ring.data_len());
        let start = self.ring.position(head);
        let first = new.min(self.ring.data_len() - start);
        // SAFETY: the ring is paused, so that the kernel begins to write to no part of it, and what it
        // had begun before has had `SETTLE` to be done, which its interrupts being off keeps short.
        records.extend_from_slice(unsafe { self.ring.data(start, first) });
        // SAFETY: as above.
        records.extend_from_slice(unsafe { self.ring.data(0, new - first) });
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 4096 * 16;

    /// A ring over memory of our own, in which the test plays the kernel.
    fn ring() -> BackwardRing {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        BackwardRing { ring: Ring::map_with(LEN, access, flags, -1).unwrap(), read_at: 0 }
    }

    /// Writes as the kernel does: the head moves down, and the bytes stand from there on.
    fn write(ring: &BackwardRing, bytes: &[u8]) {
        let ring = &ring.ring;
        let head = ring.head().load(Ordering::Relaxed).wrapping_sub(bytes.len() as u64);
        for (byte, n) in bytes.iter().zip(0..) {
            let at = ring.position(head.wrapping_add(n));
            // SAFETY: `position` is below `data_len`, so the pointer is within the mapping.
            let to = unsafe { ring.map.as_ptr().add(ring.page_len + at) };
            // SAFETY: no slice of the ring is alive while a test writes.
            unsafe { to.write(*byte) };
        }
        ring.head().store(head, Ordering::Release);
    }

    fn read(ring: &mut BackwardRing) -> Vec<u8> {
        let mut records = Vec::new();
        ring.read_at = ring.copy(&mut records);
        records
    }

    #[test]
    fn the_latest_comes_first_and_each_once() {
        let mut ring = ring();
        assert_eq!(read(&mut ring), b"");
        write(&ring, b"old.");
        write(&ring, b"new!");
        assert_eq!(read(&mut ring), b"new!old.");
        assert_eq!(read(&mut ring), b"");
        write(&ring, b"last");
        assert_eq!(read(&mut ring), b"last");
    }

    #[test]
    fn of_more_than_it_holds_the_oldest_is_gone() {
        let mut ring = ring();
        write(&ring, b"gone");
        for n in 0..LEN / 8 {
            write(&ring, &(n as u64).to_ne_bytes());
        }
        let records = read(&mut ring);
        assert_eq!(records.len(), LEN);
        assert_eq!(records[..8], (LEN as u64 / 8 - 1).to_ne_bytes());
        assert_eq!(records[LEN - 8..], 0_u64.to_ne_bytes());
    }
}
