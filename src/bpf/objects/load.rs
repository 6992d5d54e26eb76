//! An object whose programs are in the kernel.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::path::Path;

use libbpf_rs::ErrorKind;
use libbpf_rs::Link;
use libbpf_rs::MapCore as _;
use libbpf_rs::MapFlags;
use libbpf_rs::MapHandle;
use libbpf_rs::MapType;
use libbpf_rs::OpenObject;
use libbpf_rs::OpenProgramMut;
use libbpf_rs::ProgramType;
use libbpf_rs::libbpf_sys;

use super::Error;
use super::Log;
use super::file;
use super::gate;
use super::messages::heard;
use super::settings;
use super::verdicts;
use crate::btf::Btf;
use crate::events::object::Assign;
use crate::events::object::Setting;
use crate::sys::bpf;
use crate::sys::perf_event::EventFd;
use crate::units::Cpu;

/// An object whose programs are in the kernel, as long as this is there.
#[derive(Debug)]
pub struct Object {
    loaded: libbpf_rs::Object,
    btf: Option<Btf>,
    outputs: Vec<Output>,
    /// By program, what attaches it.
    links: BTreeMap<String, Link>,
    verdicts: Vec<Verdict>,
}

/// What is known of the samples that a program takes away.
#[derive(Debug)]
struct Verdict {
    program: String,
    /// Whether it may return 0.
    can_drop: bool,
    /// Where its zeros are counted, if they are.
    count: Option<MapHandle>,
    /// Whether it runs once at each hit of a probe, and not once for each CPU.
    is_gated: bool,
}

/// A map through which programs write samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its name.
    pub map: String,
    /// How it is read.
    pub kind: OutputKind,
    /// The type of what is written, in the object's types, if it was declared with one.
    pub value_type: Option<u32>,
}

/// How the samples of a map come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// Through the events that it is given, one a CPU (`BPF_MAP_TYPE_PERF_EVENT_ARRAY`).
    PerfEventArray,
    /// Through memory that is shared with it (`BPF_MAP_TYPE_RINGBUF`).
    RingBuf,
}

/// Whether programs of probes have gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gates {
    /// They have.
    Set,
    /// The kernel has nothing that a gate could ask.
    Open,
}

/// How large a ring buffer is whose size was left open, in bytes.
const RING_BUF_LEN: u32 = 1 << 20;

impl Object {
    /// Loads `programs` of the object file `path`, which has these bytes, set up as `settings` say.
    ///
    /// # Errors
    ///
    /// [`Error`]; then nothing of it is in the kernel.
    pub fn load(
        path: &Path,
        bytes: &[u8],
        programs: &[String],
        settings: &[Setting],
    ) -> Result<Self, Error> {
        let loaded = Self::load_as(path, bytes, programs, settings, Gates::Set);
        match loaded {
            // A kernel before 5.15 has no cookies.
            Err(Error::Verifier { log, .. })
                if log.has("attach_cookie#174") || log.has("unknown#174") =>
            {
                Self::load_as(path, bytes, programs, settings, Gates::Open)
            }
            loaded => loaded,
        }
    }

