//! The ring through which BPF programs hand messages to user space: `BPF_MAP_TYPE_RINGBUF`.

use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use nix::errno::Errno;

use super::Refused;
use super::ring::page_len;

/// A mapped ring of messages, unmapped when dropped.
///
/// ```text
///   counter of ours: | consumer position |
///   the kernel's:    | producer position | data | the same data again |
///                                            ^ header, message, up to 8 bytes; header, ...
/// ```
///
/// The data is mapped twice in a row, so that a message at the end is in one piece. Only this reads
/// the ring: what it has read is gone for others.
///
/// Source: `struct bpf_ringbuf` in `kernel/bpf/ringbuf.c`.
#[derive(Debug)]
pub struct MessageRing {
    map: OwnedFd,
    /// Where reading goes on; writable.
    consumer: NonNull<u8>,
    /// Where writing goes on, and behind its page the data twice; read-only.
    producer: NonNull<u8>,
    page_len: usize,
    data_len: usize,
}

// SAFETY: the mappings belong to this value alone and are not bound to a thread.
unsafe impl Send for MessageRing {}

/// `BPF_RINGBUF_HDR_SZ`.
const HEADER_LEN: usize = 8;
/// `BPF_RINGBUF_BUSY_BIT`: the message is still being written.
const BUSY: u32 = 1 << 31;
/// `BPF_RINGBUF_DISCARD_BIT`: its writer thought better of it.
const DISCARDED: u32 = 1 << 30;

const CALL: &str = "map a ring of messages";

impl MessageRing {
    /// Maps the ring of `map`, whose data is of `data_len` bytes: its most entries.
    ///
    /// # Errors
    ///
    /// What mmap(2) says; `EINVAL` where `data_len` is no power of two of pages.
    pub fn map(map: OwnedFd, data_len: usize) -> Result<Self, Refused> {
        let page_len = page_len();
        let is_whole = data_len.is_power_of_two() && data_len.is_multiple_of(page_len);
        let len = Self::producer_len(page_len, data_len).filter(|_| is_whole);
        let len = len.ok_or(Refused::new(CALL, Errno::EINVAL))?;
        let consumer = mapped(page_len, libc::PROT_READ | libc::PROT_WRITE, &map, 0)?;
        match mapped(len, libc::PROT_READ, &map, page_len) {
            Ok(producer) => Ok(Self { map, consumer, producer, page_len, data_len }),
            Err(refused) => {
                // SAFETY: the mapping is ours, of this very length, and nobody has seen it.
                unsafe { libc::munmap(consumer.as_ptr().cast(), page_len) };
                Err(refused)
            }
        }
    }

    fn producer_len(page_len: usize, data_len: usize) -> Option<usize> {
        data_len.checked_mul(2)?.checked_add(page_len)
    }

    /// How many bytes it holds, headers included.
    pub fn data_len(&self) -> usize {
        self.data_len
    }

    /// Hands all messages that are there to `each`, and their room back to the kernel.
    ///
    /// What is written meanwhile waits for the next time, and so does all behind a message that is
    /// still being written.
    pub fn take(&mut self, each: &mut dyn FnMut(&[u8])) {
        let consumer = self.consumer_position();
        // Acquire pairs with the release of `producer_pos` in `__bpf_ringbuf_reserve()`: headers
        // are there before the position is behind them.
        let end = self.producer_position().load(Ordering::Acquire);
        let mut at = consumer.load(Ordering::Relaxed);
        // More than the ring holds can only be a foe on the other side.
        while at < end && end - at <= self.data_len as u64 {
            let start = usize::try_from(at & (self.data_len as u64 - 1)).unwrap_or(0);
            // Acquire pairs with the exchange of the header in `bpf_ringbuf_commit()`: the message is
            // there before its header says so.
            let header = self.header(start).load(Ordering::Acquire);
            if header & BUSY != 0 {
                return;
            }
            let len = usize::try_from(header & !(BUSY | DISCARDED)).unwrap_or(usize::MAX);
            let Some(whole) = len.checked_add(HEADER_LEN).map(|it| it.next_multiple_of(8)) else {
                return;
            };
            if self.data_len < whole {
                return;
            }
            if header & DISCARDED == 0 {
                // SAFETY: the message is committed and lies before `producer_pos`, and its room
                // is given back below only, when `each` is done with it.
                each(unsafe { self.data(start + HEADER_LEN, len) });
            }
            at = at.wrapping_add(whole as u64);
            // Release: our reads are done before the kernel may write over them. Pairs with the
            // acquire of `consumer_pos` in `__bpf_ringbuf_reserve()`.
            consumer.store(at, Ordering::Release);
        }
    }

    fn consumer_position(&self) -> &AtomicU64 {
        // SAFETY: the mapping is a page long, aligned to a page, and lives as long as `self`; both
        // sides touch the position with atomic accesses only.
        unsafe { AtomicU64::from_ptr(self.consumer.as_ptr().cast()) }
    }

    fn producer_position(&self) -> &AtomicU64 {
        // SAFETY: as above; this one is only ever loaded, which a read-only mapping allows.
        unsafe { AtomicU64::from_ptr(self.producer.as_ptr().cast()) }
    }

    fn header(&self, start: usize) -> &AtomicU32 {
        assert!(start.is_multiple_of(8) && start < self.data_len);
        // SAFETY: the assertion keeps the pointer within the data.
        let header = unsafe { self.producer.as_ptr().add(self.page_len + start) };
        // SAFETY: it is aligned to eight bytes as the mapping is to a page, lives as long as
        // `self`, and is only ever loaded.
        unsafe { AtomicU32::from_ptr(header.cast()) }
    }

