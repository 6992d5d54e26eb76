//! The end of a recording: the last round, what is told at the end, the features, the header; then
//! the end of the command.

use std::io;
use std::io::ErrorKind;
use std::io::IoSlice;
use std::path::Path;

use nix::sys::signal::Signal;

use crate::bpf::Programs;
use crate::events::Place;
use crate::host::cpus;
use crate::perfdata::ReadFormat;
use crate::perfdata::SampleIdLayout;
use crate::perfdata::compression;
use crate::perfdata::misc;
use crate::perfdata::private::Message;
use crate::sys::signals::Came;
use crate::sys::spawn::Ended;
use crate::sys::spawn::Workload;
use crate::units::Nanos;

use super::Error;
use super::Summary;
use super::before::Whom;
use super::begin::chain;
use super::control::Sampling;
use super::describe;
use super::drain::Drainers;
use super::lost;
use super::note::Note;
use super::off_cpu::Measure;
use super::output::Output;
use super::plan::Watch;
use super::pump;
use super::pump::Sink;
use super::run::End;
use super::saving::Saving;
use super::session::Session;
use super::sideband;
use super::sideband::Sideband;
use super::surroundings;
use super::surroundings::Surroundings;
use super::synth::Synth;
use super::watch;

/// How a file went.
#[derive(Debug)]
pub(super) struct Part {
    /// The bytes written, header and features included.
    pub(super) bytes: u64,
    /// Why not all of it was written.
    pub(super) failed: Option<io::Error>,
    /// Whether it is where it was to be.
    pub(super) is_in_place: bool,
}

