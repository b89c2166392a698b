//! What an exit of a KVM guest costs, by the reason that the kernel's tracepoint `kvm:kvm_exit` gives: what counts
//! of exits are multiplied by.

use crate::history::Entry;

/// Reasons and the form that stands for each. AMD's are in small letters, Intel's in capitals: Linux 6.12,
/// arch/x86/include/uapi/asm/svm.h and vmx.h. Reasons that carry no work of their own, as `interrupt`, have none.
const REASONS: [(&str, &str); 30] = [
    ("cpuid", "cpuid"),
    ("CPUID", "cpuid"),
    ("msr", "rdmsr apic base"),
    ("MSR_READ", "rdmsr apic base"),
    ("MSR_WRITE", "wrmsr efer"),
    ("io", "out port, al"),
    ("IO_INSTRUCTION", "out port, al"),
    ("hlt", "halt and wake-up"),
    ("HLT", "halt and wake-up"),
    ("npf", "memory touched first"),
    ("EPT_VIOLATION", "memory touched first"),
    ("EPT_MISCONFIG", "memory I/O read, hpet"),
    ("vmmcall", "KVM_HC_VAPIC_POLL_IRQ"),
    ("VMCALL", "KVM_HC_VAPIC_POLL_IRQ"),
    ("read_cr0", "mov r64, cr0"),
    ("read_cr3", "mov r64, cr3"),
    ("read_cr4", "mov r64, cr4"),
    ("write_cr0", "mov cr0, r64"),
    ("write_cr3", "mov cr3, r64"),
    ("write_cr4", "mov cr4, r64"),
    ("CR_ACCESS", "mov cr4, r64"),
    ("read_dr0", "mov r64, dr0"),
    ("write_dr7", "mov dr7, r64"),
    ("DR_ACCESS", "mov dr7, r64"),
    ("invlpg", "invlpg"),
    ("INVLPG", "invlpg"),
    ("wbinvd", "wbinvd"),
    ("WBINVD", "wbinvd"),
    ("xsetbv", "xsetbv"),
    ("XSETBV", "xsetbv"),
];

/// The form that stands for a reason.
pub fn form(reason: &str) -> Option<&'static str> {
    REASONS.iter().find(|(name, _)| *name == reason).map(|(_, form)| *form)
}

/// Nanoseconds that an exit of this reason takes, as a run remembers it ([`crate::history::last`]).
pub fn nanoseconds(of: &Entry, reason: &str) -> Option<f64> {
    let cycles = of.cycles.get(&format!("{}, cost", form(reason)?))?;
    (of.cycles_per_second > 0.0).then(|| cycles / of.cycles_per_second * 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_form_that_is_measured() {
        for (reason, form) in REASONS {
            assert!(crate::forms().iter().any(|one| one.name == form), "{reason}: {form}");
        }
        assert_eq!(form("interrupt"), None);
    }

    #[test]
    fn an_exit_s_time_is_its_cycles_at_the_clock_that_was_measured() {
        let entry = Entry {
            time_s: 0,
            environment: "kvm".into(),
            how: String::new(),
            processor: String::new(),
            cycles_per_second: 2e9,
            cycles: [("halt and wake-up, cost".to_owned(), 5000.0)].into(),
        };
        assert_eq!(nanoseconds(&entry, "hlt"), Some(2500.0));
        assert_eq!(nanoseconds(&entry, "cpuid"), None, "it was not measured");
    }
}
