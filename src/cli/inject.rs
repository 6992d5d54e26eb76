//! `bpfperf inject`: a recording written anew, its records and sections as they are: without compression,
//! as a file or as a stream, with the build ids of what samples fell on.

mod asked;
mod chains;
mod file;
mod jit;
mod maps;
mod sleeps;
mod stream;

use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::perfdata::Attr;
use crate::perfdata::Cursor;
use crate::perfdata::Endian;
use crate::perfdata::FileHeader;
use crate::perfdata::RawRecord;
use crate::perfdata::ReadAt;
use crate::perfdata::RecordKind;
use crate::perfdata::RecordWalk;
use crate::perfdata::Section;
use crate::perfdata::feature::EventDescs;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::private;
use crate::perfdata::read_up_to;
use crate::replay::CodeFiles;
use crate::replay::Index;
use crate::replay::Names;
use crate::replay::Recording;
use crate::replay::Unwinding;
use crate::replay::Wanted;
use crate::units::FileOffset;

use super::buildid_list;
use super::buildid_list::BuildIds;
use super::input;
use super::input::Input;
use super::message;
use super::message::Failure;
use super::script::stdout;
use super::sources::ThisMachine;
use super::symbol_options::SymbolOptions;

use asked::KnownBuildIds;
use chains::Chains;
use jit::Jitted;
use maps::Maps;
use sleeps::Sleeps;

/// What was typed after `bpfperf inject`.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag on the command line")]
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Read this recording; `-` for standard input.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    input: PathBuf,
    /// Write this file; `-` for a stream to standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Add the build ids of the files that samples fell on.
    #[arg(short, long)]
    build_ids: bool,
    /// Add the build ids of all files that were mapped.
    #[arg(long)]
    buildid_all: bool,
    /// Write each function of a `jit-PID.dump` into a file of its own, `jitted-PID-NUMBER.so` beside the
    /// dump, and add its mapping, for tools that know no dumps.
    #[arg(short, long)]
    jit: bool,
    /// Tell mappings with the build ids of their files, and leave out those of files that no sample fell on.
    #[arg(short = 'B', long, conflicts_with = "mmap2_buildid_all")]
    mmap2_buildids: bool,
    /// Tell all mappings with the build ids of their files.
    #[arg(long)]
    mmap2_buildid_all: bool,
    /// Build ids that are known from elsewhere, each before the path of its file: `0123abcd /usr/bin/x`;
    /// separated by commas, or a line each in the file that `file://PATH` names.
    #[arg(long, value_name = "BUILDID PATH,..", value_parser = asked::known_build_ids)]
    known_build_ids: Option<KnownBuildIds>,
    /// Put how long threads slept (`sched:sched_stat_*`) into the samples of where they went to sleep
    /// (`sched:sched_switch`).
    #[arg(short, long)]
    sched_stat: bool,
    /// Put call chains in the place of the registers and stacks of `--call-graph dwarf`.
    #[arg(long, conflicts_with = "sched_stat")]
    convert_callchain: bool,
    #[command(flatten)]
    symbols_from: SymbolOptions,
    #[command(flatten)]
    refused: asked::Refused,
    #[command(flatten)]
    habits: asked::Habits,
    /// Taken for the habit of it: who owns the file does not matter.
    #[arg(short, long)]
    force: bool,
    /// Taken for the habit of it.
    #[arg(short, long)]
    verbose: bool,
}

/// How many bytes are copied at once.
const STEP: u64 = 1 << 20;
/// `PERF_EVENT_UPDATE__NAME`.
const EVENT_UPDATE_NAME: u64 = 2;

/// Runs `bpfperf inject`.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    args.refused.check()?;
    let (file, recording) = input::open(&args.input)?;
    let is_asked = args.build_ids || args.buildid_all;
    let maps = args.maps();
    let files =
        if is_asked || maps.is_some() { args.files(&file, &recording)? } else { BuildIds::new() };
    let known: BuildIds = if is_asked {
        files.iter().filter(|(_, id)| id.is_some()).map(|(path, id)| (path.clone(), *id)).collect()
    } else {
        BuildIds::new()
    };
    let jitted = if args.jit { args.jitted(&file, &recording)? } else { Jitted::default() };
    let (path, file, recording, known) = (&args.input, &file, &recording, &known);
    let (told, chains) = (args.known_build_ids.as_ref(), args.chains());
    let source = Source { path, file, recording, known, told, jitted: &jitted, chains };
    let changes = maps.is_some() || args.sched_stat || source.chains == Convert::Yes;
    if !source.is_native() && (changes || !jitted.records.is_empty()) {
        return Err(source.foreign());
    }
    let layout = recording.events.first().map(|it| it.sample_id).unwrap_or_default();
    let mut rewrites = Rewrites {
        maps: maps.map(|which| Maps { which, files: &files, layout }),
        sleeps: if args.sched_stat { Some(Sleeps::new(file, recording)?) } else { None },
        chains: None,
    };
    if source.chains == Convert::No {
        return source.write(&args.output, &mut rewrites);
    }
    if recording.events.iter().all(|it| !chains::has_stacks(&it.attr)) {
        return Err(Failure::new("cannot make call chains").cause(
            "no event was recorded with registers and stacks, as `--call-graph dwarf` does",
        ));
    }
    let wanted = Wanted::default();
    let index = Index::new(recording, file, &wanted).map_err(|it| input::cannot_read(path, &it))?;
    input::check(path, &index)?;
    let machine = ThisMachine::new(file, &index, &args.symbols_from);
    let names = Names::new(&index, &machine);
    let code_files = CodeFiles::new(&names);
    let unwinding = Unwinding::new(recording, &code_files);
    rewrites.chains = Some(Chains::new(recording, &index, &unwinding));
    source.write(&args.output, &mut rewrites)
}

