//! What a controller and an agent may say.

use serde::{Deserialize, Serialize};

use crate::plan::Plan;

/// From the controller. Each is answered by one [`Reply`], in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// What are you? → [`Reply::Facts`]
    Facts,
    /// The type information of the kernel (`None`) or of a loaded module. → [`Reply::Btf`]
    Btf(Option<String>),
    /// Read your clocks, at once. → [`Reply::Clock`]
    Clock,
    /// Load and attach, recording nothing yet. → [`Reply::Woven`]
    Weave(Box<Plan>),
    /// Record from now on. → [`Reply::Done`]
    Start,
    /// What has been lost up to now? → [`Reply::Loss`]
    Loss,
    /// Begin no new flows, go on with those under way. → [`Reply::Done`]
    Drain,
    /// Detach everything and send what is left. All [`Event`]s come before the answer. → [`Reply::Stopped`]
    Stop,
}

/// From the agent, to a [`Request`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Request::Facts`].
    Facts(Box<Facts>),
    /// To [`Request::Btf`]: raw BTF.
    Btf(Vec<u8>),
    /// To [`Request::Clock`].
    Clock(ClockSample),
    /// To [`Request::Weave`]: the address of each site, in the plan's order.
    Woven(Vec<SiteAddress>),
    /// To [`Request::Start`] and [`Request::Drain`].
    Done,
    /// To [`Request::Loss`]: totals, not differences.
    Loss(Loss),
    /// To [`Request::Stop`].
    Stopped(Loss),
    /// To any: it could not be done. The connection stays usable.
    Failed(Failure),
}

/// From the agent, unasked, while it records.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Event {
    /// Records, one after the other, as [`crate::record`] lays them out.
    Records(Vec<u8>),
    /// The clocks, several times a second.
    Clock(ClockSample),
}

/// All that an agent sends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromAgent {
    /// The answer to the oldest unanswered request.
    Reply(Reply),
    /// Something that happened.
    Event(Event),
}

/// What a domain is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// `xweave --version` of the agent.
    pub agent: String,
    /// `uname -n`.
    pub hostname: String,
    /// `uname -r`.
    pub kernel: String,
    /// GNU build ID of the running kernel, in hex; empty if it has none.
    pub build_id: String,
    /// `/proc/sys/kernel/random/boot_id`: differs after every boot.
    pub boot_id: String,
    /// Processors on line.
    pub cpus: u32,
    /// Whether the agent may load BPF programs (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN).
    pub privileged: bool,
    /// Whether `/sys/kernel/btf/vmlinux` is there.
    pub btf: bool,
    /// Loaded modules that have BTF.
    pub modules: Vec<ModuleFacts>,
    /// The TSC's rate as the agent measured it, in Hz; 0 if the TSC cannot be used.
    pub tsc_hz: u64,
    /// Virtual machines that this kernel's KVM runs.
    pub vms: Vec<Vm>,
}

/// A loaded module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleFacts {
    /// Its name.
    pub name: String,
    /// A hash of its BTF in hex: equal names and hashes are the same types.
    pub btf_sha256: String,
}

/// A virtual machine as KVM's debugfs shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vm {
    /// The process that runs it (QEMU).
    pub pid: u32,
    /// Its command's name.
    pub comm: String,
    /// `tsc-offset` of each vCPU: guest TSC = scaled host TSC + offset (modulo 2⁶⁴).
    pub tsc_offsets: Vec<i64>,
    /// `tsc-scaling-ratio` as a fixed-point number, and how many bits of it are fraction; (1, 0) if unscaled.
    pub tsc_scaling: (u64, u32),
    /// The context ID of its vsock device, where the process's command line names one.
    pub cid: Option<u32>,
}

/// The clocks of a domain, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockSample {
    /// TSC before `mono_ns` was read; 0 if the TSC cannot be used.
    pub tsc_before: u64,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub mono_ns: u64,
    /// TSC after.
    pub tsc_after: u64,
    /// `CLOCK_REALTIME`, in nanoseconds since 1970 (read after; not exact to the microsecond).
    pub real_ns: u64,
}

/// Where a site came to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteAddress {
    /// The site's number.
    pub site: u32,
    /// The function's address in the running kernel; 0 where kallsyms hides it.
    pub address: u64,
}

/// What could not be recorded, since the recording began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Per site with any loss.
    pub sites: Vec<SiteLoss>,
    /// Local flow IDs that lost records, with how many.
    pub flows: Vec<(u64, u64)>,
    /// Lost records whose flow could not be noted, because too many flows had losses.
    pub unattributed: u64,
}

/// What one site lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteLoss {
    /// The site.
    pub site: u32,
    /// Records for which the buffer had no room.
    pub dropped: u64,
    /// Times the kernel skipped the program because it was already running on that CPU.
    pub missed: u64,
    /// Flows that could not be begun or moved because the flow table was full.
    pub table_full: u64,
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable, for programs.
    pub kind: FailureKind,
    /// What happened, where, what to do: for people.
    pub message: String,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The agent lacks the rights.
    NotPermitted,
    /// The kernel lacks something.
    Unsupported,
    /// The kernel's verifier refused a program.
    Verifier,
    /// A function cannot be hooked.
    Attach,
    /// The request does not fit the agent's state.
    Misuse,
}
