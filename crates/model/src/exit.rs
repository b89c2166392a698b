//! Why vCPUs leave their guests.

mod names;

use std::fmt;

use xweave_trace::xen;

use self::names::names;

/// Why a guest was left. AMD's numbers and Intel's are one reason where they mean the same
/// (arch/x86/include/uapi/asm/svm.h and vmx.h, Linux 6.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExitReason {
    /// An interrupt of the host's.
    Interrupt,
    /// The guest can take interrupts again.
    InterruptWindow,
    /// CPUID.
    Cpuid,
    /// HLT: the guest has nothing to do.
    Halt,
    /// An access to an I/O port.
    Io,
    /// A model-specific register, read or written.
    Msr,
    /// One that was read.
    ReadMsr,
    /// One that was written.
    WriteMsr,
    /// PAUSE, again and again.
    Pause,
    /// A hypercall.
    Hypercall,
    /// A page that is not there in the host's tables: AMD's.
    NestedPageFault,
    /// The same, Intel's.
    EptViolation,
    /// An entry of these tables that is not valid.
    EptMisconfig,
    /// The hypervisor's timer.
    PreemptionTimer,
    /// An interrupt to another vCPU that the hardware could not deliver.
    AvicIncompleteIpi,
    /// Another of Xen's.
    Xen(xen::Exit),
    /// Another of the hardware's, by its number.
    Other(i32),
}

impl ExitReason {
    /// Of an event's `code`. AMD's numbers and Intel's overlap only where neither is common; those of Xen are its own.
    pub fn of(code: i32) -> Self {
        match xen::Exit::of(code) {
            Some(xen::Exit::Interrupt) => return Self::Interrupt,
            Some(exit) => return Self::Xen(exit),
            None => {}
        }
        match code {
            0x60 | 1 => Self::Interrupt,
            0x64 | 7 => Self::InterruptWindow,
            0x72 | 10 => Self::Cpuid,
            0x78 | 12 => Self::Halt,
            0x7b | 30 => Self::Io,
            0x7c => Self::Msr,
            31 => Self::ReadMsr,
            32 => Self::WriteMsr,
            0x77 | 40 => Self::Pause,
            0x81 | 18 => Self::Hypercall,
            0x400 => Self::NestedPageFault,
            48 => Self::EptViolation,
            49 => Self::EptMisconfig,
            52 => Self::PreemptionTimer,
            0x401 => Self::AvicIncompleteIpi,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for ExitReason {
    /// As the kernel calls it, and Xen's tools do: `io`, `ept violation`; by its number if neither does. A number that AMD and
    /// Intel use for different exits has both names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Interrupt => "interrupt",
            Self::InterruptWindow => "interrupt window",
            Self::Cpuid => "cpuid",
            Self::Halt => "hlt",
            Self::Io => "io",
            Self::Msr => "msr",
            Self::ReadMsr => "rdmsr",
            Self::WriteMsr => "wrmsr",
            Self::Pause => "pause",
            Self::Hypercall => "hypercall",
            Self::NestedPageFault => "npf",
            Self::EptViolation => "ept violation",
            Self::EptMisconfig => "ept misconfig",
            Self::PreemptionTimer => "preemption timer",
            Self::AvicIncompleteIpi => "avic incomplete ipi",
            Self::Xen(exit) => return exit.fmt(f),
            Self::Other(code) => {
                let names: Vec<_> = names(*code).collect();
                return match names.is_empty() {
                    true => write!(f, "exit {code:#x} (unknown)"),
                    false => f.pad(&names.join(" or ")),
                };
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_both_makers_are_one_reason_and_others_their_own() {
        for codes in [[0x60, 1], [0x78, 12], [0x7b, 30], [0x77, 40], [0x81, 18]] {
            let [amd, intel] = codes.map(ExitReason::of);
            assert_eq!(amd, intel);
        }
        let xens = ExitReason::of(xen::Exit::PageFault.code());
        let others = [ExitReason::of(0x5a), xens, ExitReason::of(xen::Exit::Interrupt.code())];
        assert_eq!(
            others.map(|reason| reason.to_string()),
            ["exit 0x5a (unknown)", "page_fault", "interrupt"]
        );
        assert_eq!(others[2], ExitReason::Interrupt);
    }
}
