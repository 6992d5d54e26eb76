//! `bpfperf inject`: a recording written anew, its records and sections as they are: without compression,
//! as a file or as a stream, with the build ids of what samples fell on.

mod jit;

use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::Seek;
use std::io::SeekFrom;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::perfdata::BuildIdEntry;
use crate::perfdata::Endian;
use crate::perfdata::FeatureBits;
use crate::perfdata::FileHeader;
use crate::perfdata::Layout;
use crate::perfdata::ReadAt;
use crate::perfdata::Record;
use crate::perfdata::RecordKind;
use crate::perfdata::RecordWalk;
use crate::perfdata::Section;
use crate::perfdata::U64s;
use crate::perfdata::UserRecord;
use crate::perfdata::encode_features;
use crate::perfdata::feature;
use crate::perfdata::feature::EventDesc;
use crate::perfdata::feature::EventDescs;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::feature::FileBuildId;
use crate::perfdata::feature::Text;
use crate::perfdata::private::FeaturePayload;
use crate::perfdata::private::Message;
use crate::perfdata::read_up_to;
use crate::replay::Recording;
use crate::units::BuildId;
use crate::units::FileOffset;
use crate::units::Pid;

use super::buildid_list;
use super::buildid_list::BuildIds;
use super::input;
use super::input::Input;
use super::message;
use super::message::Failure;
use super::script::stdout;
use super::symbol_options::SymbolOptions;

use jit::Jitted;

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
    /// Leave out the events that traces of hardware stand for, which this version does not read.
    #[arg(long)]
    strip: bool,
    #[command(flatten)]
    symbols_from: SymbolOptions,
    /// Taken for the habit of it: who owns the file does not matter.
    #[arg(short, long)]
    force: bool,
    /// Taken for the habit of it.
    #[arg(short, long)]
    verbose: bool,
}

/// Feature sections by ascending number, each with its bytes.
type Sections = Vec<(u8, Vec<u8>)>;

/// How many bytes are copied at once.
const STEP: u64 = 1 << 20;
/// Where the size of the records stands in the header of a file.
const DATA_SIZE_AT: usize = 48;
/// Where the bits of the features stand there.
const FEATURES_AT: usize = 72;

/// Runs `bpfperf inject`.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.strip {
        return Err(Failure::new("cannot strip events")
            .cause(
                "only events of hardware traces have others in their place, and none are decoded",
            )
            .hint("leave `--strip` out: all events are kept"));
    }
    let (file, recording) = input::open(&args.input)?;
    let known = if args.build_ids || args.buildid_all {
        args.known(&file, &recording)?
    } else {
        BuildIds::new()
    };
    let jitted = if args.jit { args.jitted(&file, &recording)? } else { Jitted::default() };
    let (path, file, recording, known) = (&args.input, &file, &recording, &known);
    let source = Source { path, file, recording, known, jitted: &jitted };
    if !jitted.records.is_empty() && !source.is_native() {
        return Err(source.foreign());
    }
    if args.output == Path::new("-") {
        let mut out = stdout()?;
        source.stream(&mut out)?;
        let flushed = out.flush();
        flushed.map_err(|error| Failure::because("cannot write the recording", &error))?;
    } else {
        source.to_file(&args.output)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// The functions to add.
    fn jitted(&self, file: &Input, recording: &Recording) -> Result<Jitted, Failure> {
        let folder = self.output.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        Jitted::write(&self.input, file, recording, &self.symbols_from, folder)
    }

    /// The build ids to add.
    fn known(&self, file: &Input, recording: &Recording) -> Result<BuildIds, Failure> {
        let which =
            if self.buildid_all { buildid_list::Which::All } else { buildid_list::Which::Hit };
        let mut ids =
            buildid_list::of_files(&self.input, file, recording, &self.symbols_from, which)?;
        for (path, id) in &mut ids {
            if id.is_none() {
                *id = buildid_list::of_elf(&path_of(path));
            }
        }
        ids.retain(|_, id| id.is_some());
        Ok(ids)
    }
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes))
}

