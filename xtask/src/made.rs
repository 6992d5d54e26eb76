//! Recordings that no recorder makes: the bytes of `tests/fixtures/report`, written out field by field.
//!
//! Every name in them comes from the file itself, so that a report of them is the same on each machine:
//! kernel functions by KSYMBOL records, user code in files that are nowhere. No two rows weigh the same.
//!
//! Sources: `perf_event_attr` and `enum perf_event_type` in `include/uapi/linux/perf_event.h`, the features
//! in `tools/perf/Documentation/perf.data-file-format.txt`, what holds the formats of tracepoints in
//! `tools/perf/util/trace-event-read.c`.

use std::fs;

use crate::shell::Failure;
use crate::shell::Shell;

/// Where they lie, below the root.
const FOLDER: &str = "tests/fixtures/report";

/// What makes the bytes of a recording.
type Maker = fn() -> Vec<u8>;

/// Their names, and what makes them.
const MADE: [(&str, Maker); 3] = [("samples", samples), ("branches", branches), ("traced", traced)];

/// Whether `name` is one of them.
pub(crate) fn has(name: &str) -> bool {
    MADE.iter().any(|(it, _)| *it == name)
}

/// Writes those of `names`, or all, that are not there or are to be written again.
pub(crate) fn write(shell: &Shell, names: &[&String], is_forced: bool) -> Result<(), Failure> {
    let is_named = |it: &str| names.is_empty() || names.iter().any(|name| *name == it);
    for (name, bytes) in MADE.iter().filter(|(name, _)| is_named(name)) {
        let path = shell.root().join(FOLDER).join(format!("{name}.data"));
        if path.exists() && !is_forced {
            println!("fixtures: `{name}` is there; `--force` writes it again");
            continue;
        }
        fs::write(&path, bytes())
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    }
    Ok(())
}

/// What samples hold, by the bits of `sample_type`.
mod holds {
    pub(super) const IP: u64 = 1 << 0;
    pub(super) const TID: u64 = 1 << 1;
    pub(super) const TIME: u64 = 1 << 2;
    pub(super) const ADDR: u64 = 1 << 3;
    pub(super) const CALLCHAIN: u64 = 1 << 5;
    pub(super) const CPU: u64 = 1 << 7;
    pub(super) const PERIOD: u64 = 1 << 8;
    pub(super) const RAW: u64 = 1 << 10;
    pub(super) const BRANCH_STACK: u64 = 1 << 11;
    pub(super) const IDENTIFIER: u64 = 1 << 16;
    pub(super) const TRANSACTION: u64 = 1 << 17;
    pub(super) const CGROUP: u64 = 1 << 21;
    pub(super) const CODE_PAGE_SIZE: u64 = 1 << 23;
    pub(super) const WEIGHT_STRUCT: u64 = 1 << 24;
}

/// The privilege of a sample, as its record's header has it.
const KERNEL: u16 = 1;
const USER: u16 = 2;

/// What stands before the frames of a privilege in a call chain.
const CONTEXT_KERNEL: u64 = (-128_i64).cast_unsigned();
const CONTEXT_USER: u64 = (-512_i64).cast_unsigned();

/// The processes.
const SERVER: u32 = 100;
const WORKER: u32 = 200;

/// Bytes that are being written, little-endian.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// Text with a zero behind it, and more up to a multiple of `unit`.
    fn text(mut self, text: &str, unit: usize) -> Self {
        let len = (text.len() + 1).next_multiple_of(unit);
        self.0.extend(text.as_bytes());
        self.0.resize(self.0.len() + len - text.len(), 0);
        self
    }

    /// A text of a feature: with its length in front, in units of 64.
    fn string(self, text: &str) -> Self {
        let len = (text.len() + 1).next_multiple_of(64);
        self.u32(u32::try_from(len).expect("a short text")).text(text, 64)
    }
}

