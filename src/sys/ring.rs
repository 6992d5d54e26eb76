//! The ring through which the kernel hands over an event's records.

mod backward;

pub use backward::BackwardRing;

use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use perf_event_open_sys::bindings::perf_event_mmap_page;

use super::Refused;
use super::perf_event::EventFd;

/// A mapped ring, unmapped when dropped.
///
/// ```text
///   map      map + page_len                               map + page_len + data_len
///    | control page | ...free... | unread records | ...free... |
///                                ^ data_tail      ^ data_head   (both modulo data_len)
/// ```
///
/// The kernel moves `data_head` and writes between head and tail; we move `data_tail`, and only
/// through `&mut self`, so that the slices of [`Ring::unread`] are gone by then.
///
/// Source: `struct perf_event_mmap_page` in `include/uapi/linux/perf_event.h`.
#[derive(Debug)]
pub struct Ring {
    map: NonNull<u8>,
    page_len: usize,
    data_len: usize,
}

// SAFETY: the mapping belongs to this value alone and is not bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a forward ring of `data_len` bytes, a power of two of whole pages.
    ///
    /// # Errors
    ///
    /// What mmap(2) says: `EPERM` where the memory is more than may be locked, `EINVAL` where
    /// `data_len` is no power of two of pages.
    pub fn map(event: &EventFd, data_len: usize) -> Result<Self, Refused> {
        let event = event.as_fd().as_raw_fd();
        // Writable, since a ring that is mapped read-only is overwritten unread.
        Self::map_with(data_len, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, event)
    }

    fn map_with(data_len: usize, access: i32, flags: i32, fd: i32) -> Result<Self, Refused> {
        const CALL: &str = "map a ring";
        let page_len = page_len();
        let whole_pages = data_len.is_power_of_two() && data_len.is_multiple_of(page_len);
        let len = page_len.checked_add(data_len).filter(|_| whole_pages);
        let len = len.ok_or(Refused::new(CALL, nix::errno::Errno::EINVAL))?;
        // SAFETY: the address is the kernel's choice, so no memory of ours is replaced.
        let map = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd, 0) };
        if map == libc::MAP_FAILED {
            return Err(Refused::last(CALL));
        }
        let map = NonNull::new(map.cast()).ok_or(Refused::new(CALL, nix::errno::Errno::EFAULT))?;
        Ok(Self { map, page_len, data_len })
    }

    /// The size of the data area in bytes.
    pub fn data_len(&self) -> usize {
        self.data_len
    }

    /// What the kernel wrote and nobody has taken, in one piece or, at the end of the ring, two.
    pub fn unread(&self) -> (&[u8], &[u8]) {
        // Acquire pairs with the kernel's barrier before it moves `data_head`: the record bytes
        // are visible before the new head is. Source: `perf_output_put_handle()` in
        // kernel/events/ring_buffer.c.
        let head = self.head().load(Ordering::Acquire);
        let tail = self.tail().load(Ordering::Relaxed);
        // Both count up for ever. More than the ring holds can only be a foe on the other side.
        let unread = usize::try_from(head.wrapping_sub(tail)).unwrap_or(usize::MAX);
        let unread = unread.min(self.data_len);
        let start = self.position(tail);
        let first = unread.min(self.data_len - start);
        // SAFETY: `first <= unread`, so these bytes end at or before `head`.
        let before_the_end = unsafe { self.data(start, first) };
        // SAFETY: the `unread - first` bytes after the wrap end at `head`.
        let after_the_wrap = unsafe { self.data(0, unread - first) };
        (before_the_end, after_the_wrap)
    }

    /// Gives `len` bytes, the oldest that [`Ring::unread`] showed, back to the kernel.
    pub fn consume(&mut self, len: usize) {
        assert!(len <= self.data_len, "nobody can have read more than the ring holds");
        let tail = self.tail().load(Ordering::Relaxed);
        // Release: our reads are done before the kernel may write over them. Pairs with the
        // control dependency on `data_tail` in `__perf_output_begin()`.
        self.tail().store(tail.wrapping_add(len as u64), Ordering::Release);
    }

    fn position(&self, count: u64) -> usize {
        let mask = self.data_len as u64 - 1;
        usize::try_from(count & mask).unwrap_or(0)
    }

    fn head(&self) -> &AtomicU64 {
        self.counter(std::mem::offset_of!(perf_event_mmap_page, data_head))
    }

    fn tail(&self) -> &AtomicU64 {
        self.counter(std::mem::offset_of!(perf_event_mmap_page, data_tail))
    }

    fn counter(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.page_len);
        // SAFETY: the assertion keeps the pointer within the mapping's first page.
        let counter = unsafe { self.map.as_ptr().add(offset) };
        // SAFETY: the mapping is aligned to a page and `offset` to eight bytes; both sides touch
        // the counters with atomic accesses only; the mapping lives as long as `self`.
        unsafe { AtomicU64::from_ptr(counter.cast()) }
    }

    /// # Safety
    ///
    /// Nobody writes to the bytes while the slice is alive: in a forward ring they lie in
    /// `[data_tail, data_head)`, and a backward ring is paused.
    unsafe fn data(&self, start: usize, len: usize) -> &[u8] {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.data_len));
        // SAFETY: the mapping is `page_len + data_len` bytes, and the assertion keeps `start`
        // within `data_len`.
        let bytes = unsafe { self.map.as_ptr().add(self.page_len + start) };
        // SAFETY: the assertion keeps the slice inside the mapping, which lives as long as
        // `self`, and by this function's contract nobody writes to it until `consume` moves
        // `data_tail`, which needs `&mut self` and so waits for the end of this borrow.
        unsafe { std::slice::from_raw_parts(bytes, len) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let len = self.page_len + self.data_len;
        // SAFETY: the mapping is ours, of this very length, and no slice of it outlives `self`.
        unsafe { libc::munmap(self.map.as_ptr().cast(), len) };
    }
}

