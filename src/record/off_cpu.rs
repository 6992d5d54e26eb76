//! Time off the CPU, as samples: the program measures it, and its messages become samples of those
//! who were off.
//!
//! ```text
//!   sleep of threshold or more   a message, which the sieve makes a sample of at once
//!   shorter ones                 summed in the kernel; a sample each sum at the end of a file, and
//!   who is off at the end        likewise, as of then
//! ```
//!
//! Where so many tasks come and go that sums fill their map, they are written before the end.
//!
//! What comes at the end of a file has the time of that moment: it is a sum, and of no earlier one.
//! Each sample says all twice, in the fields that samples have and in raw data as perf lays it out.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use nix::time::ClockId;
use nix::time::clock_gettime;

use crate::bpf::off_cpu as program;
use crate::bpf::off_cpu::CgroupIds;
use crate::bpf::off_cpu::Halves;
use crate::bpf::off_cpu::Hooks;
use crate::bpf::off_cpu::Key;
pub use crate::bpf::off_cpu::Losses;
use crate::bpf::off_cpu::MAX_SUMS;
use crate::bpf::off_cpu::OffCpuMessage;
use crate::bpf::off_cpu::OwnFrames;
use crate::bpf::off_cpu::Setup;
use crate::bpf::off_cpu::Stacks;
use crate::bpf::off_cpu::Sum;
use crate::bpf::off_cpu::Whom;
use crate::events::CallChains;
use crate::host::kernel;
use crate::host::settings::Settings;
use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::perfdata::Endian;
use crate::perfdata::RecordHeader;
use crate::perfdata::RecordKind;
use crate::perfdata::Sample;
use crate::perfdata::SampleLayout;
use crate::perfdata::SampleType;
use crate::perfdata::U64s;
use crate::perfdata::callchain_context;
use crate::perfdata::off_cpu::EVENT_NAME;
use crate::perfdata::off_cpu::More;
use crate::perfdata::off_cpu::OffCpu;
use crate::perfdata::off_cpu::WokenBy;
use crate::perfdata::off_cpu::is_off_cpu;
use crate::sys::perf_event::EventFd;
use crate::units::Cpu;
use crate::units::FileOffset;
use crate::units::Nanos;
use crate::units::Pid;

use super::Error;
use super::config;
use super::config::Config;
use super::config::Inherit;
use super::config::Target;
use super::control::Sampling;
use super::open::Opened;
use super::outputs::OutputEvent;
use super::outputs::Sieve;
use super::outputs::Sifted;
use super::outputs::Through;
use super::plan::Request;
use super::plan::Role;
use super::plan::Watch;
use super::rings;

/// The measuring of a recording.
#[derive(Debug)]
pub(super) struct Measure {
    program: program::OffCpu,
    rewriter: Rewriting,
    /// What the sums came to that are in the file before.
    told: HashMap<Key, Sum>,
    /// How many sums there may be before they are written.
    room: u64,
    /// Whether the time of this moment was asked for, as of which they will be.
    is_marked: bool,
    /// Those who were off the CPU when the measuring was turned off.
    asleep: Vec<OffCpuMessage>,
    /// Who looks for the program's own frames, until it has begun.
    own_frames: Option<JoinHandle<OwnFrames>>,
}

/// How many sums are written before the file ends: half of those that there is room for.
const ENOUGH: u64 = MAX_SUMS / 2;
/// How often it is looked how many there are.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Whoever makes samples of messages, shared with the sieve.
pub(super) type Rewriting = Arc<Mutex<Rewriter>>;

impl Measure {
    /// Loads the program, if time off the CPU is to be recorded; it is off until turned on.
    pub(super) fn load(
        config: &Config,
        request: &Request,
        settings: &Settings,
    ) -> Result<Option<Self>, Error> {
        let Some(wanted) = config.off_cpu else { return Ok(None) };
        let setup = setup(config, wanted, request, settings);
        let program = program::OffCpu::load(&setup)?;
        let rewriter = Rewriter {
            from: SampleLayout::new(&Attr::default(), Endian::NATIVE),
            writer: Writer {
                layout: SampleLayout::new(&Attr::default(), Endian::NATIVE),
                own_frames: OwnFrames::default(),
                scratch: Vec::new(),
                raw: Vec::new(),
                body: Vec::new(),
            },
            stacks: program.stacks()?,
            ids: Vec::new(),
            mark: Nanos(0),
        };
        let own_frames = thread::spawn(|| {
            let mut symbols = kernel::Symbols::open().ok();
            let text = symbols.take().and_then(|it| it.all().ok()).unwrap_or_default();
            OwnFrames::of(&text)
        });
        let rewriter = Arc::new(Mutex::new(rewriter));
        let (told, asleep) = (HashMap::new(), Vec::new());
        let own_frames = Some(own_frames);
        Ok(Some(Self {
            program,
            rewriter,
            told,
            room: ENOUGH,
            is_marked: false,
            asleep,
            own_frames,
        }))
    }

