//! Recordings for tests, made record by record, and the programs that they come to.

use rustc_hash::FxHashMap;

use crate::perfdata::BpfEvent;
use crate::perfdata::BpfMetadata;
use crate::perfdata::Cursor;
use crate::perfdata::Endian;
use crate::perfdata::SampleId;
use crate::perfdata::feature::Feature;
use crate::perfdata::private::Message;
use crate::perfdata::private::ProgramMetadata;
use crate::replay::spans::Moment;
use crate::replay::timeline::Fact;
use crate::replay::timeline::KernelSymbol;
use crate::replay::timeline::Timeline;
use crate::units::BpfTag;
use crate::units::FileOffset;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::ProgId;
use crate::units::Tid;

use super::Notes;
use super::Programs;
use super::join::Input;
use super::join::join;

/// A recording as it is written; each record of the kernel is by thread `tid` at `time`, 0 for what
/// is synthesized.
#[derive(Debug)]
pub(crate) struct Tape {
    pub(crate) endian: Endian,
    symbols: Vec<(SampleId, u64, KernelSymbol)>,
    gone: Vec<(SampleId, u64, u64)>,
    notes: Notes,
    pub(crate) infos: Vec<Vec<u8>>,
    at: u64,
}

impl Tape {
    pub(crate) fn new() -> Self {
        let (symbols, gone, infos) = (Vec::new(), Vec::new(), Vec::new());
        Self { endian: Endian::Little, symbols, gone, notes: Notes::default(), infos, at: 0x100 }
    }

    fn next(&mut self, time: u64, tid: i32) -> (FileOffset, SampleId) {
        self.at += 0x40;
        let time = Some(Nanos(time)).filter(|it| *it != Nanos(0));
        let task = Some((Pid(tid - tid % 10), Tid(tid)));
        (FileOffset(self.at), SampleId { task, time, ..SampleId::default() })
    }

    pub(crate) fn symbol(&mut self, time: u64, tid: i32, start: u64, name: &str) -> &mut Self {
        let (at, id) = self.next(time, tid);
        let symbol = KernelSymbol { name: name.into(), start, end: start + 0x80 };
        self.symbols.push((id, at.0, symbol));
        self.notes.register(at, id);
        self
    }

    pub(crate) fn gone(&mut self, time: u64, start: u64) -> &mut Self {
        let (at, id) = self.next(time, 0);
        self.gone.push((id, at.0, start));
        self.notes.unregister(at, id, start);
        self
    }

    pub(crate) fn event(&mut self, kind: u16, time: u64, tid: i32, id: u32, tag: u8) -> &mut Self {
        let (at, trailer) = self.next(time, tid);
        let event = BpfEvent { kind, flags: 0, id: ProgId(id), tag: self::tag(tag) };
        self.notes.event(at, trailer, event);
        self
    }

    pub(crate) fn load(&mut self, time: u64, tid: i32, id: u32, tag: u8) -> &mut Self {
        self.event(BpfEvent::PROG_LOAD, time, tid, id, tag)
    }

    pub(crate) fn unload(&mut self, time: u64, id: u32, tag: u8) -> &mut Self {
        self.event(BpfEvent::PROG_UNLOAD, time, 0, id, tag)
    }

    pub(crate) fn metadata(&mut self, name: &str, key: &str, value: &str) -> &mut Self {
        let (at, _) = self.next(0, 0);
        let entries = [(key.as_bytes(), value.as_bytes())];
        let body = BpfMetadata::encode_entries(name.as_bytes(), entries.into_iter());
        let mut cursor = Cursor::new(&body, at, Endian::NATIVE);
        self.notes.metadata(at, &BpfMetadata::decode(&mut cursor).unwrap());
        self
    }

    pub(crate) fn other(&mut self) -> &mut Self {
        self.notes.other();
        self
    }

    pub(crate) fn message(&mut self, message: Message) -> &mut Self {
        self.notes.message(message);
        self
    }

