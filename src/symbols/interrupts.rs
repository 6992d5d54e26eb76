//! Where an interrupt enters the kernel.

/// Beginnings of names of x86's entries since 5.8 (`DECLARE_IDTENTRY_IRQ()` and
/// `DECLARE_IDTENTRY_SYSVEC()` in `arch/x86/include/asm/idtentry.h`), those of FRED included
/// (`arch/x86/entry/entry_fred.c`), and of arm64's (`arch/arm64/kernel/entry.S`).
const BEGINNINGS: [&str; 5] =
    ["asm_sysvec_", "fred_sysvec_", "el1h_64_irq", "el1h_64_fiq", "el1t_64_irq"];

/// Names of entries as a whole: first those of today, then those of x86 before 5.8
/// (`arch/x86/entry/entry_64.S`), of arm64 before 5.14.
const NAMES: [&str; 21] = [
    "asm_common_interrupt",
    "asm_spurious_interrupt",
    "fred_extint",
    "common_interrupt",
    "ret_from_intr",
    "apic_timer_interrupt",
    "x86_platform_ipi",
    "reschedule_interrupt",
    "call_function_interrupt",
    "call_function_single_interrupt",
    "irq_work_interrupt",
    "reboot_interrupt",
    "thermal_interrupt",
    "threshold_interrupt",
    "deferred_error_interrupt",
    "error_interrupt",
    "spurious_interrupt",
    "xen_hvm_callback_vector",
    "hyperv_callback_vector",
    "el1_irq",
    "el1_fiq",
];

/// Whether the kernel's function `name` is where an interrupt enters: what calls it did not ask for
/// it. Exceptions, such as page faults, are caused by the code that they interrupt, and are none.
pub fn is_interrupt_entry(name: &str) -> bool {
    NAMES.contains(&name) || BEGINNINGS.iter().any(|it| name.starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_interrupts_are_told_from_exceptions_and_other_functions() {
        let entries = [
            "asm_common_interrupt",
            "asm_sysvec_apic_timer_interrupt",
            "asm_sysvec_call_function_single",
            "apic_timer_interrupt",
            "el1h_64_irq",
            "el1_irq",
        ];
        for name in entries {
            assert!(is_interrupt_entry(name), "{name}");
        }
        for name in ["asm_exc_page_fault", "el1h_64_sync", "bpf_ktime_get_ns", "irq_work_queue", ""]
        {
            assert!(!is_interrupt_entry(name), "{name}");
        }
    }
}
