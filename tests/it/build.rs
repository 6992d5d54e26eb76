//! Recordings made by hand, record by record, in either byte order, as a file or as a pipe.

use bpfperf::perfdata::Endian;
use bpfperf::perfdata::private::Clocks;
use bpfperf::perfdata::private::Message;

use crate::vector::bytes;

/// A recording of one event, the CPU clock, whose samples have address, task, time and period.
///
/// Records and sections are written as [`bytes`] reads them.
#[derive(Clone)]
pub(crate) struct Build {
    pub(crate) endian: Endian,
    /// The size of the attribute in bytes, 64 or more.
    pub(crate) attr_size: usize,
    /// What the attribute holds from byte 64 on; the rest is zero.
    pub(crate) attr_tail: Vec<u8>,
    /// `PERF_SAMPLE_*` beside those above.
    pub(crate) more_fields: u64,
    /// The size of the data that the header tells, if not the real one.
    pub(crate) data_size: Option<u64>,
    /// Feature sections by ascending number.
    pub(crate) features: Vec<BuiltFeature>,
    /// Whether the table of features is written at all.
    pub(crate) has_table: bool,
    pub(crate) records: Vec<u8>,
}

/// A feature section: its number, its content, and where the table says that it lies and how long
/// it is, if that is not the truth.
pub(crate) type BuiltFeature = (u8, String, Option<(u64, u64)>);

/// `PERF_SAMPLE_CALLCHAIN`.
pub(crate) const CALLCHAIN: u64 = 1 << 5;

/// `PERF_SAMPLE_IP`, `TID`, `TIME` and `PERIOD`.
const FIELDS: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 8;

/// `mmap`, `comm`, `freq`, `task`, `sample_id_all`, `mmap2`, `comm_exec`, `ksymbol`, `bpf_event`.
const FLAGS: u64 =
    1 << 8 | 1 << 9 | 1 << 10 | 1 << 13 | 1 << 18 | 1 << 23 | 1 << 24 | 1 << 29 | 1 << 30;

impl Build {
    /// A recording without records.
    pub(crate) fn new() -> Self {
        Self {
            endian: Endian::NATIVE,
            attr_size: 128,
            attr_tail: Vec::new(),
            more_fields: 0,
            data_size: None,
            features: Vec::new(),
            has_table: true,
            records: Vec::new(),
        }
    }

    /// A process `demo` with one mapping, and five samples in it, a millisecond apart.
    pub(crate) fn demo(endian: Endian) -> Self {
        let mut this = Self { endian, ..Self::new() };
        this.comm(100, b"demo");
        this.mmap(100, 0x40_0000, 0x1000, "/nonexistent/demo", 0);
        for n in 0..5 {
            this.sample(100, 0x40_0100 + n, 1_000_000_000 + n * 1_000_000, 1000);
        }
        this
    }

    pub(crate) fn record(&mut self, kind: u32, misc: u16, fields: &str) -> &mut Self {
        let body = bytes(fields, self.endian);
        let size = body.len() + 8;
        self.records.extend(bytes(&format!("{kind:08x} {misc:04x} {size:04x}"), self.endian));
        self.records.extend(body);
        self
    }

    /// Says that it was made on this machine, since it booted.
    pub(crate) fn here(&mut self) -> &mut Self {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let boot_id = boot_id.trim_end().to_owned();
        Message::Clocks(Clocks { boot_id, ..Clocks::default() }).encode(1, &mut self.records);
        self
    }

    pub(crate) fn comm(&mut self, pid: u32, comm: &[u8]) -> &mut Self {
        let (name, trailer) = (text(comm), trailer(pid, 0));
        self.record(3, 0, &format!("{pid:08x} {pid:08x} {name} {trailer}"))
    }

    pub(crate) fn exit(&mut self, pid: u32, time: u64) -> &mut Self {
        let trailer = trailer(pid, time);
        self.record(4, 0, &format!("{pid:08x} 00000001 {pid:08x} 00000001 {time:016x} {trailer}"))
    }

    pub(crate) fn mmap(
        &mut self,
        pid: u32,
        addr: u64,
        len: u64,
        path: &str,
        time: u64,
    ) -> &mut Self {
        self.mmap_with(pid, addr, len, path, time, 2, "00000000 00000000 0*16")
    }

    /// A mapping whose file is told by `id`, 24 bytes.
    #[expect(clippy::too_many_arguments, reason = "each is a field of the record")]
    pub(crate) fn mmap_with(
        &mut self,
        pid: u32,
        addr: u64,
        len: u64,
        path: &str,
        time: u64,
        misc: u16,
        id: &str,
    ) -> &mut Self {
        let (path, trailer) = (text(path.as_bytes()), trailer(pid, time));
        self.record(
            10,
            misc,
            &format!(
                "{pid:08x} {pid:08x} {addr:016x} {len:016x} 0000000000000000 {id} \
                 00000005 00000002 {path} {trailer}"
            ),
        )
    }

    /// The kernel's own text.
    pub(crate) fn kernel(&mut self, addr: u64, len: u64) -> &mut Self {
        let (path, trailer) = (text(b"[kernel.kallsyms]_text"), trailer(0, 0));
        let fields =
            format!("ffffffff 00000000 {addr:016x} {len:016x} {addr:016x} {path} {trailer}");
        self.record(1, 1, &fields)
    }

