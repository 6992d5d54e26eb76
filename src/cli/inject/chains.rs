//! Call chains in the place of the registers and stacks that lead to them.

use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::perfdata::Endian;
use crate::perfdata::RawRecord;
use crate::perfdata::SampleLayout;
use crate::perfdata::SampleType;
use crate::perfdata::U64s;
use crate::perfdata::callchain_context;
use crate::profile::MAX_STACK;
use crate::replay::Index;
use crate::replay::Recording;
use crate::replay::Resolver;
use crate::replay::Unwinding;
use crate::replay::spans::Moment;
use crate::units::Pid;
use crate::units::Tid;

use super::Fate;

/// Makes call chains of copies of stacks.
#[derive(Debug)]
pub(super) struct Chains<'a> {
    recording: &'a Recording,
    resolver: Resolver<'a>,
    /// How samples are laid out without their stacks, by event.
    layouts: Vec<SampleLayout>,
}

/// Whether samples of an event with `attr` have stacks to make chains of.
pub(super) fn has_stacks(attr: &Attr) -> bool {
    attr.sample_type.contains(STATE | SampleType::CALLCHAIN)
}

const STATE: SampleType = SampleType::REGS_USER.union(SampleType::STACK_USER);

/// The attribute of the event with `attr` when its samples have chains alone.
pub(super) fn without_stacks(attr: &Attr) -> Attr {
    let mut attr = *attr;
    if has_stacks(&attr) {
        attr.sample_type.remove(STATE);
        attr.flags.remove(AttrFlags::EXCLUDE_CALLCHAIN_USER);
        attr.sample_regs_user = 0;
        attr.sample_stack_user = 0;
    }
    attr
}

impl<'a> Chains<'a> {
    pub(super) fn new(
        recording: &'a Recording,
        index: &'a Index,
        unwinding: &'a Unwinding<'a>,
    ) -> Self {
        let endian = recording.header.endian();
        let layout = |attr| SampleLayout::new(&without_stacks(attr), endian);
        let layouts = recording.events.iter().map(|it| layout(&it.attr)).collect();
        let resolver = Resolver::with_unwinding(&index.timeline, unwinding);
        Self { recording, resolver, layouts }
    }

    /// Writes the sample `raw` to `out` as what it is to be.
    pub(super) fn record(&mut self, raw: &RawRecord<'_>, out: &mut Vec<u8>) -> Fate {
        let events = &self.recording.events;
        let idx = self.recording.event_of_sample(raw.body).and_then(|it| usize::try_from(it).ok());
        let Some((idx, event)) = idx.and_then(|it| Some((it, events.get(it)?))) else {
            // Nobody can tell how it is laid out, before or after.
            return Fate::Dropped;
        };
        if !has_stacks(&event.attr) {
            return Fate::Kept;
        }
        let Ok(mut sample) = event.sample.decode(raw.body, raw.at) else { return Fate::Dropped };
        let time = sample.time.unwrap_or_default();
        let moment = Moment { time, position: raw.at.0 };
        let (pid, tid) = sample.task.unwrap_or((Pid(-1), Tid(-1)));
        let task = self.resolver.task(pid, tid, moment);
        let mut frames = Vec::new();
        if let Ok(Some(state)) = event.sample.user_state(raw.body) {
            self.resolver.unwind(&task, &state, MAX_STACK, moment, &mut frames);
        }
        let recorded = sample.callchain.unwrap_or(U64s::new(&[], Endian::NATIVE));
        // The user's part is what the stack says, if it says anything.
        let kept =
            recorded.iter().take_while(|it| *it != callchain_context::USER || frames.is_empty());
        let mut chain: Vec<u8> = kept.flat_map(u64::to_ne_bytes).collect();
        if !frames.is_empty() {
            chain.extend(callchain_context::USER.to_ne_bytes());
            chain.extend(frames.iter().flat_map(|it| it.ip.0.to_ne_bytes()));
        }
        sample.callchain = Some(U64s::new(&chain, Endian::NATIVE));
        (sample.regs_user, sample.stack_user) = (None, None);
        let mut body = Vec::new();
        self.layouts[idx].encode(&sample, &mut body);
        let Ok(size) = u16::try_from(body.len() + 8) else { return Fate::Dropped };
        out.extend(raw.header.kind.0.to_ne_bytes());
        out.extend(raw.header.misc.to_ne_bytes());
        out.extend(size.to_ne_bytes());
        out.append(&mut body);
        Fate::Written
    }
}
