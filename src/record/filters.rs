//! Filters of tracepoints, set before the first event comes.

use std::ffi::CString;
use std::io;

use nix::errno::Errno;

use crate::events::filter;
use crate::events::filter::BadFilter;
use crate::host::process;
use crate::host::tracefs::Tracefs;
use crate::perfdata::trace_format::EventFormat;
use crate::sys::Refused;
use crate::sys::perf_event::EventFd;
use crate::units::Pid;
use crate::units::Tid;

use super::Error;
use super::open::Opened;

/// Checks a filter of the tracepoint `SYSTEM:EVENT` against the fields that the event has.
///
/// # Errors
///
/// [`BadFilter`] if the kernel would refuse it. Where the format cannot be read the kernel decides.
pub fn check_filter(tracefs: &Tracefs, event: &str, text: &str) -> Result<(), BadFilter> {
    // Which size a `long` has is no matter for names and kinds of fields.
    let parse = |it: Vec<u8>| EventFormat::parse(&String::from_utf8_lossy(&it), 8);
    let format = tracefs.format(event).ok().and_then(parse);
    format.map_or(Ok(()), |format| filter::check(text, &format))
}

/// Sets the filters of all events.
pub(super) fn set(opened: &[Opened<EventFd>]) -> Result<(), Error> {
    if opened.iter().all(|it| it.filters.text(&[Tid(0)]).is_none()) {
        return Ok(());
    }
    // The one thread of ours that begins later puts the file in place, and is done then.
    let own = process::threads(Pid(std::process::id().cast_signed()));
    for event in opened {
        let Some(text) = event.filters.text(&own) else { continue };
        let failed =
            |source| Error::Filter { event: event.name.clone(), filter: text.clone(), source };
        let filter = CString::new(&*text)
            .map_err(|it| failed(io::Error::new(io::ErrorKind::InvalidInput, it)))?;
        for (_, fd) in &event.instances {
            match fd.set_filter(&filter) {
                // A thread that is gone makes no events.
                Ok(()) | Err(Refused { errno: Errno::ESRCH, .. }) => {}
                Err(Refused { errno, .. }) => return Err(failed(errno.into())),
            }
        }
    }
    Ok(())
}
