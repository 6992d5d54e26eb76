//! Recordings for tests, made sample by sample.

use std::collections::HashMap;

use crate::profile::FunctionSamples;
use crate::profile::Place;
use crate::profile::Weight;
use crate::replay::resolved::CommId;
use crate::replay::resolved::Dso;
use crate::replay::resolved::DsoId;
use crate::replay::resolved::EventIdx;
use crate::replay::resolved::EventInfo;
use crate::replay::resolved::Group;
use crate::replay::resolved::Level;
use crate::replay::resolved::Location;
use crate::replay::resolved::LocationId;
use crate::replay::resolved::Resolved;
use crate::replay::resolved::Symbol;
use crate::replay::resolved::SymbolId;
use crate::replay::spans::Moment;
use crate::replay::timeline::Fact;
use crate::replay::timeline::FileId;
use crate::replay::timeline::Mapping;
use crate::replay::timeline::Owner;
use crate::replay::timeline::Timeline;
use crate::units::Addr;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::Tid;

/// A recording of one event, `cycles`; every sample is a group of its own.
#[derive(Debug)]
pub(crate) struct Samples {
    pub(crate) resolved: Resolved,
    comms: HashMap<String, CommId>,
    locations: HashMap<String, LocationId>,
}

impl Samples {
    /// A recording whose samples carry call chains.
    pub(crate) fn new() -> Self {
        let event = EventInfo { name: "cycles".into(), has_callchain: true, n_lost: 0 };
        let dso = |name: &str| Dso { short_name: name.into(), long_name: format!("/bin/{name}") };
        let resolved = Resolved {
            events: vec![event],
            dsos: vec![dso("app"), dso("lib")],
            ..Resolved::default()
        };
        Self { resolved, comms: HashMap::new(), locations: HashMap::new() }
    }

    /// Has the function or address `text` owned by the kernel symbol `ksymbol`.
    pub(crate) fn own(&mut self, text: &str, ksymbol: u32) -> &mut Self {
        let LocationId(id) = self.location(text);
        self.resolved.locations[id as usize].owner = Some(Owner::Ksymbol(ksymbol));
        self
    }

    /// Adds a sample of thread `tid`. The `chain` begins with what was sampled: functions of `app`
    /// by name, of `lib` as `lib:name`, of the kernel as `k:name` (in no module of its own), and
    /// addresses as `0x12` (outside all modules) or `lib:0x12`.
    pub(crate) fn add(&mut self, comm: &str, tid: i32, chain: &[&str], period: u64) -> &mut Self {
        let next = CommId(u32::try_from(self.comms.len()).unwrap());
        let comms = &mut self.resolved.comms;
        let comm = *self.comms.entry(comm.into()).or_insert_with(|| {
            comms.push(comm.into());
            next
        });
        let frames: Vec<_> = chain.iter().map(|it| self.location(it)).collect();
        let stack = self.resolved.stacks.push(frames.iter().copied());
        self.resolved.groups.push(Group {
            event: EventIdx(0),
            comm,
            last_comm: comm,
            leader_comm: comm,
            pid: Pid(tid),
            tid: Tid(tid),
            cpu: Some(u32::try_from(tid % 2).unwrap()),
            location: frames[0],
            stack: Some(stack),
            details: None,
            period,
            n_samples: 1,
            first: Nanos(self.resolved.groups.len() as u64),
        });
        self
    }

    /// Makes the mapping 0 the owner of all locations that are in a module.
    pub(crate) fn own_all(&mut self) {
        for location in &mut self.resolved.locations {
            location.owner = location.dso.map(|_| Owner::Mapping(0));
        }
    }

    /// A timeline whose mapping 0 is of some file.
    pub(crate) fn timeline() -> Timeline {
        let file = FileId(0);
        let mapping = Mapping {
            file,
            bias: 0,
            jit_pid: Pid(0),
            jit_generation: 0,
            jit_code: None,
            instead_of: None,
            is_kernel: false,
            is_executable: true,
        };
        let map = Fact::Map { pid: Some(Pid(1)), start: 0, end: 1 << 20, mapping };
        Timeline::new(vec![(Moment::START, map)], Vec::new())
    }

    fn location(&mut self, text: &str) -> LocationId {
        if let Some(id) = self.locations.get(text) {
            return *id;
        }
        let (dso, name) = text.split_once(':').unwrap_or(("app", text));
        let ip = name.strip_prefix("0x").map(|it| u64::from_str_radix(it, 16).unwrap());
        let dso = match dso {
            "lib" => Some(DsoId(1)),
            "app" if ip.is_some() => None,
            _ => Some(DsoId(0)),
        };
        let id = self.resolved.locations.len();
        let start = 0x100 * (id as u64 + 1);
        let symbol = ip.is_none().then(|| {
            self.resolved.symbols.push(Symbol {
                name: name.into(),
                dso: dso.unwrap(),
                start: Addr(start),
                end: Addr(start + 0x100),
                is_inlined: false,
            });
            SymbolId(u32::try_from(self.resolved.symbols.len() - 1).unwrap())
        });
        // Modules are mapped 0x10000 bytes up.
        let addr = ip.map_or(start, |it| if dso.is_some() { it - 0x1_0000 } else { it });
        self.resolved.locations.push(Location {
            ip: Addr(ip.unwrap_or(start + 0x1_0000)),
            addr: Addr(addr),
            linked: Addr(addr),
            owner: None,
            dso,
            symbol,
            symbol_offset: symbol.map_or(0, |_| addr.saturating_sub(start)),
            level: if text.starts_with("k:") { Level::Kernel } else { Level::User },
            line: None,
            running_line: None,
        });
        let id = LocationId(u32::try_from(id).unwrap());
        self.locations.insert(text.into(), id);
        id
    }
}

/// A function at 0x100 of a recording of one event, with a sample at each offset of the given
/// period.
pub(crate) fn functions_of(samples: &[(u64, u64)]) -> FunctionSamples {
    let mut function = FunctionSamples::none(Place::Image(0), 1);
    for &(offset, period) in samples {
        let weight = Weight { period, n_samples: 1 };
        function.add(Addr(0x100 + offset), EventIdx(0), weight);
    }
    function
}