    /// The event that the program writes into.
    pub(super) fn event(&self) -> OutputEvent {
        OutputEvent {
            name: EVENT_NAME.to_owned(),
            // The kernel's would be that of whoever leaves when the sleeper comes back.
            call_graph: CallChains::None,
            max_stack: 0,
            fields: SampleType::empty(),
            cgroup: None,
            through: Through::Events,
            sieve: Sieve::OffCpu(Arc::clone(&self.rewriter)),
            object: None,
        }
    }

    /// Lets the program write into its event, as it was opened.
    pub(super) fn wire(&mut self, opened: &[Opened<EventFd>]) -> Result<(), Error> {
        let Some(event) = opened.iter().find(|it| is_event(it)) else { return Ok(()) };
        let mut ids = Vec::new();
        for (target, fd) in &event.instances {
            let Some(cpu) = rings::cpu_of(*target) else { continue };
            self.program.send(cpu, fd)?;
            ids.push((cpu, fd.id()?));
        }
        let mut rewriter = self.rewriter.lock().unwrap_or_else(PoisonError::into_inner);
        rewriter.from = SampleLayout::new(&event.attr, Endian::NATIVE);
        rewriter.writer.layout = SampleLayout::new(&in_file(event.attr), Endian::NATIVE);
        rewriter.ids = ids;
        Ok(())
    }

    /// Turns the measuring on or off.
    pub(super) fn turn(&mut self, sampling: Sampling) {
        if let Some(Ok(found)) = self.own_frames.take().map(JoinHandle::join) {
            let mut rewriter = self.rewriter.lock().unwrap_or_else(PoisonError::into_inner);
            rewriter.writer.own_frames = found;
        }
        match sampling {
            Sampling::On => {
                if !self.program.is_on() {
                    self.program.turn_on(now());
                }
            }
            Sampling::Off => {
                if self.program.is_on() {
                    self.program.turn_off();
                    self.note_asleep();
                    self.mark();
                }
            }
        }
    }

    /// Notes who is off the CPU at this moment.
    fn note_asleep(&mut self) {
        match self.program.asleep() {
            Ok(asleep) => self.asleep.extend(asleep),
            Err(error) => tracing::debug!(%error, "who is asleep"),
        }
    }

    /// Has the time of this moment come through the event.
    pub(super) fn mark(&self) {
        let came = self.program.mark();
        tracing::debug!(came, "mark");
    }

    /// When to look again how many sums there are.
    pub(super) fn look_at(&self) -> Option<Instant> {
        self.program.is_on().then(|| Instant::now() + LOOK_EVERY)
    }

    /// Takes the sums out of the kernel, where there are many; has the time come first that they are as of.
    /// Samples of them, but not before `latest`.
    pub(super) fn make_room(&mut self, latest: Nanos) -> Vec<u8> {
        if !self.is_marked {
            self.is_marked = self.room <= self.program.n_sums();
            if self.is_marked {
                self.mark();
            }
            return Vec::new();
        }
        self.is_marked = false;
        match self.program.take_out() {
            Ok(sums) => {
                let records = self.write_sums(sums, latest);
                self.told.clear();
                records
            }
            // So what finds no room is counted, and told at the end.
            Err(error) => {
                tracing::debug!(%error, "take sums out");
                self.room = u64::MAX;
                Vec::new()
            }
        }
    }

    /// Samples of all that was measured and is in no file yet, as of the mark that came last, but not
    /// before `latest`.
    pub(super) fn take_sums(&mut self, latest: Nanos) -> Result<Vec<u8>, Error> {
        if self.program.is_on() {
            self.note_asleep();
        }
        let sums = self.program.sums()?;
        let mut records = self.write_sums(sums, latest);
        let mut rewriter = self.rewriter.lock().unwrap_or_else(PoisonError::into_inner);
        let time = Nanos(rewriter.mark.0.max(latest.0));
        for message in self.asleep.drain(..) {
            rewriter.write(&message, time, &mut records);
        }
        Ok(records)
    }