/// A recording that is written anew.
struct Source<'a> {
    path: &'a Path,
    file: &'a Input,
    recording: &'a Recording,
    /// The build ids to add.
    known: &'a BuildIds,
    jitted: &'a Jitted,
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

    /// Writes a file to `path`.
    fn to_file(&self, path: &Path) -> Result<(), Failure> {
        let cannot = |error: io::Error| {
            Failure::because(format!("cannot write `{}`", path.display()), &error)
        };
        let same = |it: &Path| it.canonicalize().ok();
        if same(path).is_some_and(|it| Some(it) == same(self.path)) {
            return Err(Failure::new(format!("cannot write `{}`", path.display()))
                .cause("it is the recording that is read"));
        }
        let (mut head, sections) = match self.recording.header {
            FileHeader::File { data, .. } => self.kept_head(data)?,
            FileHeader::Pipe { .. } => self.made_head()?,
        };
        let mut out = BufWriter::new(File::create(path).map_err(cannot)?);
        out.write_all(&head).map_err(cannot)?;
        let size = self.records(&mut out, Form::File, &cannot)?;
        let start = head.len() as u64;
        let (features, table) = self.features(&sections, start.saturating_add(size));
        out.write_all(&table).map_err(cannot)?;
        self.patch(&mut head, size, features);
        out.seek(SeekFrom::Start(0)).map_err(cannot)?;
        out.write_all(&head).map_err(cannot)?;
        out.flush().map_err(cannot)
    }

    /// All that stands before the records of a file, as it is, and the sections behind them.
    fn kept_head(&self, data: Section) -> Result<(Vec<u8>, Sections), Failure> {
        let raw = self.file.raw();
        let head = read_up_to(raw, FileOffset(0), data.offset);
        let head = head.map_err(|error| self.cannot_read(error))?;
        let FileHeader::File { attrs, features, .. } = self.recording.header else {
            return Ok((head, Vec::new()));
        };
        if head.len() as u64 != data.offset
            || attrs.end() > data.offset
            || head.len() < FileHeader::LEN
        {
            return Err(Failure::new(format!("cannot write `{}` anew", self.path.display()))
                .cause("its events stand behind its records"));
        }
        let mut sections = Vec::new();
        if self.recording.is_unfinished {
            return Ok((head, sections));
        }
        let endian = self.recording.header.endian();
        let mut at = data.end();
        for id in features.iter() {
            let table = read_up_to(raw, FileOffset(at), Section::LEN as u64);
            let table = table.map_err(|error| self.cannot_read(error))?;
            at = at.saturating_add(Section::LEN as u64);
            let mut cursor = crate::perfdata::Cursor::new(&table, FileOffset(at), endian);
            let Ok(Section { offset, size }) = Section::decode(&mut cursor, "feature section")
            else {
                break;
            };
            let bytes = read_up_to(raw, FileOffset(offset), size);
            sections.push((id, bytes.map_err(|error| self.cannot_read(error))?));
        }
        let is_merged = self.recording.data.len() > 1;
        sections.retain(|(id, _)| {
            let id = FeatureId(*id);
            !(id == FeatureId::COMPRESSED && self.file.is_inflated()
                || id == FeatureId::DIR_FORMAT && is_merged)
        });
        if !self.known.is_empty() {
            if !self.is_native() {
                return Err(self.foreign());
            }
            let listed = match self.recording.feature(FeatureId::BUILD_ID) {
                Some(Feature::BuildIds(entries)) => entries.clone(),
                _ => Vec::new(),
            };
            let id = FeatureId::BUILD_ID.0;
            sections.retain(|it| it.0 != id);
            let place = sections.partition_point(|it| it.0 < id);
            sections.insert(place, (id, self.build_ids(listed)));
        }
        Ok((head, sections))
    }

    /// A section of the build ids `listed` and those to add.
    fn build_ids(&self, mut listed: Vec<FileBuildId>) -> Vec<u8> {
        for (path, id) in self.known {
            if listed.iter().any(|it| it.name.as_bytes() == path.as_slice()) {
                continue;
            }
            let name = Text::from(String::from_utf8_lossy(path).as_ref());
            listed.push(FileBuildId {
                cpu_mode: cpu_mode(path),
                pid: Pid(-1),
                build_id: *id,
                name,
            });
        }
        let mut bytes = Vec::new();
        Feature::BuildIds(listed).encode(&mut bytes);
        bytes
    }

    /// The head of a file and its sections, from what the records of a stream say.
    fn made_head(&self) -> Result<(Vec<u8>, Sections), Failure> {
        if !self.is_native() {
            return Err(self.foreign());
        }
        let events = &self.recording.events;
        let layout = Layout::new(events.iter().map(|it| (it.attr, it.ids.clone())).collect());
        let head = layout.encode(0, FeatureBits::default());
        let mut sections: Sections = Vec::new();
        let mut listed = Vec::new();
        for feature in self.recording.features.iter().filter_map(|it| it.content.as_ref().ok()) {
            let id = feature.id();
            match feature {
                Feature::Compressed(_) => continue,
                Feature::BuildIds(entries) => {
                    listed.extend_from_slice(entries);
                    continue;
                }
                _ => {}
            }
            let mut bytes = Vec::new();
            feature.encode(&mut bytes);
            match sections.iter_mut().find(|it| it.0 == id.0) {
                None => sections.push((id.0, bytes)),
                // Of program infos and BTFs there are several, each with a number of entries first.
                Some((_, all))
                    if matches!(feature, Feature::BpfProgInfo(_) | Feature::BpfBtf(_)) =>
                {
                    join_counted(all, &bytes);
                }
                Some(_) => {}
            }
        }
        if !sections.iter().any(|it| it.0 == FeatureId::EVENT_DESC.0) {
            let described = events.iter().map(|it| EventDesc {
                attr: it.attr,
                name: Text::from(it.name.as_str()),
                ids: it.ids.clone(),
            });
            let events = described.collect();
            let mut bytes = Vec::new();
            Feature::Events(EventDescs { attr_size: layout.attr_size(), events })
                .encode(&mut bytes);
            sections.push((FeatureId::EVENT_DESC.0, bytes));
        }
        if !self.known.is_empty() || !listed.is_empty() {
            sections.push((FeatureId::BUILD_ID.0, self.build_ids(listed)));
        }
        sections.sort_unstable_by_key(|it| it.0);
        Ok((head, sections))
    }

    /// The table and the sections behind records that end at `at`.
    fn features(&self, sections: &[(u8, Vec<u8>)], at: u64) -> (FeatureBits, Vec<u8>) {
        let (bits, mut bytes) = encode_features(sections, FileOffset(at));
        if !self.is_native() {
            let table_len = sections.len() * Section::LEN;
            let words = bytes.get_mut(..table_len).unwrap_or_default();
            words.chunks_exact_mut(8).for_each(<[u8]>::reverse);
        }
        (bits, bytes)
    }

    /// Writes how many bytes of records there are, and which features, into `head`.
    fn patch(&self, head: &mut [u8], size: u64, features: FeatureBits) {
        let is_native = self.is_native();
        let mut put = |at: usize, value: u64| {
            let Some(place) = head.get_mut(at..at + 8) else { return };
            place.copy_from_slice(&value.to_ne_bytes());
            if !is_native {
                place.reverse();
            }
        };
        put(DATA_SIZE_AT, size);
        for (idx, word) in features.0.iter().enumerate() {
            put(FEATURES_AT + 8 * idx, *word);
        }
    }

    /// Writes the recording as a stream.
    fn stream(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let cannot = |error: io::Error| Failure::because("cannot write the recording", &error);
        let is_pipe = matches!(self.recording.header, FileHeader::Pipe { .. });
        let mut head = Vec::new();
        if is_pipe && !self.is_native() {
            if !self.known.is_empty() {
                return Err(self.foreign());
            }
            let raw = read_up_to(self.file.raw(), FileOffset(0), 16);
            head = raw.map_err(|error| self.cannot_read(error))?;
        } else if !self.is_native() {
            return Err(self.foreign());
        } else {
            FileHeader::Pipe { endian: Endian::NATIVE }.encode(&mut head);
        }
        if !is_pipe {
            self.events_and_features(&mut head)?;
        }
        for (path, id) in self.known {
            put(RecordKind::BUILD_ID, cpu_mode(path), build_id_record(path, *id), &mut head);
        }
        out.write_all(&head).map_err(cannot)?;
        self.records(out, Form::Stream, &cannot)?;
        Ok(())
    }

    /// What a file has in sections as records of a stream.
    fn events_and_features(&self, out: &mut Vec<u8>) -> Result<(), Failure> {
        let size = self.recording.events.iter().map(|it| it.attr.needed_size()).max();
        for event in &self.recording.events {
            let mut attr = event.attr;
            // Older readers take this much, whatever it says.
            attr.size = size.unwrap_or_default().max(128);
            let ids: Vec<u8> = event.ids.iter().flat_map(|it| it.to_ne_bytes()).collect();
            let ids =
                U64s::new(ids.get(..ids.len().min(60_000)).unwrap_or_default(), Endian::NATIVE);
            let record = UserRecord::HeaderAttr { attr: Box::new(attr), ids };
            put(RecordKind::HEADER_ATTR, 0, record, out);
        }
        let features: Vec<Feature> = self
            .recording
            .features
            .iter()
            .filter_map(|it| it.content.as_ref().ok())
            .filter(|it| !matches!(it, Feature::Compressed(_) | Feature::DirFormat(_)))
            .cloned()
            .collect();
        let feature::PipeBodies { bodies, too_long } = feature::pipe_bodies(&features);
        for body in bodies.iter().chain([&feature::pipe_end()]) {
            let Some((id, data)) = body.split_first_chunk() else { continue };
            let record = UserRecord::HeaderFeature { id: u64::from_ne_bytes(*id), data };
            put(RecordKind::HEADER_FEATURE, 0, record, out);
        }
        for (number, (id, data)) in (0..).zip(too_long) {
            let payload = FeaturePayload { id: u64::from(id.0), data };
            Message::Feature(payload).encode(number, out);
        }
        for feature in &features {
            match feature {
                Feature::TracingData(bytes) => {
                    let padded = bytes.len().next_multiple_of(8);
                    let size = u32::try_from(padded).map_err(|_| {
                        Failure::new("the formats of tracepoints are too long for a stream")
                    })?;
                    let record = UserRecord::TracingData { size };
                    put(RecordKind::TRACING_DATA, 0, record, out);
                    out.extend(bytes);
                    out.extend(std::iter::repeat_n(0, padded - bytes.len()));
                }
                Feature::BuildIds(entries) => {
                    for FileBuildId { cpu_mode, build_id, name, .. } in entries {
                        let record = build_id_record(name.as_bytes(), *build_id);
                        put(RecordKind::BUILD_ID, *cpu_mode, record, out);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes the records that `to` has; returns how many bytes that were.
    fn records(
        &self,
        out: &mut dyn Write,
        to: Form,
        cannot: &dyn Fn(io::Error) -> Failure,
    ) -> Result<u64, Failure> {
        let Self { file, recording, jitted, .. } = *self;
        let input: &dyn ReadAt = file;
        let mut written = jitted.records.len() as u64;
        // They have times, by which readers put them where they belong.
        out.write_all(&jitted.records).map_err(cannot)?;
        for section in &recording.data {
            let mut walk = RecordWalk::new(input, *section, recording.header.endian());
            while let Some(raw) = walk.next().map_err(|error| self.cannot_read(error))? {
                let Section { offset, size: payload } = raw.payload;
                if !self.keeps(raw.header.kind, raw.body, to) || jitted.replaces(&raw) {
                    continue;
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
            RecordKind::HEADER_ATTR
            | RecordKind::HEADER_FEATURE
            | RecordKind::EVENT_UPDATE
            | RecordKind::TRACING_DATA => !is_pipe || to == Form::Stream,
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

/// Whose file `path` is, as the header of a record says it.
fn cpu_mode(path: &[u8]) -> u16 {
    const KERNEL: u16 = 1;
    const USER: u16 = 2;
    let is_kernel = path.starts_with(b"[kernel") || path.ends_with(b".ko");
    if is_kernel { KERNEL } else { USER }
}

fn build_id_record(path: &[u8], build_id: Option<BuildId>) -> UserRecord<'_> {
    UserRecord::BuildId(BuildIdEntry { pid: Pid(-1), build_id, filename: path })
}

fn put(kind: RecordKind, misc: u16, record: UserRecord<'_>, out: &mut Vec<u8>) {
    let misc = if kind == RecordKind::BUILD_ID { misc | BuildIdEntry::HAS_SIZE } else { misc };
    if let Err(error) = Record::User(record).encode(kind, misc, &[], out) {
        message::warn(&format!("a record of {} bytes does not fit into a stream", error.len));
    }
}

/// Adds the entries of `more` to those of `all`, each with their number in front.
fn join_counted(all: &mut Vec<u8>, more: &[u8]) {
    let (Some(count), Some((added, entries))) =
        (all.first_chunk::<4>(), more.split_first_chunk::<4>())
    else {
        return;
    };
    let sum = u32::from_ne_bytes(*count).saturating_add(u32::from_ne_bytes(*added));
    if let Some(place) = all.first_chunk_mut::<4>() {
        *place = sum.to_ne_bytes();
    }
    all.extend_from_slice(entries);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_two_sections_are_counted_together() {
        let section = |n: u32, rest: &[u8]| [&n.to_ne_bytes(), rest].concat();
        let mut all = section(2, b"ab");
        join_counted(&mut all, &section(1, b"c"));
        assert_eq!(all, section(3, b"abc"));
        join_counted(&mut all, b"xx");
        assert_eq!(all, section(3, b"abc"));
    }
}