impl Session<'_> {
    /// The last round, the features, the header; then the end of the command.
    pub(super) fn finish(
        mut self,
        mut output: Output,
        workload: Option<Workload>,
        end: End,
    ) -> Summary {
        if let Some(off_cpu) = &mut self.off_cpu {
            off_cpu.turn(Sampling::Off);
        }
        for event in self.opened.iter().filter(|it| it.role.samples()) {
            for (_, fd) in &event.instances {
                // Of a task that is gone there is nothing to disable.
                let _disabled = fd.disable();
            }
        }
        let verdicts = self.objects.verdicts(&self.opened);
        self.objects.detach(&self.opened, None);
        let elapsed = self.started.elapsed();
        self.tell_of_cpus_that_left();
        let late = self.sideband.take().map(Sideband::stop);
        self.last_round(&mut output);
        self.write_sums(&mut output);
        self.saving.as_mut().into_iter().for_each(Saving::stop_listening);
        let part = self.end_part(output, late);
        drop(self.counting.take());
        // Where the disk is full the command is not to blame, and goes on; where nobody reads any
        // more, all of this was for that reader.
        let is_unread = part.failed.as_ref().is_some_and(|it| it.kind() == ErrorKind::BrokenPipe);
        let command = workload.and_then(|it| self.end(it, is_unread || end != End::Over));
        let stopped_by = if let End::Asked(signal) = end { signal } else { None };
        Summary {
            tally: self.total,
            bytes: part.bytes,
            elapsed,
            command,
            stopped_by,
            failed: part.failed.or(self.failed),
            bpf: self.gaps,
            files: self.file_gaps,
            off_cpu: self.off_cpu.as_ref().map(Measure::losses).unwrap_or_default(),
            is_in_place: part.is_in_place,
            tracepoints: self.tracepoints.into_values().collect(),
            verdicts,
            outputs: self.outputs.tallies(),
            values: self.values,
            n_parts: self.finished.as_ref().map_or(0, |it| it.n_files),
        }
    }

    /// Ends a file whose last round is written: what was lost, programs, features, header.
    ///
    /// `late` are the programs that were saved while it was written.
    pub(super) fn end_part(&mut self, mut output: Output, late: Option<sideband::Outcome>) -> Part {
        tracing::debug!(tally = ?self.tally, "ended");
        let mut found = self.surroundings.take().map(Surroundings::stop).unwrap_or_default();
        let drained = self.drainers.take().map(Drainers::stop).unwrap_or_default();
        self.tally.add(&drained.tally);
        let (n_plain, n_compressed) = drained.plain_and_compressed;
        let ratio = (n_plain != 0).then(|| compression::ratio(n_plain, n_compressed));
        if let Some(ratio) = output.end_squeezing().or(ratio) {
            describe::note_ratio(&mut self.facts, ratio);
        }
        let mut synth = Synth::new(
            self.trailer(),
            self.next_message,
            self.config.contents.of_tasks,
            self.config.synthesis,
        );
        self.count_lost(&mut synth);
        self.count_filtered(&mut synth);
        if let Some(late) = late {
            self.add_late(late, &mut synth);
        }
        let skipped = self.programs.as_ref().map(Programs::skipped).unwrap_or_default();
        self.gaps.skipped = self.gaps.skipped.worst(skipped);
        self.gaps.n_pins = self.gaps.n_pins.max(found.n_pins);
        self.gaps.n_processes = self.gaps.n_processes.max(found.n_processes);
        if std::mem::take(&mut self.describes_end) {
            self.describe_tasks(Whom::Living, &mut synth);
        }
        self.note_mapped(&mut synth);
        self.next_message = synth.next_message();
        let mut tail = synth.take();
        let files = self.saving.as_ref().map(Saving::tell).unwrap_or_default();
        self.file_gaps = files.gaps;
        self.put_messages(files.messages, &mut tail);
        self.put_messages(vec![describe::clocks(files.readings)], &mut tail);
        self.put_messages(found.messages, &mut tail);
        let called = self.called.names(self.programs.iter().flat_map(Programs::iter));
        self.put_messages(called.map(Message::Symbols).into_iter().collect(), &mut tail);
        self.values = self.objects.values();
        self.put_messages(self.values.iter().cloned().map(Message::Values).collect(), &mut tail);
        if output.is_pipe() {
            let news = self.programs.as_ref().map(|it| self.sent.news(it)).unwrap_or_default();
            self.put_features(&news, &mut tail);
            describe::pipe_end(self.config.compat, &mut tail);
        }
        self.gaps.n_too_long = self.n_too_long;
        if let Some(programs) = &self.programs {
            for tracepoint in &mut found.tracepoints {
                describe::name_in_full(tracepoint, programs);
            }
        }
        for seen in found.tracepoints {
            surroundings::note_seen(&mut self.tracepoints, seen);
        }
        let features = self.features(self.layout().attr_size(), self.programs.as_ref());
        if !tail.is_empty() {
            output.append(&[IoSlice::new(&tail)]);
        }
        let len = output.len();
        let is_in_place = output.is_in_place();
        let path = output.path().filter(|_| is_in_place).map(Path::to_owned);
        let (bytes, mut failed) = match output.finish(describe::sections(&features)) {
            Ok(bytes) => (bytes, drained.failed),
            Err(error) => (len, drained.failed.or(Some(error))),
        };
        let bytes = bytes + drained.len;
        let tally = std::mem::take(&mut self.tally);
        if let (Some(finished), Some(path)) = (&mut self.finished, path) {
            match finished.add(&path) {
                Ok(path) => {
                    let (samples, lost) = (tally.samples, tally.all_lost());
                    let filtered = tally.filtered;
                    (self.tell)(&Note::Part { path, bytes, samples, lost, filtered });
                }
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        self.total.add(&tally);
        Part { bytes, failed, is_in_place }
    }

    /// Writes what was summed of time off the CPU and is in no file yet, as of now.
    pub(super) fn write_sums(&mut self, output: &mut Output) {
        let latest = self.latest_time();
        let records = self.off_cpu.as_mut().map(|it| it.take_sums(latest));
        self.push_sums(records, output);
    }

    /// Writes sums of time off the CPU ahead of the end, where there are so many that room runs out.
    pub(super) fn make_room_for_sums(&mut self, output: &mut Output) {
        let latest = self.latest_time();
        let records = self.off_cpu.as_mut().map(|it| Ok(it.make_room(latest)));
        self.push_sums(records, output);
    }

    fn latest_time(&self) -> Nanos {
        self.tally.last.max(self.total.last).unwrap_or_default()
    }

    fn push_sums(&mut self, records: Option<Result<Vec<u8>, Error>>, output: &mut Output) {
        let records = match records {
            Some(Ok(records)) => records,
            Some(Err(error)) => {
                (self.tell)(&Note::NoSums { why: chain(&error) });
                return;
            }
            None => return,
        };
        if records.is_empty() {
            return;
        }
        self.tally.walk(&records, self.places());
        output.push_records(&[IoSlice::new(&records)]);
        let mark = if self.drainers.is_some() { &[][..] } else { &pump::FINISHED_ROUND };
        Sink::end_round(output, mark);
    }

    /// The kernel ends the events of a CPU with it, and opens none when it comes back.
    fn tell_of_cpus_that_left(&mut self) {
        let Watch::Cpus(watched) = &self.request.watch else { return };
        let Ok(online) = cpus::online() else { return };
        for &cpu in watched.iter().filter(|it| !online.contains(it)) {
            (self.tell)(&Note::CpuLeft { cpu });
        }
    }

    /// Takes over what was saved of programs meanwhile.
    fn add_late(&mut self, late: sideband::Outcome, synth: &mut Synth) {
        let n_programs = late.programs.iter().len();
        tracing::debug!(late.n_loads, late.n_lost, n_programs, "loaded meanwhile");
        self.gaps.n_lost += late.n_lost;
        self.gaps.n_unwatched_cpus = self.gaps.n_unwatched_cpus.max(late.n_unwatched_cpus);
        if late.ended_early.is_some() {
            self.gaps.ended_early = late.ended_early;
        }
        let known = self.programs.get_or_insert_default();
        let new = late.programs.iter().filter(|it| !known.knows(it));
        new.for_each(|it| synth.metadata(it, self.config.compat));
        known.merge(late.programs);
    }

    /// Waits for the command, which is asked to end if the recording was.
    fn end(&self, mut workload: Workload, is_asked: bool) -> Option<Ended> {
        if !is_asked {
            return workload.wait().ok();
        }
        let mut signal = Signal::SIGTERM;
        loop {
            if let Ok(Some(ended)) = workload.ended() {
                return Some(ended);
            }
            workload.signal(signal).ok()?;
            // Whoever asks a second time means it.
            match watch::signal(&self.signals) {
                Ok(Came::Stop(_)) => signal = Signal::SIGKILL,
                Ok(Came::Child | Came::Switch) => {}
                Err(_) => return None,
            }
        }
    }

    /// Asks each event how many samples it lost, and writes that down.
    fn count_lost(&mut self, synth: &mut Synth) {
        let mut all = 0;
        for (at, event) in self.opened.iter().enumerate() {
            // A read of a group's leader tells of its members, too.
            let is_told =
                event.place == Place::Member && event.attr.read_format.contains(ReadFormat::GROUP);
            if !event.role.samples() || is_told {
                continue;
            }
            let members = self.opened.iter().skip(at + 1);
            let n_members = members.take_while(|it| it.place == Place::Member).count();
            let mut words = vec![0; lost::n_words(1 + n_members)];
            let layout = SampleIdLayout::new(&event.attr);
            for (_, fd) in &event.instances {
                let n = fd.read(&mut words).unwrap_or_default();
                let words = words.get(..n).unwrap_or_default();
                for (id, lost) in lost::of_read(event.attr.read_format, words) {
                    // The kernel counts from the open on.
                    let before = self.lost_before.insert(id, lost).unwrap_or(0);
                    let lost = lost.saturating_sub(before);
                    if lost != 0 {
                        synth.lost_samples(lost, layout, id, 0);
                        all += lost;
                    }
                }
            }
        }
        self.tally.lost_samples += all;
    }

    /// Asks each filter, and each program that is an event, how many samples it dropped, and writes that down as perf does: for the first
    /// instance of the event.
    fn count_filtered(&mut self, synth: &mut Synth) {
        let filtered = self.sample_filters.take_dropped();
        self.tally.filtered += filtered.iter().map(|it| it.1).sum::<u64>();
        for (event, n_dropped) in
            filtered.into_iter().chain(self.objects.take_dropped(&self.opened))
        {
            let Some(opened) = self.opened.get(event) else { continue };
            let id = self.events.get(event).and_then(|it| it.ids.first());
            let layout = SampleIdLayout::new(&opened.attr);
            if let (Some(&id), true) = (id, n_dropped != 0) {
                synth.lost_samples(n_dropped, layout, id, misc::LOST_SAMPLES_BPF);
            }
        }
    }
}
