//! Tracepoints: their ids for the event parser, their formats for the file.

use std::io;

use crate::events::Tracepoints;
use crate::host::tracefs::Formats;
use crate::host::tracefs::Tracefs;
use crate::sys::ring::page_len;

impl Tracepoints for Tracefs {
    fn id(&self, system: &str, name: &str) -> io::Result<Option<u64>> {
        Self::id(self, system, name)
    }

    fn all(&self) -> io::Result<Vec<(String, String)>> {
        Self::all(self)
    }
}

/// What begins tracing data.
const MAGIC: &[u8] = b"\x17\x08\x44tracing";
/// The version of the layout that perf writes.
const VERSION: &[u8] = b"0.6\0";

/// The formats in the layout of `trace.dat`, which perf's files carry whole.
///
/// Source: `tracing_data_get()` in `tools/perf/util/trace-event-info.c`.
pub(super) fn encode_formats(formats: &Formats) -> Vec<u8> {
    let mut out = [MAGIC, VERSION].concat();
    out.push(u8::from(cfg!(target_endian = "big")));
    // The size of a `long`.
    out.push(u8::try_from(size_of::<usize>()).unwrap_or(8));
    put_u32(page_len(), &mut out);
    out.extend(b"header_page\0");
    put_sized(&formats.header_page, &mut out);
    out.extend(b"header_event\0");
    put_sized(&formats.header_event, &mut out);
    // The formats of ftrace's own records, on which no event can be opened.
    put_u32(0, &mut out);
    put_u32(formats.systems.len(), &mut out);
    for (system, formats) in &formats.systems {
        out.extend(system.as_bytes());
        out.push(0);
        put_all(formats, &mut out);
    }
    // The kernel's symbols: readers have better sources.
    put_u32(0, &mut out);
    put_u32(formats.printk.len(), &mut out);
    out.extend(&formats.printk);
    put_sized(&formats.saved_cmdlines, &mut out);
    out
}

fn put_u32(number: usize, out: &mut Vec<u8>) {
    out.extend(u32::try_from(number).unwrap_or(u32::MAX).to_ne_bytes());
}

fn put_all(texts: &[Vec<u8>], out: &mut Vec<u8>) {
    put_u32(texts.len(), out);
    for text in texts {
        put_sized(text, out);
    }
}

fn put_sized(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((bytes.len() as u64).to_ne_bytes());
    out.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formats_stand_in_the_order_of_trace_dat() {
        let formats = Formats {
            header_page: b"P".to_vec(),
            header_event: b"EE".to_vec(),
            systems: vec![("sched".to_owned(), vec![b"s1".to_vec(), b"s".to_vec()])],
            printk: b"k".to_vec(),
            saved_cmdlines: b"c".to_vec(),
        };
        let int = |number: u32| number.to_ne_bytes().to_vec();
        let long = |number: u64| number.to_ne_bytes().to_vec();
        let page = int(u32::try_from(page_len()).unwrap());
        let want = [
            b"\x17\x08\x44tracing0.6\0\0\x08".to_vec(),
            page,
            [b"header_page\0".to_vec(), long(1), b"P".to_vec()].concat(),
            [b"header_event\0".to_vec(), long(2), b"EE".to_vec()].concat(),
            int(0),
            [int(1), b"sched\0".to_vec(), int(2)].concat(),
            [long(2), b"s1".to_vec(), long(1), b"s".to_vec()].concat(),
            [int(0), int(1), b"k".to_vec(), long(1), b"c".to_vec()].concat(),
        ];
        assert_eq!(encode_formats(&formats), want.concat());
    }
}
