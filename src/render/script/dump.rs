//! Every record as it stands in the file, and in words: `-D`.
//!
//! ```text
//!
//! 0x1b8@perf.data [0x28]: event: 3
//! .
//! . ... raw event: size 40 bytes
//! .  0000:  03 00 00 00 00 00 28 00 ...                      ......(.........
//!
//! 0 5671 0x1b8 [0x28]: PERF_RECORD_COMM: bash:77/77
//! ```
//!
//! Source of the layout: `dump_event()` in `tools/perf/util/session.c`, `trace_event()` in
//! `tools/perf/util/debug.c`.

use std::fmt::Write as _;

use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::perfdata::BuildIdEntry;
use crate::perfdata::CpuMap;
use crate::perfdata::Cursor;
use crate::perfdata::IdIndex;
use crate::perfdata::ReadFormat;
use crate::perfdata::Record;
use crate::perfdata::RecordHeader;
use crate::perfdata::RecordKind;
use crate::perfdata::Sample;
use crate::perfdata::SampleId;
use crate::perfdata::SampleType;
use crate::perfdata::TimeConv;
use crate::perfdata::U64s;
use crate::perfdata::UserRecord;
use crate::perfdata::misc;
use crate::perfdata::private;
use crate::perfdata::private::Part;
use crate::perfdata::read_up_to;
use crate::profile::page_size;
use crate::render::escape::escape;
use crate::render::header;
use crate::render::header::Form;
use crate::render::header::Header;
use crate::replay::spans::Moment;
use crate::units::FileOffset;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::Tid;

use super::Origin;
use super::Records;
use super::branches::KINDS;
use super::line::Formatter;
use super::number::alternate;
use super::record::bpf_metadata;
use super::record::describe;
use super::registers::Machine;
use super::sample::weights;

/// How many bytes a line of the raw record shows.
const BYTES_A_LINE: usize = 16;

/// What perf says of a record that it does nothing with.
const UNHANDLED: &str = ": unhandled!\n";

/// What a record says, in text; lines after the first stand on their own.
type Text = String;

