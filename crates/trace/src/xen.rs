//! Why a vCPU of Xen came out of its guest, as the `code` of `vm_exit`.
//!
//! A vCPU of an HVM or PVH guest leaves it for a reason that the hardware numbers, as under KVM. A PV guest enters Xen by
//! hypercalls and traps, which have numbers of Xen's own: codes from `0x0100_0000` on, which no hardware has.

use std::fmt;

/// Codes from here on are Xen's.
const XEN: i32 = 0x0100_0000;

/// Bits of a code below its class.
const CLASS_SHIFT: i32 = 16;

/// Why a vCPU entered Xen. Names are those of Xen's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Exit {
    /// Xen took the CPU: an interrupt, a timer or another CPU's call, and often the scheduler.
    Interrupt,
    /// A hypercall.
    Hypercall(Hypercall),
    /// A trap of this number that Xen gave to the guest.
    Trap(u8),
    /// The same of a page fault.
    PageFault,
    /// An invalid opcode by which PV guests ask for CPUID.
    ForcedInvalidOp,
    /// A privileged instruction that Xen emulated.
    EmulatePrivop,
    /// An access of a 32-bit guest that Xen emulated.
    Emulate4G,
    /// The guest used the FPU, whose state was restored.
    MathStateRestore,
    /// A page fault that Xen dealt with itself.
    PagingFixup,
    /// The same of a descriptor table.
    GdtLdtMappingFault,
    /// The guest wrote to a page table, which Xen emulated.
    PtwrEmulation,
}

/// A hypercall, and the command of those that Xen traces it of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hypercall {
    /// Its number: `xen/include/public/xen.h`.
    pub op: u8,
    /// Its first argument, of `sched_op`, `grant_table_op` and `vcpu_op`; less than 255.
    pub command: Option<u8>,
}

impl Exit {
    /// Those that have no detail, by their classes.
    const PLAIN: [(i32, Self); 9] = [
        (0, Self::Interrupt),
        (3, Self::PageFault),
        (4, Self::ForcedInvalidOp),
        (5, Self::EmulatePrivop),
        (6, Self::Emulate4G),
        (7, Self::MathStateRestore),
        (8, Self::PagingFixup),
        (9, Self::GdtLdtMappingFault),
        (10, Self::PtwrEmulation),
    ];
    const HYPERCALL: i32 = 1;
    const TRAP: i32 = 2;

    /// As an event's `code`.
    pub fn code(self) -> i32 {
        let (class, detail) = match self {
            Self::Hypercall(Hypercall { op, command }) => {
                let command = command.map_or(0, |command| i32::from(command.saturating_add(1)));
                (Self::HYPERCALL, command << 8 | i32::from(op))
            }
            Self::Trap(number) => (Self::TRAP, number.into()),
            plain => {
                let found = Self::PLAIN.iter().find(|(_, exit)| *exit == plain);
                (found.map_or(0, |(class, _)| *class), 0)
            }
        };
        XEN | class << CLASS_SHIFT | detail
    }

    /// Of an event's `code`; none if it is the hardware's.
    pub fn of(code: i32) -> Option<Self> {
        let own = code ^ XEN;
        if !(0..XEN).contains(&own) {
            return None;
        }
        let [op, command, _, _] = own.to_le_bytes();
        match own >> CLASS_SHIFT {
            Self::HYPERCALL => Some(Self::Hypercall(Hypercall { op, command: command.checked_sub(1) })),
            Self::TRAP => Some(Self::Trap(op)),
            class => Self::PLAIN.iter().find(|(plain, _)| *plain == class).map(|(_, exit)| *exit),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupt => "interrupt",
            Self::Hypercall(hypercall) => return hypercall.fmt(f),
            Self::Trap(number) => return write!(f, "trap {number}"),
            Self::PageFault => "page_fault",
            Self::ForcedInvalidOp => "forced_invalid_op",
            Self::EmulatePrivop => "emulate_privop",
            Self::Emulate4G => "emulate_4G",
            Self::MathStateRestore => "math_state_restore",
            Self::PagingFixup => "paging_fixup",
            Self::GdtLdtMappingFault => "gdt_ldt_mapping_fault",
            Self::PtwrEmulation => "ptwr_emulation",
        })
    }
}

impl Hypercall {
    /// `HYPERVISOR_sched_op_compat`: the one with arguments of before Xen 3.1.
    pub const SCHED_OP_COMPAT: u8 = 6;
    /// `HYPERVISOR_memory_op`
    pub const MEMORY_OP: u8 = 12;
    /// `HYPERVISOR_multicall`
    pub const MULTICALL: u8 = 13;
    /// `HYPERVISOR_event_channel_op_compat`
    pub const EVTCHN_OP_COMPAT: u8 = 16;
    /// `HYPERVISOR_grant_table_op`
    pub const GRANT_TABLE_OP: u8 = 20;
    /// `HYPERVISOR_iret`
    pub const IRET: u8 = 23;
    /// `HYPERVISOR_vcpu_op`
    pub const VCPU_OP: u8 = 24;
    /// `HYPERVISOR_sched_op`
    pub const SCHED_OP: u8 = 29;
    /// `HYPERVISOR_event_channel_op`
    pub const EVTCHN_OP: u8 = 32;
    /// `HYPERVISOR_hvm_op`
    pub const HVM_OP: u8 = 34;
    /// `HYPERVISOR_domctl`
    pub const DOMCTL: u8 = 36;
    /// `HYPERVISOR_dm_op`
    pub const DM_OP: u8 = 41;

