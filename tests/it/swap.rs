//! A recording in the other byte order, as a machine of that order would have written it.
//!
//! It knows where the fields of a file lie and nothing else of the codec, so that both cannot be
//! wrong together. Of the feature sections it keeps those in [`KEPT`].

use std::ops::Range;

/// `PERF_SAMPLE_TID`: two numbers in one word.
const TID: u64 = 1 << 1;
/// `PERF_SAMPLE_CPU`: the same.
const CPU: u64 = 1 << 7;
/// What records other than samples have of a sample's fields, in their order: `PERF_SAMPLE_TID`,
/// `TIME`, `ID`, `CPU` and `IDENTIFIER`.
const TRAILER: [u64; 5] = [TID, 1 << 2, 1 << 6, CPU, 1 << 16];
/// The feature sections that are kept: those of one string, CPUs, memory, the command line, the
/// descriptions of events, and the times of the first and last sample.
const KEPT: [usize; 11] = [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 21];

/// The recording in `file`, which is of this machine's order, in the other.
pub(crate) fn swap(file: &[u8]) -> Vec<u8> {
    let mut this = Swap { old: file, bytes: file.to_vec(), sample_type: 0 };
    if this.u64(8) == 16 {
        this.fields(0, &[8, 8]);
        return this.pipe();
    }
    let (attr_size, attrs) = (this.usize(16), this.section(24));
    let (data, features) = (this.section(40), this.u64(72));
    this.fields(0, &[8; 13]);
    for at in attrs.step_by(attr_size) {
        let ids = this.section(at + attr_size - 16);
        this.attr(at..at + attr_size - 16);
        this.fields(at + attr_size - 16, &[8, 8]);
        this.words(ids);
    }
    let mut at = data.start;
    while at < data.end {
        at = this.record(at);
    }
    this.sections(data.end, features);
    this.bytes
}

struct Swap<'a> {
    old: &'a [u8],
    bytes: Vec<u8>,
    /// What the first event samples: all that have samples are alike.
    sample_type: u64,
}

