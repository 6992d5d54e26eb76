//! What a sample of time off the CPU says beyond the fields of others.

use crate::perfdata::off_cpu::More;
use crate::perfdata::off_cpu::WokenBy;
use crate::render::escape::escape;

use super::number::decimal;
use super::number::signed;

/// Appends `state=S woken_by=comm/tid n=1 runnable=0`, the last in nanoseconds, and a blank.
///
/// Of a task that was not asleep nobody is said to have woken it.
pub(super) fn append(more: &More<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"state=");
    let mut letter = [0; 4];
    out.extend_from_slice(more.state_letter().encode_utf8(&mut letter).as_bytes());
    if more.state != 0 {
        out.extend_from_slice(b" woken_by=");
        match more.woken_by {
            WokenBy::HARDIRQ => out.extend_from_slice(b"interrupt"),
            WokenBy::SOFTIRQ => out.extend_from_slice(b"softirq"),
            WokenBy::NMI => out.extend_from_slice(b"nmi"),
            WokenBy::NOBODY => out.extend_from_slice(b"nobody"),
            _ if more.waker_comm.is_empty() => out.push(b'?'),
            _ => {
                out.extend_from_slice(escape(more.waker_comm).as_bytes());
                out.push(b'/');
                signed(more.waker.1.0, 0, out);
            }
        }
    }
    out.extend_from_slice(b" n=");
    decimal(more.n, 0, out);
    out.extend_from_slice(b" runnable=");
    decimal(more.runnable_ns, 0, out);
    out.push(b' ');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Pid;
    use crate::units::Tid;

    #[track_caller]
    fn check(state: u32, woken_by: WokenBy, waker_comm: &[u8], want: &str) {
        let waker = (Pid(7), Tid(8));
        let more = More { state, woken_by, n: 3, runnable_ns: 40, waker, waker_comm };
        let mut text = Vec::new();
        append(&more, &mut text);
        assert_eq!(String::from_utf8(text).unwrap(), want);
    }

    #[test]
    fn state_and_waker_are_told() {
        check(1, WokenBy::TASK, b"writer", "state=S woken_by=writer/8 n=3 runnable=40 ");
        check(2, WokenBy::HARDIRQ, b"", "state=D woken_by=interrupt n=3 runnable=40 ");
        check(1, WokenBy::SOFTIRQ, b"", "state=S woken_by=softirq n=3 runnable=40 ");
        check(1, WokenBy::NOBODY, b"", "state=S woken_by=nobody n=3 runnable=40 ");
        check(1, WokenBy::UNKNOWN, b"", "state=S woken_by=? n=3 runnable=40 ");
        check(0, WokenBy::UNKNOWN, b"", "state=R n=3 runnable=40 ");
    }

    #[test]
    fn a_name_reaches_no_terminal_as_it_is() {
        check(1, WokenBy::TASK, b"\x1b[2J", "state=S woken_by=\\x1b[2J/8 n=3 runnable=40 ");
    }
}
