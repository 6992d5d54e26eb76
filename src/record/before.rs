//! How things stand before a recording begins.
//!
//! The events that tell of tasks and programs are on by now. On a busy machine they fill the rings
//! while we look at what runs, so the rings are drained in between.

use std::io;
use std::thread::JoinHandle;

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
use super::plan::Request;
use super::plan::Watch;
use super::pump;
use super::session::Session;
use super::synth::Synth;
use super::who::Who;

/// After how many processes the rings are drained: these take some milliseconds.
const PROCESSES_A_DRAIN: u32 = 32;

impl Session<'_> {
    /// How things stand before the first record of the kernel's, as records.
    pub(super) fn describe_start(
        &mut self,
        who: &Who,
        request: &Request,
        symbols: JoinHandle<io::Result<kernel::Symbols>>,
        held: Option<&Held>,
        notes: &mut Vec<Note>,
    ) -> Vec<u8> {
        let of_tasks = self.data_mappings() | self.config.contents.of_tasks;
        let mut synth = Synth::new(self.trailer(), 0, of_tasks, self.config.synthesis);
        synth.ids(&self.id_entries());
        let symbols = symbols.join().ok().and_then(Result::ok);
        match symbols.as_ref().and_then(kernel::Symbols::text) {
            Some(text) => synth.kernel(text),
            None if self.samples_kernel => notes.push(Note::NoKernelMap),
            None => {}
        }
        for module in kernel::modules() {
            synth.module(&module);
        }
        synth.threads(&who.threads);
        match &who.watch {
            Watch::Cpus(cpus) => synth.cpus(cpus),
            Watch::Threads(_) if request.ring_per == RingPer::Thread => synth.no_cpu(),
            Watch::Threads(_) => synth.cpus(&request.online),
        }
        self.describe_programs(&mut synth, symbols);
        synth.cgroups();
        self.drain_early();
        let has_tasks = self.config.synthesis.contains(Synthesis::TASKS);
        if self.config.target.is_cpus() && has_tasks {
            for (pid, n) in process::all().into_iter().zip(1..) {
                synth.process(pid);
                if n % PROCESSES_A_DRAIN == 0 {
                    self.drain_early();
                }
            }
        } else {
            for &pid in &who.processes {
                synth.process(pid);
            }
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
        if let (Some(held), false) = (held, self.config.target.is_cpus()) {
            let pid = held.pid();
            if let Some(task) = process::task(pid, Tid(pid.0)) {
                synth.comm(pid, Tid(pid.0), &task.comm);
                synth.namespaces(pid, Tid(pid.0));
            }
        }
        synth.finished();
        self.next_message = synth.next_message();
        self.drain_early();
        synth.take()
    }

    /// Whether what data is mapped is recorded, be it by the plan's own decision.
    fn data_mappings(&self) -> AttrFlags {
        let all = self.opened.iter().map(|it| it.attr.flags);
        all.fold(AttrFlags::empty(), |all, it| all | it & AttrFlags::MMAP_DATA)
    }

    /// Takes what the rings hold by now, to be written once there is a file.
    pub(super) fn drain_early(&mut self) {
        let places = self.places();
        pump::round(&mut self.rings, &mut self.early, &mut self.tally, places);
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
            let programs = self.programs.iter().flat_map(Programs::iter);
            self.called = Called::look_up(programs, all);
        }
    }
}