    /// # Safety
    ///
    /// The bytes are of a committed message that has not been given back.
    unsafe fn data(&self, start: usize, len: usize) -> &[u8] {
        assert!(start.checked_add(len).is_some_and(|end| end <= 2 * self.data_len));
        // SAFETY: the assertion keeps the bytes within the data, which is mapped twice.
        let bytes = unsafe { self.producer.as_ptr().add(self.page_len + start) };
        // SAFETY: they are in the mapping, which lives as long as `self`, and by this function's
        // contract nobody writes to them until the consumer's position is behind them.
        unsafe { std::slice::from_raw_parts(bytes, len) }
    }
}

impl AsFd for MessageRing {
    /// The map, which has something to read when there are messages.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

impl Drop for MessageRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this very length, and nothing borrows of it any more.
        unsafe { libc::munmap(self.consumer.as_ptr().cast(), self.page_len) };
        let len = self.page_len + 2 * self.data_len;
        // SAFETY: as above.
        unsafe { libc::munmap(self.producer.as_ptr().cast(), len) };
    }
}

fn mapped(len: usize, access: i32, map: &OwnedFd, at: usize) -> Result<NonNull<u8>, Refused> {
    let at = libc::off_t::try_from(at).map_err(|_| Refused::new(CALL, Errno::EINVAL))?;
    let (flags, fd) = (libc::MAP_SHARED, map.as_raw_fd());
    // SAFETY: the address is the kernel's choice, so no memory of ours is replaced.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd, at) };
    if start == libc::MAP_FAILED {
        return Err(Refused::last(CALL));
    }
    NonNull::new(start.cast()).ok_or(Refused::new(CALL, Errno::EFAULT))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    /// A ring over a file, in which the test plays the kernel: positions in the first two pages.
    struct Fake {
        file: File,
        ring: MessageRing,
        written: u64,
    }

    const DATA_LEN: usize = 4096;

    fn fake(position: u64) -> Fake {
        let file = tempfile();
        let page_len = page_len();
        // The second half stands for the data's second mapping.
        file.set_len((2 * page_len + 2 * DATA_LEN) as u64).unwrap();
        file.write_all_at(&position.to_ne_bytes(), 0).unwrap();
        file.write_all_at(&position.to_ne_bytes(), page_len as u64).unwrap();
        let ring = MessageRing::map(file.try_clone().unwrap().into(), DATA_LEN).unwrap();
        Fake { file, ring, written: position }
    }

    fn tempfile() -> File {
        let name = std::ffi::CString::new("ring").unwrap();
        let flags = nix::sys::memfd::MFdFlags::MFD_CLOEXEC;
        nix::sys::memfd::memfd_create(name.as_c_str(), flags).unwrap().into()
    }

    impl Fake {
        fn write(&mut self, flags: u32, message: &[u8]) {
            let start = 2 * page_len() as u64 + self.written % DATA_LEN as u64;
            let header = u32::try_from(message.len()).unwrap() | flags;
            let bytes = [&header.to_ne_bytes()[..], &[0; 4], message].concat();
            self.file.write_all_at(&bytes, start).unwrap();
            self.written += bytes.len().next_multiple_of(8) as u64;
            self.file.write_all_at(&self.written.to_ne_bytes(), page_len() as u64).unwrap();
        }

        fn taken(&mut self) -> Vec<Vec<u8>> {
            let mut taken = Vec::new();
            self.ring.take(&mut |message| taken.push(message.to_vec()));
            taken
        }
    }

    #[test]
    fn each_message_is_taken_once_and_one_at_the_end_is_whole() {
        let mut fake = fake(DATA_LEN as u64 - 16);
        fake.write(0, b"0123456789");
        fake.write(DISCARDED, b"none");
        fake.write(0, b"abc");
        assert_eq!(fake.taken(), [&b"0123456789"[..], b"abc"]);
        assert_eq!(fake.taken(), [[0_u8; 0]; 0]);
    }

    #[test]
    fn what_is_being_written_is_waited_for_and_so_is_all_behind_it() {
        let mut fake = fake(0);
        fake.write(0, b"one");
        let busy_at = fake.written;
        fake.write(BUSY, b"two");
        fake.write(0, b"three");
        assert_eq!(fake.taken(), [&b"one"[..]]);
        assert_eq!(fake.taken(), [[0_u8; 0]; 0]);
        let header = 3_u32.to_ne_bytes();
        fake.file.write_all_at(&header, 2 * page_len() as u64 + busy_at).unwrap();
        assert_eq!(fake.taken(), [&b"two"[..], b"three"]);
    }

    #[test]
    fn lengths_and_positions_beyond_reason_give_nothing() {
        let mut fake = fake(0);
        fake.write(0, b"one");
        fake.file.write_all_at(&0x3fff_ffff_u32.to_ne_bytes(), 2 * page_len() as u64).unwrap();
        assert_eq!(fake.taken(), [[0_u8; 0]; 0]);
        fake.file.write_all_at(&u64::MAX.to_ne_bytes(), page_len() as u64).unwrap();
        assert_eq!(fake.taken(), [[0_u8; 0]; 0]);
        let refused = MessageRing::map(tempfile().into(), 3 * page_len()).err();
        assert_eq!(refused.map(|it| it.errno), Some(Errno::EINVAL));
    }
}
