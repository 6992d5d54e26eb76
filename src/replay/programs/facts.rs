//! What the sections and the private messages say of programs.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use crate::btf::Btf;
use crate::perfdata::Cursor;
use crate::perfdata::bpf_info::ProgInfo;
use crate::perfdata::bpf_info::decode_btfs;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::private;
use crate::perfdata::private::Message;
use crate::perfdata::private::ProgramMetadata;
use crate::perfdata::private::ProgramRuns;
use crate::units::Addr;
use crate::units::FileOffset;
use crate::units::ProgId;

use super::Program;
use super::join::Input;
use super::join::Join;
use super::state::Cost;
use super::state::Runs;

impl<'a> Join<'a> {
    /// Gives each info to its program; one without a record is a program by itself.
    pub(super) fn add_infos(&mut self, input: &Input<'a, '_>) {
        let sections = |wanted: FeatureId| {
            let features = input.features.iter().filter_map(move |it| match it {
                Feature::BpfProgInfo(bytes) if wanted == FeatureId::BPF_PROG_INFO => Some(bytes),
                Feature::BpfBtf(bytes) if wanted == FeatureId::BPF_BTF => Some(bytes),
                _ => None,
            });
            let messages = input.notes.messages.iter().filter_map(move |it| match it {
                Message::Feature(it) if it.id == u64::from(wanted.0) => Some(&it.data),
                _ => None,
            });
            let bytes = features.map(Vec::as_slice).chain(messages.map(Vec::as_slice));
            bytes.map(|it| Cursor::new(it, FileOffset(0), input.endian))
        };
        let mut infos: BTreeMap<(ProgId, u64), ProgInfo<'a>> = BTreeMap::new();
        for mut cursor in sections(FeatureId::BPF_PROG_INFO) {
            // Those before the damage are good.
            let n = cursor.u32("number of BPF programs").unwrap_or_default();
            for _ in 0..n {
                let Ok(info) = ProgInfo::decode(&mut cursor) else {
                    self.n_damaged += 1;
                    break;
                };
                infos.entry((info.id(), info.load_time_ns())).or_insert(info);
            }
        }
        let mut raw: BTreeMap<u32, &'a [u8]> = BTreeMap::new();
        for cursor in sections(FeatureId::BPF_BTF) {
            match decode_btfs(cursor) {
                Ok(btfs) => btfs.into_iter().for_each(|(id, it)| _ = raw.entry(id).or_insert(it)),
                Err(_) => self.n_damaged += 1,
            }
        }
        for id in infos.values().filter_map(ProgInfo::btf_id) {
            let Some(bytes) = raw.remove(&id) else { continue };
            match Btf::parse(bytes.to_vec()) {
                Ok(btf) => _ = self.btfs.insert(id, btf),
                Err(_) => self.n_damaged += 1,
            }
        }
        let ids: Vec<ProgId> = infos.keys().map(|(id, _)| *id).collect();
        let mut infos = infos.into_values().peekable();
        for of_same_id in ids.chunk_by(|a, b| a == b) {
            self.add_infos_of_id(infos.by_ref().take(of_same_id.len()).collect());
        }
    }

    /// Gives `infos`, all of one id and in the order of their loads, to the programs with that id.
    fn add_infos_of_id(&mut self, infos: Vec<ProgInfo<'a>>) {
        let Some(id) = infos.first().map(ProgInfo::id) else { return };
        let drafts = self.of_id(id).to_vec();
        let n_infos = infos.len();
        for info in infos {
            let addrs: FxHashSet<Addr> = info.functions().map(|(_, it)| it.addr).collect();
            let fits = |draft: &&usize| {
                let program = &self.drafts[**draft].program;
                program.tag == Some(info.tag())
                    && program.info.is_none()
                    && self.may_have(**draft, &addrs)
            };
            let fitting: Vec<usize> = drafts.iter().filter(fits).copied().collect();
            let has_tag = |it: &usize| self.drafts[*it].program.tag == Some(info.tag());
            let draft = match *fitting {
                [draft] => draft,
                // Each has its own, in the same order.
                [draft, ..] if n_infos == drafts.len() => draft,
                [] if !drafts.iter().any(has_tag) => {
                    let (id, tag) = (Some(id), Some(info.tag()));
                    self.add(Program { id, tag, ..Program::default() })
                }
                _ => continue,
            };
            let program = &mut self.drafts[draft].program;
            program.load_time_ns = Some(info.load_time_ns()).filter(|it| *it != 0);
            program.info = Some(info);
        }
    }

