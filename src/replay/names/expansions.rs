//! All frames of a recording to locations: each distinct name, module and file of source once, and more
//! locations for what was inlined.

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::replay::Frame;
use crate::replay::Lines;
use crate::replay::resolved::Dso;
use crate::replay::resolved::DsoId;
use crate::replay::resolved::Location;
use crate::replay::resolved::LocationId;
use crate::replay::resolved::Resolved;
use crate::replay::resolved::SourceLine;
use crate::replay::resolved::Symbol;
use crate::replay::resolved::SymbolId;
use crate::symbols::NativeLine;
use crate::symbols::SourceFrame;
use crate::units::Addr;

use super::Module;
use super::ModuleKind;
use super::Name;
use super::Names;
use super::SymbolName;
use super::narrow;

/// Frames that are named at once: names of all take more memory than what comes of them.
const CHUNK: usize = 1 << 16;

impl Names<'_> {
    /// All modules, numbered in the order in which a recording tells of them, and perf with it: the
    /// kernel's, BPF's, those of processes. Numbers taken in the order of samples would differ from
    /// run to run.
    fn dsos(&self) -> Dsos<'_> {
        let is_kernel =
            |it: &&Module| matches!(it.kind, ModuleKind::Kernel | ModuleKind::KernelModule(_));
        let (kernel, others): (Vec<_>, Vec<_>) = self.modules.iter().partition(is_kernel);
        let kernel = kernel.into_iter().map(|it| (&it.dso, &it.dso));
        let mut dsos = Dsos::default();
        let ksymbols = (0..self.ksymbol_dsos.len()).map(|it| self.ksymbol_dso(it));
        let ksymbols = ksymbols.map(|it| (it, it));
        let others = others.into_iter();
        let others = others.map(|it| (&it.dso, it.undeleted_dso.as_ref().unwrap_or(&it.dso)));
        for (dso, shown) in kernel.chain(ksymbols).chain(others) {
            let id = dsos.id(shown);
            dsos.by_place.insert(std::ptr::from_ref(dso), id);
        }
        dsos
    }

    /// Names `frames`, which become the first locations of `resolved` in the same order; what was
    /// inlined where one is, as far as `lines` has it, becomes more of them.
    pub(in crate::replay) fn name_all(
        &self,
        frames: &[Frame],
        lines: Option<&Lines<'_>>,
        resolved: &mut Resolved,
    ) -> Expansions {
        let mut dsos = self.dsos();
        let mut symbols = SymbolIds::default();
        let mut source_files = SourceFiles::default();
        let mut expansions = Expansions::new(frames.len());
        let mut inlined = Vec::new();
        resolved.locations.reserve_exact(frames.len());
        for chunk in frames.chunks(CHUNK) {
            let names: Vec<Name<'_>> =
                chunk.par_iter().with_min_len(256).map(|frame| self.name(frame)).collect();
            let sources: Vec<Vec<SourceFrame<'_>>> = match lines {
                Some(lines) => {
                    let named = chunk.par_iter().zip(&names).with_min_len(64);
                    named.map(|(frame, name)| lines.of(frame, name.symbol.as_ref())).collect()
                }
                None => Vec::new(),
            };
            for (idx, (frame, name)) in chunk.iter().zip(&names).enumerate() {
                let dso = name.dso.map(|dso| dsos.id(dso));
                let symbol = dso.zip(name.symbol);
                let Frame { ip, owner, level, .. } = *frame;
                let found = sources.get(idx).map_or(&[][..], Vec::as_slice);
                let of_code = found.last();
                let location = Location {
                    ip,
                    addr: name.addr,
                    linked: self.linked(frame, name),
                    owner,
                    dso,
                    symbol: symbol.map(|(dso, it)| symbols.id(dso, it, Code::Own)),
                    symbol_offset: symbol.map_or(0, |(_, it)| it.offset),
                    level,
                    line: of_code.and_then(|it| Some(source_files.line(it.line?))),
                    running_line: found.first().and_then(|it| Some(source_files.line(it.line?))),
                };
                resolved.locations.push(location);
                if let (Some((dso, symbol)), [callees @ .., _]) = (symbol, found) {
                    for callee in callees {
                        let raw = callee.function.unwrap_or("??");
                        let symbol = symbols.id(dso, symbol.inlined(raw), Code::Inlined);
                        let line = callee.line.map(|it| source_files.line(it));
                        inlined.push(Location { symbol: Some(symbol), line, ..location });
                        expansions.add(frames.len() + inlined.len() - 1);
                    }
                }
                expansions.end();
            }
        }
        resolved.locations.append(&mut inlined);
        resolved.symbols = symbols
            .found
            .par_iter()
            .with_min_len(64)
            .map(|&(dso, symbol, code)| Symbol {
                name: symbol.shown().into_owned(),
                dso,
                start: symbol.start,
                end: symbol.end,
                is_inlined: code == Code::Inlined,
            })
            .collect();
        resolved.source_files = source_files.found;
        resolved.dsos = dsos.found;
        expansions
    }
}