/// A record of `kind`.
fn record(kind: u32, misc: u16, body: Bytes) -> Vec<u8> {
    let Bytes(body) = body;
    let len = u16::try_from(8 + body.len()).expect("a short record");
    let mut record = Bytes::default().u32(kind).u16(misc).u16(len).0;
    record.extend(body);
    record
}

fn comm(pid: u32, name: &str) -> Vec<u8> {
    record(3, 0, Bytes::default().u32(pid).u32(pid).text(name, 8))
}

/// A file's code in the memory of a process.
fn mmap2(pid: u32, start: u64, len: u64, pgoff: u64, path: &str) -> Vec<u8> {
    let (major, minor, inode, generation) = (8, 1, 1234, 1);
    let (readable_code, private) = (5, 2);
    let body = Bytes::default().u32(pid).u32(pid).u64(start).u64(len).u64(pgoff);
    let body = body.u32(major).u32(minor).u64(inode).u64(generation);
    record(10, USER, body.u32(readable_code).u32(private).text(path, 8))
}

/// Code of the kernel that is no part of its image.
fn ksymbol(addr: u64, len: u32, name: &str) -> Vec<u8> {
    let out_of_line = 2;
    let body = Bytes::default().u64(addr).u32(len).u16(out_of_line).u16(0);
    record(17, KERNEL, body.text(name, 8))
}

fn cgroup(id: u64, path: &str) -> Vec<u8> {
    record(19, 0, Bytes::default().u64(id).text(path, 8))
}

/// An event.
struct Event {
    name: &'static str,
    kind: u32,
    config: u64,
    sample_type: u64,
    branch_sample_type: u64,
    /// The number by which samples name it; 0 for none.
    id: u64,
}

impl Event {
    fn attr(&self) -> Vec<u8> {
        let (len, period, read_format) = (128, 1000, 0);
        // Disabled at first; with records of mappings, of command names, and of mappings with inodes.
        let flags = 1 << 0 | 1 << 8 | 1 << 9 | 1 << 23;
        let attr = Bytes::default().u32(self.kind).u32(len).u64(self.config).u64(period);
        let attr = attr.u64(self.sample_type).u64(read_format).u64(flags);
        // Wake-ups, breakpoints.
        let mut attr = attr.u64(0).u64(0).u64(0).u64(self.branch_sample_type).0;
        attr.resize(128, 0);
        attr
    }
}

/// A file of `events`, `records` and sections, by their numbers.
fn file(events: &[Event], records: &[Vec<u8>], sections: &[(u32, Bytes)]) -> Vec<u8> {
    let (header_len, entry_len) = (104, 144);
    let len = |it: usize| it as u64;
    let data: Vec<u8> = records.concat();
    let ids: Vec<u64> = events.iter().map(|it| it.id).filter(|it| *it != 0).collect();
    let attrs_len = entry_len * len(events.len());
    let ids_at = header_len + attrs_len;
    let data_at = ids_at + 8 * len(ids.len());
    let sections_at = data_at + len(data.len());
    let bits = sections.iter().fold(0_u64, |bits, (bit, _)| bits | 1 << bit);
    let file = Bytes::default().bytes(b"PERFILE2").u64(header_len).u64(entry_len);
    let file = file.u64(header_len).u64(attrs_len).u64(data_at).u64(len(data.len()));
    let file = file.u64(0).u64(0).u64(bits).u64(0).u64(0).u64(0);
    let entry = |file: Bytes, (idx, event): (usize, &Event)| {
        let file = file.bytes(&event.attr());
        if event.id == 0 { file.u64(0).u64(0) } else { file.u64(ids_at + 8 * len(idx)).u64(8) }
    };
    let file = events.iter().enumerate().fold(file, entry);
    let file = ids.iter().fold(file, |file, id| file.u64(*id)).bytes(&data);
    let mut at = sections_at + 16 * len(sections.len());
    let place = |file: Bytes, (_, section): &(u32, Bytes)| {
        let section_len = len(section.0.len());
        let file = file.u64(at).u64(section_len);
        at += section_len;
        file
    };
    let file = sections.iter().fold(file, place);
    sections.iter().fold(file, |file, (_, section)| file.bytes(&section.0)).0
}