impl Swap<'_> {
    fn u16(&self, at: usize) -> u16 {
        u16::from_ne_bytes(self.old[at..at + 2].try_into().unwrap())
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.old[at..at + 4].try_into().unwrap())
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.old[at..at + 8].try_into().unwrap())
    }

    fn usize(&self, at: usize) -> usize {
        usize::try_from(self.u64(at)).unwrap()
    }

    fn section(&self, at: usize) -> Range<usize> {
        let start = self.usize(at);
        start..start + self.usize(at + 8)
    }

    /// Swaps fields of these widths from `at` on, and gives the place behind them.
    fn fields(&mut self, at: usize, widths: &[usize]) -> usize {
        widths.iter().fold(at, |at, width| {
            self.bytes[at..at + width].reverse();
            at + width
        })
    }

    fn words(&mut self, range: Range<usize>) {
        for at in range.step_by(8) {
            self.fields(at, &[8]);
        }
    }

    /// `struct perf_event_attr`, whose flags are C bit-fields.
    fn attr(&mut self, range: Range<usize>) {
        let sample_type = self.u64(range.start + 24);
        if self.sample_type == 0 {
            self.sample_type = sample_type;
        }
        // Events without samples may have fewer fields, but the same trailer.
        let trailer = TRAILER.iter().fold(0, |all, field| all | field);
        assert_eq!(self.sample_type & trailer, sample_type & trailer);
        let flags = self.fields(range.start, &[4, 4, 8, 8, 8, 8]);
        for byte in &mut self.bytes[flags..flags + 8] {
            *byte = byte.reverse_bits();
        }
        let mut at = flags + 8;
        for width in [4, 4, 8, 8, 8, 8, 4, 4, 8, 4, 2, 2, 4, 4, 8, 8, 8] {
            if at < range.end {
                at = self.fields(at, &[width]);
            }
        }
    }

    /// Swaps the record at `at`, and gives the place behind it.
    fn record(&mut self, at: usize) -> usize {
        let (kind, misc) = (self.u32(at), self.u16(at + 4));
        let end = at + usize::from(self.u16(at + 6));
        let body = self.fields(at, &[4, 2, 2]);
        match kind {
            1 => self.fields(body, &[4, 4, 8, 8, 8]),
            3 => self.fields(body, &[4, 4]),
            4 | 7 => self.fields(body, &[4, 4, 4, 4, 8]),
            10 if misc & 1 << 14 == 0 => self.fields(body, &[4, 4, 8, 8, 8, 4, 4, 8, 8, 4, 4]),
            10 => {
                let id = self.fields(body, &[4, 4, 8, 8, 8]);
                self.fields(id + 24, &[4, 4])
            }
            17 => self.fields(body, &[8, 4, 2, 2]),
            18 => self.fields(body, &[2, 2, 4]),
            64 => {
                let ids = body + usize::try_from(self.u32(body + 4)).unwrap();
                self.attr(body..ids);
                self.words(ids..end);
                end
            }
            69 => {
                self.words(body..end);
                end
            }
            73 => {
                self.fields(body, &[8]);
                (body + 8..end).step_by(24).fold(end, |_, at| self.fields(at, &[8]))
            }
            74 => self.cpu_map(body),
            78 => {
                let data = self.fields(body, &[8, 8]);
                match self.u64(body) {
                    1 => self.fields(data, &[8]),
                    3 => self.cpu_map(data),
                    _ => data,
                }
            }
            84 => self.fields(body + 512, &[8]),
            9 => {
                self.sample(body..end);
                end
            }
            // A private record: behind the magic its version, kind and numbers, then text.
            65 => self.fields(body + 8, &[2, 2, 4, 4, 4, 4, 4]),
            68 | 82 => end,
            _ => panic!("no fields of kind {kind} are known"),
        };
        if kind < 64 && kind != 9 {
            self.trailer(end);
        }
        end
    }

    fn cpu_map(&mut self, at: usize) -> usize {
        let data = self.fields(at, &[2]);
        match self.u16(at) {
            0 => {
                let n = usize::from(self.u16(data));
                self.fields(data, &vec![2; 1 + n])
            }
            2 => self.fields(data + 2, &[2, 2]),
            kind => panic!("no CPU map of kind {kind} is known"),
        }
    }

    /// A sample whose fields are all words, but for task and CPU.
    fn sample(&mut self, body: Range<usize>) {
        let mut at = body.start;
        // The order of the fields: identifier, then by ascending bit.
        for bit in std::iter::once(16).chain(0..9) {
            if self.sample_type & 1 << bit != 0 {
                let is_pair = [TID, CPU].contains(&(1 << bit));
                // A call chain stands behind the period and holds words.
                if bit == 5 {
                    continue;
                }
                at = self.fields(at, if is_pair { &[4, 4] } else { &[8] });
            }
        }
        self.words(at..body.end);
    }

    /// The trailer of a record of the kernel that ends at `end`.
    fn trailer(&mut self, end: usize) {
        let fields = TRAILER.into_iter().filter(|field| self.sample_type & field != 0);
        let fields: Vec<u64> = fields.collect();
        let mut at = end - 8 * fields.len();
        for field in fields {
            at = self.fields(at, if [TID, CPU].contains(&field) { &[4, 4] } else { &[8] });
        }
    }

    /// A pipe: the records of features that are not kept are left out.
    fn pipe(&mut self) -> Vec<u8> {
        let mut out = self.bytes[..16].to_vec();
        let mut at = 16;
        while at < self.old.len() {
            let end = at + usize::from(self.u16(at + 6));
            if self.u32(at) == 80 {
                let feature = self.usize(at + 8);
                self.fields(at, &[4, 2, 2, 8]);
                if KEPT.contains(&feature) {
                    self.feature(feature, at + 16);
                    out.extend_from_slice(&self.bytes[at..end]);
                }
            } else {
                self.record(at);
                out.extend_from_slice(&self.bytes[at..end]);
            }
            at = end;
        }
        out
    }

    /// The table of sections at `table` and the sections, of which those that are kept follow the
    /// records anew.
    fn sections(&mut self, table: usize, features: u64) {
        let mut kept = Vec::new();
        let set = (0..64).filter(|id| features >> id & 1 == 1);
        for (place, feature) in set.enumerate() {
            let section = self.section(table + 16 * place);
            if KEPT.contains(&feature) {
                self.feature(feature, section.start);
                kept.push((feature, self.bytes[section].to_vec()));
            }
        }
        self.bytes.truncate(table);
        let mut offset = table + 16 * kept.len();
        let mut bits = 0_u64;
        for (feature, section) in &kept {
            bits |= 1 << feature;
            self.bytes.extend((offset as u64).swap_bytes().to_ne_bytes());
            self.bytes.extend((section.len() as u64).swap_bytes().to_ne_bytes());
            offset += section.len();
        }
        self.bytes.extend(kept.into_iter().flat_map(|(_, section)| section));
        self.bytes[72..80].copy_from_slice(&bits.swap_bytes().to_ne_bytes());
    }

    /// The section of a feature at `at`.
    fn feature(&mut self, feature: usize, at: usize) {
        match feature {
            7 => self.fields(at, &[4, 4]),
            10 => self.fields(at, &[8]),
            11 => {
                let n = self.u32(at);
                self.fields(at, &[4]);
                (0..n).fold(at + 4, |at, _| self.text(at))
            }
            12 => {
                let (n, attr_size) = (self.u32(at), self.u32(at + 4) as usize);
                self.fields(at, &[4, 4]);
                (0..n).fold(at + 8, |at, _| {
                    self.attr(at..at + attr_size);
                    let n_ids = self.u32(at + attr_size) as usize;
                    let name = self.fields(at + attr_size, &[4]);
                    let ids = self.text(name);
                    self.words(ids..ids + 8 * n_ids);
                    ids + 8 * n_ids
                })
            }
            21 => self.fields(at, &[8, 8]),
            _ => self.text(at),
        };
    }

    /// A string behind its length.
    fn text(&mut self, at: usize) -> usize {
        let len = self.u32(at) as usize;
        self.fields(at, &[4]) + len
    }
}