    fn load_as(
        path: &Path,
        bytes: &[u8],
        programs: &[String],
        settings: &[Setting],
        gates: Gates,
    ) -> Result<Self, Error> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(".bpf").unwrap_or(&name);
        let (mut object, btf) = file::open(name, bytes)?;
        for mut program in object.progs_mut() {
            let is_wanted = programs.iter().any(|it| program.name() == it.as_str());
            program.set_autoload(is_wanted);
        }
        let verdicts = count_verdicts(&mut object, gates);
        settings::set_variables(&mut object, btf.as_ref(), settings)?;
        let outputs = fit_outputs(&mut object, btf.as_ref());
        let sections: Vec<_> = object
            .progs()
            .map(|it| (it.name().to_string_lossy().into_owned(), it.section().to_owned()))
            .collect();
        let (loaded, log) = heard(|| object.load());
        log.lines.iter().for_each(|line| tracing::debug!("{line}"));
        let section = |name: &str| {
            let found = sections.iter().find(|it| it.0 == name);
            found.map(|it| it.1.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let mut object = loaded.map_err(|error| refused(&error, log, section))?;
        set_maps(&mut object, btf.as_ref(), settings)?;
        Ok(Self { loaded: object, btf, outputs, links: BTreeMap::new(), verdicts })
    }

    /// The descriptor of a program that was loaded.
    pub fn program(&self, name: &str) -> Option<OwnedFd> {
        let found = self.loaded.progs().find(|it| it.name() == name)?;
        found.as_fd().try_clone_to_owned().ok()
    }

    /// Attaches a program that no event has to its place, until that is taken back or the object dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Attach`] with what the library says.
    pub fn attach(&mut self, name: &str) -> Result<(), Error> {
        let program = self.loaded.progs_mut().find(|it| it.name() == name);
        let Some(program) = program.filter(|_| !self.links.contains_key(name)) else {
            return Ok(());
        };
        let (link, mut log) = heard(|| program.attach());
        match link {
            Ok(link) => {
                self.links.insert(name.to_owned(), link);
                Ok(())
            }
            Err(error) => {
                if log.lines.is_empty() {
                    log.lines.push(error.to_string());
                }
                Err(Error::Attach {
                    program: name.to_owned(),
                    section: program.section().to_string_lossy().into_owned(),
                    log,
                })
            }
        }
    }

    /// Lets a program run no more that a link attached.
    pub fn detach(&mut self, name: &str) {
        self.links.remove(name);
    }

    /// Whether a program may return 0, and so take a sample away.
    pub fn can_drop(&self, program: &str) -> bool {
        self.verdicts.iter().any(|it| it.program == program && it.can_drop)
    }

    /// Whether a program of a probe runs once at each hit, and not once for each CPU.
    pub fn is_gated(&self, program: &str) -> bool {
        self.verdicts.iter().any(|it| it.program == program && it.is_gated)
    }

    /// How often a program returned 0; `None` if nobody counted.
    pub fn n_dropped(&self, program: &str) -> Option<u64> {
        let verdict = self.verdicts.iter().find(|it| it.program == program)?;
        let value = verdict.count.as_ref()?.lookup(&[0; 4], MapFlags::ANY).ok()??;
        Some(u64::from_ne_bytes(*value.first_chunk()?))
    }

    /// The maps through which programs write samples.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Lets what programs write to the map on `cpu` come through `event`.
    ///
    /// # Errors
    ///
    /// Whatever the kernel says.
    pub fn wire(&self, map: &str, cpu: Cpu, event: &EventFd) -> Result<(), libbpf_rs::Error> {
        let found = self.loaded.maps().find(|it| it.name() == map);
        let found = found.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))?;
        let fd = event.as_fd().as_raw_fd();
        found.update(&cpu.0.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
    }

    /// The descriptor of a ring of messages, and how many bytes it holds.
    pub fn message_ring(&self, map: &str) -> Option<(OwnedFd, u32)> {
        let found = self.loaded.maps().find(|it| it.name() == map)?;
        Some((found.as_fd().try_clone_to_owned().ok()?, found.max_entries()))
    }

    /// The object, for whoever reads its maps.
    pub fn maps(&self) -> impl Iterator<Item = libbpf_rs::Map<'_>> {
        self.loaded.maps()
    }

    /// The types that the object brings.
    pub fn btf(&self) -> Option<&Btf> {
        self.btf.as_ref()
    }
}

/// The id of a loaded program.
pub fn program_id(program: BorrowedFd<'_>) -> Option<u32> {
    libbpf_rs::Program::id_from_fd(program).ok()
}

/// Has each program that decides of samples, and is to be loaded, count those that it takes away.
fn count_verdicts(object: &mut OpenObject, gates: Gates) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for mut program in object.progs_mut() {
        let decides = matches!(
            program.prog_type(),
            ProgramType::PerfEvent | ProgramType::Tracepoint | ProgramType::Kprobe
        );
        if !program.autoload() || !decides {
            continue;
        }
        let can_drop = verdicts::can_be_zero(program.insns());
        let count = if can_drop { count_zeros(&mut program) } else { None };
        // Last, so that what the gate returns is not counted.
        let gated = gate::gated(program.insns());
        let is_probe = program.prog_type() == ProgramType::Kprobe;
        let gated = gated.filter(|_| is_probe && gates == Gates::Set);
        let is_gated = gated.is_some_and(|it| bpf::set_instructions(&mut program, &it).is_ok());
        let program = program.name().to_string_lossy().into_owned();
        verdicts.push(Verdict { program, can_drop, count, is_gated });
    }
    verdicts
}

