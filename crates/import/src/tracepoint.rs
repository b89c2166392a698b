//! What the kernel's tracepoints mean, and where in a record the parts of the meaning are.

use xweave_bytes::each_le;
use xweave_trace::event::Context;

use crate::format::{Format, Number, Run};

/// A connection in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    family: Number,
    ports: [Number; 2],
    v4: [Run; 2],
    v6: [Run; 2],
}

/// An access to a disk in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub dev: Number,
    pub sector: Number,
    pub sectors: Number,
    /// In older kernels, and for commands that have no sectors.
    pub bytes: Option<Number>,
    pub how: Run,
}

/// A wake-up in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake {
    pub tid: Number,
    pub cpu: Option<Number>,
    pub flags: Option<Number>,
}

/// What a tracepoint means.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meaning {
    Switch {
        tid: Number,
        comm: Run,
        state: Number,
        next: Number,
        next_comm: Run,
    },
    Waking(Wake),
    Wakeup(Wake),
    Migrate {
        tid: Number,
        from: Number,
        to: Number,
    },
    WakeupNew {
        tid: Number,
        comm: Run,
    },
    Fork {
        parent: Number,
        child: Number,
        comm: Run,
    },
    Exec {
        tid: Number,
        file: Run,
    },
    Exit {
        tid: Number,
    },
    Rename {
        tid: Number,
        comm: Run,
    },
    IrqEnter(Number),
    IrqExit(Number),
    /// Of interrupts that no device's handler is called for.
    VectorEnter(Number),
    VectorExit(Number),
    SoftirqRaise {
        number: Number,
        flags: Option<Number>,
    },
    SoftirqEnter(Number),
    SoftirqExit(Number),
    DiskQueue(Range),
    DiskIssue(Range),
    DiskMerge(Range),
    DiskDone(Range),
    Socket {
        sock: Number,
        protocol: Option<Number>,
        state: Number,
        ends: Ends,
    },
    Send {
        sock: Number,
        result: Number,
    },
    Receive {
        sock: Number,
        result: Number,
    },
    Retransmit {
        sock: Number,
        state: Option<Number>,
        ends: Ends,
    },
    LockWait(Number),
    LockDone {
        lock: Number,
        result: Number,
    },
    SyscallEnter {
        number: Number,
        args: Option<Run>,
    },
    SyscallExit {
        number: Number,
        result: Number,
    },
    /// The same, by a tracepoint of that call only: one with a name.
    NamedEnter {
        number: Number,
    },
    NamedExit {
        number: Number,
        result: Number,
    },
    FutexEnter {
        number: Number,
        address: Number,
        operation: Number,
    },
    VmEnter {
        vcpu: Option<Number>,
    },
    VmExit {
        vcpu: Option<Number>,
        reason: Number,
    },
    VmHalt {
        ns: Number,
        polled: Option<Number>,
    },
    VmInject {
        vector: Number,
    },
    /// Told by the processor itself.
    CpuIdle {
        state: Number,
    },
    CpuIdleMiss {
        state: Number,
        below: Number,
    },
    CpuFrequency {
        cpu: Number,
        khz: Number,
    },
    /// Anything else.
    Other,
}

impl Meaning {
    /// Of the tracepoint with that format. One whose format lacks what is needed means nothing in particular.
    pub(crate) fn of(format: &Format) -> Self {
        Self::known(format).unwrap_or(Self::Other)
    }

