//! What a controller and an agent may say.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use crate::{
    bounded,
    event::Kind,
    knob::{self, Setting},
    pages::{CachedFile, Files, LookedAt},
    plan::Plan,
};

/// From the controller. Each but [`Request::Alive`] is answered by one [`Reply`], in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// What are you? → [`Reply::DomainInfo`]
    DomainInfo,
    /// The type information of the kernel (`None`) or of a loaded module. → [`Reply::Btf`]
    Btf(Option<String>),
    /// The machine code of the running kernel and of loaded modules, with all symbols. → [`Reply::Code`]
    Code(CodeParts),
    /// Read your clocks, at once. → [`Reply::Clock`]
    Clock,
    /// Which virtual machines does your KVM run now? Their TSCs' offsets may have changed. → [`Reply::Vms`]
    Vms,
    /// Which functions are at these addresses of your kernel's code? → [`Reply::Symbols`]
    Symbols(Vec<u64>),
    /// Load and attach, recording nothing yet. [`Event::Weaving`] may come before the answer. A
    /// [`Request::Stop`] that arrives while it goes on, or the end of the connection, breaks it off. →
    /// [`Reply::Woven`]
    Weave(Box<Plan>),
    /// To a guest of Xen: write this mark into your own part of XenStore, or take it away. → [`Reply::XenMarked`]
    XenMark(Option<[u64; 2]>),
    /// To Xen's dom0: which domains have these marks in theirs? → [`Reply::XenGuests`]
    XenGuests(Vec<[u64; 2]>),
    /// To a guest: tell your host, in memory that it can read, which flows your buffers carry (`bpf/carriers/shared.h`).
    /// → [`Reply::Shared`]
    Share {
        /// That memory is to begin with it.
        secret: [u64; 2],
        /// Whether a process of the host emulates your network devices: what those of virtio carry is known by what it
        /// is (`bpf/carriers/content.h`).
        emulated: bool,
    },
    /// To a host: believe these guests what they say there of their own buffers. → [`Reply::Done`]
    Guests {
        /// [`SHARING_GUESTS`] at most.
        guests: Vec<SharingGuest>,
        /// Whether these are all that are recorded: then nothing goes on of what others put on carriers.
        all: bool,
        /// The processes that emulate the network devices of guests that are recorded: [`SHARING_GUESTS`] at most.
        emulators: Vec<u32>,
        /// The numbers that Xen has for the guests that are recorded, if it has one for each: [`SHARING_GUESTS`] at most.
        domids: Vec<u16>,
    },
    /// To Xen's dom0: have Xen itself record from now on. [`Event::Xentrace`] comes until [`Request::Off`], and what is left
    /// before the answer to [`Request::Stop`]. → [`Reply::Done`]
    Xentrace,
    /// Record from now on. → [`Reply::Done`]
    Start {
        /// Run, until [`Request::Drain`], only where no other thread of the domain wants the CPU.
        background: bool,
    },
    /// What has been lost up to now? → [`Reply::Loss`]
    Loss,
    /// Begin no new flows, go on with those under way. → [`Reply::Done`]
    Drain,
    /// Record nothing more. What is woven stays until [`Request::Stop`], which takes longer. → [`Reply::Done`]
    Off,
    /// How do the settings stand that an experiment may change? → [`Reply::Knobs`]
    Knobs,
    /// Change these until [`Request::Unset`], or the end of the connection; all of them, or none. → [`Reply::Knobs`]:
    /// those, as they are then.
    Set(Vec<Setting>),
    /// Put back what was changed. → [`Reply::Done`]
    Unset,
    /// Which pages of these files does your page cache hold? [`Event::Cached`] comes before the answer. →
    /// [`Reply::LookedAt`]
    Cached(Files),
    /// Watch the page cache from now on, until the end of the connection. → [`Reply::Watching`]
    Watch {
        /// The files that will be asked for.
        files: Files,
        /// The programs that tell which have changed, compiled of `bpf/page-cache.c`.
        object: Vec<u8>,
    },
    /// What has changed in the page cache since this was asked the last time? The first time, and whenever that is not known,
    /// all that there is: [`LookedAt::whole`]. [`Event::Cached`] comes before the answer. → [`Reply::LookedAt`]
    Changed,
    /// Detach everything and send what is left. All [`Event`]s come before the answer. → [`Reply::Stopped`]
    Stop,
    /// The controller is still there: an agent that has not heard a word from it for [`crate::LEASE`] takes its probes
    /// away and ends. Not answered.
    Alive,
}

