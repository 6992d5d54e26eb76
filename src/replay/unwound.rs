//! The frames of user code to which a sample's registers and its copy of the stack lead.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use crate::perfdata::UserState;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::symbols::ElfCode;
use crate::units::Addr;
use crate::units::FileOffset;
use crate::unwind;
use crate::unwind::Arch;
use crate::unwind::Code;
use crate::unwind::Context;
use crate::unwind::End;
use crate::unwind::Left;
use crate::unwind::Registers;
use crate::unwind::Row;
use crate::unwind::RowId;
use crate::unwind::Space;
use crate::unwind::StackCopy;
use crate::unwind::Table;

use super::CodeFiles;
use super::Frame;
use super::NoCode;
use super::Recording;
use super::resolved::Level;
use super::spans::Moment;
use super::timeline::Owner;
use super::timeline::ProcessAt;
use super::timeline::Timeline;

/// What all threads unwind with: the tables of all modules, each read when a frame lies in it.
pub struct Unwinding<'a> {
    files: &'a CodeFiles<'a>,
    /// The machine that was recorded, if its stacks can be unwound.
    arch: Option<Arch>,
    /// By module.
    tables: Vec<OnceLock<Option<Table<'a>>>>,
}

impl std::fmt::Debug for Unwinding<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unwinding").field("arch", &self.arch).finish_non_exhaustive()
    }
}

/// How the unwinding of samples' stacks ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Samples with a stack.
    pub n_stacks: u64,
    /// Of those, the ones of which more of the stack would have to be copied.
    pub n_cut: u64,
    /// Of those, the ones of tasks in 32-bit mode, which are not unwound.
    pub n_32_bit: u64,
    /// Of those, the ones of a machine whose stacks are not unwound.
    pub n_other_machine: u64,
    /// The most bytes that were copied of a stack.
    pub copied_bytes: u64,
}

/// Unwinds stacks; each thread has one of its own.
pub(super) struct Unwinder<'a> {
    unwinding: &'a Unwinding<'a>,
    timeline: &'a Timeline,
    /// What lies at addresses, by address space and its state.
    places: FxHashMap<(u32, u32, u64, Left), Place>,
    /// The rows of link-time addresses, by module.
    row_ids: FxHashMap<(u32, Addr), Option<RowId>>,
    rows: Vec<Row>,
    /// Most addresses have a row like another's.
    distinct: FxHashMap<Row, RowId>,
    context: Context,
    pub(super) ends: Ends,
}

/// What lies at an address.
#[derive(Clone, Copy, Debug)]
struct Place {
    owner: Option<Owner>,
    code: Code,
}

/// The address space of a task at a moment.
struct TaskSpace<'u, 'a, 'f> {
    unwinder: &'u mut Unwinder<'a>,
    process: &'u ProcessAt,
    moment: Moment,
    /// Whether the task has the registers of the program that it was before it became this one.
    is_before_exec: bool,
    owner: Option<Owner>,
    frames: &'f mut Vec<Frame>,
}

/// The most addresses of which is kept what lies there. In a recording of many processes they would
/// grow with the samples.
const MAX_PLACES: usize = 1 << 20;
/// Set in the number of an address space that a task has just left by exec.
const BEFORE_EXEC: u32 = 1 << 31;

impl<'a> Unwinding<'a> {
    /// What the stacks of `recording` are unwound with, by the tables in `files`.
    pub fn new(recording: &Recording, files: &'a CodeFiles<'a>) -> Self {
        let n_modules = files.names().n_modules();
        let tables = std::iter::repeat_with(OnceLock::new).take(n_modules).collect();
        Self { files, arch: arch(recording), tables }
    }

    fn table(&self, module: u32) -> Option<&Table<'a>> {
        let cell = self.tables.get(module as usize)?;
        cell.get_or_init(|| {
            let table = Table::new(self.files.of_module(module).ok()?)?;
            (Some(table.arch()) == self.arch).then_some(table)
        })
        .as_ref()
    }
}