impl Args {
    /// Which mappings are told with build ids.
    fn maps(&self) -> Option<maps::Which> {
        if self.mmap2_buildid_all {
            return Some(maps::Which::All);
        }
        self.mmap2_buildids.then_some(maps::Which::Hit)
    }

    /// Whether chains are made.
    fn chains(&self) -> Convert {
        if self.convert_callchain { Convert::Yes } else { Convert::No }
    }

    /// The functions to add.
    fn jitted(&self, file: &Input, recording: &Recording) -> Result<Jitted, Failure> {
        let folder = self.output.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        Jitted::write(&self.input, file, recording, &self.symbols_from, folder)
    }

    /// The files whose build ids are asked for, with what is known of them.
    fn files(&self, file: &Input, recording: &Recording) -> Result<BuildIds, Failure> {
        let all = self.buildid_all || self.mmap2_buildid_all;
        let which = if all { buildid_list::Which::All } else { buildid_list::Which::Hit };
        let (from, read) = (&self.symbols_from, buildid_list::Untold::Read);
        let mut ids = buildid_list::of_files(&self.input, file, recording, from, which, read)?;
        if let Some(known) = &self.known_build_ids {
            for (path, id) in &mut ids {
                *id = known.of(path).or(*id);
            }
        }
        Ok(ids)
    }
}

/// A recording that is written anew.
struct Source<'a> {
    path: &'a Path,
    file: &'a Input,
    recording: &'a Recording,
    /// The build ids to add.
    known: &'a BuildIds,
    /// Those of them that the user told.
    told: Option<&'a KnownBuildIds>,
    jitted: &'a Jitted,
    /// Whether chains take the place of stacks.
    chains: Convert,
}

/// Whether chains take the place of stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Convert {
    Yes,
    No,
}

/// What is done with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is written as it is.
    Kept,
    /// It is left out.
    Dropped,
    /// Another one is written in its place.
    Written,
}

/// What is made of records.
struct Rewrites<'a> {
    maps: Option<Maps<'a>>,
    sleeps: Option<Sleeps<'a>>,
    chains: Option<Chains<'a>>,
}

impl Rewrites<'_> {
    /// Writes `raw` to `out` if it becomes another one.
    fn record(&mut self, raw: &RawRecord<'_>, out: &mut Vec<u8>) -> Fate {
        match (raw.header.kind, self) {
            (RecordKind::MMAP | RecordKind::MMAP2, Self { maps: Some(maps), .. }) => {
                maps.record(raw, out)
            }
            (RecordKind::SAMPLE, Self { sleeps: Some(sleeps), .. }) => sleeps.record(raw, out),
            (RecordKind::SAMPLE, Self { chains: Some(chains), .. }) => chains.record(raw, out),
            _ => Fate::Kept,
        }
    }
}