/// The sections of a machine with two sockets of two cores each; samples are of the times `from` to `to`.
fn sections(events: &[Event], more: &[u32], from: u64, to: u64) -> Vec<(u32, Bytes)> {
    let (n_cpus, event_desc, topology, sample_time) = (7, 12, 13, 21);
    let n = u32::try_from(events.len()).expect("few events");
    let describe = |all: Bytes, event: &Event| {
        let all = all.bytes(&event.attr()).u32(u32::from(event.id != 0)).string(event.name);
        if event.id == 0 { all } else { all.u64(event.id) }
    };
    let described = events.iter().fold(Bytes::default().u32(n).u32(128), describe);
    let siblings = |all: Bytes, cpus: &[&str]| {
        let all = all.u32(u32::try_from(cpus.len()).expect("few CPUs"));
        cpus.iter().fold(all, |all, it| all.string(it))
    };
    let cpus = siblings(Bytes::default(), &["0-1", "2-3"]);
    let cpus = siblings(cpus, &["0", "1", "2", "3"]);
    // The core and the socket of each.
    let cpus = [(0, 0), (1, 0), (0, 1), (1, 1)]
        .into_iter()
        .fold(cpus, |cpus, (core, socket)| cpus.u32(core).u32(socket));
    let mut sections = vec![
        (n_cpus, Bytes::default().u32(4).u32(4)),
        (event_desc, described),
        (topology, cpus),
        (sample_time, Bytes::default().u64(from).u64(to)),
    ];
    sections.extend(more.iter().map(|bit| (*bit, Bytes::default())));
    sections.sort_by_key(|(bit, _)| *bit);
    sections
}

/// What ran, what it had mapped, and three functions of the kernel.
fn surroundings() -> Vec<Vec<u8>> {
    vec![
        comm(SERVER, "server"),
        comm(WORKER, "worker-12"),
        mmap2(SERVER, 0x40_0000, 0x1_0000, 0, "/opt/nowhere/bin/server"),
        mmap2(WORKER, 0x40_0000, 0x1_0000, 0, "/opt/nowhere/bin/worker"),
        mmap2(WORKER, 0x7f00_0000_0000, 0x8000, 0x2000, "/opt/nowhere/lib/libwork.so.1"),
        ksymbol(SYS_READ, 256, "sys_read"),
        ksymbol(COPY, 128, "copy"),
        ksymbol(FAULT, 64, "do_page_fault"),
    ]
}

const SYS_READ: u64 = 0xffff_ffff_c000_1000;
const COPY: u64 = 0xffff_ffff_c000_2000;
const FAULT: u64 = 0xffff_ffff_c000_3000;
const LIBRARY: u64 = 0x7f00_0000_0000;

