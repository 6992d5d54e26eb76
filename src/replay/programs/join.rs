//! From what the records say to programs: which symbols, loads and unloads belong together.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use rustc_hash::FxHashSet;

use crate::btf::Btf;
use crate::perfdata::Endian;
use crate::perfdata::bpf_info::ProgInfo;
use crate::perfdata::feature::Feature;
use crate::replay::spans::Moment;
use crate::replay::timeline::KernelSymbol;
use crate::units::Addr;
use crate::units::BpfTag;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::ProgId;
use crate::units::Tid;

use super::Function;
use super::FunctionId;
use super::Notes;
use super::Process;
use super::Program;
use super::ProgramIdx;
use super::Programs;
use super::Runs;
use super::notes::Note;
use super::notes::NoteKind;

/// What a recording says of programs.
pub(super) struct Input<'a, 'c> {
    /// The byte order of the recording.
    pub(super) endian: Endian,
    /// The sections that can be read.
    pub(super) features: Vec<&'a Feature>,
    /// The kernel symbols of the timeline.
    pub(super) ksymbols: &'a [KernelSymbol],
    /// What its records say.
    pub(super) notes: &'a Notes,
    /// The name of a task's process at a moment.
    pub(super) comm: &'c dyn Fn((Pid, Tid), Moment) -> Option<Vec<u8>>,
}

/// How many programs are looked at that had a function at the same address, one after the other.
const MAX_TENANTS: usize = 256;

/// How many programs are looked at that had the same id, one after the other: ids are given out in
/// turn, so that one comes back after 2^31 loads.
const MAX_OF_ID: usize = 16;

/// How many symbols of one thread wait for the event that claims them. A program has 256 functions
/// at most (`BPF_MAX_SUBPROGS` in `include/linux/bpf_verifier.h`), each of which can come twice.
const MAX_PENDING: usize = 512;

/// Symbols that wait for the event that claims them, with the tags in their names, the oldest first.
type Pending = VecDeque<(u32, Option<BpfTag>)>;

/// The programs of `input`.
pub(super) fn join<'a>(input: &Input<'a, '_>) -> Programs<'a> {
    let mut join = Join { ksymbols: input.ksymbols, ..Join::default() };
    join.walk(input);
    join.add_infos(input);
    join.take_functions();
    join.claim_by_address();
    join.name();
    join.add_messages(&input.notes.messages);
    join.add_metadata(&input.notes.records);
    join.finish(input)
}

/// Programs in the making.
#[derive(Default)]
pub(super) struct Join<'a> {
    pub(super) ksymbols: &'a [KernelSymbol],
    pub(super) drafts: Vec<Draft<'a>>,
    pub(super) btfs: BTreeMap<u32, Btf>,
    pub(super) runs: Option<Runs>,
    pub(super) n_damaged: u64,
    /// From when to when each symbol was there, where a record tells.
    lives: FxHashMap<u32, (Moment, Moment)>,
    /// The drafts of each id, in the order in which they came.
    by_id: FxHashMap<ProgId, Vec<usize>>,
    /// The program of each `BPF_EVENT`, by where that stands.
    of_event: FxHashMap<u64, usize>,
}

/// A program in the making.
#[derive(Default)]
pub(super) struct Draft<'a> {
    pub(super) program: Program<'a>,
    /// The symbols that are its functions.
    ksymbols: Vec<u32>,
    /// Whether its metadata is whole, so that no record can add to it.
    pub(super) has_whole_metadata: bool,
}

/// A program that has a function at some address.
struct Tenant {
    draft: usize,
    /// Which of its functions.
    function: usize,
    /// The tags that the name of the function can bear.
    tags: [Option<BpfTag>; 3],
}