impl Source<'_> {
    fn cannot_read(&self, error: crate::perfdata::Error) -> Failure {
        input::cannot_read(self.path, &error.into())
    }

    fn is_native(&self) -> bool {
        self.recording.header.endian() == Endian::NATIVE
    }

    /// That what is asked for needs the byte order of this machine.
    fn foreign(&self) -> Failure {
        Failure::new(format!("cannot write `{}` anew", self.path.display()))
            .cause("it is in the byte order of another machine, which only keeps its form")
    }

    /// Writes the recording to `path`, or as a stream to standard output.
    fn write(&self, path: &Path, rewrites: &mut Rewrites<'_>) -> Result<ExitCode, Failure> {
        if path == Path::new("-") {
            let mut out = stdout()?;
            self.stream(rewrites, &mut out)?;
            let flushed = out.flush();
            flushed.map_err(|error| Failure::because("cannot write the recording", &error))?;
        } else {
            self.to_file(path, rewrites)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// An event's attribute, as it is written.
    fn attr(&self, attr: &Attr) -> Attr {
        match self.chains {
            Convert::Yes => chains::without_stacks(attr),
            Convert::No => *attr,
        }
    }

    /// The events as a section is to describe them.
    fn described(&self, events: &EventDescs) -> Feature {
        let mut events = events.clone();
        events.events.iter_mut().for_each(|it| it.attr = self.attr(&it.attr));
        Feature::Events(events)
    }

    /// Writes the records that `to` has; returns how many bytes that were.
    fn records(
        &self,
        rewrites: &mut Rewrites<'_>,
        out: &mut dyn Write,
        to: Form,
        cannot: &dyn Fn(io::Error) -> Failure,
    ) -> Result<u64, Failure> {
        let Self { file, recording, jitted, .. } = *self;
        let input: &dyn ReadAt = file;
        let mut written = jitted.records.len() as u64;
        let mut changed = Vec::new();
        // They have times, by which readers put them where they belong.
        out.write_all(&jitted.records).map_err(cannot)?;
        for section in &recording.data {
            let mut walk = RecordWalk::new(input, *section, recording.header.endian());
            while let Some(raw) = walk.next().map_err(|error| self.cannot_read(error))? {
                let Section { offset, size: payload } = raw.payload;
                if !self.keeps(raw.header.kind, raw.body, to) || jitted.replaces(&raw) {
                    continue;
                }
                changed.clear();
                match rewrites.record(&raw, &mut changed) {
                    Fate::Kept => {}
                    Fate::Dropped => continue,
                    Fate::Written => {
                        out.write_all(&changed).map_err(cannot)?;
                        written = written.saturating_add(changed.len() as u64);
                        continue;
                    }
                }
                let size = u64::from(raw.header.size);
                for (at, len) in [(raw.at.0, size), (offset, payload)] {
                    self.copy(at, len, out, cannot)?;
                    written = written.saturating_add(len);
                }
            }
        }
        Ok(written)
    }

    /// Whether a record of a kind is written `to` what there is to be.
    fn keeps(&self, kind: RecordKind, body: &[u8], to: Form) -> bool {
        let Self { file, recording, .. } = *self;
        let is_pipe = matches!(recording.header, FileHeader::Pipe { .. });
        match kind {
            // Files of a directory do not end their rounds together, and what is added is of all rounds.
            RecordKind::FINISHED_ROUND => {
                recording.data.len() < 2 && self.jitted.records.is_empty()
            }
            RecordKind::HEADER_FEATURE if file.is_inflated() && to == Form::Stream => {
                let id = body.first_chunk().map(|it| recording.header.endian().u64(*it));
                id != Some(u64::from(FeatureId::COMPRESSED.0))
            }
            RecordKind::HEADER_ATTR | RecordKind::HEADER_FEATURE | RecordKind::TRACING_DATA => {
                !is_pipe || to == Form::Stream
            }
            // In a file they are sections, or in one.
            RecordKind::EVENT_TYPE if to == Form::File => !is_feature(body),
            RecordKind::EVENT_UPDATE if to == Form::File => {
                body.first_chunk().map(|it| recording.header.endian().u64(*it))
                    != Some(EVENT_UPDATE_NAME)
            }
            _ => true,
        }
    }

    /// Writes `len` bytes that begin at `at`.
    fn copy(
        &self,
        at: u64,
        len: u64,
        out: &mut dyn Write,
        cannot: &dyn Fn(io::Error) -> Failure,
    ) -> Result<(), Failure> {
        let input: &dyn ReadAt = self.file;
        let mut done = 0;
        while done < len {
            let bytes =
                read_up_to(input, FileOffset(at.saturating_add(done)), STEP.min(len - done));
            let bytes = bytes.map_err(|error| self.cannot_read(error))?;
            if bytes.is_empty() {
                break;
            }
            done += bytes.len() as u64;
            out.write_all(&bytes).map_err(cannot)?;
        }
        Ok(())
    }
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A file, with sections.
    File,
    /// A stream.
    Stream,
}

/// Whether a private record has a part of a feature that no record of a stream could have.
fn is_feature(body: &[u8]) -> bool {
    let mut cursor = Cursor::new(body, FileOffset(0), Endian::NATIVE);
    let part = private::Part::decode(&mut cursor);
    part.is_ok_and(|it| it.is_some_and(|it| private::kind_name(it.kind) == "feature"))
}

/// Whose file `path` is, as the header of a record says it.
fn cpu_mode(path: &[u8]) -> u16 {
    const KERNEL: u16 = 1;
    const USER: u16 = 2;
    let is_kernel = path.starts_with(b"[kernel") || path.ends_with(b".ko");
    if is_kernel { KERNEL } else { USER }
}