    /// A symbol of the kernel's, of type 1 (BPF) or 2 (other).
    pub(crate) fn ksymbol(&mut self, addr: u64, len: u32, kind: u16, name: &str) -> &mut Self {
        let (name, trailer) = (text(name.as_bytes()), trailer(0, 0));
        self.record(17, 1, &format!("{addr:016x} {len:08x} {kind:04x} 0000 {name} {trailer}"))
    }

    /// A BPF program that was loaded.
    pub(crate) fn bpf_event(&mut self, id: u32, tag: u64) -> &mut Self {
        let trailer = trailer(0, 0);
        self.record(18, 1, &format!("0001 0000 {id:08x} ={tag:016x} {trailer}"))
    }

    /// A sample in user space.
    pub(crate) fn sample(&mut self, pid: u32, ip: u64, time: u64, period: u64) -> &mut Self {
        self.record(9, 2, &sample(pid, ip, time, period))
    }

    /// A sample in the kernel.
    pub(crate) fn kernel_sample(&mut self, ip: u64, time: u64, period: u64) -> &mut Self {
        self.record(9, 1, &sample(100, ip, time, period))
    }

    /// A sample in user space with a call chain.
    pub(crate) fn user_chain(&mut self, time: u64, chain: &[u64]) -> &mut Self {
        let frames: Vec<String> = chain.iter().map(|it| format!("{it:016x}")).collect();
        let (sample, n) = (sample(100, chain[0], time, 1000), chain.len() + 1);
        // `PERF_CONTEXT_USER` comes before them.
        self.record(9, 2, &format!("{sample} {n:016x} fffffffffffffe00 {}", frames.join(" ")))
    }

    /// A sample in the kernel with a call chain.
    pub(crate) fn chain(&mut self, time: u64, chain: &[u64]) -> &mut Self {
        let chain: Vec<String> = chain.iter().map(|it| format!("{it:016x}")).collect();
        let (sample, n) = (sample(100, 0, time, 1000), chain.len());
        self.record(9, 1, &format!("{sample} {n:016x} {}", chain.join(" ")))
    }

    /// The recording as a file.
    pub(crate) fn file(&self) -> Vec<u8> {
        let attrs_len = self.attr_size + 16;
        let data_at = 104 + attrs_len;
        let data_size = self.data_size.unwrap_or(self.records.len() as u64);
        let bits = self.features.iter().fold(0_u64, |bits, (id, ..)| bits | 1 << id);
        let mut out = bytes(
            &format!(
                "{MAGIC:016x} {:016x} {attrs_len:016x} {:016x} {attrs_len:016x} {data_at:016x} \
                 {data_size:016x} 0*16 {bits:016x} 0*24",
                104, 104
            ),
            self.endian,
        );
        out.extend(self.attr());
        out.extend([0; 16]);
        out.extend_from_slice(&self.records);
        if self.has_table {
            let mut offset = out.len() + 16 * self.features.len();
            let mut sections = Vec::new();
            for (_, fields, claim) in &self.features {
                let section = bytes(fields, self.endian);
                let (at, len) = claim.unwrap_or((offset as u64, section.len() as u64));
                out.extend(bytes(&format!("{at:016x} {len:016x}"), self.endian));
                offset += section.len();
                sections.extend(section);
            }
            out.extend(sections);
        }
        out
    }

    /// The recording as a pipe, without its feature sections.
    pub(crate) fn pipe(&self) -> Vec<u8> {
        let mut out = bytes(&format!("{MAGIC:016x} {:016x}", 16), self.endian);
        let attr = self.attr();
        let size = attr.len() + 8;
        out.extend(bytes(&format!("{:08x} 0000 {size:04x}", 64), self.endian));
        out.extend(attr);
        out.extend_from_slice(&self.records);
        out
    }

    fn attr(&self) -> Vec<u8> {
        let fields = FIELDS | self.more_fields;
        let mut attr = bytes(
            &format!(
                "{:08x} {:08x} 0*8 {:016x} {fields:016x} 0*8 @{FLAGS:016x}",
                1, self.attr_size, 4000
            ),
            self.endian,
        );
        attr.resize(64, 0);
        attr.extend_from_slice(&self.attr_tail);
        attr.resize(self.attr_size, 0);
        attr
    }
}

/// `PERFILE2`, as a number.
const MAGIC: u64 = u64::from_le_bytes(*b"PERFILE2");

fn sample(pid: u32, ip: u64, time: u64, period: u64) -> String {
    format!("{ip:016x} {pid:08x} {pid:08x} {time:016x} {period:016x}")
}

/// What records other than samples end with.
fn trailer(pid: u32, time: u64) -> String {
    format!("{pid:08x} {pid:08x} {time:016x}")
}

/// A string with its end, filled up to whole words.
fn text(text: &[u8]) -> String {
    let digits: Vec<String> = text.iter().map(|byte| format!("{byte:02x}")).collect();
    let digits = digits.concat();
    format!("={digits} 0*{}", 8 - text.len() % 8)
}