impl Formatter<'_> {
    /// Appends the record `bytes`, which stands at `at`, as it is and in words.
    pub(super) fn dump(
        &mut self,
        origin: &Origin,
        header: RecordHeader,
        bytes: &[u8],
        at: FileOffset,
        out: &mut Vec<u8>,
    ) {
        // The stream is what a pipe's offsets count in, as perf has it.
        let is_pipe = self.is_pipe();
        let place = at.0.saturating_sub(if is_pipe { self.stream_from() } else { origin.from });
        let path = if is_pipe { "pipe".into() } else { escape(origin.path.as_bytes()) };
        let (place, size) = (alternate(place), header.size);
        let mut text = Text::new();
        line(&mut text, format_args!("\n{place}@{path} [{size:#x}]: event: {}", header.kind.0));
        raw(bytes, &mut text);
        let body = bytes.get(usize::from(RecordHeader::SIZE)..).unwrap_or_default();
        self.stamp(header, body, at, &mut text);
        add(&mut text, format_args!("{place} [{size:#x}]: PERF_RECORD_{}", name(header.kind)));
        if header.kind == RecordKind::SAMPLE {
            self.dump_sample(header, body, at, &mut text);
        } else {
            self.dump_other(header, body, at, &mut text);
        }
        out.extend_from_slice(text.as_bytes());
    }

    fn is_pipe(&self) -> bool {
        matches!(self.source.recording.header, crate::perfdata::FileHeader::Pipe { .. })
    }

    /// Where the first record of a pipe lies.
    fn stream_from(&self) -> u64 {
        self.source.recording.data.first().map_or(0, |it| it.offset)
    }

    /// Where a pipe describes its first event; before that nothing is known of any.
    fn events_from(&self) -> u64 {
        *self.events_from.get_or_init(|| {
            let endian = self.source.recording.header.endian();
            let mut at = FileOffset(self.stream_from());
            loop {
                let header = read_up_to(self.source.input, at, u64::from(RecordHeader::SIZE));
                let header =
                    header.and_then(|it| RecordHeader::decode(&mut Cursor::new(&it, at, endian)));
                match header {
                    Ok(it) if it.kind != RecordKind::HEADER_ATTR => at.0 += u64::from(it.size),
                    _ => return at.0,
                }
            }
        })
    }

    /// CPU and time, where any event has them.
    fn stamp(&self, header: RecordHeader, body: &[u8], at: FileOffset, text: &mut Text) {
        let events = &self.source.recording.events;
        let has_trailers =
            events.first().is_some_and(|it| it.attr.flags.contains(AttrFlags::SAMPLE_ID_ALL))
                && (!self.is_pipe() || self.events_from() < at.0);
        if header.kind != RecordKind::SAMPLE && !has_trailers {
            text.push_str("-1 -1 ");
            return;
        }
        let any = |field| events.iter().any(|it| it.attr.sample_type.contains(field));
        let (cpu, time) = self.cpu_and_time(header, body);
        if any(SampleType::CPU) {
            add(text, format_args!("{cpu} "));
        }
        if any(SampleType::TIME) {
            add(text, format_args!("{} ", time.0));
        }
    }

    /// What perf takes for the CPU and the time of a record: all ones where it has none, zero
    /// where its kind has none.
    fn cpu_and_time(&self, header: RecordHeader, body: &[u8]) -> (u32, Nanos) {
        let recording = self.source.recording;
        let (cpu, time) = if header.kind == RecordKind::SAMPLE {
            let Some(idx) = recording.event_of_sample(body) else { return (0, Nanos(0)) };
            let layout = &recording.events[idx as usize].sample;
            (layout.cpu(body), layout.time(body))
        } else if header.kind.is_kernel() {
            let (_, id) = self.split(header, body);
            (id.cpu, id.time)
        } else {
            return (0, Nanos(0));
        };
        (cpu.unwrap_or(u32::MAX), time.unwrap_or(Nanos(u64::MAX)))
    }

    /// A kernel's record without its trailer, and the trailer.
    fn split<'b>(&self, header: RecordHeader, body: &'b [u8]) -> (&'b [u8], SampleId) {
        let recording = self.source.recording;
        let body = recording.trim(header.kind, body);
        let idx = recording.event_of_record(body) as usize;
        recording.events[idx].sample_id.split(body, recording.header.endian())
    }

    fn dump_sample(&mut self, header: RecordHeader, body: &[u8], at: FileOffset, text: &mut Text) {
        let recording = self.source.recording;
        let Some(idx) = recording.event_of_sample(body) else { return text.push('\n') };
        let event = &recording.events[idx as usize];
        let body_at = FileOffset(at.0.saturating_add(u64::from(RecordHeader::SIZE)));
        let Ok(sample) = event.sample.decode(body, body_at) else { return text.push('\n') };
        let (pid, tid) = sample.task.unwrap_or((Pid(-1), Tid(-1)));
        let ip = sample.ip.unwrap_or_default();
        line(
            text,
            format_args!(
                "(IP, {:#x}): {pid}/{tid}: {} period: {} addr: {}",
                header.misc,
                alternate(ip.0),
                event.sample.period(body),
                alternate(sample.addr.unwrap_or_default().0),
            ),
        );
        fields(&sample, &event.attr, self.machine, text);
        let time = sample.time.unwrap_or_default();
        if !self.options.only.has_time(time) || !self.options.only.has_cpu(event.sample.cpu(body)) {
            return;
        }
        let moment = Moment { time, position: at.0 };
        let task = self.task(pid, tid, moment);
        let comm = self.comm(&task, tid);
        line(text, format_args!(" ... thread: {comm}:{tid}"));
        let dso = self.module(&task, event.sample.cpumode(body, header.cpumode()), ip.0, moment);
        line(text, format_args!(" ...... dso: {}", dso.as_deref().unwrap_or("<not found>")));
    }

    fn dump_other(&mut self, header: RecordHeader, body: &[u8], at: FileOffset, text: &mut Text) {
        let recording = self.source.recording;
        let (own, id) = if header.kind.is_kernel() {
            self.split(header, body)
        } else {
            (body, SampleId::default())
        };
        let body_at = FileOffset(at.0.saturating_add(u64::from(RecordHeader::SIZE)));
        let mut cursor = Cursor::new(own, body_at, recording.header.endian());
        let record = match Record::decode(header, &mut cursor) {
            Ok(record) => record,
            Err(error) => return line(text, format_args!(" damaged: {error}")),
        };
        match &record {
            Record::User(record) => self.dump_user(record, at, text),
            Record::Read { pid, tid, values } => {
                let body = recording.trim(header.kind, body);
                let event = &recording.events[recording.event_of_record(body) as usize];
                let name = escape(event.name.as_bytes());
                read(&format!("{pid} {tid} {name}"), event.attr.read_format, values, text);
            }
            Record::Namespaces { pid, tid, links } => {
                text.push_str(&namespaces(*pid, *tid, links));
                text.push('\n');
            }
            record => {
                text.push_str(
                    &kernel(header, record, &id).unwrap_or_else(|| describe(header, record)),
                );
                text.push('\n');
            }
        }
        if self.options.records == Records::OfReport && is_for_script_alone(header.kind) {
            if header.kind.is_kernel() && text.ends_with('\n') {
                text.pop();
            }
            text.push_str(UNHANDLED);
        }
    }

    fn dump_user(&self, record: &UserRecord<'_>, at: FileOffset, text: &mut Text) {
        match record {
            UserRecord::HeaderAttr { attr, .. } => {
                let features = &self.source.recording.features;
                text.push_str(&header::attribute(attr, features));
            }
            UserRecord::EventType(body) => {
                private(body, self.source.recording.header.endian(), text);
            }
            UserRecord::HeaderFeature { data: [], .. } => {}
            UserRecord::HeaderFeature { .. } => {
                let header = Header {
                    captured: None,
                    endian: self.source.recording.header.endian(),
                    form: Form::Pipe,
                    features: &self.source.recording.features,
                    local_time: |_| None,
                };
                let end = FileOffset(at.0.saturating_add(1 << 16));
                let mut feature = Vec::new();
                // Writing to memory.
                let _written = header::write_section(&header, at..end, &mut feature);
                add(text, format_args!(", {}", String::from_utf8_lossy(&feature)));
            }
            UserRecord::IdIndex(IdIndex { n, words }) => {
                line(text, format_args!(" nr: {n}"));
                let words: Vec<u64> = words.iter().collect();
                let entries = words.as_chunks::<4>().0.iter();
                for [id, idx, cpu, tid] in entries.take(usize::try_from(*n).unwrap_or(usize::MAX)) {
                    let (cpu, tid) = (cpu.cast_signed(), tid.cast_signed());
                    line(text, format_args!(" ... id: {id}  idx: {idx}  cpu: {cpu}  tid: {tid}"));
                }
            }
            UserRecord::ThreadMap(threads) => {
                add(text, format_args!(" nr: {} thread", threads.len()));
                let tids: Vec<String> = threads.iter().map(|it| it.tid.to_string()).collect();
                line(
                    text,
                    format_args!(
                        "{} {}",
                        if tids.len() == 1 { ":" } else { "s:" },
                        tids.join(", ")
                    ),
                );
            }
            UserRecord::CpuMap(cpus) => line(text, format_args!(": {}", cpu_list(cpus))),
            UserRecord::EventUpdate { kind, id, data } => {
                line(text, format_args!("\n... id:    {id}"));
                let word =
                    data.first_chunk().map(|&it| self.source.recording.header.endian().u64(it));
                let name = || escape(data.split(|&it| it == 0).next().unwrap_or_default());
                match kind {
                    0 => line(text, format_args!("... unit:  {}", name())),
                    1 => line(
                        text,
                        format_args!("... scale: {:.6}", f64::from_bits(word.unwrap_or(0))),
                    ),
                    2 => line(text, format_args!("... name:  {}", name())),
                    _ => {
                        let mut cursor =
                            Cursor::new(data, at, self.source.recording.header.endian());
                        let cpus = CpuMap::decode(&mut cursor).map(|it| cpu_list(&it));
                        line(text, format_args!("... {}", cpus.unwrap_or_default()));
                    }
                }
            }
            UserRecord::TimeConv(conversion) => time_conv(conversion, text),
            UserRecord::BpfMetadata(metadata) => {
                let mut bytes = Vec::new();
                bpf_metadata(metadata, &mut bytes);
                let all = String::from_utf8_lossy(&bytes);
                text.push_str(all.strip_prefix("PERF_RECORD_BPF_METADATA").unwrap_or(&all));
                text.push_str(UNHANDLED);
            }
            UserRecord::Auxtrace(it) => line(
                text,
                format_args!(
                    " size: {}  offset: {}  ref: {}  idx: {}  tid: {}  cpu: {}",
                    alternate(it.size),
                    alternate(it.offset),
                    alternate(it.reference),
                    it.idx,
                    it.tid,
                    it.cpu.0.cast_signed()
                ),
            ),
            UserRecord::AuxtraceInfo { kind, .. } => line(text, format_args!(" type: {kind}")),
            UserRecord::BuildId(BuildIdEntry { build_id, filename, .. }) => {
                let id = build_id.map_or_else(String::new, |it| it.to_string());
                line(text, format_args!(": {id} {}", escape(filename)));
            }
            UserRecord::FinishedInit => text.push_str(UNHANDLED),
            _ => text.push('\n'),
        }
    }
}