/// Samples with all that they can say of themselves.
fn samples() -> Vec<u8> {
    use holds::{
        ADDR, CALLCHAIN, CGROUP, CODE_PAGE_SIZE, CPU, IP, PERIOD, TID, TIME, TRANSACTION,
        WEIGHT_STRUCT,
    };
    struct Taken {
        pid: u32,
        cpu: u32,
        time: u64,
        addr: u64,
        period: u64,
        /// What ran in the kernel, then in user code, each the inner first.
        kernel: &'static [u64],
        user: &'static [u64],
        weight: (u32, u16, u16),
        transaction: u64,
        cgroup: u64,
        page: u64,
    }
    let taken = |it: Taken| {
        let mut chain = Vec::new();
        if !it.kernel.is_empty() {
            chain.push(CONTEXT_KERNEL);
            chain.extend(it.kernel);
        }
        chain.push(CONTEXT_USER);
        chain.extend(it.user);
        let ip = it.kernel.iter().chain(it.user).next().copied().unwrap_or(0);
        let (cost, latency, retire) = it.weight;
        let body = Bytes::default().u64(ip).u32(it.pid).u32(it.pid).u64(it.time).u64(it.addr);
        let body = body.u32(it.cpu).u32(0).u64(it.period).u64(chain.len() as u64);
        let body = chain.iter().fold(body, |body, frame| body.u64(*frame));
        let body = body.u32(cost).u16(latency).u16(retire).u64(it.transaction);
        let misc = if it.kernel.is_empty() { USER } else { KERNEL };
        record(9, misc, body.u64(it.cgroup).u64(it.page))
    };
    let sample_type = IP
        | TID
        | TIME
        | ADDR
        | CPU
        | PERIOD
        | CALLCHAIN
        | WEIGHT_STRUCT
        | TRANSACTION
        | CGROUP
        | CODE_PAGE_SIZE;
    let events = [Event {
        name: "cpu-clock",
        kind: 1,
        config: 0,
        sample_type,
        branch_sample_type: 0,
        id: 0,
    }];
    let work = |time, period| Taken {
        pid: WORKER,
        cpu: 3,
        time,
        addr: 0xffff,
        period,
        kernel: &[],
        user: &[LIBRARY + 0x10, 0x40_0200],
        weight: (12, 3, 2),
        transaction: 0x10,
        cgroup: 9,
        page: 0,
    };
    let mut records = surroundings();
    records.extend([cgroup(7, "/system.slice/web"), cgroup(9, "/user")]);
    records.extend(
        [
            Taken {
                pid: SERVER,
                cpu: 0,
                time: 10_000_000_005,
                addr: 0x1000,
                period: 100,
                kernel: &[COPY + 0x10, SYS_READ + 0x20],
                user: &[0x40_0100],
                weight: (5, 2, 1),
                transaction: 0,
                cgroup: 7,
                page: 4096,
            },
            Taken {
                pid: SERVER,
                cpu: 1,
                time: 10_050_000_000,
                addr: 0x1008,
                period: 230,
                kernel: &[COPY + 0x18, FAULT + 0x10],
                user: &[0x40_0120],
                weight: (5, 2, 1),
                transaction: 6,
                cgroup: 7,
                page: 4096,
            },
            Taken {
                pid: SERVER,
                cpu: 2,
                time: 10_150_000_000,
                addr: 0,
                period: 370,
                kernel: &[],
                user: &[0x40_0120],
                weight: (9, 0, 0),
                transaction: 0x5_0000_0009,
                cgroup: 9,
                page: 2 << 20,
            },
            work(10_260_000_000, 41),
            work(10_261_000_000, 59),
            Taken {
                addr: 0,
                user: &[LIBRARY + 0x20, 0x40_0210],
                weight: (0, 0, 0),
                transaction: 0,
                cgroup: 11,
                page: 4096,
                ..work(10_600_000_000, 170)
            },
            Taken {
                cpu: 0,
                addr: 0,
                kernel: &[SYS_READ + 0x10],
                user: &[0x40_0220],
                weight: (1, 1, 1),
                transaction: 0x40,
                cgroup: 0,
                page: 1 << 30,
                ..work(10_990_000_000, 510)
            },
            Taken {
                cpu: 1,
                addr: 0,
                user: &[0x40_0300],
                weight: (3, 1, 0),
                transaction: 0,
                cgroup: 7,
                page: 4096,
                ..work(10_999_000_000, 777)
            },
        ]
        .map(taken),
    );
    let sections = sections(&events, &[], 10_000_000_005, 10_999_000_000);
    file(&events, &records, &sections)
}

