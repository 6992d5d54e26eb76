//! The kernel functions that BPF programs call, by name: who reads the recording may not see the
//! kernel's symbols, or run another kernel.

use std::collections::BTreeSet;

use crate::bpf::Program;
use crate::bpf::Programs;
use crate::host::kernel;
use crate::perfdata::bpf_info::ProgInfo;
use crate::perfdata::private::KernelName;
use crate::perfdata::private::KernelNames;
use crate::symbols::Kallsyms;
use crate::symbols::Machine;
use crate::symbols::far_targets;
use crate::units::Addr;

/// The names of what `programs` call and jump to in the running kernel; `None` where nothing can be
/// named.
pub(super) fn kernel_names(programs: &Programs) -> Option<KernelNames> {
    let machine = Machine::from_uname(std::env::consts::ARCH.as_bytes())?;
    let kallsyms = || Kallsyms::parse(kernel::Symbols::open().ok()?.all().ok()?.as_bytes()).ok();
    names(machine, programs.iter().map(Program::info), kallsyms)
}

/// The names of what programs of a `machine` lead to, as `kallsyms` has them; it is asked only if there
/// is something to name.
///
/// BPF's own symbols are left out, since records tell of them.
fn names<'a>(
    machine: Machine,
    programs: impl Iterator<Item = &'a ProgInfo<'static>>,
    kallsyms: impl FnOnce() -> Option<Kallsyms>,
) -> Option<KernelNames> {
    let targets: BTreeSet<Addr> = programs.flat_map(|it| targets(machine, it)).collect();
    if targets.is_empty() {
        return None;
    }
    let kallsyms = kallsyms()?;
    let name = |addr: Addr| {
        let idx = kallsyms.find(addr)?;
        let symbol = kallsyms.symbol(idx).filter(|_| kallsyms.module(idx) != Some("bpf"))?;
        let name = symbol.name.to_owned();
        Some(KernelName { addr: addr.0, name, offset: addr - symbol.start })
    };
    Some(KernelNames { names: targets.into_iter().filter_map(name).collect() })
}

/// The places outside of a program that its functions lead to.
fn targets(machine: Machine, info: &ProgInfo<'_>) -> Vec<Addr> {
    let code = info.native_code();
    let functions: Vec<_> = info.functions().collect();
    let is_own = |addr: &Addr| functions.iter().any(|(_, it)| it.addr == *addr);
    let targets = functions.iter().flat_map(|(idx, it)| {
        let code = code.get(*idx).copied().flatten().unwrap_or_default();
        far_targets(machine, code, it.addr)
    });
    targets.filter(|it| !is_own(it)).collect()
}

#[cfg(test)]
mod tests {
    use crate::perfdata::Cursor;
    use crate::perfdata::Endian;
    use crate::perfdata::bpf_info::decode_prog_infos;
    use crate::units::FileOffset;

    use super::*;

    const PROG_INFO: &[u8] = include_bytes!("../../tests/fixtures/bpf/prog_info.perf-7.3.bin");

    #[test]
    fn what_programs_call_in_the_kernel_is_named_and_what_is_their_own_is_not() {
        let cursor = Cursor::new(PROG_INFO, FileOffset(0), Endian::Little);
        let info = decode_prog_infos(cursor).unwrap().remove(0).into_owned();
        let kallsyms = |text: &'static str| move || Kallsyms::parse(text.as_bytes()).ok();
        let names = |text| names(Machine::X86_64, [&info].into_iter(), kallsyms(text));
        // Both functions end with a jump to the thunk; the first calls the second.
        let found = names(
            "ffffffff81104000 t srso\nffffffff81105000 t next\n\
             ffffffffc0025cd8 t bpf_prog_3ad6c7b75bc9f775_add_three\t[bpf]\n",
        );
        let want = KernelName { addr: 0xffff_ffff_8110_410b, name: "srso".into(), offset: 0x10b };
        assert_eq!(found, Some(KernelNames { names: vec![want] }));
        let found = names("ffffffff81104000 t some_image\t[bpf]\nffffffff81105000 t next\n");
        assert_eq!(found, Some(KernelNames::default()));
    }
}