/// Whether `script` does something with records of `kind`, and a report does not.
fn is_for_script_alone(kind: RecordKind) -> bool {
    let kinds =
        [RecordKind::THREAD_MAP, RecordKind::CPU_MAP, RecordKind::THROTTLE, RecordKind::UNTHROTTLE];
    kinds.contains(&kind)
}

/// perf's name of a kind.
fn name(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::HEADER_ATTR => "ATTR",
        RecordKind::HEADER_FEATURE => "FEATURE",
        kind => kind.name().unwrap_or("UNKNOWN"),
    }
}

/// The bytes of a record, sixteen a line, as numbers and as characters.
fn raw(bytes: &[u8], text: &mut Text) {
    line(text, format_args!(".\n. ... raw event: size {} bytes", bytes.len()));
    for (at, chunk) in (0..).step_by(BYTES_A_LINE).zip(bytes.chunks(BYTES_A_LINE)) {
        add(text, format_args!(".  {at:04x}: "));
        for idx in 0..BYTES_A_LINE {
            match chunk.get(idx) {
                Some(byte) => add(text, format_args!(" {byte:02x}")),
                None => text.push_str("   "),
            }
        }
        text.push_str("  ");
        for idx in 0..BYTES_A_LINE {
            text.push(match chunk.get(idx) {
                Some(byte) if byte.is_ascii_graphic() || *byte == b' ' => char::from(*byte),
                Some(_) => '.',
                None => ' ',
            });
        }
        text.push('\n');
    }
    text.push('\n');
}