    /// What Xen's tools call it (`xenalyze`), where its number is one of Xen 4.17's.
    pub fn name(self) -> Option<&'static str> {
        const NAMES: [&str; 43] = [
            "set_trap_table",
            "mmu_update",
            "set_gdt",
            "stack_switch",
            "set_callbacks",
            "fpu_taskswitch",
            "sched_op_compat",
            "platform_op",
            "set_debugreg",
            "get_debugreg",
            "update_descriptor",
            "",
            "memory_op",
            "multicall",
            "update_va_mapping",
            "set_timer_op",
            "evtchn_op_compat",
            "xen_version",
            "console_io",
            "physdev_op_compat",
            "grant_table_op",
            "vm_assist",
            "update_va_mapping_otherdomain",
            "iret",
            "vcpu_op",
            "set_segment_base",
            "mmuext_op",
            "xsm_op",
            "nmi_op",
            "sched_op",
            "callback_op",
            "xenoprof_op",
            "evtchn_op",
            "physdev_op",
            "hvm_op",
            "sysctl",
            "domctl",
            "kexec_op",
            "tmem_op",
            "argo_op",
            "xenpmu_op",
            "dm_op",
            "hypfs_op",
        ];
        NAMES.get(usize::from(self.op)).copied().filter(|name| !name.is_empty())
    }

    /// What its command is called: `xen/include/public/{sched,grant_table,vcpu}.h`.
    fn command_name(self) -> Option<&'static str> {
        const SCHED: [&str; 8] = [
            "yield",
            "block",
            "shutdown",
            "poll",
            "remote_shutdown",
            "shutdown_code",
            "watchdog",
            "pin_override",
        ];
        const GRANT: [&str; 13] = [
            "map_grant_ref",
            "unmap_grant_ref",
            "setup_table",
            "dump_table",
            "transfer",
            "copy",
            "query_size",
            "unmap_and_replace",
            "set_version",
            "get_status_frames",
            "get_version",
            "swap_grant_ref",
            "cache_flush",
        ];
        const VCPU: [&str; 14] = [
            "initialise",
            "up",
            "down",
            "is_up",
            "get_runstate_info",
            "register_runstate_memory_area",
            "set_periodic_timer",
            "stop_periodic_timer",
            "set_singleshot_timer",
            "stop_singleshot_timer",
            "register_vcpu_info",
            "send_nmi",
            "get_physid",
            "register_vcpu_time_memory_area",
        ];
        let names: &[&str] = match self.op {
            Self::SCHED_OP | Self::SCHED_OP_COMPAT => &SCHED,
            Self::GRANT_TABLE_OP => &GRANT,
            Self::VCPU_OP => &VCPU,
            _ => &[],
        };
        names.get(usize::from(self.command?)).copied()
    }
}

impl fmt::Display for Hypercall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name)?,
            None => write!(f, "hypercall {}", self.op)?,
        }
        match (self.command_name(), self.command) {
            (Some(name), _) => write!(f, " {name}"),
            (None, Some(command)) => write!(f, " {command}"),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hypercall(op: u8, command: Option<u8>) -> Exit {
        Exit::Hypercall(Hypercall { op, command })
    }

    #[test]
    fn a_code_is_what_it_was_made_of() {
        let plain = Exit::PLAIN.map(|(_, exit)| exit);
        let others = [hypercall(23, None), hypercall(29, Some(1)), hypercall(255, Some(254)), Exit::Trap(14)];
        let all: Vec<Exit> = plain.into_iter().chain(others).collect();
        for exit in &all {
            assert_eq!(Exit::of(exit.code()), Some(*exit));
        }
        let codes: std::collections::HashSet<i32> = all.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes.len(), all.len());
    }

    #[test]
    fn what_the_hardware_numbers_is_not_xens() {
        // VMEXIT_INTR, VMEXIT_NPF, VMEXIT_INVALID of AMD; a failed entry of Intel.
        for code in [0, 1, 0x60, 0x400, -1, i32::MIN | 33, i32::MAX] {
            assert_eq!(Exit::of(code), None, "{code:#x}");
        }
    }

    #[test]
    fn hypercalls_are_called_as_xens_tools_call_them() {
        let called =
            [hypercall(23, None), hypercall(29, Some(1)), hypercall(20, Some(5)), hypercall(24, Some(77))]
                .map(|exit| exit.to_string());
        assert_eq!(called, ["iret", "sched_op block", "grant_table_op copy", "vcpu_op 77"]);
        assert_eq!(
            [hypercall(11, None), hypercall(200, None)].map(|exit| exit.to_string()),
            ["hypercall 11", "hypercall 200"]
        );
    }
}