impl<'a> Join<'a> {
    /// Puts symbols, loads and unloads together.
    fn walk(&mut self, input: &Input<'a, '_>) {
        let mut notes: Vec<&Note> = input.notes.records.iter().collect();
        notes.sort_by_key(|it| it.moment);
        // Symbols that no event has claimed yet, by who wrote them. A load is written by the thread
        // that loads: symbols first, in the order of the functions, then the event.
        let mut pending: FxHashMap<(bool, Option<Tid>), Pending> = FxHashMap::default();
        // A program that was met at the start and live has each of its symbols twice.
        let mut at_addr: FxHashMap<u64, Vec<u32>> = FxHashMap::default();
        let mut live: FxHashMap<ProgId, usize> = FxHashMap::default();
        for note in notes {
            let Note { moment, task, ref kind } = *note;
            let is_timed = moment.time != Nanos(0);
            let writer = (is_timed, task.map(|(_, tid)| tid));
            match *kind {
                NoteKind::Register { ksymbol } => {
                    let Some(symbol) = self.ksymbols.get(ksymbol as usize) else { continue };
                    at_addr.entry(symbol.start).or_default().push(ksymbol);
                    self.lives.insert(ksymbol, (moment, Moment::END));
                    let pending = pending.entry(writer).or_default();
                    if pending.len() == MAX_PENDING {
                        pending.pop_front();
                    }
                    pending.push_back((ksymbol, own_name(&symbol.name).map(|(tag, _)| tag)));
                }
                NoteKind::Unregister { addr } => {
                    for ksymbol in at_addr.remove(&addr).unwrap_or_default() {
                        if let Some((_, until)) = self.lives.get_mut(&ksymbol) {
                            *until = moment;
                        }
                    }
                }
                NoteKind::Load { id, tag } => {
                    let known = live.get(&id).filter(|it| self.has_tag(**it, tag)).copied();
                    let draft = known.unwrap_or_else(|| self.begin(id, tag));
                    live.insert(id, draft);
                    self.of_event.insert(moment.position, draft);
                    let pending = pending.entry(writer).or_default();
                    let claimed = claim(self.ksymbols, pending, tag, is_timed);
                    let Draft { program, ksymbols, .. } = &mut self.drafts[draft];
                    ksymbols.extend(claimed);
                    if is_timed && program.loaded.is_none() {
                        program.loaded = Some(moment.time);
                        program.loader = task.map(|task| Process {
                            pid: task.0,
                            comm: (input.comm)(task, moment).unwrap_or_default(),
                        });
                    }
                }
                NoteKind::Unload { id, tag } => {
                    let known = live.remove(&id).filter(|it| self.has_tag(*it, tag));
                    let draft = known.unwrap_or_else(|| self.begin(id, tag));
                    self.of_event.insert(moment.position, draft);
                    self.drafts[draft].program.unloaded = is_timed.then_some(moment.time);
                }
                NoteKind::Metadata { .. } => {}
            }
        }
    }

    fn has_tag(&self, draft: usize, tag: BpfTag) -> bool {
        self.drafts[draft].program.tag == Some(tag)
    }

    fn begin(&mut self, id: ProgId, tag: BpfTag) -> usize {
        let program = Program { id: Some(id), tag: Some(tag), ..Program::default() };
        self.add(program)
    }

    pub(super) fn add(&mut self, program: Program<'a>) -> usize {
        let idx = self.drafts.len();
        if let Some(id) = program.id {
            self.by_id.entry(id).or_default().push(idx);
        }
        self.drafts.push(Draft { program, ..Draft::default() });
        idx
    }

    /// The drafts of the program `id`, in the order in which they came.
    pub(super) fn of_id(&self, id: ProgId) -> &[usize] {
        let drafts = self.by_id.get(&id).map(Vec::as_slice).unwrap_or_default();
        drafts.get(..MAX_OF_ID).unwrap_or(drafts)
    }