/// What the kernel's records say where `--show-*-events` says nothing or less.
pub(super) fn kernel(header: RecordHeader, record: &Record<'_>, id: &SampleId) -> Option<Text> {
    let event_id = id.id.unwrap_or(u64::MAX);
    Some(match record {
        Record::Lost { id, lost } => format!(": id:{id}: lost:{lost}"),
        Record::LostSamples { lost } => {
            let by = if header.misc & misc::LOST_SAMPLES_BPF == 0 { "" } else { " (BPF)" };
            format!(": id:{event_id}: lost samples :{lost}{by}")
        }
        Record::Aux { offset, size, flags } => {
            let flag = |bit: u64, letter: &'static str| if flags & bit == 0 { "" } else { letter };
            format!(
                " offset: {} size: {} flags: {} [{}{}{}]",
                alternate(*offset),
                alternate(*size),
                alternate(*flags),
                flag(1, "T"),
                flag(2, "O"),
                flag(4, "P"),
            )
        }
        Record::ItraceStart { pid, tid } => format!(" pid: {pid} tid: {tid}"),
        Record::Switch => format!(" {}", in_or_out(header)),
        Record::SwitchCpuWide { next_prev_pid, next_prev_tid } => {
            let which = if header.misc & misc::SWITCH_OUT == 0 { "prev" } else { "next" };
            let way = in_or_out(header);
            format!(" {way}  {which} pid/tid: {next_prev_pid:>5}/{next_prev_tid:<5}")
        }
        Record::Cgroup { id, path } => format!(" cgroup: {id} {}", escape(path)),
        Record::TextPoke { addr, old, new } => {
            format!(" addr {addr} old len {} new len {}", old.len(), new.len())
        }
        Record::AuxOutputHwId { hw_id } => format!(" hw_id: {}", alternate(*hw_id)),
        Record::CallchainDeferred { cookie, ips } => {
            let mut text = format!("(cookie: {cookie:#x}) nr: {}", ips.len());
            ips.iter().for_each(|ip| add(&mut text, format_args!("\n..... {ip:016x}")));
            text
        }
        _ => return None,
    })
}

fn in_or_out(header: RecordHeader) -> &'static str {
    match (header.misc & misc::SWITCH_OUT, header.misc & misc::SWITCH_OUT_PREEMPT) {
        (0, _) => "IN         ",
        (_, 0) => "OUT        ",
        _ => "OUT preempt",
    }
}

