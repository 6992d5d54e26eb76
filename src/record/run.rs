//! Round after round, and what happens between two of them.

use std::io::IoSlice;
use std::time::Instant;

use nix::sys::signal::Signal;

use crate::sys::perf_event::EventFd;
use crate::sys::signals::Came;
use crate::sys::spawn::Workload;

use super::begin::chain;
use super::config::Describe;
use super::control::Command;
use super::control::Control;
use super::control::Sampling;
use super::control::Schedule;
use super::drain::Drainers;
use super::history::Kept;
use super::note::Note;
use super::note::RecordedEvent;
use super::off_cpu::Measure;
use super::open::Opened;
use super::output::Output;
use super::pump;
use super::pump::Sink;
use super::session::Session;
use super::surroundings::Surroundings;
use super::watch;
use super::watch::Watched;
use crate::perfdata::off_cpu::EVENT_NAME;

/// How many bytes a round has to bring for the next one to follow at once. What the recorder's own
/// system calls bring, where system calls are recorded, is less: else it would feed on itself.
pub(super) const MUCH: usize = 1024;

/// What ended a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// There is nothing more to record.
    Over,
    /// Somebody, or a limit, by this signal if it was one: the command is to end, too.
    Asked(Option<Signal>),
}

/// Whether a recording goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It does.
    GoOn,
    /// In the next file.
    Switch,
    /// It ends.
    Stop,
}