    /// What the owner of the program `id` says of it, whole.
    pub(crate) fn says(&mut self, id: u32, key: &str, value: &str) -> &mut Self {
        let entries = vec![(key.to_owned(), value.to_owned())];
        self.message(Message::Metadata(ProgramMetadata { id, load_time_ns: 0, entries }))
    }

    /// Info of a program named `name` with functions at `functions`, each with its own tag.
    pub(crate) fn info(
        &mut self,
        id: u32,
        load_time: u64,
        tag: u8,
        functions: &[(u64, u8)],
    ) -> &mut Self {
        let endian = self.endian;
        let n = u32::try_from(functions.len()).unwrap();
        let mut info = vec![0; 232];
        let mut put = |at: usize, bytes: &[u8]| info[at..at + bytes.len()].copy_from_slice(bytes);
        let word = |it: u32| order(endian, &it.to_le_bytes());
        let long = |it: u64| order(endian, &it.to_le_bytes());
        put(0, &word(17));
        put(4, &word(id));
        put(8, &self::tag(tag).0);
        put(40, &long(load_time));
        put(64, b"info_name");
        for count in [104, 108, 180] {
            put(count, &word(n));
        }
        let lens_at = 8 * u64::from(n);
        let tags_at = lens_at + (4 * u64::from(n)).next_multiple_of(8);
        put(120, &long(lens_at));
        put(184, &long(tags_at));
        let mut data: Vec<u8> = functions.iter().flat_map(|it| long(it.0)).collect();
        data.extend(functions.iter().flat_map(|_| word(0x80)));
        data.resize(usize::try_from(tags_at).unwrap(), 0);
        data.extend(functions.iter().flat_map(|it| self::tag(it.1).0));
        let len = |it: &Vec<u8>| word(u32::try_from(it.len()).unwrap());
        let arrays = 1 << 3 | 1 << 4 | 1 << 8;
        self.infos.push([len(&info), len(&data), long(arrays), info, data].concat());
        self
    }

    /// Hands the programs, and the timeline, to `check`.
    pub(crate) fn check(&mut self, check: impl FnOnce(&Programs<'_>, &Timeline)) {
        let moment = |id: &SampleId, at| Moment { time: id.time.unwrap_or_default(), position: at };
        let mut facts: Vec<(Moment, Fact)> = Vec::new();
        for (id, at, symbol) in &self.symbols {
            facts.push((moment(id, *at), Fact::Register(symbol.clone())));
        }
        for (id, at, start) in &self.gone {
            facts.push((moment(id, *at), Fact::Unregister(*start)));
        }
        facts.sort_by_key(|(moment, _)| *moment);
        let registered = facts.iter().filter(|(_, it)| matches!(it, Fact::Register(_)));
        let numbers: FxHashMap<u64, u32> =
            registered.zip(0..).map(|((moment, _), idx)| (moment.position, idx)).collect();
        self.notes.number(&numbers);
        let timeline = Timeline::new(facts, vec![]);
        let n = u32::try_from(self.infos.len()).unwrap().to_le_bytes();
        let infos = Feature::BpfProgInfo([order(self.endian, &n), self.infos.concat()].concat());
        let programs = join(&Input {
            endian: self.endian,
            features: vec![&infos],
            ksymbols: timeline.ksymbols(),
            notes: &self.notes,
            comm: &|(pid, _), _| Some(format!("comm-{pid}").into_bytes()),
        });
        check(&programs, &timeline);
    }
}

fn order(endian: Endian, little: &[u8]) -> Vec<u8> {
    let mut bytes = little.to_vec();
    if endian == Endian::Big {
        bytes.reverse();
    }
    bytes
}

pub(crate) fn tag(it: u8) -> BpfTag {
    BpfTag([it; 8])
}

pub(crate) fn name(tag: u8, name: &str) -> String {
    format!("bpf_prog_{}_{name}", self::tag(tag))
}
