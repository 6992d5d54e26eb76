//! What the functions are called that BPF programs call: helpers above all.
//!
//! A program's code leads to addresses of the recorded kernel, whose names a reader elsewhere does
//! not have. They are looked up on a thread, since the kernel's list is long. With them go the names
//! of the entries of interrupts, by which a reader tells what a program called from what came between.

use std::collections::BTreeSet;
use std::thread::JoinHandle;

use crate::bpf::Program;
use crate::host::kernel;
use crate::perfdata::private::KernelFunction;
use crate::perfdata::private::KernelSymbols;
use crate::symbols::Kallsyms;
use crate::symbols::Machine;
use crate::symbols::far_targets;
use crate::symbols::is_interrupt_entry;
use crate::symbols::kallsyms_lines;
use crate::units::Addr;

/// The most bytes of a function that are believed to be it: few are longer.
const LEN_MAX: u64 = 16 << 10;

/// The names of what programs call, as far as they have been looked up.
#[derive(Debug, Default)]
pub(super) struct Called {
    /// The addresses that are, or are being, looked up.
    asked: BTreeSet<Addr>,
    looking: Option<JoinHandle<Vec<KernelFunction>>>,
    found: Vec<KernelFunction>,
}

impl Called {
    /// Whether nothing has been looked up.
    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.looking.is_none()
    }

    /// Looks up what `programs` call in `all`, the kernel's list of symbols, in the background.
    pub(super) fn look_up<'a>(programs: impl Iterator<Item = &'a Program>, all: String) -> Self {
        let asked = called(programs);
        let addrs = asked.clone();
        let looking = std::thread::Builder::new()
            .name("bpf-called".to_owned())
            .spawn(move || name(&addrs, &all))
            .inspect_err(|error| tracing::debug!(%error, "names of helpers"))
            .ok();
        Self { asked, looking, found: Vec::new() }
    }

    /// The names of all that `programs` call, and of what was looked up before.
    pub(super) fn names<'a>(
        &mut self,
        programs: impl Iterator<Item = &'a Program>,
    ) -> Option<KernelSymbols> {
        if let Some(looking) = self.looking.take() {
            self.found.extend(looking.join().unwrap_or_default());
        }
        let new: BTreeSet<Addr> = called(programs).difference(&self.asked).copied().collect();
        if !new.is_empty() {
            match kernel::Symbols::open().and_then(kernel::Symbols::all) {
                Ok(all) => self.found.extend(name(&new, &all)),
                Err(error) => tracing::debug!(%error, "names of helpers"),
            }
            self.asked.extend(new);
        }
        self.found.sort_by_key(|it| it.addr);
        self.found.dedup_by_key(|it| it.addr);
        (!self.found.is_empty()).then(|| KernelSymbols { symbols: self.found.clone() })
    }
}

/// The addresses beyond their own code to which `programs` lead.
fn called<'a>(programs: impl Iterator<Item = &'a Program>) -> BTreeSet<Addr> {
    let Some(machine) = Machine::from_uname(std::env::consts::ARCH.as_bytes()) else {
        return BTreeSet::new();
    };
    let mut called = BTreeSet::new();
    for program in programs {
        let code = program.info().native_code();
        for (idx, function) in program.info().functions() {
            let Some(code) = code.get(idx).copied().flatten() else { continue };
            called.extend(far_targets(machine, code, function.addr));
        }
    }
    called
}

/// The functions of the kernel at `addrs`, and the entries of interrupts.
fn name(addrs: &BTreeSet<Addr>, all: &str) -> Vec<KernelFunction> {
    let Ok(kallsyms) = Kallsyms::parse(all.as_bytes()) else { return Vec::new() };
    let function = |&addr: &Addr| {
        let idx = kallsyms.find(addr)?;
        let symbol = kallsyms.symbol(idx)?;
        let module = kallsyms.module(idx).map(str::to_owned);
        // Programs and trampolines have records of their own.
        (module.as_deref() != Some("bpf")).then(|| KernelFunction {
            addr: symbol.start.0,
            // Behind the last function of a section lies a gap.
            len: (symbol.end - symbol.start).min(LEN_MAX),
            name: symbol.name.to_owned(),
            module,
        })
    };
    let entries = kallsyms_lines(all.as_bytes())
        .filter(|it| it.module.is_none() && is_interrupt_entry(it.name))
        .map(|it| it.addr);
    let all: BTreeSet<Addr> = addrs.iter().copied().chain(entries).collect();
    all.iter().filter_map(function).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_called_and_where_interrupts_enter_has_its_place_its_name_and_its_module() {
        let all = "ffffffff81000000 T _text\n\
                   ffffffff81000100 T bpf_ktime_get_ns\n\
                   ffffffff81000130 T other\n\
                   ffffffff81000200 T asm_sysvec_reboot\n\
                   ffffffff81000220 T asm_exc_page_fault\n\
                   ffffffffc0000000 t helper\t[nf]\n\
                   ffffffffc0000040 t end\t[nf]\n\
                   ffffffffc0010000 t bpf_prog_0102030405060708_x\t[bpf]\n\
                   ffffffffc0010040 t bpf_prog_0102030405060709_y\t[bpf]\n";
        let addrs = [0xffff_ffff_8100_0100, 0xffff_ffff_c000_0000, 0xffff_ffff_c001_0000, 0x10];
        let found = name(&addrs.map(Addr).into(), all);
        let function = |addr, len, name: &str, module: Option<&str>| KernelFunction {
            addr,
            len,
            name: name.to_owned(),
            module: module.map(str::to_owned),
        };
        let want = [
            function(0xffff_ffff_8100_0100, 0x30, "bpf_ktime_get_ns", None),
            function(0xffff_ffff_8100_0200, 0x20, "asm_sysvec_reboot", None),
            function(0xffff_ffff_c000_0000, 0x40, "helper", Some("nf")),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn where_addresses_are_hidden_nothing_has_a_name() {
        assert_eq!(name(&[Addr(5)].into(), "0000000000000000 T _text\n"), []);
    }
}