/// Samples with branches, each from, to, and flags with the cycles from bit 4 on.
fn branches() -> Vec<u8> {
    use holds::{BRANCH_STACK, CPU, IP, PERIOD, TID, TIME};
    const MISSED: u64 = 1 << 0;
    const PREDICTED: u64 = 1 << 1;
    const IN_TRANSACTION: u64 = 1 << 2;
    const ABORTED: u64 = 1 << 3;
    let cycles = |n: u64| n << 4;
    let taken = |misc, pid, cpu: u32, ip, time, period, branches: &[(u64, u64, u64)]| {
        let body = Bytes::default().u64(ip).u32(pid).u32(pid).u64(time).u32(cpu).u32(0);
        let body = body.u64(period).u64(branches.len() as u64);
        let push =
            |body: Bytes, (from, to, flags): &(u64, u64, u64)| body.u64(*from).u64(*to).u64(*flags);
        record(9, misc, branches.iter().fold(body, push))
    };
    let events = [Event {
        name: "cpu-clock",
        kind: 1,
        config: 0,
        sample_type: IP | TID | TIME | CPU | PERIOD | BRANCH_STACK,
        // Those of user code, of any kind.
        branch_sample_type: 1 << 0 | 1 << 3,
        id: 0,
    }];
    let often = (0x40_0010, 0x40_0100, PREDICTED | cycles(3));
    let mut records = surroundings();
    records.extend([
        taken(
            USER,
            SERVER,
            0,
            0x40_0100,
            10_000_000_005,
            1000,
            &[
                often,
                (0x40_0020, 0x40_0010, MISSED | cycles(17)),
                (SYS_READ + 0x40, 0x40_0020, PREDICTED),
            ],
        ),
        taken(
            KERNEL,
            SERVER,
            1,
            SYS_READ + 0x10,
            10_200_000_000,
            2000,
            &[
                (0x40_0010, SYS_READ + 0x10, PREDICTED | cycles(3)),
                often,
                (COPY + 0x10, SYS_READ + 0x10, PREDICTED | cycles(40_000)),
                (COPY + 0x14, SYS_READ + 0x10, PREDICTED | cycles(40_000)),
            ],
        ),
        taken(
            USER,
            WORKER,
            2,
            LIBRARY + 0x10,
            10_300_000_000,
            3000,
            &[
                (LIBRARY + 0x20, LIBRARY + 0x10, MISSED | IN_TRANSACTION | cycles(5)),
                (0x40_0200, LIBRARY + 0x20, PREDICTED | IN_TRANSACTION | ABORTED | cycles(9)),
                (0x1_2345, 0x40_0200, 0),
                often,
                often,
                often,
                often,
            ],
        ),
    ]);
    let branch_stack = 15;
    file(&events, &records, &sections(&events, &[branch_stack], 10_000_000_005, 10_999_000_000))
}

/// The layout of a page of the kernel's ring.
const PAGE: &str = "\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;
";

/// What all tracepoints note.
const COMMON: &str = "\
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

";

const STEP: &str = "\
\tfield:char who[8];\toffset:8;\tsize:8;\tsigned:0;
\tfield:int step;\toffset:16;\tsize:4;\tsigned:1;
\tfield:unsigned int mask;\toffset:20;\tsize:4;\tsigned:0;
\tfield:__data_loc char[] path;\toffset:24;\tsize:4;\tsigned:0;
\tfield:short change;\toffset:28;\tsize:2;\tsigned:1;
\tfield:u16 ports[1];\toffset:30;\tsize:2;\tsigned:0;

print fmt: \"who=%s step=%d flags: 0x%08x\", REC->who, REC->step, ((unsigned int)(REC->mask))
";

const STOP: &str = "\
\tfield:unsigned long at;\toffset:8;\tsize:8;\tsigned:0;
\tfield:u8 step;\toffset:16;\tsize:1;\tsigned:0;

print fmt: \"at=%lu\", REC->at
";