/// From the agent, to a [`Request`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Request::DomainInfo`].
    DomainInfo(Box<DomainInfo>),
    /// To [`Request::Btf`]: raw BTF.
    Btf(Vec<u8>),
    /// To [`Request::Code`]: `xweave_code::image::LiveCode`, packed by it.
    Code(Vec<u8>),
    /// To [`Request::Clock`].
    Clock(ClockSample),
    /// To [`Request::Vms`].
    Vms(Vec<Vm>),
    /// To [`Request::Symbols`]: of those that are known.
    Symbols(Vec<Symbol>),
    /// To [`Request::Weave`].
    Woven(Woven),
    /// To [`Request::XenMark`].
    XenMarked {
        /// Why it cannot be done, for people.
        reason: Option<String>,
    },
    /// To [`Request::XenGuests`].
    XenGuests {
        /// For each mark the number of the domain that has it, if exactly one has.
        domids: Vec<Option<u16>>,
        /// Why it cannot be found out, for people.
        reason: Option<String>,
    },
    /// To [`Request::Share`].
    Shared(Shared),
    /// To [`Request::Guests`], [`Request::Xentrace`], [`Request::Start`], [`Request::Drain`], [`Request::Off`] and
    /// [`Request::Unset`].
    Done,
    /// To [`Request::Knobs`] and [`Request::Set`].
    Knobs(Vec<knob::State>),
    /// To [`Request::Watch`].
    Watching {
        /// Whether [`Request::Changed`] may be asked.
        watches: bool,
        /// Why it cannot be watched, or not all of it, for people.
        reason: Option<String>,
    },
    /// To [`Request::Cached`] and [`Request::Changed`].
    LookedAt(LookedAt),
    /// To [`Request::Loss`]: totals, not differences.
    Loss(Loss),
    /// To [`Request::Stop`].
    Stopped(Loss),
    /// To any: it could not be done. The connection stays usable.
    Failed(Failure),
}

/// From the agent, unasked, while it weaves and records.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Event {
    /// How far it has come with [`Request::Weave`]: now and then, where that takes long.
    Weaving {
        /// Hooks that are attached, or cannot be.
        done: u32,
        /// All of them.
        total: u32,
    },
    /// Records, one after the other, as [`crate::record`] lays them out.
    Records(Vec<u8>),
    /// Events, one after the other, as [`crate::event`] lays them out.
    Events(Vec<u8>),
    /// The next bytes of a file as xentrace writes it: what Xen itself has recorded.
    Xentrace(Vec<u8>),
    /// Some of the files that [`Request::Cached`] asks for, and which of their pages are there.
    Cached(Vec<CachedFile>),
    /// The clocks, several times a second. What was recorded before they were read has been sent before, but for
    /// what was being written at that moment.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainInfo {
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
    /// The same, with their APIC IDs, as far as the kernel shows them.
    pub processors: Vec<Processor>,
    /// Their vendor, as CPUID says: `AuthenticAMD`, `GenuineIntel`; empty if the kernel does not show it.
    pub vendor: String,
    /// Whether the agent may load BPF programs (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN).
    pub privileged: bool,
    /// Whether `/sys/kernel/btf/vmlinux` is there.
    pub btf: bool,
    /// A hash of it in hex; empty if it is not there.
    pub btf_sha256: String,
    /// Loaded modules that have BTF.
    pub modules: Vec<ModuleInfo>,
    /// The TSC's rate as the agent measured it, in Hz; 0 if the TSC cannot be used.
    pub tsc_hz: u64,
    /// Virtual machines that this kernel's KVM runs.
    pub vms: Vec<Vm>,
    /// Disks that there are.
    pub disks: Vec<Disk>,
    /// What kind of domain of Xen this is, dom0 or another, if it is one.
    pub xen: Option<XenDomain>,
    /// Settings that may cost requests time.
    pub settings: Settings,
    /// Processes that record: the agent, and who started it if that is the same program. Empty where the kernel calls
    /// them by other numbers than they know.
    pub recorders: Vec<u32>,
}

