//! The records of a recording one by one, as text: what `script` prints.
//!
//! Records are formatted in batches, several at once, and written in order. Every batch is formatted
//! from nothing but the recording, so it does not matter which thread does it, or when.

mod branches;
mod clock;
mod code;
mod dump;
mod fields;
mod filter;
mod json;
mod line;
mod memory;
mod number;
mod off_cpu;
mod place;
mod record;
mod registers;
mod sample;
mod selection;
mod trace;
mod written;

use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;

use rayon::prelude::*;

use crate::perfdata;
use crate::perfdata::Cursor;
use crate::perfdata::ReadAt;
use crate::perfdata::RecordHeader;
use crate::perfdata::RecordKind;
use crate::perfdata::read_up_to;
use crate::profile::Paths;
use crate::render::source_text::SourceText;
use crate::replay::CodeFiles;
use crate::replay::Ends;
use crate::replay::Entry;
use crate::replay::Index;
use crate::replay::Inlined;
use crate::replay::Lines;
use crate::replay::MissingLines;
use crate::replay::Nameless;
use crate::replay::Names;
use crate::replay::Programs;
use crate::replay::Recording;
use crate::replay::Unwinding;
use crate::units::FileOffset;

pub use clock::Clock;
pub use clock::Precision;
pub use clock::Since;
pub use fields::Fields;
pub use filter::Only;
pub use filter::Switch;
pub use selection::Chains;
pub use selection::FieldError;
pub use selection::Form;
pub use selection::Kind;
pub use selection::Selection;
pub use selection::Shown;
pub use selection::UnknownField;
pub use trace::ALL_FIELDS;
pub use trace::AskedField;
pub use trace::TraceFormats;
pub use trace::TraceNotes;
pub use trace::has_tracepoints_alone;

use line::Formatter;
use place::CodeNames;
use trace::Traces;
use written::Written;

/// What to print.
#[derive(Clone, Debug)]
pub struct Options {
    /// The fields of each event's samples, in the order of the recording's events.
    pub fields: Vec<Fields>,
    /// As text or as JSON.
    pub output: Output,
    /// Which records.
    pub records: Records,
    /// How times are shown.
    pub clock: Clock,
    /// Whether call chains are shown.
    pub chains: Chains,
    /// The most frames of a call chain.
    pub max_frames: usize,
    /// The most blocks of code between branches of a sample; 0 for all.
    pub max_blocks: usize,
    /// Functions behind which no more of a call chain is shown.
    pub stop_at: Vec<String>,
    /// How wide columns are.
    pub layout: Layout,
    /// How files of source are shown.
    pub paths: Paths,
    /// Whether functions that were inlined are frames of their own.
    pub inlined: Inlined,
    /// The kinds of records that are printed where `dump` shows all of them.
    pub shown: Vec<RecordKind>,
    /// Which samples; an empty list means all.
    pub only: Only,
    /// The files that make up the recording, in the order of their positions, if every record is to
    /// be shown as it stands in them; else none.
    pub dump: Vec<Origin>,
}

/// A file of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its name.
    pub path: String,
    /// The position at which its first byte counts as being.
    pub from: u64,
}

/// What is printed of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Text, as perf has it.
    #[default]
    Text,
    /// An object of JSON on a line of its own, as `docs/script-json.md` has it.
    Json,
}

/// Which of the listed records are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Records {
    /// All.
    #[default]
    All,
    /// Samples.
    Samples,
    /// All but samples.
    Others,
    /// None: what a report does not look at is dumped as such, and samples have no line.
    OfReport,
}

/// How wide the columns at the beginning of a line are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// As wide as most names and numbers need.
    #[default]
    Usual,
    /// Narrow: command names cut to eight characters, CPUs without brackets.
    Narrow,
}

/// Why a recording could not be printed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be read again.
    #[error(transparent)]
    Read(#[from] perfdata::Error),
    /// Its text cannot be written.
    #[error("cannot write the text")]
    Write(#[from] io::Error),
}

/// A recording, taken apart and ready to be printed.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// What it says of itself.
    pub recording: &'a Recording,
    /// Its records in order, and the machine.
    pub index: &'a Index,
    /// Its bytes.
    pub input: &'a dyn ReadAt,
    /// The names of its addresses.
    pub names: &'a Names<'a>,
    /// The text of source files.
    pub text: &'a dyn SourceText,
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("index", &self.index).finish_non_exhaustive()
    }
}

/// What went wrong with the call chains that were printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Samples that were printed.
    pub n_samples: u64,
    /// Samples of guests, which were not: nothing is known of what ran there.
    pub n_guest: u64,
    /// Samples with a call chain that does not fit into their record.
    pub n_bad_chains: u64,
    /// How the unwinding of samples' stacks ended.
    pub ends: Ends,
    /// How many samples were printed without a name, and where.
    pub nameless: Nameless,
    /// Which lines were asked for and are missing.
    pub missing_lines: MissingLines,
    /// The files that were written to while they were read.
    pub changed: Vec<PathBuf>,
}

