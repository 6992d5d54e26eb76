//! `bpfperf buildid-list`: the build ids of what a recording mapped, of a file, or of the kernel.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::host::kernel;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::render::escape::escape;
use crate::replay::Asked;
use crate::replay::CodeFiles;
use crate::replay::Index;
use crate::replay::Names;
use crate::replay::Recording;
use crate::replay::Wanted;
use crate::replay::resolve;
use crate::replay::resolved::Keep;
use crate::replay::timeline::Owner;
use crate::symbols::Identity;
use crate::units::BuildId;

use super::here;
use super::input;
use super::input::Input;
use super::message::Failure;
use super::script::stdout;
use super::sources::ThisMachine;
use super::symbol_options::SymbolOptions;

/// What was typed after `bpfperf buildid-list`.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag on the command line")]
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Read this recording, or this ELF file; `-` for standard input.
    #[arg(short, long, value_name = "FILE", default_value = input::DEFAULT)]
    input: PathBuf,
    /// Show only files that samples fell on, with or without a build id.
    #[arg(short = 'H', long)]
    with_hits: bool,
    /// Show the build id of the kernel that runs.
    #[arg(short, long)]
    kernel: bool,
    /// Show the build ids of the kernel that runs and of its modules, with their addresses.
    #[arg(short = 'm', long)]
    kernel_maps: bool,
    #[command(flatten)]
    symbols_from: SymbolOptions,
    /// Taken for the habit of it: who owns the file does not matter.
    #[arg(short, long)]
    force: bool,
    /// Taken for the habit of it.
    #[arg(short, long)]
    verbose: bool,
}

/// Files by path, each with its build id, where it is known.
pub(super) type BuildIds = BTreeMap<Vec<u8>, Option<BuildId>>;

/// Runs `bpfperf buildid-list`.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut out = stdout()?;
    args.list(&mut out)?;
    let flushed = out.flush();
    flushed.map_err(|error| Failure::because("cannot print the build ids", &error))?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn list(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let cannot = |error: io::Error| Failure::because("cannot print the build ids", &error);
        if self.kernel {
            let id = here::kernel_build_id()
                .ok_or_else(|| Failure::new("the kernel that runs tells no build id"))?;
            return writeln!(out, "{id}").map_err(cannot);
        }
        if self.kernel_maps {
            return kernel_maps(out).map_err(cannot);
        }
        if let Some(id) = of_elf(&self.input) {
            return writeln!(out, "{id}").map_err(cannot);
        }
        let (file, recording) = input::open(&self.input)?;
        let has_trace = recording.feature(FeatureId::AUXTRACE).is_some();
        let listed = match recording.feature(FeatureId::BUILD_ID) {
            Some(Feature::BuildIds(entries)) if !self.with_hits || has_trace => {
                entries.iter().map(|it| (it.name.as_bytes().to_vec(), it.build_id)).collect()
            }
            _ => of_files(
                &self.input,
                &file,
                &recording,
                &self.symbols_from,
                Which::Hit,
                Untold::Left,
            )?,
        };
        for (path, id) in &listed {
            let id = id.map(|it| it.to_string()).unwrap_or_default();
            writeln!(out, "{id:<40} {}", escape(path)).map_err(cannot)?;
        }
        Ok(())
    }
}

/// Which files are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Those that samples fell on.
    Hit,
    /// All that were mapped.
    All,
}

/// Where build ids are taken from that a recording does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Untold {
    /// From nowhere.
    Left,
    /// From the files that were mapped, where they are at hand.
    Read,
}

/// The files of the recording at `path`, with their build ids.
pub(super) fn of_files(
    path: &Path,
    file: &Input,
    recording: &Recording,
    symbols_from: &SymbolOptions,
    which: Which,
    untold: Untold,
) -> Result<BuildIds, Failure> {
    let cannot = |error| input::cannot_read(path, &error);
    let index = Index::new(recording, file, &Wanted::default()).map_err(cannot)?;
    input::check(path, &index)?;
    let of_maps: BTreeMap<&[u8], BuildId> =
        index.files.iter().filter_map(|it| Some((it.path.as_slice(), it.build_id?))).collect();
    let machine = ThisMachine::new(file, &index, symbols_from);
    // Of several files of one path it could be any.
    let mut only: BTreeMap<&[u8], Option<usize>> = BTreeMap::new();
    for (idx, it) in index.files.iter().enumerate() {
        only.entry(&it.path).and_modify(|it| *it = None).or_insert(Some(idx));
    }
    let read = |path: &[u8]| machine.build_id(&index, only.get(path).copied().flatten()?);
    let id = |path: &[u8]| {
        if path == b"[kernel.kallsyms]" {
            return index.kernel_build_id();
        }
        let told = index.build_ids.get(path).or_else(|| of_maps.get(path)).copied();
        told.or_else(|| if untold == Untold::Read { read(path) } else { None })
    };
    let with_id = |path: &[u8]| (path.to_vec(), id(path));
    if which == Which::All {
        let is_file = |path: &&[u8]| path.starts_with(b"/") && !path.starts_with(b"//");
        let mapped = index.files.iter().map(|it| it.path.as_slice()).filter(is_file);
        return Ok(mapped.chain([b"[kernel.kallsyms]".as_slice()]).map(with_id).collect());
    }
    let names = Names::new(&index, &machine);
    let keep = Keep { thread: false, cpu: false, stack: true, address: true };
    let resolved =
        resolve(recording, &index, file, &CodeFiles::new(&names), None, keep, Asked::default());
    let resolved = resolved.map_err(cannot)?;
    let hit: BTreeSet<_> = resolved
        .locations
        .iter()
        // Code of BPF programs and the like is in no file.
        .filter(|it| !matches!(it.owner, Some(Owner::Ksymbol(_))))
        .filter_map(|it| it.dso)
        .collect();
    let paths = hit.iter().filter_map(|it| resolved.dsos.get(it.0 as usize));
    Ok(paths.map(|it| with_id(it.long_name.as_bytes())).collect())
}

/// The build id of the file at `path`, if it is an ELF file.
fn of_elf(path: &Path) -> Option<BuildId> {
    let is_file = path.metadata().ok()?.is_file();
    let mut start = [0; 4];
    io::Read::read_exact(&mut std::fs::File::open(path).ok().filter(|_| is_file)?, &mut start)
        .ok()?;
    if start != *b"\x7fELF" {
        return None;
    }
    Identity::of(&std::fs::read(path).ok()?).ok()?.build_id
}

/// The kernel that runs and its modules, with the addresses of their code.
fn kernel_maps(out: &mut dyn Write) -> io::Result<()> {
    let symbols = kernel::Symbols::open()?;
    let text = symbols.text().map_or((0, 0), |it| (it.start.0, it.end.0));
    let id = |it: Option<BuildId>| it.map(|it| it.to_string()).unwrap_or_default();
    let (start, end) = text;
    writeln!(out, "{} {start:16x} {end:16x} [kernel.kallsyms]", id(here::kernel_build_id()))?;
    for module in kernel::modules() {
        let end = module.start.0.saturating_add(module.len);
        writeln!(out, "{} {:16x} {end:16x} {}", id(module.build_id), module.start.0, module.path)?;
    }
    Ok(())
}
