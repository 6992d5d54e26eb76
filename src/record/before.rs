//! How things stand before a recording begins.
//!
//! The events that tell of tasks and programs are on by now. On a busy machine they fill the rings
//! while we look at what runs, so the rings are drained in between.

use std::io;

use crate::bpf;
use crate::bpf::Programs;
use crate::host::kernel;
use crate::host::process;
use crate::perfdata::AttrFlags;
use crate::sys::spawn::Held;
use crate::units::Tid;

use super::called::Called;
use super::config::FollowBpf;
use super::config::RingPer;
use super::config::Synthesis;
use super::config::Target;
use super::note::Note;
use super::plan::Watch;
use super::pump;
use super::session::Session;
use super::synth::Synth;

/// After how many processes the rings are drained: these take some milliseconds.
const PROCESSES_A_DRAIN: u32 = 32;

/// Whose tasks and mappings are described.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whom<'a> {
    /// Those that were named, and the command that waits to be run.
    Named(Option<&'a Held>),
    /// All that run: what the named ones have started by now is among them.
    All,
    /// Those of all that have memory still. At the end of a file, whose records tell more of one that
    /// is about to be gone, a record of it alone would take that away from perf.
    Living,
}

/// Reads of the kernel's list of symbols what will be asked for.
pub(super) fn read_symbols(bpf: FollowBpf) -> impl FnOnce() -> io::Result<kernel::Symbols> {
    move || {
        let mut symbols = kernel::Symbols::open()?;
        if bpf == FollowBpf::Yes && bpf::has_programs() {
            symbols.read_on()?;
        }
        Ok(symbols)
    }
}

impl Session<'_> {
    /// How things stand before the first record of the kernel's, as records.
    pub(super) fn describe_start(
        &mut self,
        symbols: Option<kernel::Symbols>,
        whom: Whom<'_>,
        notes: &mut Vec<Note>,
    ) -> Vec<u8> {
        let of_tasks = self.data_mappings() | self.config.contents.of_tasks;
        let mut synth = Synth::new(self.trailer(), 0, of_tasks, self.config.synthesis);
        synth.ids(&self.id_entries());
        match symbols.as_ref().and_then(kernel::Symbols::text) {
            Some(text) => synth.kernel(text),
            None if self.samples_kernel => notes.push(Note::NoKernelMap),
            None => {}
        }
        for module in kernel::modules() {
            synth.module(&module);
        }
        synth.threads(&self.threads);
        match &self.request.watch {
            Watch::Cpus(cpus) => synth.cpus(cpus),
            Watch::Threads(_) if self.request.ring_per == RingPer::Thread => synth.no_cpu(),
            Watch::Threads(_) => synth.cpus(&self.request.online),
        }
        self.describe_programs(&mut synth, symbols);
        synth.cgroups();
        self.drain_early();
        self.describe_tasks(whom, &mut synth);
        self.note_mapped(&mut synth);
        synth.finished();
        self.next_message = synth.next_message();
        self.drain_early();
        let mut head = synth.take();
        self.put_messages(self.objects.messages(&self.opened), &mut head);
        head
    }

    /// Which tasks run, and what they have mapped.
    pub(super) fn describe_tasks(&mut self, whom: Whom<'_>, synth: &mut Synth) {
        let held = match whom {
            Whom::Named(held) if !self.config.target.is_cpus() => held,
            _ if !self.config.synthesis.contains(Synthesis::TASKS) => return,
            Whom::Named(_) | Whom::All | Whom::Living => {
                for (pid, n) in process::all().into_iter().zip(1..) {
                    if !matches!(whom, Whom::Living) || !process::mappings(pid).is_empty() {
                        synth.process(pid);
                    }
                    if n % PROCESSES_A_DRAIN == 0 {
                        self.drain_early();
                    }
                }
                return;
            }
        };
        for &pid in &self.processes {
            synth.process(pid);
        }
        if let Target::Threads(tids) = &self.config.target {
            for &tid in tids {
                let Some(pid) = process::process_of(tid) else { continue };
                synth.thread(pid, tid);
                if pid.0 != tid.0 {
                    synth.mappings(pid);
                }
            }
        }
        if let Some(held) = held {
            let pid = held.pid();
            if let Some(task) = process::task(pid, Tid(pid.0)) {
                synth.comm(pid, Tid(pid.0), &task.comm);
                synth.namespaces(pid, Tid(pid.0));
            }
        }
    }

    /// Takes hold of what is mapped by those that were described.
    pub(super) fn note_mapped(&mut self, synth: &mut Synth) {
        if let Some(saving) = &mut self.saving {
            saving.note(synth.take_mapped());
        }
    }

    /// Whether what data is mapped is recorded, be it by the plan's own decision.
    fn data_mappings(&self) -> AttrFlags {
        let all = self.opened.iter().map(|it| it.attr.flags);
        all.fold(AttrFlags::empty(), |all, it| all | it & AttrFlags::MMAP_DATA)
    }

    /// Takes what the rings hold by now, to be written once there is a file.
    pub(super) fn drain_early(&mut self) {
        let places = self.places();
        let Self { outputs, rings, kept, tally, .. } = self;
        outputs.round(rings, kept, tally, places, &pump::FINISHED_ROUND);
    }

    fn describe_programs(&mut self, synth: &mut Synth, symbols: Option<kernel::Symbols>) {
        for program in self.programs.iter().flat_map(Programs::iter) {
            synth.program(program);
            synth.metadata(program, self.config.compat);
        }
        let has_none = self.programs.as_ref().is_some_and(|it| it.iter().len() == 0);
        if has_none || !self.samples_kernel || self.config.bpf == FollowBpf::No {
            return;
        }
        // Where there is no program there is no trampoline, and the list is long.
        if let Some(Ok(all)) = symbols.map(kernel::Symbols::all) {
            for image in bpf::images(&all) {
                synth.image(&image);
            }
            if self.called.is_empty() {
                let programs = self.programs.iter().flat_map(Programs::iter);
                self.called = Called::look_up(programs, all);
            }
        }
    }
}