    /// Whether one of the symbols of `draft` begins at one of `addrs`; true where either has none.
    pub(super) fn may_have(&self, draft: usize, addrs: &FxHashSet<Addr>) -> bool {
        let ksymbols = &self.drafts[draft].ksymbols;
        let begins = |it: &u32| addrs.contains(&Addr(self.ksymbols[*it as usize].start));
        addrs.is_empty() || ksymbols.is_empty() || ksymbols.iter().any(begins)
    }

    /// Gives each program its functions: by its info where that has addresses, else by its symbols.
    fn take_functions(&mut self) {
        for Draft { program, ksymbols, .. } in &mut self.drafts {
            let btf = program.info.as_ref().and_then(|it| self.btfs.get(&it.btf_id()?));
            let name = |type_id| btf.and_then(|it| it.function_name(type_id));
            let known = program.info.as_ref().map(|it| it.symbols(name)).unwrap_or_default();
            program.functions = known
                .into_iter()
                .map(|it| Function {
                    idx: it.idx,
                    start: it.addr,
                    end: it.addr + u64::from(it.len),
                    name: it.name,
                })
                .collect();
            let mut by_start = by_start(&program.functions);
            if program.functions.is_empty() {
                for symbol in ksymbols.iter().map(|it| &self.ksymbols[*it as usize]) {
                    let idx = program.functions.len();
                    by_start.entry(symbol.start).or_insert_with(|| {
                        program.functions.push(function(idx, symbol));
                        idx
                    });
                }
            } else {
                // What was written by another thread in between is no function of this program.
                ksymbols.retain(|it| {
                    let symbol = &self.ksymbols[*it as usize];
                    let Some(&idx) = by_start.get(&symbol.start) else { return false };
                    // What the recording calls it is what a reader sees elsewhere.
                    program.functions[idx].name.clone_from(&symbol.name);
                    true
                });
            }
        }
    }

    /// Gives symbols that no event has claimed to the one program that had a function there then,
    /// else each to a program of which nothing else is known.
    fn claim_by_address(&mut self) {
        let mut claimed = vec![false; self.ksymbols.len()];
        let mut tenants: FxHashMap<u64, Vec<Tenant>> = FxHashMap::default();
        for (idx, Draft { program, ksymbols, .. }) in self.drafts.iter().enumerate() {
            for ksymbol in ksymbols {
                claimed[*ksymbol as usize] = true;
            }
            let infos = program.info.iter().flat_map(ProgInfo::functions);
            let of_info: FxHashMap<usize, Option<BpfTag>> =
                infos.map(|(idx, it)| (idx, it.tag)).collect();
            for (function, it) in program.functions.iter().enumerate() {
                let of_name = own_name(&it.name).map(|(tag, _)| tag);
                let of_program = program.tag.filter(|_| it.idx == 0);
                let tags = [of_name, of_program, of_info.get(&it.idx).copied().flatten()];
                let tenant = Tenant { draft: idx, function, tags };
                tenants.entry(it.start.0).or_default().push(tenant);
            }
        }
        let mut orphans: FxHashMap<(u64, &[u8]), usize> = FxHashMap::default();
        for (ksymbol, symbol) in (0_u32..).zip(self.ksymbols) {
            let Some((tag, _)) = own_name(&symbol.name) else { continue };
            if claimed[ksymbol as usize] {
                continue;
            }
            let whole = (Moment::START, Moment::END);
            let life = self.lives.get(&ksymbol).copied().unwrap_or(whole);
            let here = tenants.get(&symbol.start).map(Vec::as_slice).unwrap_or_default();
            let here = here.get(..MAX_TENANTS).unwrap_or(here);
            let fits = |it: &&Tenant| {
                it.tags.contains(&Some(tag)) && self.drafts[it.draft].program.was_there(life)
            };
            let mut fitting = here.iter().filter(fits);
            match (fitting.next(), fitting.next()) {
                (Some(&Tenant { draft, function, .. }), None) => {
                    let Draft { program, ksymbols, .. } = &mut self.drafts[draft];
                    ksymbols.push(ksymbol);
                    program.functions[function].name.clone_from(&symbol.name);
                    let from = Some(life.0.time).filter(|it| *it != Nanos(0));
                    program.loaded = program.loaded.or(from);
                }
                _ => {
                    let key = (symbol.start, symbol.name.as_slice());
                    let known = orphans.get(&key).copied();
                    let known = known.filter(|it| self.drafts[*it].program.unloaded.is_none());
                    let draft = known.unwrap_or_else(|| self.add(orphan(symbol, life.0)));
                    orphans.insert(key, draft);
                    self.drafts[draft].ksymbols.push(ksymbol);
                    self.drafts[draft].program.unloaded = ended(life.1);
                }
            }
        }
    }