/// How Xen runs a domain: /sys/hypervisor/guest_type, Documentation/ABI/stable/sysfs-hypervisor-xen of Linux 6.12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr)]
#[strum(serialize_all = "UPPERCASE")]
pub enum XenDomain {
    /// Paravirtual: it reads the machine's own TSC, or Xen emulates each reading.
    Pv,
    /// In hardware virtualization, with a TSC that has an offset.
    Pvh,
    /// The same, with emulated devices.
    Hvm,
}

impl XenDomain {
    /// As its kernel calls it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Settings of a kernel that may cost requests time, as they stand; none where the kernel lacks what they are of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// `/sys/module/kvm/parameters/halt_poll_ns`.
    pub halt_poll_ns: Option<u64>,
    /// The cpufreq governors of its processors, each once.
    pub governors: Vec<String>,
    /// `/sys/kernel/mm/ksm/run`: 1 while KSM looks for equal pages.
    pub ksm_run: Option<u64>,
    /// `vm.swappiness`.
    pub swappiness: Option<u64>,
    /// Its network devices that are not made up by the kernel.
    pub nics: Vec<Nic>,
}

/// A network device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// What the kernel calls it: `eth0`.
    pub name: String,
    /// How many queues it receives with.
    pub queues: u32,
}

/// A processor. Its hypervisor knows it by its APIC ID: the number of KVM's vCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processor {
    /// Logical CPU.
    pub cpu: u32,
    /// Its initial APIC ID.
    pub apic_id: u32,
}

/// A disk, as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// What the kernel calls it: `vda`.
    pub name: String,
    /// Its device number.
    pub major: u32,
    /// See `major`.
    pub minor: u32,
}

/// What lies at an address of a kernel's code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Symbol {
    /// The address.
    pub address: u64,
    /// The function that it lies in.
    pub function: String,
    /// Its distance from the function's beginning, in bytes.
    pub offset: u64,
    /// The function's module; none for the kernel's image.
    pub module: Option<String>,
}

/// Why a kernel drops packets: an enumerator of its `enum skb_drop_reason`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DropReason {
    /// The number, which differs between kernels.
    pub value: u64,
    /// Its name, without the prefix `SKB_DROP_REASON_`.
    pub name: String,
}

/// A loaded module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleInfo {
    /// Its name.
    pub name: String,
    /// A hash of its BTF in hex: equal names and hashes are the same types.
    pub btf_sha256: String,
    /// GNU build ID in hex; empty if it has none.
    pub build_id: String,
}

/// Which parts of a kernel's code are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeParts {
    /// The kernel's image.
    pub kernel: bool,
    /// Modules, by their names.
    pub modules: Vec<String>,
}

/// A virtual machine as KVM's debugfs shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vm {
    /// The process that runs it (QEMU).
    pub pid: u32,
    /// Its command's name.
    pub comm: String,
    /// What its user calls it, as the process's command line says (`-name`); empty if that says nothing.
    pub name: String,
    /// `tsc-offset` of each vCPU: guest TSC = scaled host TSC + offset (modulo 2⁶⁴).
    pub tsc_offsets: Vec<i64>,
    /// `tsc-scaling-ratio` as a fixed-point number, and how many bits of it are fraction; (1, 0) if unscaled.
    pub tsc_scaling: (u64, u32),
    /// The context ID of its vsock device, where the process's command line names one.
    pub cid: Option<u32>,
    /// What serves its devices, as far as that can be told: of each kind one.
    pub back_ends: Vec<BackEnd>,
}

/// What serves a device of a virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BackEnd {
    /// The host's kernel: vhost-net.
    VhostNet,
    /// The machine's own process, which sends and receives by a tap.
    EmulatedNet,
    /// Another process.
    VhostUser,
    /// Hardware with virtio's rings.
    Vdpa,
    /// Hardware that is passed through.
    Vfio,
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

