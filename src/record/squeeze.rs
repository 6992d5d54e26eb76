//! Compression beside the recording: rounds go to a thread and come back smaller.

use std::io;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use crate::perfdata::RecordKind;
use crate::perfdata::compression::Compressor;

/// The most plain bytes that may wait: whoever brings more waits for the thread.
const MOST_WAITING: usize = 64 << 20;

/// A thread that compresses what it is given, in order.
#[derive(Debug)]
pub(super) struct Squeezer {
    to: Option<Sender<Vec<u8>>>,
    from: Receiver<Squeezed>,
    thread: Option<JoinHandle<Compressor>>,
    /// Plain bytes on their way.
    n_waiting: usize,
}

/// One round, compressed.
#[derive(Debug)]
struct Squeezed {
    /// How long it was before.
    n_plain: usize,
    records: io::Result<Vec<u8>>,
}

impl Squeezer {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// What the library says of `level`, and the system of a thread.
    pub(super) fn start(level: i32, kind: RecordKind) -> io::Result<Self> {
        let mut compressor = Compressor::new(level, kind)?;
        let (to, plain) = channel::<Vec<u8>>();
        let (squeezed, from) = channel();
        let thread = std::thread::Builder::new().name("compress".to_owned()).spawn(move || {
            for plain in plain {
                let mut records = Vec::new();
                let done = compressor.compress(&plain, &mut records).map(|()| records);
                // Nobody waits for it where the recording has failed.
                let _sent = squeezed.send(Squeezed { n_plain: plain.len(), records: done });
            }
            compressor
        })?;
        Ok(Self { to: Some(to), from, thread: Some(thread), n_waiting: 0 })
    }

    /// Gives it a round; what has become of earlier ones is appended to `out`.
    ///
    /// # Errors
    ///
    /// What the library says.
    pub(super) fn push(&mut self, plain: Vec<u8>, out: &mut Vec<u8>) -> io::Result<()> {
        self.n_waiting += plain.len();
        if let Some(to) = &self.to {
            to.send(plain).map_err(io::Error::other)?;
        }
        self.take_ready(out)
    }

    /// Appends what has become of earlier rounds to `out`.
    ///
    /// # Errors
    ///
    /// What the library says.
    pub(super) fn take_ready(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        while let Some(squeezed) = self.next() {
            out.extend(squeezed?);
        }
        Ok(())
    }

    /// Whether rounds are on their way.
    pub(super) fn is_busy(&self) -> bool {
        self.n_waiting != 0
    }

    /// What is ready, waiting for it only where there is much on its way.
    fn next(&mut self) -> Option<io::Result<Vec<u8>>> {
        let squeezed = if MOST_WAITING < self.n_waiting {
            self.from.recv().ok()
        } else {
            self.from.try_recv().ok()
        };
        let Squeezed { n_plain, records } = squeezed?;
        self.n_waiting -= n_plain;
        Some(records)
    }

    /// Ends the stream: the rest is appended to `out`. Returns how many plain bytes became one.
    ///
    /// # Errors
    ///
    /// What the library says.
    pub(super) fn end(mut self, out: &mut Vec<u8>) -> io::Result<u32> {
        // Ends the thread once it has done all.
        drop(self.to.take());
        let thread = self.thread.take().ok_or(io::ErrorKind::NotFound)?;
        let compressor = thread
            .join()
            .map_err(|_| io::Error::other("the thread that compresses ended early"))?;
        while let Ok(squeezed) = self.from.try_recv() {
            out.extend(squeezed.records?);
        }
        Ok(compressor.ratio())
    }
}

#[cfg(test)]
mod tests {
    use crate::perfdata::Endian;
    use crate::perfdata::Section;
    use crate::perfdata::compression::inflate;

    use super::*;

    #[test]
    fn what_was_given_in_rounds_comes_back_in_order() {
        let round = |n: u8| [9, 0, 0, 0, 0, 0, 16, 0, n, n, n, n, n, n, n, n].repeat(1000);
        let mut squeezer = Squeezer::start(1, RecordKind::COMPRESSED2).unwrap();
        let mut out = Vec::new();
        for n in 0..50 {
            squeezer.push(round(n), &mut out).unwrap();
        }
        assert!(1 < squeezer.end(&mut out).unwrap());
        let section = Section { offset: 0, size: out.len() as u64 };
        let mut plain = Vec::new();
        inflate(&out[..], section, Endian::NATIVE, None, &mut plain).unwrap();
        let want: Vec<u8> = (0..50).flat_map(round).collect();
        assert!(plain == want);
    }

    #[test]
    fn nothing_given_is_nothing_written() {
        let mut out = Vec::new();
        let squeezer = Squeezer::start(1, RecordKind::COMPRESSED2).unwrap();
        assert_eq!(squeezer.end(&mut out).unwrap(), 0);
        assert!(out.is_empty());
    }
}