    /// Gives each program its name, and the end of its code for its own where no event told that.
    fn name(&mut self) {
        for Draft { program, ksymbols, .. } in &mut self.drafts {
            let first = program.functions.iter().find(|it| it.idx == 0);
            let named = first.and_then(|it| own_name(&it.name)).map(|(_, name)| name);
            let info_name = || program.info.as_ref().map_or(&b""[..], |it| it.name());
            let name = named.filter(|it| !it.is_empty()).unwrap_or_else(info_name);
            program.name = name.to_vec();
            let ends = ksymbols.iter().filter_map(|it| self.lives.get(it)).map(|(_, until)| until);
            if program.unloaded.is_none()
                && let Some(end) = ends.max()
            {
                program.unloaded = ended(*end);
            }
        }
    }

    /// What `BPF_METADATA` records say, for programs of which no message says it whole.
    fn add_metadata(&mut self, notes: &[Note]) {
        let mut by_tag: FxHashMap<BpfTag, Vec<usize>> = FxHashMap::default();
        for (idx, draft) in self.drafts.iter().enumerate() {
            for tag in draft.tags() {
                let drafts = by_tag.entry(tag).or_default();
                // They come in order.
                if drafts.last() != Some(&idx) {
                    drafts.push(idx);
                }
            }
        }
        let mut known: FxHashSet<(usize, &str)> = FxHashSet::default();
        for note in notes {
            let NoteKind::Metadata { name, entries, after } = &note.kind else { continue };
            let by_place = after.and_then(|it| self.of_event.get(&it)).copied();
            let by_tag = || match by_tag.get(&own_name(name)?.0)?.as_slice() {
                [draft] => Some(*draft),
                _ => None,
            };
            let Some(draft) = by_place.or_else(by_tag) else { continue };
            let Draft { program, has_whole_metadata, .. } = &mut self.drafts[draft];
            if *has_whole_metadata {
                continue;
            }
            for (key, value) in entries {
                if known.insert((draft, key)) {
                    program.metadata.push((key.clone(), value.clone()));
                }
            }
        }
    }

    fn finish(self, input: &Input<'a, '_>) -> Programs<'a> {
        let Self { ksymbols, mut drafts, btfs, runs, n_damaged, .. } = self;
        let tracepoints = input.notes.tracepoints().collect();
        drafts.sort_by_key(|Draft { program: it, .. }| {
            (it.id.is_none(), it.id, it.load_time_ns, it.loaded, it.unloaded.is_none(), it.unloaded)
        });
        let mut of_ksymbol = vec![None; ksymbols.len()];
        for (idx, Draft { program, ksymbols: own, .. }) in (0..).map(ProgramIdx).zip(&drafts) {
            let by_start = by_start(&program.functions);
            for &ksymbol in own {
                let function = by_start.get(&ksymbols[ksymbol as usize].start);
                of_ksymbol[ksymbol as usize] = function
                    .and_then(|it| u32::try_from(*it).ok())
                    .map(|function| FunctionId { program: idx, function });
            }
        }
        let all: Vec<_> = drafts.into_iter().map(|it| it.program).collect();
        let lines = all.iter().map(|_| OnceLock::new()).collect();
        let by_start = all.iter().map(|_| OnceLock::new()).collect();
        let n_of_name = OnceLock::new();
        Programs { all, btfs, of_ksymbol, tracepoints, runs, n_damaged, by_start, lines, n_of_name }
    }
}