/// The size of a page in bytes.
pub fn page_len() -> usize {
    // SAFETY: sysconf(3) has no preconditions.
    let len = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(len).ok().filter(|it| it.is_power_of_two()).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 65536;
    const ACCESS: i32 = libc::PROT_READ | libc::PROT_WRITE;

    /// A ring over memory of our own, in which the test plays the kernel.
    fn ring(tail: u64) -> Ring {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let ring = Ring::map_with(LEN, ACCESS, flags, -1).unwrap();
        ring.head().store(tail, Ordering::Relaxed);
        ring.tail().store(tail, Ordering::Relaxed);
        ring
    }

    /// Writes as the kernel does: bytes first, then the head.
    fn write(ring: &Ring, bytes: &[u8]) {
        let head = ring.head().load(Ordering::Relaxed);
        for (i, byte) in bytes.iter().enumerate() {
            let at = ring.position(head + i as u64);
            // SAFETY: `position` is below `data_len`, so the pointer is within the mapping.
            let to = unsafe { ring.map.as_ptr().add(ring.page_len + at) };
            // SAFETY: no slice of the ring is alive while a test writes.
            unsafe { to.write(*byte) };
        }
        ring.head().store(head + bytes.len() as u64, Ordering::Release);
    }

    #[test]
    fn what_was_written_is_read_once() {
        let mut ring = ring(0);
        write(&ring, b"abcdefgh");
        assert_eq!(ring.unread(), (&b"abcdefgh"[..], &b""[..]));
        ring.consume(8);
        assert_eq!(ring.unread(), (&b""[..], &b""[..]));
    }

    #[test]
    fn a_header_split_by_the_end_comes_in_two_pieces() {
        let ring = ring(LEN as u64 - 4);
        write(&ring, b"abcdefgh");
        assert_eq!(ring.unread(), (&b"abcd"[..], &b"efgh"[..]));
    }

    #[test]
    fn the_counters_run_on_past_the_ring_and_past_their_own_width() {
        for tail in [LEN as u64 * 5, u64::MAX - 7] {
            let mut ring = ring(tail);
            let head = tail.wrapping_add(8);
            ring.head().store(head, Ordering::Relaxed);
            assert_eq!(ring.unread().0.len() + ring.unread().1.len(), 8);
            ring.consume(8);
            assert_eq!(ring.tail().load(Ordering::Relaxed), head);
        }
    }

    #[test]
    fn what_comes_while_one_reads_waits_for_the_next_time() {
        let mut ring = ring(0);
        write(&ring, b"abcd");
        let len = ring.unread().0.len();
        write(&ring, b"efgh");
        ring.consume(len);
        assert_eq!(ring.unread(), (&b"efgh"[..], &b""[..]));
    }

    #[test]
    fn a_head_beyond_reason_gives_no_more_than_the_ring() {
        let ring = ring(0);
        ring.head().store(u64::MAX / 2, Ordering::Relaxed);
        assert_eq!(ring.unread().0.len(), LEN);
    }

    #[test]
    fn a_ring_is_a_power_of_two_of_pages() {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        for len in [0, 1, page_len() * 3, usize::MAX] {
            let refused = Ring::map_with(len, ACCESS, flags, -1).err().map(|it| it.errno);
            assert_eq!(refused, Some(nix::errno::Errno::EINVAL), "{len}");
        }
    }
}
