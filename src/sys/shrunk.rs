//! Maps of files that become shorter.
//!
//! Whoever looks at a page of a map that its file does not reach any more is sent `SIGBUS` (mmap(2)), which
//! ends a program that does not handle it. Here what is left of such a map becomes zeros, and the map is
//! known to be cut.

use std::ffi::c_int;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use super::Refused;

/// A map that is watched, until this is dropped.
#[derive(Debug)]
pub(super) struct Watched(&'static Place);

/// A place in the list of maps, which only grows, since a handler may be looking at it at any time.
#[derive(Debug, Default)]
struct Place {
    is_taken: AtomicBool,
    start: AtomicUsize,
    /// 0 where there is no map.
    end: AtomicUsize,
    is_cut: AtomicBool,
    next: Link,
}

type Link = OnceLock<Box<Place>>;

static PLACES: Link = OnceLock::new();

/// How `SIGBUS` was handled before.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

impl Watched {
    /// Watches the map at `range`, which begins with a page.
    ///
    /// # Errors
    ///
    /// What sigaction(2) says.
    pub(super) fn new(range: Range<usize>) -> Result<Self, Refused> {
        if BEFORE.get_or_init(take_over).is_none() {
            return Err(Refused::last("take over SIGBUS"));
        }
        let mut link = &PLACES;
        let place = loop {
            let place = link.get_or_init(Box::default);
            if !place.is_taken.swap(true, SeqCst) {
                break place;
            }
            link = &place.next;
        };
        place.is_cut.store(false, SeqCst);
        place.start.store(range.start, SeqCst);
        place.end.store(range.end, SeqCst);
        Ok(Self(place))
    }

    /// Whether some of the map was looked at that its file does not have any more.
    pub(super) fn is_cut(&self) -> bool {
        self.0.is_cut.load(SeqCst)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.end.store(0, SeqCst);
        self.0.is_taken.store(false, SeqCst);
    }
}

/// Handles `SIGBUS` from now on; how it was handled before, or `None` if that is refused.
fn take_over() -> Option<libc::sigaction> {
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_bus_error;
    // SAFETY: all zeros are a `sigaction` with the default action, no flags and no signals blocked.
    let mut ours: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    ours.sa_sigaction = handler as libc::sighandler_t;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    let mut before = ours;
    // SAFETY: both structures outlive the call; the handler has the signature that `SA_SIGINFO` asks for
    // and calls only what may be called in a handler.
    let done = unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, &raw mut before) };
    (done == 0).then_some(before)
}

extern "C" fn on_bus_error(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: with `SA_SIGINFO` the kernel passes a `siginfo_t` that lives as long as the handler runs.
    let info = unsafe { &*info };
    // SAFETY: `SIGBUS` has an address.
    let addr = unsafe { info.si_addr() } as usize;
    if info.si_code == libc::BUS_ADRERR && fill(addr) {
        return;
    }
    if let Some(Some(before)) = BEFORE.get() {
        // SAFETY: it is what sigaction(2) gave us. The instruction is run again and meets that handler.
        unsafe { libc::sigaction(libc::SIGBUS, ptr::from_ref(before), ptr::null_mut()) };
    }
}

/// Puts zeros where the map with the page at `addr` has no file any more; whether there is such a map.
fn fill(addr: usize) -> bool {
    let places = std::iter::successors(PLACES.get(), |it| it.next.get());
    for place in places {
        let (start, end) = (place.start.load(SeqCst), place.end.load(SeqCst));
        if !(start..end).contains(&addr) {
            continue;
        }
        place.is_cut.store(true, SeqCst);
        // SAFETY: it only asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let Some(within) = usize::try_from(page).ok().and_then(|it| addr.checked_rem(it)) else {
            return false;
        };
        let from = addr - within;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the pages are of a map of ours that somebody is reading, so that it is not unmapped
        // meanwhile; they stay readable.
        let filled =
            unsafe { libc::mmap(from as *mut c_void, end - from, libc::PROT_READ, flags, -1, 0) };
        return filled != libc::MAP_FAILED;
    }
    false
}