fn arch(recording: &Recording) -> Option<Arch> {
    if let Some(Feature::Arch(name)) = recording.feature(FeatureId::ARCH) {
        return Arch::from_uname(name.as_bytes());
    }
    match recording.feature(FeatureId::E_MACHINE) {
        Some(Feature::ElfMachine(it)) => Arch::from_elf(u16::try_from(it.machine).ok()?),
        _ => None,
    }
}

impl Ends {
    /// Adds what another thread counted.
    pub fn add(&mut self, other: &Self) {
        let Self { n_stacks, n_cut, n_32_bit, n_other_machine, copied_bytes } = other;
        self.n_stacks += n_stacks;
        self.n_cut += n_cut;
        self.n_32_bit += n_32_bit;
        self.n_other_machine += n_other_machine;
        self.copied_bytes = self.copied_bytes.max(*copied_bytes);
    }
}

impl<'a> Unwinder<'a> {
    pub(super) fn new(unwinding: &'a Unwinding<'a>, timeline: &'a Timeline) -> Self {
        Self {
            unwinding,
            timeline,
            places: FxHashMap::default(),
            row_ids: FxHashMap::default(),
            rows: Vec::new(),
            distinct: FxHashMap::default(),
            context: Context::default(),
            ends: Ends::default(),
        }
    }

    /// Appends the frames of user code that `state` leads to, at most `max_frames`, the one nearest to
    /// the sample first.
    pub(super) fn unwind(
        &mut self,
        process: &ProcessAt,
        state: &UserState<'_>,
        max_frames: usize,
        moment: Moment,
        frames: &mut Vec<Frame>,
    ) {
        self.ends.n_stacks += 1;
        let Some(arch) = self.unwinding.arch else {
            self.ends.n_other_machine += 1;
            return;
        };
        let registers = Registers::from_sample(arch, state.mask, state.registers.values.iter());
        let Some(ip) = registers.get(arch.pc()) else { return };
        let is_before_exec = self.timeline.user(process, ip, moment).is_none()
            && self.timeline.user_before_exec(process, ip).is_some();
        // It may have been made longer than what was really copied.
        let bytes = usize::try_from(state.stack.dyn_size).ok();
        let bytes = bytes.and_then(|it| state.stack.bytes.get(..it));
        let stack = StackCopy {
            start: registers.get(arch.sp()).unwrap_or_default(),
            bytes: bytes.unwrap_or(state.stack.bytes),
        };
        let mut space =
            TaskSpace { unwinder: self, process, moment, is_before_exec, owner: None, frames };
        if state.registers.abi != ABI_64 {
            space.code(ip, Left::Interrupted);
            space.frame(ip);
            self.ends.n_32_bit += 1;
            return;
        }
        let end = unwind::walk(arch, registers, &stack, &mut space, max_frames);
        // Where less was copied than was asked for, the stack has no more.
        let is_full = stack.bytes.len() == state.stack.bytes.len();
        if end == End::CopyEnds && is_full {
            self.ends.n_cut += 1;
            self.ends.copied_bytes = self.ends.copied_bytes.max(stack.bytes.len() as u64);
        }
    }

    fn place(&mut self, owner: Option<Owner>, pc: u64, left: Left) -> Code {
        let Some(Owner::Mapping(idx)) = owner else { return Code::None };
        let mapping = self.timeline.mapping(idx);
        if !mapping.is_executable {
            return Code::None;
        }
        let unwinding = self.unwinding;
        let module = unwinding.files.names().module_of(idx);
        let file = match unwinding.files.of_module(module) {
            Ok(file) => file,
            // Such code has no table in any file.
            Err(NoCode::SelfMade) => return Code::NoTable,
            Err(_) => return Code::None,
        };
        let vaddr = |addr: u64| file.vaddr(FileOffset(addr.wrapping_sub(mapping.bias)));
        let within = pc.wrapping_sub(u64::from(left == Left::ByCall));
        let row = vaddr(within).and_then(|it| self.row_id(module, it));
        if row.is_some_and(|it| self.rows[it.0 as usize].is_signal()) {
            return row.map_or(Code::NoTable, Code::Row);
        }
        // The row is then of the function before.
        let code = vaddr(pc).map(|it| following(file, it, unwind::MAX_SIGNAL_RETURN_BYTES));
        let is_return = |arch| code.is_some_and(|it| unwind::is_signal_return(arch, it));
        if unwinding.arch.is_some_and(is_return) {
            return Code::SignalReturn;
        }
        row.map_or(Code::NoTable, Code::Row)
    }