    /// Samples of what `sums` have come to since they were written last.
    fn write_sums(&mut self, sums: Vec<OffCpuMessage>, latest: Nanos) -> Vec<u8> {
        let mut rewriter = self.rewriter.lock().unwrap_or_else(PoisonError::into_inner);
        let time = Nanos(rewriter.mark.0.max(latest.0));
        let mut records = Vec::new();
        for mut message in sums {
            let told = self.told.insert(message.key, message.sum).unwrap_or_default();
            message.sum.off_ns = message.sum.off_ns.saturating_sub(told.off_ns);
            message.sum.runnable_ns = message.sum.runnable_ns.saturating_sub(told.runnable_ns);
            message.sum.n = message.sum.n.saturating_sub(told.n);
            if message.sum.n != 0 {
                rewriter.write(&message, time, &mut records);
            }
        }
        records
    }

    /// What could not be kept.
    pub(super) fn losses(&self) -> Losses {
        self.program.losses()
    }
}

/// Whether an event is the one that the program writes into.
pub(super) fn is_event<Fd>(event: &Opened<Fd>) -> bool {
    event.role == Role::Output && is_off_cpu(&event.name, &event.attr)
}

/// The attribute of the event as its samples in the file have it.
pub(super) fn in_file(attr: Attr) -> Attr {
    Attr { sample_type: attr.sample_type | SampleType::CALLCHAIN, ..attr }
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).ok();
    let nanos = time.and_then(|it| {
        let seconds = u64::try_from(it.tv_sec()).ok()?;
        seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(it.tv_nsec()).ok()?)
    });
    // A kernel without this clock does not start.
    nanos.unwrap_or(1)
}

fn setup(config: &Config, wanted: config::OffCpu, request: &Request, settings: &Settings) -> Setup {
    let tids = match &request.watch {
        Watch::Cpus(_) => Vec::new(),
        Watch::Threads(tids) => tids.clone(),
    };
    let pids = || tids.iter().map(|it| Pid(it.0)).collect();
    let whom = match (&config.target, request.inherit) {
        (Target::AllCpus | Target::Cpus(_) | Target::User(_), _) => {
            wanted.user.map_or(Whom::All, Whom::User)
        }
        (Target::Workload, Inherit::Yes) => Whom::Processes(pids()),
        (Target::Processes(pids), Inherit::Yes) => Whom::Processes(pids.clone()),
        _ => Whom::Threads(tids),
    };
    let cpus = match &config.target {
        Target::Cpus(cpus) => Some(cpus.clone()),
        _ => None,
    };
    let of_outputs = request.outputs.iter().map(|it| &it.cgroup);
    let all = request.events.iter().map(|it| &it.cgroup).chain(of_outputs);
    let mut cgroups: Vec<_> = all.flatten().cloned().collect();
    cgroups.sort_unstable();
    cgroups.dedup();
    let (left_out, elsewhere) = (request.contents.no_chains, request.contents.no_samples);
    let halves = Halves {
        kernel: !left_out.contains(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL)
            && !elsewhere.contains(AttrFlags::EXCLUDE_KERNEL),
        user: !left_out.contains(AttrFlags::EXCLUDE_CALLCHAIN_USER)
            && !elsewhere.contains(AttrFlags::EXCLUDE_USER),
    };
    let limit = settings.perf_event_max_stack.unwrap_or(u16::MAX);
    let asked = Some(request.contents.max_stack).filter(|it| *it != 0);
    let has_cgroup = request.contents.fields.contains(SampleType::CGROUP);
    Setup {
        whom,
        cpus,
        cgroups,
        halves,
        max_frames: asked.map_or(limit, |it| it.saturating_add(MOST_OWN_FRAMES).min(limit)),
        cgroup_ids: if has_cgroup { CgroupIds::Yes } else { CgroupIds::No },
        threshold_ns: u64::try_from(wanted.threshold.as_nanos()).unwrap_or(u64::MAX),
        hooks: Hooks::Best,
    }
}