impl Told {
    /// Adds what went wrong elsewhere.
    pub fn add(&mut self, other: &Self) {
        let Self { n_samples, n_guest, n_bad_chains, ends, nameless, missing_lines, changed } =
            other;
        self.n_samples += n_samples;
        self.n_guest += n_guest;
        self.n_bad_chains += n_bad_chains;
        self.ends.add(ends);
        self.nameless.merge(nameless);
        self.missing_lines.merge(missing_lines);
        self.changed.extend_from_slice(changed);
    }
}

/// How many records one thread formats at a time.
const BATCH: usize = 2048;
/// How many large records are read at a time.
const FEW: usize = 32;
/// How many batches are formatted before they are written: bounds the memory for their text.
const BATCHES_AT_ONCE: usize = 16;
/// How far apart records are, in bytes, that are not read in one piece.
const FAR: u64 = 16 << 10;
/// The length in bytes that few records exceed.
const OFTEN_ENOUGH: u64 = 4 << 10;

/// Prints every listed record of `source` to `out`.
///
/// # Errors
///
/// [`Error::Read`] if the recording cannot be read again, [`Error::Write`] if `out` takes no more.
pub fn script(source: &Source<'_>, options: &Options, out: &mut dyn Write) -> Result<Told, Error> {
    let files = CodeFiles::new(source.names);
    let unwinding = Unwinding::new(source.recording, &files);
    let shown = options.fields.iter().fold(Fields::empty(), |all, it| all | *it);
    let has_lines = shown.intersects(Fields::SRCLINE | Fields::SRCCODE);
    let needs_lines = has_lines || shown.contains(Fields::IP) && options.inlined == Inlined::Shown;
    let lines = needs_lines.then(|| Lines::new(&files, options.inlined));
    let programs = has_lines.then(|| Programs::new(source.recording, source.index));
    let code = CodeNames {
        names: source.names,
        files: &files,
        lines: lines.as_ref(),
        programs: programs.as_ref(),
        paths: options.paths,
    };
    // Each thread's caches are worth keeping from batch to batch.
    let idle: Mutex<Vec<Formatter<'_>>> = Mutex::new(Vec::new());
    let entries = &source.index.entries;
    let texts = Texts {
        traces: Traces::new(source.recording),
        written: Written::new(&source.recording.events, source.index.bpf.messages()),
    };
    // So is the memory of texts that were written.
    let spare: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
    let format = |batch: &[Entry]| {
        let pop = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut formatter =
            pop.unwrap_or_else(|| Formatter::new(source, options, &texts, &unwinding, code));
        let text = spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut text = text.unwrap_or_default();
        let done = format_batch(source, batch, &mut formatter, &mut text);
        idle.lock().unwrap_or_else(PoisonError::into_inner).push(formatter);
        done.map(|()| text)
    };
    // What is printed by what was printed before takes one formatter, which knows that.
    let is_in_order = shown.intersects(Fields::IN_ORDER)
        || options.clock.is_in_order()
        || options.only.switch.is_set();
    let format_all = |batches: &[Entry]| -> Vec<Result<Vec<u8>, perfdata::Error>> {
        if is_in_order {
            batches.chunks(BATCH).map(format).collect()
        } else {
            batches.par_chunks(BATCH).map(format).collect()
        }
    };
    let mut write = |texts: Vec<Result<Vec<u8>, perfdata::Error>>| -> Result<(), Error> {
        for text in texts {
            let mut text = text?;
            out.write_all(&text)?;
            text.clear();
            spare.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        }
        Ok(())
    };
    let mut ready = Vec::new();
    for batches in entries.chunks(BATCH * BATCHES_AT_ONCE) {
        // While some are written, the next ones are formatted.
        let before = std::mem::take(&mut ready);
        rayon::in_place_scope(|scope| {
            scope.spawn(|_| ready = format_all(batches));
            write(before)
        })?;
    }
    write(ready)?;
    out.flush()?;
    if let Some(lines) = &lines {
        lines.keep();
    }
    let idle = idle.into_inner().unwrap_or_else(PoisonError::into_inner);
    let missing_lines = lines.as_ref().map(Lines::missing).unwrap_or_default();
    let changed = files.changed().map(Path::to_owned).collect();
    let mut told = Told { missing_lines, changed, ..Told::default() };
    for formatter in &idle {
        told.add(&Told {
            n_samples: formatter.n_samples,
            n_guest: formatter.n_guest,
            n_bad_chains: formatter.n_bad_chains,
            ends: formatter.ends(),
            nameless: formatter.nameless.clone(),
            ..Told::default()
        });
    }
    Ok(told)
}

