//! The names of the kernel and of its modules: from the kernel at hand, if it is the recorded one, else
//! from the recording.

use crate::perfdata::private::KernelFunction;
use crate::replay::Frame;
use crate::replay::resolved::Level;
use crate::replay::spans::Moment;
use crate::units::Addr;

use super::LocalKernel;
use super::Names;
use super::NoKernel;
use super::Sources as _;
use super::SymbolName;

impl Names<'_> {
    /// What covers `ip` in the kernel, or in its module of this name.
    pub(super) fn symbol_of_kernel(
        &self,
        ip: Addr,
        module: Option<&str>,
    ) -> Option<SymbolName<'_>> {
        let symbol =
            self.symbol_at_hand(ip, module).or_else(|| self.recorded_symbol(ip, module))?;
        Some(SymbolName { is_mangled: self.demangling.kernel, ..symbol })
    }

    /// The name that the recording itself gives a function of its kernel.
    fn recorded_symbol(&self, ip: Addr, module: Option<&str>) -> Option<SymbolName<'_>> {
        let idx = self.recorded.partition_point(|it| it.addr <= ip.0).checked_sub(1)?;
        let KernelFunction { addr, len, name, module: own } = *self.recorded.get(idx)?;
        let offset = ip.0.wrapping_sub(*addr);
        (offset < *len && own.as_deref() == module).then(|| SymbolName {
            raw: name,
            is_mangled: false,
            start: Addr(*addr),
            end: Addr(addr.saturating_add(*len)),
            offset,
        })
    }

    fn symbol_at_hand(&self, ip: Addr, module: Option<&str>) -> Option<SymbolName<'_>> {
        let (kernel, delta) = self.kernel.get_or_init(|| self.find_kernel()).as_ref().ok()?;
        let at = Addr(ip.0.wrapping_sub(*delta));
        let kallsyms = &kernel.kallsyms;
        let idx = kallsyms.find(at)?;
        // Modules are loaded at places of their own: those of another boot do not lie as far away as
        // the kernel does.
        if kallsyms.module(idx) != module || module.is_some() && *delta != 0 {
            return None;
        }
        let symbol = kallsyms.symbol(idx)?;
        Some(SymbolName {
            raw: symbol.name,
            is_mangled: false,
            start: Addr(symbol.start.0.wrapping_add(*delta)),
            end: Addr(symbol.end.0.wrapping_add(*delta)),
            offset: at - symbol.start,
        })
    }

    /// The kernel at hand, if it is the one that was recorded, and how far away the recorded one
    /// ran: a kernel with the same build id may have been loaded elsewhere (KASLR).
    fn find_kernel(&self) -> Result<(LocalKernel, u64), NoKernel> {
        let kernel = self.sources.kernel()?;
        let delta = self.distance_to(&kernel).ok_or(NoKernel::Other)?;
        Ok((kernel, delta))
    }

    /// How far away from `kernel` the recorded one ran, if it is this one.
    fn distance_to(&self, kernel: &LocalKernel) -> Option<u64> {
        let (start, file) = self.index.kernel?;
        let file = &self.index.files[file.0 as usize];
        let reference = file.path.strip_prefix(b"[kernel.kallsyms]".as_slice())?;
        let reference = std::str::from_utf8(reference).ok().filter(|it| !it.is_empty());
        let local = kernel.kallsyms.addr_of(reference.unwrap_or("_text"))?;
        let is_same = match (self.index.kernel_build_id(), kernel.build_id) {
            _ if kernel.is_chosen => true,
            (Some(recorded), Some(local)) => recorded == local,
            // Without an id the place and the release have to be the same: where kernels are not loaded at
            // random, all of them are at one place.
            _ => {
                let own = kernel.release.as_ref().map(String::as_bytes);
                start == local && own.is_some() && self.index.release.as_deref() == own
            }
        };
        is_same.then(|| start - local)
    }

    /// What lies at the address `addr` of the kernel at `moment`.
    pub fn kernel_symbol(&self, addr: Addr, moment: Moment) -> Option<SymbolName<'_>> {
        let owner = self.index.timeline.kernel(addr.0, moment);
        let frame = Frame { ip: addr, owner, level: Level::Kernel, is_return_address: false };
        self.name(&frame).symbol
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rustc_hash::FxHashMap;

    use crate::perfdata::private::KernelSymbols;
    use crate::perfdata::private::Message;
    use crate::replay::Anomalies;
    use crate::replay::Index;
    use crate::replay::Lacked;
    use crate::replay::Nameless;
    use crate::replay::Provenance;
    use crate::replay::Unknown;
    use crate::replay::Unnamed;
    use crate::replay::WrittenMap;
    use crate::replay::programs::Notes;
    use crate::replay::provenance::WallClock;
    use crate::replay::timeline::Fact;
    use crate::replay::timeline::FileId;
    use crate::replay::timeline::MappedFile;
    use crate::replay::timeline::Mapping;
    use crate::replay::timeline::Timeline;
    use crate::symbols;
    use crate::symbols::ElfCode;
    use crate::symbols::ElfModule;
    use crate::symbols::Kallsyms;
    use crate::symbols::ModuleFile;
    use crate::units::BuildId;
    use crate::units::Pid;

    use super::super::Sources;
    use super::super::Width;
    use super::*;

    /// A machine whose kernel is at `at`, with a module that always is at the same place.
    struct Machine {
        at: u64,
        build_id: Option<BuildId>,
        release: &'static str,
        is_chosen: bool,
    }

    impl Sources for Machine {
        fn elf(&self, _: &ModuleFile) -> Result<ElfModule, symbols::Error> {
            Err(symbols::Error::EmptyKallsyms)
        }

        fn vdso(&self, _: Width, _: Option<BuildId>) -> Option<ElfModule> {
            None
        }

        fn elf_code(&self, _: &ModuleFile) -> Result<ElfCode, symbols::Error> {
            Err(symbols::Error::EmptyKallsyms)
        }

        fn vdso_code(&self, _: Width, _: Option<BuildId>) -> Option<ElfCode> {
            None
        }

        fn perf_map(&self, _: Pid, _: &Provenance) -> Result<WrittenMap, Unnamed> {
            Err(Unnamed::Absent)
        }

        fn kernel(&self) -> Result<LocalKernel, NoKernel> {
            let text = self.at;
            let list = format!(
                "{text:x} T _text\n{:x} t work\n{MODULE:x} t enter\t[kvm]\n{:x} t leave\t[kvm]\n",
                text + 0x100,
                MODULE + 0x1000,
            );
            Ok(LocalKernel {
                build_id: self.build_id,
                release: Some(self.release.to_owned()),
                kallsyms: Kallsyms::parse(list.as_bytes()).unwrap().into(),
                is_chosen: self.is_chosen,
            })
        }
    }

    const TEXT: u64 = 0xffff_ffff_8100_0000;
    const MODULE: u64 = 0xffff_ffff_c000_0000;

    /// What `machine` calls two addresses of a recording of release 7.0: in the kernel and in a
    /// module.
    #[track_caller]
    fn check(build_id: Option<BuildId>, machine: &Machine, want: [Option<&str>; 2]) {
        check_with((build_id, Some("7.0")), machine, Vec::new(), want);
    }

    /// The same of a recording that itself names the functions `recorded`, and tells this of its kernel:
    /// its build id and its release.
    #[track_caller]
    fn check_with(
        (build_id, release): (Option<BuildId>, Option<&str>),
        machine: &Machine,
        recorded: Vec<KernelFunction>,
        want: [Option<&str>; 2],
    ) {
        let mut bpf = Notes::default();
        bpf.message(Message::Symbols(KernelSymbols { symbols: recorded }));
        let path = |it: &str| it.as_bytes().to_vec();
        let files = vec![
            MappedFile { path: path("[kernel.kallsyms]_text"), build_id, inode: None },
            MappedFile { path: path("/lib/modules/7.0/kvm.ko"), build_id: None, inode: None },
        ];
        let map = |file, start, len| {
            let file = FileId(file);
            let mapping = Mapping {
                file,
                bias: 0,
                jit_pid: Pid(0),
                jit_generation: 0,
                jit_code: None,
                instead_of: None,
                is_kernel: true,
                is_executable: true,
            };
            (Moment::START, Fact::Map { pid: None, start, end: start + len, mapping })
        };
        let index = Index {
            chunks: Vec::new(),
            readings: crate::replay::Readings::default(),
            n_samples: Vec::new(),
            n_lost: Vec::new(),
            entries: Vec::new(),
            timeline: Timeline::new(vec![map(0, TEXT, 0x10_0000), map(1, MODULE, 0x2000)], vec![]),
            comms: Vec::new(),
            files,
            mappers: Vec::new(),
            mapped: Vec::new(),
            jit_codes: Vec::new(),
            jit_made: Vec::new(),
            build_ids: FxHashMap::default(),
            kernel: Some((Addr(TEXT), FileId(0))),
            release: release.map(|it| it.as_bytes().to_vec()),
            provenance: Provenance::default(),
            wall_clock: WallClock::default(),
            unnamed_jit: BTreeMap::new(),
            cgroups: FxHashMap::default(),
            deferred: crate::replay::Deferred::default(),
            bpf,
            anomalies: Anomalies::default(),
        };
        let names = Names::new(&index, machine);
        let name = |ip| {
            let owner = index.timeline.kernel(ip, Moment::START);
            let level = Level::Kernel;
            let frame = Frame { ip: Addr(ip), owner, level, is_return_address: false };
            names.name(&frame).symbol.map(|it| it.raw.to_owned())
        };
        let got = [name(TEXT + 0x110), name(MODULE + 0x1010)];
        // Two samples at each of the two are told of, where no kernel names them.
        let mut nameless = Nameless::default();
        for ip in [TEXT + 0x110, MODULE + 0x1010] {
            let owner = index.timeline.kernel(ip, Moment::START);
            nameless.add(Some(Unknown { owner, level: Level::Kernel }), 2);
        }
        // And three beyond all that was told of.
        nameless.add(Some(Unknown { owner: None, level: Level::Kernel }), 3);
        nameless.add(Some(Unknown { owner: None, level: Level::User }), 1);
        let lacking = names.lacking(&nameless);
        let lacking: Vec<_> = lacking
            .iter()
            .map(|it| match it.what {
                Lacked::Kernel(why) => (&*it.dso.short_name, why, it.n_samples),
                _ => panic!("{it:?}"),
            })
            .collect();
        match names.kernel.get() {
            Some(Ok(_)) => assert_eq!(lacking, []),
            _ => assert_eq!(lacking, [("[kernel.kallsyms]", NoKernel::Other, 7)]),
        }
        assert_eq!(got.each_ref().map(Option::as_deref), want);
    }

    #[test]
    fn a_kernel_without_an_id_is_known_by_its_place_and_release() {
        let machine = |at, release| Machine { at, build_id: None, release, is_chosen: false };
        check(None, &machine(TEXT, "7.0"), [Some("work"), Some("leave")]);
        check(None, &machine(TEXT, "6.9"), [None, None]);
        check(None, &machine(TEXT + 0x20_0000, "7.0"), [None, None]);
        check_with((None, None), &machine(TEXT, "7.0"), Vec::new(), [None, None]);
    }

    #[test]
    fn a_kernel_that_the_user_chose_needs_no_proof() {
        let machine = |at| Machine { at, build_id: None, release: "6.9", is_chosen: true };
        check(None, &machine(TEXT), [Some("work"), Some("leave")]);
        check(BuildId::new(&[1; 20]), &machine(TEXT + 0x20_0000), [Some("work"), None]);
    }

    #[test]
    fn after_another_boot_the_kernel_has_names_and_its_modules_have_none() {
        let build_id = BuildId::new(&[1; 20]);
        let machine = |at| Machine { at, build_id, release: "7.0", is_chosen: false };
        check(build_id, &machine(TEXT), [Some("work"), Some("leave")]);
        // The module's address, as far from its own as the kernel's from the other, is another
        // function of the same module.
        check(build_id, &machine(TEXT - 0x1000), [Some("work"), None]);
    }

    #[test]
    fn where_no_kernel_is_at_hand_the_recording_names_what_its_programs_call() {
        let other = Machine { at: TEXT, build_id: None, release: "6.9", is_chosen: false };
        let function = |addr, len, module: Option<&str>| KernelFunction {
            addr,
            len,
            name: "recorded".to_owned(),
            module: module.map(str::to_owned),
        };
        let in_kernel = function(TEXT + 0x100, 0x20, None);
        let in_module = function(MODULE + 0x1010, u64::MAX, Some("kvm"));
        let both = vec![in_module.clone(), in_kernel.clone()];
        check_with((None, Some("7.0")), &other, both, [Some("recorded"), Some("recorded")]);
        let short = function(TEXT + 0x100, 0x10, None);
        let elsewhere = function(MODULE + 0x1010, 9, Some("nf"));
        check_with((None, Some("7.0")), &other, vec![short, elsewhere], [None, None]);
        let own = Machine { at: TEXT, build_id: None, release: "7.0", is_chosen: false };
        check_with((None, Some("7.0")), &own, vec![in_kernel], [Some("work"), Some("leave")]);
    }
}
