//! Functions that JIT compilers dumped, each as a file of its own with a mapping.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::path::PathBuf;

use crate::perfdata::Cursor;
use crate::perfdata::Endian;
use crate::perfdata::Mmap2;
use crate::perfdata::MmapId;
use crate::perfdata::RawRecord;
use crate::perfdata::Record;
use crate::perfdata::RecordKind;
use crate::perfdata::SampleId;
use crate::perfdata::SampleIdLayout;
use crate::perfdata::misc;
use crate::replay::Index;
use crate::replay::JitMade;
use crate::replay::Recording;
use crate::replay::Wanted;
use crate::replay::is_anonymous;
use crate::symbols::JitElf;
use crate::units::Addr;
use crate::units::BuildId;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::Tid;

use super::Input;
use super::SymbolOptions;
use super::input;
use super::message;
use super::message::Failure;
use crate::cli::sources::DumpsOnDisk;

/// What is added to a recording, and what is left out for it.
#[derive(Debug, Default)]
pub(super) struct Jitted {
    /// Mappings of the files.
    pub(super) records: Vec<u8>,
    /// The processes, each with the time of its first function.
    since: BTreeMap<Pid, Nanos>,
    layout: SampleIdLayout,
}

/// `PROT_READ | PROT_EXEC`.
const PROT: u32 = 5;
/// `MAP_PRIVATE`.
const FLAGS: u32 = 2;
/// `PERF_RECORD_MISC_USER`.
const USER: u16 = 2;

impl Jitted {
    /// Writes the files: beside the dump that tells of them, or into `folder` where that is in the recording
    /// alone.
    pub(super) fn write(
        path: &Path,
        file: &Input,
        recording: &Recording,
        symbols_from: &SymbolOptions,
        folder: &Path,
    ) -> Result<Self, Failure> {
        let dumps = DumpsOnDisk::new(symbols_from);
        let index = Index::with_dumps(recording, file, &Wanted::default(), &dumps)
            .map_err(|error| input::cannot_read(path, &error))?;
        input::check(path, &index)?;
        if index.jit_made.is_empty() {
            message::warn(&format!("`{}` shows no jitdump that can be read", path.display()));
        }
        let event = recording.events.first();
        let layout = event.map(|it| SampleIdLayout::new(&it.attr)).unwrap_or_default();
        let id = event.and_then(|it| it.ids.first().copied());
        let (mut this, mut files) = (Self { layout, ..Self::default() }, Files::default());
        let mut n_without_code = 0_u64;
        for made in &index.jit_made {
            let JitMade { pid, time, file, code } = *made;
            let code = index.jit_codes.get(code as usize);
            let Some((code, elf)) = code.and_then(|it| Some((it, JitElf::new(it)?))) else {
                n_without_code += 1;
                continue;
            };
            let dump = index.files.get(file.0 as usize).map(|it| it.path.as_slice());
            let dump = Path::new(OsStr::from_bytes(dump.unwrap_or_default()));
            let beside = dump.parent().filter(|_| dump.is_file()).unwrap_or(folder);
            let at = files.put(beside, pid, &elf).map_err(|error| {
                Failure::because(format!("cannot write into `{}`", beside.display()), &error)
            })?;
            let record = Record::Mmap2(Mmap2 {
                pid,
                tid: Tid(pid.0),
                addr: Addr(code.start.0),
                len: code.end.0.saturating_sub(code.start.0),
                pgoff: elf.text.0,
                id: MmapId::BuildId(Some(elf.build_id)),
                prot: PROT,
                flags: FLAGS,
                filename: at.as_os_str().as_bytes(),
            });
            let mut trailer = Vec::new();
            let task = Some((pid, Tid(pid.0)));
            let values =
                SampleId { task, time: Some(time), id, stream_id: id, ..SampleId::default() };
            layout.encode(&values, &mut trailer);
            let misc = USER | misc::MMAP_BUILD_ID;
            let done = record.encode(RecordKind::MMAP2, misc, &trailer, &mut this.records);
            done.map_err(|_| Failure::new(format!("`{}` is too long a path", at.display())))?;
            let since = this.since.entry(pid).or_insert(time);
            *since = time.min(*since);
        }
        if n_without_code != 0 {
            message::warn(&format!(
                "{n_without_code} functions of jitdumps lack their code and are left out"
            ));
        }
        Ok(this)
    }

    /// Whether `raw` tells that memory of a process with functions can run, as each change of its
    /// protection does: readers would take it for the end of what is mapped there.
    pub(super) fn replaces(&self, raw: &RawRecord<'_>) -> bool {
        if self.since.is_empty() || !matches!(raw.header.kind, RecordKind::MMAP | RecordKind::MMAP2)
        {
            return false;
        }
        let (body, id) = self.layout.split(raw.body, Endian::NATIVE);
        let mut cursor = Cursor::new(body, raw.at, Endian::NATIVE);
        let (pid, path) = match Record::decode(raw.header, &mut cursor) {
            Ok(Record::Mmap(it)) => (it.pid, it.filename),
            Ok(Record::Mmap2(it)) => (it.pid, it.filename),
            _ => return false,
        };
        let is_memory = is_anonymous(path) || path.starts_with(b"/memfd:");
        is_memory && self.since.get(&pid).is_some_and(|since| Some(*since) <= id.time)
    }
}

/// The files that were written, by folder and content: code that moves is the same.
#[derive(Debug, Default)]
struct Files {
    known: BTreeMap<(PathBuf, Pid, BuildId), PathBuf>,
    n_made: BTreeMap<Pid, u64>,
}

impl Files {
    /// Writes `elf` of `pid` into `folder`, and tells where it is.
    fn put(&mut self, folder: &Path, pid: Pid, elf: &JitElf) -> io::Result<PathBuf> {
        let key = (folder.to_owned(), pid, elf.build_id);
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let number = self.n_made.entry(pid).or_default();
        let at = folder.canonicalize()?.join(format!("jitted-{pid}-{number}.so"));
        *number += 1;
        // Never through a link that somebody put there, and never a part.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&elf.bytes)?;
        file.persist(&at).map_err(|error| error.error)?;
        self.known.insert(key, at.clone());
        Ok(at)
    }
}