/// How many frames the program and its hook add, at the most.
const MOST_OWN_FRAMES: u16 = 4;

/// Makes samples of messages.
#[derive(Debug)]
pub(super) struct Rewriter {
    /// The fields of the samples that the program sends.
    from: SampleLayout,
    writer: Writer,
    stacks: Stacks,
    /// The id of the event on each CPU.
    ids: Vec<(Cpu, u64)>,
    /// When a mark came last.
    mark: Nanos,
}

impl Rewriter {
    /// Appends what `sample`, a whole record that the program sent, is in the file.
    pub(super) fn rewrite(&mut self, sample: &[u8], out: &mut Vec<u8>) -> Sifted {
        let body = sample.get(usize::from(RecordHeader::SIZE)..).unwrap_or_default();
        let sent = self.from.decode(body, FileOffset(0)).ok();
        let message = sent.as_ref().and_then(|it| OffCpuMessage::decode(it.raw?));
        let (Some(sent), Some(message)) = (sent, message) else { return Sifted::Nothing };
        let time = sent.time.unwrap_or_default();
        if message.is_mark() {
            self.mark = time;
            return Sifted::Nothing;
        }
        let Self { writer, stacks, .. } = self;
        let (kernel, user) = stacks.pair(message.key.kernel_stack, message.key.user_stack);
        writer.write(&message, kernel, user, Of { id: sent.id, time, cpu: sent.cpu }, out);
        Sifted::Kept
    }

    /// Appends a sample of a sum, as of `time`.
    fn write(&mut self, sum: &OffCpuMessage, time: Nanos, out: &mut Vec<u8>) {
        let Self { writer, stacks, ids, .. } = self;
        let (kernel, user) = stacks.pair(sum.key.kernel_stack, sum.key.user_stack);
        let cpu = sum.sum.cpu;
        let id = ids.iter().find(|it| it.0.0 == cpu).or(ids.first()).map(|it| it.1);
        writer.write(sum, kernel, user, Of { id, time, cpu: Some(cpu) }, out);
    }
}

/// What a sample has beside what was measured.
#[derive(Clone, Copy, Debug)]
struct Of {
    id: Option<u64>,
    time: Nanos,
    cpu: Option<u32>,
}

/// Writes samples.
#[derive(Debug)]
struct Writer {
    /// The fields of samples in the file.
    layout: SampleLayout,
    own_frames: OwnFrames,
    scratch: Vec<u8>,
    raw: Vec<u8>,
    body: Vec<u8>,
}