/// What a record of namespaces says.
pub(super) fn namespaces(pid: Pid, tid: Tid, links: &U64s<'_>) -> Text {
    const NAMES: [&str; 7] = ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"];
    let words: Vec<u64> = links.iter().collect();
    let links = words.as_chunks::<2>().0;
    let mut text = format!(" {pid}/{tid} - nr_namespaces: {}\n\t\t[", links.len());
    for (idx, [device, inode]) in links.iter().enumerate() {
        if idx != 0 && idx % 4 == 0 {
            text.push_str("\n\t\t ");
        }
        let name = NAMES.get(idx).copied().unwrap_or("unknown");
        let end = if idx + 1 == links.len() { "]" } else { ", " };
        add(&mut text, format_args!("{idx}/{name}: {device}/{}{end}", alternate(*inode)));
    }
    text
}

/// What a counter of one thread, `of`, had counted.
fn read(of: &str, format: ReadFormat, values: &U64s<'_>, text: &mut Text) {
    let mut values = values.iter();
    line(text, format_args!(": {of} {}", values.next().unwrap_or(0)));
    let further = [
        (ReadFormat::TOTAL_TIME_ENABLED, "time enabled"),
        (ReadFormat::TOTAL_TIME_RUNNING, "time running"),
        (ReadFormat::ID, "id          "),
        (ReadFormat::LOST, "lost        "),
    ];
    for (_, what) in further.iter().filter(|(flag, _)| format.contains(*flag)) {
        line(text, format_args!("... {what} : {}", values.next().unwrap_or(0)));
    }
}

fn time_conv(conversion: &TimeConv, text: &mut Text) {
    let TimeConv { shift, mult, zero, short } = conversion;
    line(text, format_args!("\n... Time Shift      {shift}"));
    line(text, format_args!("... Time Multiplier {mult}"));
    line(text, format_args!("... Time Zero       {zero}"));
    if let Some(short) = short {
        line(text, format_args!("... Time Cycles     {}", short.cycles));
        line(text, format_args!("... Time Mask       {}", alternate(short.mask)));
        line(text, format_args!("... Cap Time Zero   {}", u8::from(short.has_zero)));
        line(text, format_args!("... Cap Time Short  {}", u8::from(short.is_short)));
    }
    text.push_str(UNHANDLED);
}

/// What one of our own records says, as it stands in the file.
fn private(body: &[u8], endian: crate::perfdata::Endian, text: &mut Text) {
    let Ok(Some(part)) = Part::decode(&mut Cursor::new(body, FileOffset(0), endian)) else {
        return text.push('\n');
    };
    let Part { kind, number, part, n_parts, payload } = part;
    let name = private::kind_name(kind);
    line(text, format_args!(" bpfperf {name} {number}, part {} of {n_parts}", part + 1));
    if private::is_json(kind) {
        line(text, format_args!("  {}", escape(payload)));
    } else if let (0, Some(facts)) = (part, private::facts_of(kind, payload, endian)) {
        line(text, format_args!("  {}", escape(facts)));
    }
}

/// CPUs as ranges.
fn cpu_list(cpus: &CpuMap<'_>) -> String {
    let bits = |words: &mut dyn Iterator<Item = u64>, width: u32| {
        let mut numbers = Vec::new();
        for (word, base) in words.zip((0..).step_by(width as usize)) {
            numbers.extend((0..width).filter(|bit| word >> bit & 1 == 1).map(|bit| base + bit));
        }
        numbers
    };
    let numbers: Vec<u32> = match cpus {
        CpuMap::List(numbers) => numbers.iter().map(|&it| u32::from(it)).collect(),
        CpuMap::Mask32(words) => bits(&mut words.iter().map(|&it| u64::from(it)), 32),
        CpuMap::Mask64(words) => bits(&mut words.iter().copied(), 64),
        CpuMap::Range { first, last, .. } => (u32::from(*first)..=u32::from(*last)).collect(),
        CpuMap::Unknown { .. } => return "unknown type".to_owned(),
    };
    let mut text = String::new();
    let mut numbers = numbers.into_iter().peekable();
    while let Some(first) = numbers.next() {
        let mut last = first;
        while let Some(next) = numbers.next_if_eq(&last.wrapping_add(1)) {
            last = next;
        }
        let comma = if text.is_empty() { "" } else { "," };
        if first == last {
            add(&mut text, format_args!("{comma}{first}"));
        } else {
            add(&mut text, format_args!("{comma}{first}-{last}"));
        }
    }
    text
}