    /// Adds what the private messages say.
    pub(super) fn add_messages(&mut self, messages: &'a [Message]) {
        let mut readings = Vec::new();
        for message in messages {
            match message {
                Message::Metadata(ProgramMetadata { id, load_time_ns, entries }) => {
                    if let Some(draft) = self.find(*id, *load_time_ns) {
                        let draft = &mut self.drafts[draft];
                        draft.program.metadata.clone_from(entries);
                        draft.has_whole_metadata = true;
                    }
                }
                Message::Program(state) => {
                    if let Some(draft) = self.find(state.id, state.load_time_ns) {
                        self.drafts[draft].program.state.add(state);
                    }
                }
                Message::Tracepoint(tracepoint) => {
                    for attached in &tracepoint.programs {
                        let Some(draft) = self.find(attached.id, attached.load_time_ns) else {
                            continue;
                        };
                        let program = &mut self.drafts[draft].program;
                        program.state.attach(&tracepoint.event, attached);
                        if program.name.is_empty() {
                            program.name = attached.name.clone().into_bytes();
                        }
                    }
                }
                Message::Runs(runs) => readings.push(runs),
                // Of the kernel, or features like all others.
                Message::Symbols(_)
                | Message::Object(_)
                | Message::Values(_)
                | Message::File(_)
                | Message::Clocks(_)
                | Message::Feature(_)
                | Message::Unknown { .. } => {}
            }
        }
        self.drafts.iter_mut().for_each(|it| it.program.state.settle());
        readings.sort_by_key(|it| it.boot_ns);
        self.add_runs(&readings);
    }

    /// What each program did between the first and the last of `readings`.
    fn add_runs(&mut self, readings: &[&private::Runs]) {
        let [first, .., last] = readings else { return };
        let counted = readings.iter().all(|it| it.counted);
        let (from_boot_ns, until_boot_ns) = (first.boot_ns, last.boot_ns);
        self.runs = Some(Runs { from_boot_ns, until_boot_ns, counted });
        if !counted {
            return;
        }
        // The first and the last counters of each, and the place of the last reading.
        let mut counters: BTreeMap<(u32, u64), (ProgramRuns, ProgramRuns, usize)> = BTreeMap::new();
        for (idx, runs) in readings.iter().enumerate() {
            for &after in &runs.programs {
                // The counters of one that came later began at zero.
                let before = if idx == 0 { after } else { ProgramRuns::default() };
                let key = (after.id, after.load_time_ns);
                let (_, last, read_at) = counters.entry(key).or_insert((before, after, idx));
                (*last, *read_at) = (after, idx);
            }
        }
        for ((id, load_time_ns), (before, after, read_at)) in counters {
            // Of one that was gone before it was read again nothing is known.
            if read_at == 0 {
                continue;
            }
            if let Some(draft) = self.find(id, load_time_ns) {
                self.drafts[draft].program.cost = Cost::between(&before, &after);
            }
        }
    }

    /// The program `id` that was loaded `load_time_ns` after boot (0 for unknown), a new one where
    /// no record told of it; `None` where several can be meant.
    fn find(&mut self, id: u32, load_time_ns: u64) -> Option<usize> {
        let load_time_ns = Some(load_time_ns).filter(|it| *it != 0);
        let drafts = self.of_id(ProgId(id));
        let time = |it: &usize| self.drafts[*it].program.load_time_ns;
        if load_time_ns.is_some()
            && let Some(draft) = drafts.iter().find(|it| time(it) == load_time_ns)
        {
            return Some(*draft);
        }
        let is_open = |it: &usize| load_time_ns.is_none() || time(it).is_none();
        let open: Vec<usize> = drafts.iter().copied().filter(is_open).collect();
        let draft = match *open {
            [] => self.add(Program { id: Some(ProgId(id)), ..Program::default() }),
            [draft] => draft,
            _ => return None,
        };
        let program = &mut self.drafts[draft].program;
        program.load_time_ns = program.load_time_ns.or(load_time_ns);
        Some(draft)
    }
}