/// Samples of two tracepoints, with their formats.
fn traced() -> Vec<u8> {
    use holds::{CPU, IDENTIFIER, IP, PERIOD, RAW, TID, TIME};
    const STEPS: u16 = 71;
    const STOPS: u16 = 72;
    let event = |name, number, id| Event {
        name,
        kind: 2,
        config: u64::from(number),
        sample_type: IDENTIFIER | IP | TID | TIME | CPU | PERIOD | RAW,
        branch_sample_type: 0,
        id,
    };
    let events = [event("demo:step", STEPS, 31), event("demo:stop", STOPS, 32)];
    let taken = |id, pid, time, period, noted: Bytes| {
        let body = Bytes::default().u64(id).u64(COPY + 0x10).u32(pid).u32(pid).u64(time);
        let body = body.u32(0).u32(0).u64(period);
        // What is noted ends, with its length, at a multiple of 8.
        let len = (4 + noted.0.len()).next_multiple_of(8) - 4;
        let mut noted = noted.0;
        noted.resize(len, 0);
        let body = body.u32(u32::try_from(len).expect("a short note")).bytes(&noted);
        record(9, KERNEL, body)
    };
    let step = |pid, time, period, who: &str, step: i32, mask, path: &str, change: i16| {
        let noted = Bytes::default().u16(STEPS).u16(0).u32(pid).text(who, 8);
        let noted = noted.u32(step.cast_unsigned()).u32(mask);
        let len = u32::try_from(path.len() + 1).expect("a short path");
        let noted = noted.u32(len << 16 | 32).u16(change.cast_unsigned()).u16(0x1f90);
        taken(31, pid, time, period, noted.text(path, 1))
    };
    let stop = |pid, time, period, at: u64, step: u8| {
        let noted = Bytes::default().u16(STOPS).u16(0).u32(pid).u64(at);
        taken(32, pid, time, period, noted.bytes(&[step]))
    };
    let mut records = surroundings();
    records.extend([
        step(SERVER, 10_000_000_000, 100, "server", 1, 0x8f, "/a", -3),
        step(SERVER, 10_100_000_000, 210, "server", -2, 0x8f, "/a/long/path", 7),
        step(WORKER, 10_200_000_000, 330, "worker", 1, 0, "/a", -3),
        step(WORKER, 10_300_000_000, 470, "worker", 11, 0xffff_ffff, "", 0),
        step(SERVER, 10_400_000_000, 620, "server", 1, 0x8f, "/a", -3),
        stop(SERVER, 10_500_000_000, 5, 0x1234_5678, 3),
        stop(WORKER, 10_600_000_000, 9, 99, 4),
    ]);
    let tracing_data = 1;
    let mut sections = sections(&events, &[], 10_000_000_000, 10_600_000_000);
    let format = |name: &str, number: u16, own: &str| {
        format!("name: {name}\nID: {number}\nformat:\n{COMMON}{own}")
    };
    let data = Bytes::default().bytes(b"\x17\x08Dtracing").text("0.6", 1);
    let (little_endian, long_len, page_len) = (0, 8, 4096);
    let data = data.bytes(&[little_endian, long_len]).u32(page_len);
    let push = |data: Bytes, text: &str| data.u64(text.len() as u64).bytes(text.as_bytes());
    let data = push(data.text("header_page", 1), PAGE);
    let data = push(data.text("header_event", 1), "# nothing is read of it\n");
    // Events of the kernel's own tracers: none.
    let data = data.u32(0);
    let data = data.u32(1).text("demo", 1).u32(2);
    let data = push(data, &format("step", STEPS, STEP));
    let data = push(data, &format("stop", STOPS, STOP));
    // Functions, constant strings, command names: none.
    sections.insert(0, (tracing_data, data.u32(0).u32(0).u64(0)));
    file(&events, &records, &sections)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_written_is_what_tests_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (name, bytes) in MADE {
            let there = fs::read(root.join(FOLDER).join(format!("{name}.data"))).unwrap();
            assert!(bytes() == there, "{name}");
        }
    }
}