/// The locations that stand for what was inlined where a frame is, the innermost first, by frame.
#[derive(Debug)]
pub(in crate::replay) struct Expansions {
    ends: Vec<usize>,
    ids: Vec<LocationId>,
}

impl Expansions {
    fn new(n_frames: usize) -> Self {
        Self { ends: Vec::with_capacity(n_frames), ids: Vec::new() }
    }

    fn add(&mut self, location: usize) {
        self.ids.push(LocationId(narrow(location)));
    }

    fn end(&mut self) {
        self.ends.push(self.ids.len());
    }

    /// The locations of the frame with this number, that of the code itself last.
    pub(in crate::replay) fn of(&self, frame: u32) -> impl Iterator<Item = LocationId> + '_ {
        let idx = frame as usize;
        let start = idx.checked_sub(1).map_or(0, |it| self.ends[it]);
        self.ids[start..self.ends[idx]].iter().copied().chain([LocationId(frame)])
    }
}

/// Whose code a symbol has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Code {
    /// Its own.
    Own,
    /// That of the function into which it was inlined.
    Inlined,
}

/// Distinct symbols: by name and place, since two of one name are two.
#[derive(Default)]
struct SymbolIds<'n> {
    found: Vec<(DsoId, SymbolName<'n>, Code)>,
    ids: FxHashMap<(DsoId, &'n str, Addr, Code), SymbolId>,
}

impl<'n> SymbolIds<'n> {
    fn id(&mut self, dso: DsoId, symbol: SymbolName<'n>, code: Code) -> SymbolId {
        *self.ids.entry((dso, symbol.raw, symbol.start, code)).or_insert_with(|| {
            self.found.push((dso, symbol, code));
            SymbolId(narrow(self.found.len() - 1))
        })
    }
}

/// Distinct files of source.
#[derive(Default)]
struct SourceFiles<'n> {
    found: Vec<String>,
    ids: FxHashMap<&'n str, u32>,
}

impl<'n> SourceFiles<'n> {
    /// A line of one of them.
    fn line(&mut self, line: NativeLine<'n>) -> SourceLine {
        let file = *self.ids.entry(line.file).or_insert_with(|| {
            self.found.push(line.file.to_owned());
            narrow(self.found.len() - 1)
        });
        SourceLine { file, line: line.line }
    }
}

/// Distinct modules as they are shown: by name, since names are what a reader sees.
#[derive(Default)]
struct Dsos<'n> {
    found: Vec<Dso>,
    by_place: FxHashMap<*const Dso, DsoId>,
    by_name: FxHashMap<&'n str, DsoId>,
}

impl<'n> Dsos<'n> {
    fn id(&mut self, dso: &'n Dso) -> DsoId {
        if let Some(id) = self.by_place.get(&std::ptr::from_ref(dso)) {
            return *id;
        }
        let id = *self.by_name.entry(&dso.long_name).or_insert_with(|| {
            self.found.push(dso.clone());
            DsoId(narrow(self.found.len() - 1))
        });
        self.by_place.insert(std::ptr::from_ref(dso), id);
        id
    }
}