impl Writer {
    fn write(
        &mut self,
        message: &OffCpuMessage,
        kernel: &[u64],
        user: &[u64],
        of: Of,
        out: &mut Vec<u8>,
    ) {
        let Self { layout, own_frames, scratch, raw, body } = self;
        scratch.clear();
        for (context, half) in
            [(callchain_context::KERNEL, own_frames.cut(kernel)), (callchain_context::USER, user)]
        {
            if !half.is_empty() {
                scratch.extend(context.to_ne_bytes());
                scratch.extend(half.iter().flat_map(|it| it.to_ne_bytes()));
            }
        }
        let chain = U64s::new(scratch, Endian::NATIVE);
        let (key, sum) = (&message.key, &message.sum);
        let off_cpu = OffCpu {
            pid: key.pid,
            tid: key.tid,
            off_ns: sum.off_ns,
            chain,
            cgroup: key.cgroup,
            more: Some(More {
                state: key.state,
                woken_by: WokenBy(key.woken_by),
                n: sum.n,
                runnable_ns: sum.runnable_ns,
                waker: key.waker,
                waker_comm: &sum.waker_comm,
            }),
        };
        raw.clear();
        off_cpu.encode(raw);
        let (ip, mode) = off_cpu.ip();
        let sample = Sample {
            ip: Some(ip),
            task: Some((key.pid, key.tid)),
            time: Some(of.time),
            id: of.id,
            cpu: of.cpu,
            period: Some(sum.off_ns),
            callchain: Some(chain),
            raw: Some(raw),
            cgroup: Some(key.cgroup),
            ..Sample::default()
        };
        body.clear();
        layout.encode(&sample, body);
        // Two chains of two times 127 frames are far from the limit.
        let size = usize::from(RecordHeader::SIZE) + body.len();
        let Ok(size) = u16::try_from(size) else { return };
        out.extend(RecordKind::SAMPLE.0.to_ne_bytes());
        out.extend(mode.to_ne_bytes());
        out.extend(size.to_ne_bytes());
        out.extend_from_slice(body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Tid;

    const FIELDS: SampleType = SampleType::IDENTIFIER
        .union(SampleType::IP)
        .union(SampleType::TID)
        .union(SampleType::TIME)
        .union(SampleType::CPU)
        .union(SampleType::PERIOD)
        .union(SampleType::RAW);

    fn writer() -> Writer {
        let attr = in_file(Attr { sample_type: FIELDS, ..Attr::default() });
        let kallsyms = "ffffffff81000100 T bpf_trace_run4\nffffffff81000180 T __schedule\n";
        Writer {
            layout: SampleLayout::new(&attr, Endian::NATIVE),
            own_frames: OwnFrames::of(kallsyms),
            scratch: Vec::new(),
            raw: Vec::new(),
            body: Vec::new(),
        }
    }

    const MESSAGE: OffCpuMessage = OffCpuMessage {
        key: Key {
            pid: Pid(11),
            tid: Tid(12),
            kernel_stack: 1,
            user_stack: 2,
            state: 1,
            woken_by: 1,
            waker: (Pid(21), Tid(22)),
            cgroup: 31,
        },
        sum: Sum {
            off_ns: 900,
            runnable_ns: 100,
            n: 1,
            cpu: 1,
            waker_comm: *b"writer\0\0\0\0\0\0\0\0\0\0",
        },
    };

    #[test]
    fn a_message_is_a_sample_of_whoever_slept_in_fields_and_in_raw_data() {
        let own = 0xffff_ffff_8100_0110;
        let (kernel, user) = ([own, own + 0x80], [0x4000, 0x5000]);
        let mut out = Vec::new();
        let of = Of { id: Some(7), time: Nanos(500), cpu: Some(1) };
        let mut writer = writer();
        writer.write(&MESSAGE, &kernel, &user, of, &mut out);
        assert_eq!(
            out[..8],
            [9, 0, 0, 0, 1, 0, out.len().to_le_bytes()[0], out.len().to_le_bytes()[1]]
        );
        let sample = writer.layout.decode(&out[8..], FileOffset(0)).unwrap();
        let chain =
            [callchain_context::KERNEL, own + 0x80, callchain_context::USER, 0x4000, 0x5000];
        let seen: Vec<u64> = sample.callchain.unwrap().iter().collect();
        assert_eq!((seen, sample.ip.unwrap().0), (chain.to_vec(), own + 0x80));
        assert_eq!(sample.task, Some((Pid(11), Tid(12))));
        assert_eq!((sample.id, sample.time), (Some(7), Some(Nanos(500))));
        assert_eq!((sample.cpu, sample.period), (Some(1), Some(900)));
        let raw = OffCpu::decode(sample.raw.unwrap(), Endian::NATIVE).unwrap();
        let raw_chain: Vec<u64> = raw.chain.iter().collect();
        assert_eq!((raw.pid, raw.tid, raw.off_ns), (Pid(11), Tid(12), 900));
        assert_eq!((raw_chain, raw.cgroup), (chain.to_vec(), 31));
        let more = raw.more.unwrap();
        assert_eq!((more.state_letter(), more.n, more.runnable_ns), ('S', 1, 100));
        assert_eq!((more.waker, more.waker_comm), ((Pid(21), Tid(22)), &b"writer"[..]));
    }

    #[test]
    fn without_a_half_of_the_stack_the_chain_has_the_other() {
        let mut out = Vec::new();
        let of = Of { id: Some(7), time: Nanos(500), cpu: Some(1) };
        let mut writer = writer();
        writer.write(&MESSAGE, &[], &[0x4000], of, &mut out);
        let sample = writer.layout.decode(&out[8..], FileOffset(0)).unwrap();
        let seen: Vec<u64> = sample.callchain.unwrap().iter().collect();
        assert_eq!((seen, out[4]), (vec![callchain_context::USER, 0x4000], 2));
        out.clear();
        writer.write(&MESSAGE, &[], &[], of, &mut out);
        let sample = writer.layout.decode(&out[8..], FileOffset(0)).unwrap();
        assert_eq!((sample.callchain.unwrap().len(), sample.ip.unwrap().0), (0, 0));
    }
}
