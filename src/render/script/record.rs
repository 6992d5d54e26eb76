//! Records other than samples, as `--show-*-events` prints them.

use std::io::Write;

use crate::perfdata::BpfMetadata;
use crate::perfdata::Cursor;
use crate::perfdata::MmapId;
use crate::perfdata::Record;
use crate::perfdata::RecordHeader;
use crate::perfdata::RecordKind;
use crate::perfdata::SampleId;
use crate::perfdata::SampleType;
use crate::perfdata::UserRecord;
use crate::perfdata::misc;
use crate::render::escape::escape;
use crate::replay::spans::Moment;
use crate::units::FileOffset;
use crate::units::Pid;
use crate::units::Tid;

use super::Fields;
use super::Output;
use super::dump;
use super::line::Formatter;
use super::line::Prefix;
use super::number::alternate;

impl Formatter<'_> {
    /// Appends a record that is no sample.
    pub(super) fn other_record(
        &mut self,
        header: RecordHeader,
        body: &[u8],
        at: FileOffset,
        out: &mut Vec<u8>,
    ) {
        let recording = self.source.recording;
        let endian = recording.header.endian();
        let body = recording.trim(header.kind, body);
        let idx = recording.event_of_record(body) as usize;
        let event = &recording.events[idx];
        let (own, id) = if header.kind.is_kernel() {
            event.sample_id.split(body, endian)
        } else {
            (body, SampleId::default())
        };
        let mut cursor = Cursor::new(own, at, endian);
        let Ok(record) = Record::decode(header, &mut cursor) else { return };
        if let Record::User(UserRecord::BpfMetadata(metadata)) = &record {
            return bpf_metadata(metadata, out);
        }
        if header.kind == RecordKind::FINISHED_ROUND {
            return out.extend_from_slice(b"PERF_RECORD_FINISHED_ROUND\n");
        }
        let (sample_pid, sample_tid) = id.task.unwrap_or((Pid(-1), Tid(-1)));
        let task = match &record {
            Record::Mmap(it) => (it.pid, it.tid),
            Record::Mmap2(it) => (it.pid, it.tid),
            Record::Comm(it) => (it.pid, it.tid),
            Record::Fork(it) | Record::Exit(it) => (it.pid, it.tid),
            Record::Namespaces { pid, tid, .. } => (*pid, *tid),
            _ => (sample_pid, sample_tid),
        };
        // What the record itself changes holds from its own moment on.
        let time = id.time.unwrap_or_default();
        let moment = Moment { time, position: at.0 };
        let known = self.task(task.0, task.1, moment);
        let fields = self.fields(idx);
        let has_chain =
            fields.contains(Fields::IP) && event.attr.sample_type.contains(SampleType::CALLCHAIN);
        // perf shows whom the record is about by name, and who wrote it by number.
        // A new thread is called as its parent is, and the idle one has a name.
        let named = match &record {
            Record::Fork(it) if it.ptid == Tid(0) => it.ptid,
            _ => task.1,
        };
        let task = (sample_pid, sample_tid);
        if !self.has_cpu(id.cpu) {
            return;
        }
        let prefix = Prefix { fields, header, task, named, cpu: id.cpu, time, has_chain };
        if self.options.output == Output::Json {
            let text = shown(header, &record, &id);
            return self.json_record(header, &prefix, &known, &text, out);
        }
        self.prefix(&prefix, known, out);
        write!(
            out,
            "PERF_RECORD_{}{}",
            header.kind.name().unwrap_or("UNKNOWN"),
            shown(header, &record, &id)
        )
        .expect("writing to memory");
        out.push(b'\n');
    }
}

/// What a record says, as `--show-*-events` has it.
fn shown(header: RecordHeader, record: &Record<'_>, id: &SampleId) -> String {
    match record {
        Record::Lost { lost, .. } => format!(" lost {lost}"),
        Record::Namespaces { pid, tid, links } => dump::namespaces(*pid, *tid, links),
        record => dump::kernel(header, record, id).unwrap_or_else(|| describe(header, record)),
    }
}

/// What a record says, behind its name.
pub(super) fn describe(header: RecordHeader, record: &Record<'_>) -> String {
    match record {
        Record::Comm(it) => {
            let exec = if header.misc & misc::COMM_EXEC == 0 { "" } else { " exec" };
            format!("{exec}: {}:{}/{}", escape(it.comm), it.pid, it.tid)
        }
        Record::Fork(it) | Record::Exit(it) => {
            format!("({}:{}):({}:{})", it.pid, it.tid, it.ppid, it.ptid)
        }
        Record::Mmap(it) => {
            let kind = if header.misc & misc::MMAP_DATA == 0 { 'x' } else { 'r' };
            format!(
                " {}/{}: [{:#x}({:#x}) @ {}]: {kind} {}",
                it.pid,
                it.tid,
                it.addr.0,
                it.len,
                alternate(it.pgoff),
                escape(it.filename)
            )
        }
        Record::Mmap2(it) => {
            let id = match it.id {
                MmapId::BuildId(Some(id)) => format!("<{id}>"),
                MmapId::BuildId(None) => "<>".to_owned(),
                MmapId::Inode { maj, min, ino, ino_generation } => {
                    format!("{maj:02x}:{min:02x} {ino} {ino_generation}")
                }
            };
            let allowed = |bit: u32, letter: char| if it.prot & bit == 0 { '-' } else { letter };
            format!(
                " {}/{}: [{:#x}({:#x}) @ {} {id}]: {}{}{}{} {}",
                it.pid,
                it.tid,
                it.addr.0,
                it.len,
                alternate(it.pgoff),
                allowed(1, 'r'),
                allowed(2, 'w'),
                allowed(4, 'x'),
                if it.flags & MAP_SHARED == 0 { 'p' } else { 's' },
                escape(it.filename)
            )
        }
        Record::Ksymbol(it) => format!(
            " addr {:x} len {} type {} flags {:#x} name {}",
            it.addr.0,
            it.len,
            it.ksym_type,
            it.flags,
            escape(it.name)
        ),
        Record::BpfEvent(it) => format!(" type {}, flags {}, id {}", it.kind, it.flags, it.id),
        _ => String::new(),
    }
}

/// `MAP_SHARED`.
const MAP_SHARED: u32 = 1;

/// What the owner of a program says of it.
pub(super) fn bpf_metadata(metadata: &BpfMetadata<'_>, out: &mut Vec<u8>) {
    let prog_name = escape(metadata.prog_name);
    writeln!(out, "PERF_RECORD_BPF_METADATA prog {prog_name}").expect("writing to memory");
    for (idx, (key, value)) in metadata.entries().enumerate() {
        writeln!(out, "  entry {idx}: {:>20} = {}", escape(key), escape(value))
            .expect("writing to memory");
    }
}