/// Where the zeros of `program` are counted from now on; `None` where that cannot be.
fn count_zeros(program: &mut OpenProgramMut<'_>) -> Option<MapHandle> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as u64,
        ..libbpf_sys::bpf_map_create_opts::default()
    };
    let map = MapHandle::create(MapType::Array, Some("bpfperf_dropped"), 4, 8, 1, &options).ok()?;
    let counting = verdicts::counting(program.insns(), map.as_fd().as_raw_fd())?;
    bpf::set_instructions(program, &counting).ok()?;
    Some(map)
}

/// The maps that samples come through, made fit for the kernel: it wants no types of their values,
/// which say what a sample looks like.
fn fit_outputs(object: &mut OpenObject, btf: Option<&Btf>) -> Vec<Output> {
    let mut outputs = Vec::new();
    for mut map in object.maps_mut().filter(|it| file::is_output(it.map_type())) {
        let name = map.name().to_string_lossy().into_owned();
        let value_type = btf.and_then(|btf| declared(btf, &name, b"value"));
        let kind = if map.map_type() == MapType::RingBuf {
            // A declaration may leave these open, and the load tells of what does not fit.
            map.set_key_size(0).ok();
            map.set_value_size(0).ok();
            if map.max_entries() == 0 {
                map.set_max_entries(RING_BUF_LEN).ok();
            }
            OutputKind::RingBuf
        } else {
            map.set_key_size(4).ok();
            map.set_value_size(4).ok();
            OutputKind::PerfEventArray
        };
        outputs.push(Output { map: name, kind, value_type });
    }
    outputs
}

/// The type that the map `name` was declared to have values of, or keys: `what` is `value` or `key`.
///
/// Source: `parse_btf_map_def()` in libbpf's `src/libbpf.c`: in `.maps`, a variable of a struct whose
/// member of this name points to that type.
pub(super) fn declared(btf: &Btf, name: &str, what: &[u8]) -> Option<u32> {
    let (definition, _) = btf.place(btf.section(b".maps")?, name)?;
    let value = btf.fields(definition).find(|it| it.name == what)?;
    btf.pointee(value.type_id)
}

fn set_maps(
    object: &mut libbpf_rs::Object,
    btf: Option<&Btf>,
    settings: &[Setting],
) -> Result<(), Error> {
    for setting in settings {
        let Assign::Map { map: name, keys } = &setting.to else { continue };
        let Some(map) = object.maps_mut().find(|it| it.name() == name.as_str()) else {
            let known = object.maps().map(|it| it.name().to_string_lossy().into_owned());
            // Variables are in maps of the library's own.
            let known = known.filter(|it| !it.contains('.')).collect();
            return Err(Error::UnknownMap { name: name.clone(), known });
        };
        let value_type = btf.and_then(|btf| declared(btf, name, b"value"));
        settings::set_map(&map, btf, value_type, keys.as_deref(), &setting.value)?;
    }
    Ok(())
}

/// What stands before and after what the verifier says.
const BEGIN: &str = "-- BEGIN PROG LOAD LOG --";
const END: &str = "-- END PROG LOAD LOG --";

/// Why a load failed, out of what the library said.
pub(in crate::bpf) fn refused(
    error: &libbpf_rs::Error,
    mut log: Log,
    section: impl Fn(&str) -> String,
) -> Error {
    if log.lines.is_empty() {
        log.lines.push(error.to_string());
    }
    let program = log.lines.iter().find_map(|it| {
        let (name, what) = it.strip_prefix("prog '")?.split_once("': ")?;
        (what.starts_with("BPF program load failed") || what.contains(BEGIN))
            .then(|| name.to_owned())
    });
    let begin = log.lines.iter().position(|it| it.contains(BEGIN));
    let end = log.lines.iter().position(|it| it.contains(END));
    if let (Some(program), Some(begin), Some(end)) = (&program, begin, end) {
        let program = program.clone();
        let lines = log.lines.get(begin + 1..end).unwrap_or_default().to_vec();
        // What the library cannot fit into this kernel it poisons, and the verifier stumbles over it.
        return Error::Verifier { program, log: Log { lines } };
    }
    if error.kind() == ErrorKind::PermissionDenied {
        return match program {
            Some(program) => Error::Refused { section: section(&program), program },
            None => Error::Denied,
        };
    }
    Error::Load(log)
}