/// What raw data is printed by.
#[derive(Debug)]
struct Texts {
    traces: Traces,
    written: Written,
}

/// What the samples of each event of a recording are, as far as its records tell.
pub fn kinds(recording: &Recording, index: &Index) -> Vec<Kind> {
    let written = Written::new(&recording.events, index.bpf.messages());
    let kind = |event| if written.is_typed(event) { Kind::Written } else { Kind::Usual };
    (0..recording.events.len()).map(kind).collect()
}

fn format_batch(
    source: &Source<'_>,
    batch: &[Entry],
    formatter: &mut Formatter<'_>,
    text: &mut Vec<u8>,
) -> Result<(), perfdata::Error> {
    // Large records, which hold copies of stacks, are read a few at a time.
    let positions = || batch.iter().map(|it| it.position);
    let span = positions().max().unwrap_or(0) - positions().min().unwrap_or(0);
    let is_large = OFTEN_ENOUGH < span / batch.len().max(1) as u64;
    for few in batch.chunks(if is_large { FEW } else { BATCH }) {
        format_few(source, few, formatter, text)?;
    }
    Ok(())
}

fn format_few(
    source: &Source<'_>,
    batch: &[Entry],
    formatter: &mut Formatter<'_>,
    text: &mut Vec<u8>,
) -> Result<(), perfdata::Error> {
    let endian = source.recording.header.endian();
    let pieces = pieces(source.input, batch)?;
    for entry in batch {
        let at = FileOffset(entry.position);
        let n_before = pieces.partition_point(|(start, _)| *start <= entry.position);
        let (start, piece) = &pieces[n_before - 1];
        let offset = usize::try_from(entry.position - start).unwrap_or(usize::MAX);
        let bytes = piece.get(offset..).unwrap_or_default();
        let header = RecordHeader::decode(&mut Cursor::new(bytes, at, endian));
        let len = header.map_or(u64::from(u16::MAX), |it| u64::from(it.size));
        if bytes.len() as u64 >= len {
            formatter.record(bytes, at, text);
        } else {
            formatter.record(&read_up_to(source.input, at, len)?, at, text);
        }
    }
    Ok(())
}

/// What has to be read for `batch`, in the order of positions: records that lie close to each other
/// in one piece, which ends a little behind the beginning of its last one.
fn pieces(input: &dyn ReadAt, batch: &[Entry]) -> Result<Vec<(u64, Vec<u8>)>, perfdata::Error> {
    let mut positions: Vec<u64> = batch.iter().map(|it| it.position).collect();
    positions.sort_unstable();
    let runs = positions.chunk_by(|a, b| b - a <= FAR);
    runs.filter_map(|run| Some((*run.first()?, *run.last()?)))
        .map(|(first, last)| {
            let bytes = read_up_to(input, FileOffset(first), last - first + OFTEN_ENOUGH)?;
            Ok((first, bytes))
        })
        .collect()
}

/// The kinds of records that an option of `script` adds to the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// `KSYMBOL`, `BPF_EVENT`, `BPF_METADATA`.
    BpfEvents,
    /// `MMAP`, `MMAP2`.
    MmapEvents,
    /// `COMM`, `FORK`, `EXIT`.
    TaskEvents,
    /// `SWITCH`, `SWITCH_CPU_WIDE`.
    SwitchEvents,
    /// `NAMESPACES`.
    NamespaceEvents,
    /// `CGROUP`.
    CgroupEvents,
    /// `LOST`.
    LostEvents,
    /// `FINISHED_ROUND`.
    RoundEvents,
    /// `TEXT_POKE`, `KSYMBOL`.
    TextPokeEvents,
}

impl Show {
    /// The kinds themselves.
    pub fn kinds(self) -> &'static [RecordKind] {
        match self {
            Self::BpfEvents => {
                &[RecordKind::KSYMBOL, RecordKind::BPF_EVENT, RecordKind::BPF_METADATA]
            }
            Self::MmapEvents => &[RecordKind::MMAP, RecordKind::MMAP2],
            Self::TaskEvents => &[RecordKind::COMM, RecordKind::FORK, RecordKind::EXIT],
            Self::SwitchEvents => &[RecordKind::SWITCH, RecordKind::SWITCH_CPU_WIDE],
            Self::NamespaceEvents => &[RecordKind::NAMESPACES],
            Self::CgroupEvents => &[RecordKind::CGROUP],
            Self::LostEvents => &[RecordKind::LOST],
            Self::RoundEvents => &[RecordKind::FINISHED_ROUND],
            Self::TextPokeEvents => &[RecordKind::TEXT_POKE, RecordKind::KSYMBOL],
        }
    }
}