impl Session<'_> {
    /// Round after round; returns what ended it.
    pub(super) fn run(
        &mut self,
        output: &mut Output,
        mut workload: Option<&mut Workload>,
        mut watched: Watched,
    ) -> End {
        let mut schedule = Schedule::new(&self.config.delay);
        let start = Instant::now();
        if let Some(finished) = &mut self.finished {
            finished.begin(output.len());
        }
        let mut then = Then::GoOn;
        loop {
            let n_bytes = self.round(output);
            self.write_found(output);
            self.make_room_for_sums(output);
            let is_due = then == Then::Switch || self.is_part_due(output);
            if self.finished.is_some()
                && is_due
                && let Err(error) = self.switch(output)
            {
                // The file that is being written is finished all the same.
                self.failed = Some(error);
                return End::Over;
            }
            then = Then::GoOn;
            let has_failed = self.drainers.as_ref().is_some_and(Drainers::have_failed);
            if output.failed().is_some() || has_failed || watched.are_gone() {
                return End::Over;
            }
            let len = output.len() + self.drainers.as_ref().map_or(0, Drainers::len);
            if self.config.max_bytes.is_some_and(|it| it <= len) {
                return End::Asked(None);
            }
            if let Some(sampling) = schedule.take(start.elapsed()) {
                self.turn(sampling, None);
            }
            for command in self.control.as_mut().map(Control::take).unwrap_or_default() {
                match self.obey(&command) {
                    Then::Stop => return End::Asked(None),
                    Then::Switch => then = Then::Switch,
                    Then::GoOn => {}
                }
            }
            // Whoever sleeps while records come has to wait for a CPU each time. So the rings are
            // drained again while there is much; signals and ends are looked at in between.
            let is_busy = MUCH <= n_bytes;
            // Beyond the end of the clock is never.
            let next = schedule.next().and_then(|it| start.checked_add(it));
            let next = next.into_iter().chain(self.next_part_at());
            let look_at = self.off_cpu.as_ref().and_then(Measure::look_at);
            let next = next.chain(self.outputs.rest_until()).chain(look_at).min();
            let until = if is_busy || then != Then::GoOn {
                Some(Instant::now())
            } else {
                next.into_iter().chain(output.settle()).min()
            };
            let control = self.control.as_ref().and_then(Control::poll_at);
            let found = self.surroundings.as_ref().map(Surroundings::poll_at);
            let triggers = self.triggers.poll_at();
            let drainers = self.drainers.as_ref().map(Drainers::poll_at);
            let (output_rings, messages) = self.outputs.wait_at();
            let others = control.into_iter().chain(found).chain(drainers).chain(triggers);
            let others: Vec<_> = others.chain(messages).collect();
            let (signals, opened) = (&self.signals, &self.opened);
            let mut rings: Vec<_> = self.rings.iter_mut().chain(output_rings).collect();
            let waited = watch::wait(signals, opened, &mut rings, &mut watched, &others, until);
            if let Err(refused) = waited {
                tracing::debug!(%refused, "wait");
                return End::Over;
            }
            if self.triggers.take() {
                then = Then::Switch;
            }
            while let Ok(Some(came)) = self.signals.next() {
                match came {
                    Came::Switch => then = Then::Switch,
                    Came::Stop(signal) => return End::Asked(Some(signal)),
                    Came::Child => {
                        let ended = workload.as_deref_mut().map(Workload::ended);
                        if matches!(ended, Some(Ok(Some(_)) | Err(_))) {
                            return End::Over;
                        }
                    }
                }
            }
        }
    }

    /// Turns sampling on or off, of the event `name` or of all.
    fn turn(&mut self, sampling: Sampling, name: Option<&str>) {
        self.outputs.turn(sampling, name);
        let is_off_cpu = name.is_none_or(|it| it == EVENT_NAME);
        // Off before the event that it writes into, and on after it.
        if let Some(off_cpu) = self.off_cpu.as_mut().filter(|_| is_off_cpu) {
            off_cpu.turn(sampling);
        }
        if sampling == Sampling::On
            && let Err(error) = self.objects.attach(&self.opened, name, &mut Vec::new())
        {
            (self.tell)(&Note::NotAttached { why: chain(&error) });
        }
        let is_meant =
            |it: &&Opened<EventFd>| it.role.samples() && name.is_none_or(|name| it.name == name);
        for (_, fd) in self.opened.iter().filter(is_meant).flat_map(|it| &it.instances) {
            let turned = if sampling == Sampling::On { fd.enable() } else { fd.disable() };
            if let Err(refused) = turned {
                // Of a task that is gone there is nothing to sample.
                tracing::debug!(%refused, ?sampling, "turn");
            }
        }
        if sampling == Sampling::Off {
            self.objects.detach(&self.opened, name);
        }
    }

    /// Does what somebody wants, and says so.
    fn obey(&mut self, command: &Command) -> Then {
        tracing::debug!(?command, "control");
        match command {
            Command::Turn(sampling, name) => {
                let is_known = |name: &String| self.opened.iter().any(|it| it.name == *name);
                if let Some(name) = name.as_ref().filter(|it| !is_known(it)) {
                    (self.tell)(&Note::NoSuchEvent { name: name.clone() });
                }
                self.turn(*sampling, name.as_deref());
            }
            Command::List(told) => {
                let event = |it: &Opened<EventFd>| RecordedEvent {
                    name: it.name.clone(),
                    attr: it.attr,
                    place: it.place.clone(),
                };
                let events = self.opened.iter().map(event).collect();
                (self.tell)(&Note::Events { told: *told, events });
            }
            Command::Malformed(line) | Command::Unknown(line) => {
                // Whoever sends noise does not fill the terminal with it.
                if self.control.as_mut().is_some_and(Control::is_first_mistake) {
                    (self.tell)(&Note::NoCommand { line: line.clone() });
                }
            }
            Command::Stop | Command::Ping | Command::Snapshot => {}
        }
        // As perf: whoever waits for an answer gets one to everything that it could mean.
        let is_known = !matches!(command, Command::Unknown(_));
        if let Some(control) = self.control.as_mut().filter(|_| is_known) {
            control.acknowledge();
        }
        match command {
            Command::Stop => Then::Stop,
            Command::Snapshot => Then::Switch,
            _ => Then::GoOn,
        }
    }

    /// Takes what has come: into the file, or into memory where only the latest is kept.
    pub(super) fn round(&mut self, output: &mut Output) -> usize {
        let places = self.places();
        // In a file that holds no rings' records all are brought into order at the end.
        let mark = if self.drainers.is_some() { &[][..] } else { &pump::FINISHED_ROUND };
        let Self { outputs, rings, tally, .. } = self;
        match &mut self.kept {
            Kept::Latest(latest) => outputs.round(rings, latest, tally, places, mark),
            Kept::All(_) => outputs.round(rings, output, tally, places, mark),
        }
    }

    /// Takes what there is for this file.
    pub(super) fn last_round(&mut self, output: &mut Output) {
        let latest = self.read_latest();
        // What tells of the tasks that these samples are of has come by now.
        self.round(output);
        self.write_latest(latest, output);
    }

    /// What the rings hold that keep the latest samples.
    pub(super) fn read_latest(&mut self) -> Vec<Vec<u8>> {
        let places = self.places();
        let mut all = Vec::new();
        for ring in &mut self.latest {
            let mut latest = Vec::new();
            if let Err(refused) = ring.read_latest(&self.opened, &mut latest) {
                tracing::debug!(%refused, "read what is latest");
            }
            let whole = self.tally.hop_latest(&latest, places);
            latest.truncate(whole);
            all.push(latest);
        }
        all
    }

    /// Writes the latest samples with all that is remembered of tasks and programs, as one round.
    pub(super) fn write_latest(&mut self, mut latest: Vec<Vec<u8>>, output: &mut Output) {
        self.describes_end = self.config.describe == Describe::AtEndToo;
        let places = self.places();
        let Kept::Latest(history) = &mut self.kept else { return };
        self.describes_end |= history.take_forgotten();
        latest.push(history.take());
        latest.push(self.outputs.take_latest(&mut self.tally, places));
        let slices: Vec<_> = latest.iter().map(|it| IoSlice::new(it)).collect();
        output.push_records(&slices);
        Sink::end_round(output, &pump::FINISHED_ROUND);
    }
}