    fn known(format: &Format) -> Option<Self> {
        let number = |name| format.number(name);
        let run = |name| format.run(name);
        let range = || Range::of(format);
        Some(match (format.system.as_str(), format.name.as_str()) {
            ("sched", "sched_switch") => Self::Switch {
                tid: number("prev_pid")?,
                comm: run("prev_comm")?,
                state: number("prev_state")?,
                next: number("next_pid")?,
                next_comm: run("next_comm")?,
            },
            ("sched", "sched_waking") => Self::Waking(Wake::of(format)?),
            ("sched", "sched_wakeup") => Self::Wakeup(Wake::of(format)?),
            ("sched", "sched_migrate_task") => {
                Self::Migrate { tid: number("pid")?, from: number("orig_cpu")?, to: number("dest_cpu")? }
            }
            ("sched", "sched_wakeup_new") => Self::WakeupNew { tid: number("pid")?, comm: run("comm")? },
            ("sched", "sched_process_fork") => Self::Fork {
                parent: number("parent_pid")?,
                child: number("child_pid")?,
                comm: run("child_comm")?,
            },
            ("sched", "sched_process_exec") => Self::Exec { tid: number("pid")?, file: run("filename")? },
            ("sched", "sched_process_exit") => Self::Exit { tid: number("pid")? },
            ("task", "task_rename") => Self::Rename { tid: number("pid")?, comm: run("newcomm")? },
            ("irq", "irq_handler_entry") => Self::IrqEnter(number("irq")?),
            ("irq", "irq_handler_exit") => Self::IrqExit(number("irq")?),
            ("irq", "softirq_raise") => {
                Self::SoftirqRaise { number: number("vec")?, flags: number("common_flags") }
            }
            ("irq", "softirq_entry") => Self::SoftirqEnter(number("vec")?),
            ("irq", "softirq_exit") => Self::SoftirqExit(number("vec")?),
            ("irq_vectors", name) if name.ends_with("_entry") => Self::VectorEnter(number("vector")?),
            ("irq_vectors", name) if name.ends_with("_exit") => Self::VectorExit(number("vector")?),
            ("block", "block_bio_queue") => Self::DiskQueue(range()?),
            ("block", "block_rq_issue") => Self::DiskIssue(range()?),
            ("block", "block_bio_backmerge" | "block_bio_frontmerge" | "block_rq_merge") => {
                Self::DiskMerge(range()?)
            }
            ("block", "block_rq_complete" | "block_bio_complete") => Self::DiskDone(range()?),
            ("sock", "inet_sock_set_state") => Self::Socket {
                sock: number("skaddr")?,
                protocol: number("protocol"),
                state: number("newstate")?,
                ends: Ends::of(format)?,
            },
            ("sock", "sock_send_length") => Self::Send { sock: number("sk")?, result: number("ret")? },
            ("sock", "sock_recv_length") => Self::Receive { sock: number("sk")?, result: number("ret")? },
            ("tcp", "tcp_retransmit_skb" | "tcp_retransmit_synack") => {
                Self::Retransmit { sock: number("skaddr")?, state: number("state"), ends: Ends::of(format)? }
            }
            ("lock", "contention_begin") => Self::LockWait(number("lock_addr")?),
            ("lock", "contention_end") => {
                Self::LockDone { lock: number("lock_addr")?, result: number("ret")? }
            }
            ("raw_syscalls", "sys_enter") => Self::SyscallEnter { number: number("id")?, args: run("args") },
            ("raw_syscalls", "sys_exit") => {
                Self::SyscallExit { number: number("id")?, result: number("ret")? }
            }
            ("syscalls", "sys_enter_futex") if number("op").is_some() => Self::FutexEnter {
                number: number("__syscall_nr")?,
                address: number("uaddr")?,
                operation: number("op")?,
            },
            ("syscalls", name) if name.starts_with("sys_enter_") => {
                Self::NamedEnter { number: number("__syscall_nr").or(number("nr"))? }
            }
            ("syscalls", name) if name.starts_with("sys_exit_") => {
                Self::NamedExit { number: number("__syscall_nr").or(number("nr"))?, result: number("ret")? }
            }
            ("kvm", "kvm_entry") => Self::VmEnter { vcpu: number("vcpu_id") },
            ("kvm", "kvm_exit") => Self::VmExit { vcpu: number("vcpu_id"), reason: number("exit_reason")? },
            ("kvm", "kvm_vcpu_wakeup") => Self::VmHalt { ns: number("ns")?, polled: number("waited") },
            ("kvm", "kvm_inj_virq") => Self::VmInject { vector: number("vector").or(number("irq"))? },
            ("power", "cpu_idle") => Self::CpuIdle { state: number("state")? },
            ("power", "cpu_idle_miss") => {
                Self::CpuIdleMiss { state: number("state")?, below: number("below")? }
            }
            ("power", "cpu_frequency") => {
                Self::CpuFrequency { cpu: number("cpu_id")?, khz: number("state")? }
            }
            _ => return None,
        })
    }
}

/// What a processor was doing, as an event's `code`: `trace_flag_type` of include/linux/trace_events.h. 0 if records do
/// not have it.
#[inline]
pub(crate) fn context(flags: Option<Number>, record: &[u8]) -> i32 {
    const HARDIRQ: u32 = 0x08;
    const SOFTIRQ: u32 = 0x10;
    const NMI: u32 = 0x40;
    match flags.map(|flags| flags.low(record)) {
        None => 0,
        Some(flags) if flags & (HARDIRQ | NMI) != 0 => Context::Hard.code(),
        Some(flags) if flags & SOFTIRQ != 0 => Context::Softirq.code(),
        Some(_) => Context::Task.code(),
    }
}

impl Ends {
    fn of(format: &Format) -> Option<Self> {
        let (number, run) = (|name| format.number(name), |name| format.run(name));
        Some(Self {
            family: number("family")?,
            ports: [number("sport")?, number("dport")?],
            v4: [run("saddr")?, run("daddr")?],
            v6: [run("saddr_v6")?, run("daddr_v6")?],
        })
    }

    /// As events tell a connection: `xweave_trace::event::Connection`.
    pub(crate) fn connection(&self, record: &[u8]) -> u64 {
        /// include/linux/socket.h
        const AF_INET6: u64 = 10;
        let addresses = if self.family.of(record) == AF_INET6 { self.v6 } else { self.v4 };
        let words = addresses.iter().flat_map(|run| each_le::<u32>(run.of(record)));
        let all = words.fold(0, |all, word| all ^ word);
        let [local, remote] = self.ports.map(|port| port.of(record) & 0xffff);
        u64::from(all) << 32 | local << 16 | remote
    }
}

impl Wake {
    fn of(format: &Format) -> Option<Self> {
        let number = |name| format.number(name);
        Some(Self { tid: number("pid")?, cpu: number("target_cpu"), flags: number("common_flags") })
    }
}

impl Range {
    fn of(format: &Format) -> Option<Self> {
        let number = |name| format.number(name);
        Some(Self {
            dev: number("dev")?,
            sector: number("sector")?,
            sectors: number("nr_sector")?,
            bytes: number("bytes"),
            how: format.run("rwbs")?,
        })
    }

    /// How much: a sector has 512 bytes.
    #[inline]
    pub(crate) fn size(&self, record: &[u8]) -> u64 {
        let sectors = u64::from(self.sectors.low(record)) * 512;
        if sectors == 0 { self.bytes.map_or(0, |bytes| bytes.of(record)) } else { sectors }
    }
}