impl Draft<'_> {
    /// The tags that names of its functions can bear: its own, and those of each function.
    fn tags(&self) -> impl Iterator<Item = BpfTag> {
        let of_info = self.program.info.iter().flat_map(ProgInfo::functions);
        let of_names = self.program.functions.iter().filter_map(|it| own_name(&it.name));
        let of_functions = of_info.filter_map(|(_, it)| it.tag);
        self.program.tag.into_iter().chain(of_functions).chain(of_names.map(|(tag, _)| tag))
    }
}

impl Program<'_> {
    /// Whether it was there at a time of `life`.
    fn was_there(&self, life: (Moment, Moment)) -> bool {
        self.loaded.is_none_or(|it| it <= life.1.time)
            && self.unloaded.is_none_or(|it| life.0.time <= it)
    }
}

/// Takes the symbols of a program with `tag` off those that are pending, the oldest first.
///
/// The kernel names the first function by the tag of the program; perf, of programs that were there
/// before, by that of the function, but then nothing else is pending.
fn claim(
    ksymbols: &[KernelSymbol],
    pending: &mut Pending,
    tag: BpfTag,
    is_timed: bool,
) -> impl Iterator<Item = u32> {
    let claimed = match pending.iter().rposition(|(_, it)| *it == Some(tag)) {
        // A record may come twice, from two events that both asked for it.
        Some(last) => {
            let start = |(ksymbol, _): &(u32, _)| ksymbols[*ksymbol as usize].start;
            let of_last = start(&pending[last]);
            let before = pending.range(..last).rev();
            let n_same = before.take_while(|it| start(it) == of_last).count();
            pending.split_off(last - n_same)
        }
        None if !is_timed => std::mem::take(pending),
        None => Pending::new(),
    };
    claimed.into_iter().map(|(ksymbol, _)| ksymbol)
}

/// A program of which nothing but a symbol is known, since `from`.
fn orphan<'a>(symbol: &KernelSymbol, from: Moment) -> Program<'a> {
    let (tag, name) = own_name(&symbol.name).unzip();
    Program {
        tag,
        name: name.unwrap_or_default().to_vec(),
        loaded: Some(from.time).filter(|it| *it != Nanos(0)),
        functions: vec![function(0, symbol)],
        ..Program::default()
    }
}

/// The time of `end`, where that is an end and has one.
fn ended(end: Moment) -> Option<Nanos> {
    Some(end.time).filter(|it| end != Moment::END && *it != Nanos(0))
}

/// The function that `symbol` is.
fn function(idx: usize, symbol: &KernelSymbol) -> Function {
    let KernelSymbol { name, start, end, .. } = symbol;
    Function { idx, start: Addr(*start), end: Addr(*end), name: name.clone() }
}

/// The place in `functions` of each, by where it begins.
fn by_start(functions: &[Function]) -> FxHashMap<u64, usize> {
    functions.iter().enumerate().map(|(idx, it)| (it.start.0, idx)).collect()
}

/// The tag and the own name in `bpf_prog_TAG_NAME` or `bpf_prog_TAG`.
pub(super) fn own_name(symbol: &[u8]) -> Option<(BpfTag, &[u8])> {
    let rest = symbol.strip_prefix(b"bpf_prog_")?;
    let (digits, rest) = rest.split_at_checked(16)?;
    let digits = std::str::from_utf8(digits).ok()?;
    let name = match rest {
        [] => rest,
        [b'_', name @ ..] => name,
        _ => return None,
    };
    // A sign would pass for a digit.
    let tag = digits.bytes().all(|it| it.is_ascii_hexdigit());
    let tag = tag.then(|| u64::from_str_radix(digits, 16).ok()).flatten()?;
    Some((BpfTag(tag.to_be_bytes()), name))
}