/// The fields of a sample beyond its first line.
fn fields(sample: &Sample<'_>, attr: &Attr, machine: Machine, text: &mut Text) {
    if let Some(chain) = &sample.callchain {
        line(text, format_args!("... FP chain: nr:{}", chain.len()));
        for (idx, ip) in chain.iter().enumerate() {
            line(text, format_args!("..... {idx:2}: {ip:016x}{}", context(ip)));
        }
    }
    if let Some(branches) = &sample.branches {
        let words: Vec<u64> = branches.entries.iter().collect();
        let entries = words.as_chunks::<3>().0;
        line(text, format_args!("... branch stack: nr:{}", entries.len()));
        for (idx, [from, to, flags]) in entries.iter().enumerate() {
            let (how, kind) = branch(*flags);
            let rest = flags >> 34;
            line(
                text,
                format_args!("..... {idx:2}: {from:016x} -> {to:016x} {how} {rest:x} {kind}"),
            );
        }
    }
    let registers = [
        ("user", &sample.regs_user, attr.sample_regs_user),
        ("intr", &sample.regs_intr, attr.sample_regs_intr),
    ];
    for (which, registers, mask) in registers {
        let Some(registers) = registers.as_ref().filter(|it| it.abi != 0) else { continue };
        let abi = match registers.abi {
            1 => "32-bit",
            2 => "64-bit",
            _ => "unknown",
        };
        line(text, format_args!("... {which} regs: mask {mask:#x} ABI {abi}"));
        for (name, value) in machine.named(mask, registers) {
            line(text, format_args!(".... {name:<5} 0x{value:016x}"));
        }
    }
    if let Some(stack) = &sample.stack_user {
        line(text, format_args!("... ustack: size {}, offset 0x0", stack.dyn_size));
    }
    if sample.weight.is_some() {
        let [weight, latency, retirement] = weights(sample, attr);
        add(text, format_args!("... weight: {weight}"));
        if attr.sample_type.contains(SampleType::WEIGHT_STRUCT) {
            add(text, format_args!(",{latency:#x},{retirement:#x}"));
        }
        text.push('\n');
    }
    for (label, number) in [(" . data_src", sample.data_src), (" .. phys_addr", sample.phys_addr)] {
        if let Some(number) = number {
            line(text, format_args!("{label}: {number:#x}"));
        }
    }
    let sizes = [("data", sample.data_page_size), ("code", sample.code_page_size)];
    for (of, size) in sizes {
        if let Some(size) = size {
            line(text, format_args!(" .. {of} page size: {}", page_size(size)));
        }
    }
    if let Some(transaction) = sample.transaction {
        line(text, format_args!("... transaction: {transaction:x}"));
    }
    if let Some(values) = &sample.read {
        line(text, format_args!("... sample_read:"));
        values.iter().for_each(|it| line(text, format_args!("..... {it:016x}")));
    }
}

/// The flags of a branch, and what kind it was.
///
/// Source: `struct perf_branch_entry` in `include/uapi/linux/perf_event.h`.
fn branch(flags: u64) -> (String, String) {
    const SPECS: [&str; 4] = ["", "SPEC_WRONG_PATH", "NON_SPEC_CORRECT_PATH", "SPEC_CORRECT_PATH"];
    let flag = |bit: u32, letter| if flags >> bit & 1 == 0 { ' ' } else { letter };
    let field = |bit: u32, mask: u64| flags >> bit & mask;
    let name = |names: &[&'static str], idx: u64| {
        usize::try_from(idx).ok().and_then(|idx| names.get(idx).copied()).unwrap_or_default()
    };
    let how = format!(
        "{} cycles {}{}{}{}",
        field(4, 0xffff),
        flag(0, 'M'),
        flag(1, 'P'),
        flag(3, 'A'),
        flag(2, 'T')
    );
    (how, format!("{} {}", name(&KINDS, field(20, 15)), name(&SPECS, field(24, 3))))
}

/// What a mark in a call chain means.
fn context(ip: u64) -> &'static str {
    match ip.cast_signed() {
        -32 => " (PERF_CONTEXT_HV)",
        -128 => " (PERF_CONTEXT_KERNEL)",
        -512 => " (PERF_CONTEXT_USER)",
        -640 => " (PERF_CONTEXT_USER_DEFERRED)",
        -2048 => " (PERF_CONTEXT_GUEST)",
        -2176 => " (PERF_CONTEXT_GUEST_KERNEL)",
        -2560 => " (PERF_CONTEXT_GUEST_USER)",
        _ => "",
    }
}

fn add(text: &mut Text, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("writing to memory");
}

fn line(text: &mut Text, arguments: std::fmt::Arguments<'_>) {
    add(text, arguments);
    text.push('\n');
}