    fn row_id(&mut self, module: u32, addr: Addr) -> Option<RowId> {
        if let Some(id) = self.row_ids.get(&(module, addr)) {
            return *id;
        }
        let table = self.unwinding.table(module);
        let id = table.and_then(|it| it.row(addr, &mut self.context)).map(|row| {
            *self.distinct.entry(row).or_insert_with_key(|row| {
                self.rows.push(row.clone());
                RowId(u32::try_from(self.rows.len() - 1).unwrap_or(u32::MAX))
            })
        });
        self.row_ids.insert((module, addr), id);
        id
    }
}

/// `PERF_SAMPLE_REGS_ABI_64`.
const ABI_64: u64 = 2;

/// The code of `file` from `addr` on.
fn following(file: &ElfCode, addr: Addr, len: usize) -> &[u8] {
    file.code(addr..Addr(addr.0.saturating_add(len as u64)))
}

impl Space for TaskSpace<'_, '_, '_> {
    fn code(&mut self, pc: u64, left: Left) -> Code {
        let [space, version, ..] = self.process.version;
        let mark = if self.is_before_exec { BEFORE_EXEC } else { 0 };
        let key = (space | mark, version, pc, left);
        if let Some(place) = self.unwinder.places.get(&key) {
            self.owner = place.owner;
            return place.code;
        }
        let within = pc.wrapping_sub(u64::from(left == Left::ByCall));
        let owner = self.owner(within);
        let code = self.unwinder.place(owner, pc, left);
        if self.unwinder.places.len() == MAX_PLACES {
            self.unwinder.places.clear();
        }
        self.unwinder.places.insert(key, Place { owner, code });
        self.owner = owner;
        code
    }

    fn row(&self, id: RowId) -> &Row {
        &self.unwinder.rows[id.0 as usize]
    }

    fn follows_call(&mut self, pc: u64) -> Option<bool> {
        let Owner::Mapping(idx) = self.owner(pc.checked_sub(1)?)? else { return None };
        let Unwinding { files, arch, .. } = self.unwinder.unwinding;
        let file = files.of_module(files.names().module_of(idx)).ok()?;
        let bias = self.unwinder.timeline.mapping(idx).bias;
        // Less of it at the beginning of the code.
        let code = (1..=unwind::MAX_CALL_BYTES).rev().find_map(|len| {
            let at = pc.wrapping_sub(bias).checked_sub(len as u64)?;
            let code = following(file, file.vaddr(FileOffset(at))?, len);
            (code.len() == len).then_some(code)
        })?;
        // What is kept of a file that is gone has no code.
        let is_there = code.iter().any(|it| *it != 0);
        is_there.then(|| (*arch).is_some_and(|it| unwind::ends_with_call(it, code)))
    }

    fn frame(&mut self, addr: u64) {
        // The addresses of callers are those of their calls, not where these return to.
        let is_return_address = false;
        let (ip, owner, level) = (Addr(addr), self.owner, Level::User);
        self.frames.push(Frame { ip, owner, level, is_return_address });
    }
}

impl TaskSpace<'_, '_, '_> {
    fn owner(&self, addr: u64) -> Option<Owner> {
        let timeline = self.unwinder.timeline;
        if self.is_before_exec {
            timeline.user_before_exec(self.process, addr)
        } else {
            timeline.user(self.process, addr, self.moment)
        }
    }
}