/// What has been woven.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Woven {
    /// The address of each site, in the plan's order.
    #[serde(deserialize_with = "bounded::list::<{ bounded::SITES }, _, _>")]
    pub sites: Vec<SiteAddress>,
    /// Sites that could not be hooked, where other sites of the same program could.
    #[serde(deserialize_with = "bounded::list::<{ bounded::SITES }, _, _>")]
    pub skipped: Vec<SkippedSite>,
    /// Probes of events that this kernel does not let us run.
    #[serde(deserialize_with = "bounded::list::<{ bounded::SITES }, _, _>")]
    pub left_out: Vec<LeftOut>,
    /// Functions that do not take all of their calls.
    #[serde(deserialize_with = "bounded::list::<{ bounded::SITES }, _, _>")]
    pub clones: Vec<FunctionClone>,
}

/// What the compiler made of a hooked function besides: some of its calls go there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionClone {
    /// The site where the function is hooked.
    pub site: u32,
    /// What kallsyms calls the other: `f.part.0`.
    pub name: String,
}

/// A probe of events that could not be loaded or hooked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The function's or the tracepoint's name.
    pub function: String,
    /// The kind of its events.
    pub kind: Kind,
    /// Why, for people.
    pub reason: String,
}

/// A site that could not be hooked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedSite {
    /// The site's number.
    pub site: u32,
    /// Why, for people.
    pub reason: String,
}

/// Where a site came to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteAddress {
    /// The site's number.
    pub site: u32,
    /// The address of what is hooked in the running kernel: the function's or the instruction's; 0 where
    /// kallsyms hides it, and for tracepoints and programs, which have none there.
    pub address: u64,
}

/// Pages of the table in which a guest tells its host what its buffers carry: `XW_SHARED_PAGES` of the prelude.
pub const SHARED_PAGES: usize = 257;

/// How many guests a host can listen to: `XW_GUESTS` of the prelude.
pub const SHARING_GUESTS: usize = 64;

/// Where a guest tells its host what its buffers carry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    /// Where the table's pages begin in the guest's physical memory: [`SHARED_PAGES`], or none where nothing that is
    /// woven tells it, or nothing can.
    pub pages: Vec<u64>,
    /// Why it cannot, for people.
    pub reason: Option<String>,
    /// Whether what its network devices carry is known by what it is: they are emulated, as it was told, and virtio's.
    pub emulated: bool,
}

/// A guest that tells its host what its buffers carry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharingGuest {
    /// Its number: the top byte of the flow IDs that it makes.
    pub domain: u8,
    /// What the table begins with: no other guest knows it.
    pub secret: [u64; 2],
    /// See [`Shared::pages`].
    pub pages: Vec<u64>,
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
    /// Per kind of events with any loss.
    pub events: Vec<EventLoss>,
    /// Modules that went while something was woven into them: their probes went with them.
    pub unloaded: Vec<Unloaded>,
}

/// A module that was unloaded, or unloaded and loaded again, while something was woven into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unloaded {
    /// Its name.
    pub module: String,
    /// How many sites went with it.
    pub sites: u32,
}

/// What was lost of one kind of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventLoss {
    /// The kind.
    pub kind: Kind,
    /// Events for which the buffer had no room.
    pub dropped: u64,
    /// Times the kernel skipped a probe, because it was already running on that CPU.
    pub missed: u64,
}

/// What one site lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteLoss {
    /// The site.
    pub site: u32,
    /// Records for which the buffer had no room.
    pub dropped: u64,
    /// Times the program was left out: by the kernel, because it, or for a kprobe any other, was already running on
    /// that CPU (what the kernel counts for all instructions that share a program is told of the first); or by
    /// itself, because it was reached from within another of xweave's programs.
    pub missed: u64,
    /// Flows that could not be begun or moved because the flow table was full.
    pub table_full: u64,
    /// Reads of the advice's C code that met memory that is not there, and gave 0.
    pub faults: u64,
    /// Flows that ended where nobody saw it: something began under a key that still carried them.
    pub overwritten: u64,
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
    /// It was broken off, as asked.
    Cancelled,
    /// The request does not fit the agent's state.
    Misuse,
}
