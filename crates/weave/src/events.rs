//! Built-in probes of events: which of them a kernel has a place for, and their object.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use xweave_aspect::Code;
use xweave_code::{Function, Kernel, TypeRef};
use xweave_wire::event::Kind;
use xweave_wire::plan::{EventPlan, EventProgram, Hook};

use crate::compile::Compiler;
use crate::draft::{EventsDraft, Text};
use crate::error::Error;
use crate::payload::PayloadKey;
use crate::{emit, prelude};

/// The probes' files, in the order in which they are included: what all need, then the groups.
pub(crate) const SOURCES: [(&str, &str); 11] = [
    ("events/event.h", include_str!("../../../bpf/events/event.h")),
    ("events/sched.h", include_str!("../../../bpf/events/sched.h")),
    ("events/block.h", include_str!("../../../bpf/events/block.h")),
    ("events/net.h", include_str!("../../../bpf/events/net.h")),
    ("events/key.h", include_str!("../../../bpf/events/key.h")),
    ("events/slept.h", include_str!("../../../bpf/events/slept.h")),
    ("events/pipe.h", include_str!("../../../bpf/events/pipe.h")),
    ("events/fault.h", include_str!("../../../bpf/events/fault.h")),
    ("events/vm.h", include_str!("../../../bpf/events/vm.h")),
    ("events/syscalls.h", include_str!("../../../bpf/events/syscalls.h")),
    ("events/power.h", include_str!("../../../bpf/events/power.h")),
];

/// Events that are recorded together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Group {
    /// Who runs: processors, threads, interrupts, futexes.
    Sched,
    /// Accesses to disks, and page faults that wait for them.
    Block,
    /// What sockets send and receive, TCP's connections, and pipes.
    Net,
    /// The vCPUs of KVM.
    Vm,
    /// System calls.
    Syscalls,
    /// Idle states and frequencies of processors.
    Power,
}

impl Group {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Sched, Self::Block, Self::Net, Self::Vm, Self::Syscalls, Self::Power];

    /// As the user calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sched => "sched",
            Self::Block => "block",
            Self::Net => "net",
            Self::Vm => "vm",
            Self::Syscalls => "syscalls",
            Self::Power => "power",
        }
    }

    /// The groups of a list (`sched,block`), each once; `all` stands for all of them.
    ///
    /// # Errors
    ///
    /// [`UnknownGroup`]
    pub fn list(text: &str) -> Result<Vec<Self>, UnknownGroup> {
        let mut groups = Vec::new();
        for word in text.split(',').map(str::trim) {
            match (word, Self::ALL.into_iter().find(|group| group.name() == word)) {
                ("all", _) => groups.extend(Self::ALL),
                (_, Some(group)) => groups.push(group),
                (_, None) => return Err(UnknownGroup(word.to_owned())),
            }
        }
        groups.sort();
        groups.dedup();
        Ok(groups)
    }
}

/// What events are to be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventChoice {
    /// The groups, each once.
    pub groups: Vec<Group>,
    /// The key that messages have, if events are to tell it: those of [`Group::Net`].
    pub key: Option<PayloadKey>,
}

impl EventChoice {
    /// These groups, and that of the key if there is one.
    pub fn new(mut groups: Vec<Group>, key: Option<PayloadKey>) -> Self {
        if key.is_some() {
            groups.push(Group::Net);
        }
        groups.sort();
        groups.dedup();
        Self { groups, key }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// A name that is no group's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no group of events `{0}`: write some of {names}, or all", names = Group::ALL.map(Group::name).join(","))]
pub struct UnknownGroup(String);

/// A probe.
struct Probe {
    group: Group,
    kind: Kind,
    /// The program's name in [`SOURCES`].
    program: &'static str,
    hook: Hook,
    /// The function's or tracepoint's name, if it is not the program's.
    place: Option<&'static str>,
    /// What the function is called on kernels that have none of that name.
    renamed: Option<&'static str>,
    /// Whether nothing is missing where a kernel lacks it: the same is done, or seen, elsewhere, or what it belongs to is
    /// missing as well.
    replaced: bool,
    /// The function in the place of which it is hooked where a kernel lacks that one.
    unless: Option<&'static str>,
}

const fn probe(group: Group, hook: Hook, kind: Kind, program: &'static str) -> Probe {
    Probe { group, kind, program, hook, place: None, renamed: None, replaced: false, unless: None }
}

impl Probe {
    /// At a function that is not called as the program.
    const fn at(mut self, place: &'static str) -> Self {
        self.place = Some(place);
        self
    }

    /// At that function where a kernel has none of the first name.
    const fn or(mut self, renamed: &'static str) -> Self {
        self.renamed = Some(renamed);
        self
    }

    /// Where nothing is missing without it.
    const fn replaced(mut self) -> Self {
        self.replaced = true;
        self
    }

    /// Only where a kernel lacks another function.
    const fn unless(mut self, function: &'static str) -> Self {
        self.unless = Some(function);
        self
    }

    fn place(&self) -> &'static str {
        self.place.unwrap_or(self.program)
    }
}

const PROBES: [Probe; 90] = {
    use Group::{Block, Net, Power, Sched, Syscalls, Vm};
    use Hook::{Entry, Return, Tracepoint};
    [
        probe(Sched, Tracepoint, Kind::Switch, "sched_switch"),
        probe(Sched, Tracepoint, Kind::Wake, "sched_waking"),
        probe(Sched, Tracepoint, Kind::Migrate, "sched_migrate_task"),
        probe(Sched, Tracepoint, Kind::Fork, "sched_process_fork"),
        probe(Sched, Tracepoint, Kind::Thread, "task_rename"),
        probe(Sched, Tracepoint, Kind::Exit, "sched_process_exit"),
        probe(Sched, Tracepoint, Kind::IrqEnter, "irq_handler_entry"),
        probe(Sched, Tracepoint, Kind::IrqExit, "irq_handler_exit"),
        probe(Sched, Tracepoint, Kind::SoftirqEnter, "softirq_raise"),
        probe(Sched, Tracepoint, Kind::SoftirqEnter, "softirq_entry"),
        probe(Sched, Tracepoint, Kind::SoftirqExit, "softirq_exit"),
        probe(Sched, Tracepoint, Kind::IrqEnter, "local_timer_entry"),
        probe(Sched, Tracepoint, Kind::IrqExit, "local_timer_exit"),
        probe(Sched, Tracepoint, Kind::IrqEnter, "reschedule_entry"),
        probe(Sched, Tracepoint, Kind::IrqExit, "reschedule_exit"),
        probe(Sched, Tracepoint, Kind::IrqEnter, "call_function_entry"),
        probe(Sched, Tracepoint, Kind::IrqExit, "call_function_exit"),
        probe(Sched, Tracepoint, Kind::IrqEnter, "call_function_single_entry"),
        probe(Sched, Tracepoint, Kind::IrqExit, "call_function_single_exit"),
        probe(Sched, Tracepoint, Kind::IrqEnter, "irq_work_entry"),
        probe(Sched, Tracepoint, Kind::IrqExit, "irq_work_exit"),
        probe(Sched, Entry, Kind::LockWait, "futex_wait_begin").at("futex_wait"),
        probe(Sched, Return, Kind::LockAcquired, "futex_wait_end").at("futex_wait"),
        probe(Sched, Entry, Kind::LockWake, "futex_wake"),
        probe(Block, Tracepoint, Kind::DiskQueue, "block_bio_queue"),
        probe(Block, Tracepoint, Kind::DiskMerge, "block_bio_backmerge"),
        probe(Block, Tracepoint, Kind::DiskMerge, "block_bio_frontmerge"),
        probe(Block, Tracepoint, Kind::DiskMerge, "block_rq_merge"),
        probe(Block, Tracepoint, Kind::DiskIssue, "block_rq_issue"),
        probe(Block, Tracepoint, Kind::DiskComplete, "block_rq_complete"),
        probe(Block, Tracepoint, Kind::DiskComplete, "block_bio_complete"),
        probe(Block, Tracepoint, Kind::DiskRemap, "block_bio_remap"),
        probe(Block, Entry, Kind::PageFault, "filemap_fault"),
        probe(Block, Return, Kind::PageFault, "filemap_fault_end").at("filemap_fault").replaced(),
        probe(Block, Entry, Kind::SwapIn, "do_swap_page"),
        probe(Block, Return, Kind::SwapIn, "do_swap_page_end").at("do_swap_page").replaced(),
        probe(Net, Entry, Kind::Send, "tcp_sendmsg_locked"),
        probe(Net, Return, Kind::Send, "tcp_sendmsg_end").at("tcp_sendmsg_locked").replaced(),
        // From 6.5 on, tcp_sendmsg_locked sends pages too.
        probe(Net, Entry, Kind::Send, "do_tcp_sendpages").replaced(),
        probe(Net, Return, Kind::Send, "tcp_sendpages_end").at("do_tcp_sendpages").replaced(),
        // Kernels may be without MPTCP, and those before 6.0 without tcp_read_done.
        probe(Net, Entry, Kind::Send, "mptcp_sendmsg").replaced(),
        probe(Net, Return, Kind::Send, "mptcp_sendmsg_end").at("mptcp_sendmsg").replaced(),
        probe(Net, Entry, Kind::Receive, "mptcp_recvmsg_begin").at("mptcp_recvmsg").replaced(),
        probe(Net, Return, Kind::Receive, "mptcp_recvmsg").replaced(),
        probe(Net, Return, Kind::Receive, "tcp_read_sock"),
        probe(Net, Entry, Kind::Receive, "tcp_read_done").replaced(),
        probe(Net, Entry, Kind::Receive, "tcp_recvmsg_begin").at("tcp_recvmsg").replaced(),
        probe(Net, Return, Kind::Receive, "tcp_recvmsg"),
        probe(Net, Entry, Kind::Receive, "tcp_splice_read_begin").at("tcp_splice_read").replaced(),
        probe(Net, Return, Kind::Receive, "tcp_splice_read"),
        probe(Net, Entry, Kind::Send, "ip_send_skb"),
        probe(Net, Entry, Kind::Send, "ip6_send_skb"),
        probe(Net, Entry, Kind::Receive, "skb_consume_udp"),
        probe(Net, Entry, Kind::Send, "unix_stream_sendmsg"),
        probe(Net, Return, Kind::Send, "unix_stream_sendmsg_end").at("unix_stream_sendmsg").replaced(),
        // From 6.5 on, unix_stream_sendmsg sends pages too.
        probe(Net, Entry, Kind::Send, "unix_stream_sendpage").replaced(),
        probe(Net, Return, Kind::Send, "unix_stream_sendpage_end").at("unix_stream_sendpage").replaced(),
        probe(Net, Entry, Kind::Receive, "unix_stream_recvmsg_begin").at("unix_stream_recvmsg").replaced(),
        probe(Net, Return, Kind::Receive, "unix_stream_recvmsg"),
        probe(Net, Entry, Kind::Receive, "unix_stream_splice_read_begin")
            .at("unix_stream_splice_read")
            .replaced(),
        probe(Net, Return, Kind::Receive, "unix_stream_splice_read"),
        // From 6.15 on, FIFOs have functions of their own, which call those of pipes.
        probe(Net, Entry, Kind::PipeWrite, "pipe_write").or("anon_pipe_write"),
        probe(Net, Return, Kind::PipeFull, "pipe_write_end")
            .at("pipe_write")
            .or("anon_pipe_write")
            .replaced(),
        probe(Net, Entry, Kind::PipeRead, "pipe_read_begin").at("pipe_read").or("anon_pipe_read").replaced(),
        probe(Net, Return, Kind::PipeRead, "pipe_read").or("anon_pipe_read"),
        probe(Net, Tracepoint, Kind::Socket, "inet_sock_set_state"),
        probe(Net, Entry, Kind::Socket, "tcp_connect"),
        probe(Net, Entry, Kind::Accept, "security_sock_graft").replaced(),
        probe(Net, Return, Kind::Accept, "inet_csk_accept").unless("security_sock_graft"),
        probe(Net, Entry, Kind::Retransmit, "__tcp_retransmit_skb"),
        probe(Net, Tracepoint, Kind::Retransmit, "tcp_retransmit_skb"),
        probe(Net, Tracepoint, Kind::Retransmit, "tcp_retransmit_synack"),
        probe(Net, Entry, Kind::SynDrop, "tcp_conn_request"),
        probe(Net, Entry, Kind::SynDrop, "tcp_check_req"),
        probe(Net, Return, Kind::SynDrop, "tcp_timewait_state_process"),
        probe(Net, Entry, Kind::Key, "key_ip_send_skb").at("ip_send_skb"),
        probe(Net, Entry, Kind::Key, "key_ip6_send_skb").at("ip6_send_skb").replaced(),
        probe(Net, Entry, Kind::Key, "key_tcp_sendmsg").at("tcp_sendmsg_locked"),
        probe(Net, Return, Kind::Key, "key_udp_recvmsg").at("udp_recvmsg"),
        probe(Net, Return, Kind::Key, "key_udpv6_recvmsg").at("udpv6_recvmsg").replaced(),
        probe(Net, Return, Kind::Key, "key_tcp_recvmsg").at("tcp_recvmsg"),
        probe(Vm, Tracepoint, Kind::VmEnter, "kvm_entry"),
        probe(Vm, Tracepoint, Kind::VmExit, "kvm_exit"),
        probe(Vm, Tracepoint, Kind::VmHalt, "kvm_vcpu_wakeup"),
        probe(Vm, Tracepoint, Kind::VmInject, "kvm_inj_virq"),
        probe(Syscalls, Tracepoint, Kind::SyscallEnter, "sys_enter"),
        probe(Syscalls, Tracepoint, Kind::SyscallExit, "sys_exit"),
        probe(Power, Tracepoint, Kind::CpuIdle, "cpu_idle"),
        // From 6.1 on.
        probe(Power, Tracepoint, Kind::CpuIdleMiss, "cpu_idle_miss").replaced(),
        probe(Power, Tracepoint, Kind::CpuFrequency, "cpu_frequency"),
    ]
};

/// The probes of a domain.
#[derive(Clone, Debug)]
pub struct Events {
    /// For its agent; none if the kernel has no place for any of them. Its object is empty if it was not compiled.
    pub plan: Option<EventPlan>,
    /// What the kernel has no place for, and why, for people.
    pub left_out: Vec<String>,
}

/// Finds the places of the probes that are wanted in a kernel, and compiles them. `buffer` and `cache` are those of
/// [`crate::Options`].
///
/// # Errors
///
/// That there is no compiler, or what it says.
pub fn events(kernel: &Kernel, wanted: &EventChoice, buffer: u32, cache: &Path) -> Result<Events, Error> {
    let EventsDraft { programs, text, left_out } = draft(kernel, wanted);
    let mut found = Events { plan: None, left_out };
    if let Some(text) = text {
        let compiled = Compiler::find()?.compile(&text.files_of_events(), cache, &mut Vec::new())?;
        let failed = || Error::Events { release: kernel.release().to_owned(), log: compiled.log };
        let object = compiled.object.ok_or_else(failed)?;
        found.plan = Some(EventPlan { object, programs, buffer });
    }
    Ok(found)
}

/// Finds the places of the probes that are wanted in a kernel, and compiles nothing.
pub fn places_of_events(kernel: &Kernel, wanted: &EventChoice) -> Events {
    let EventsDraft { programs, left_out, .. } = draft(kernel, wanted);
    let plan = EventPlan { object: Vec::new(), programs, buffer: 0 };
    Events { plan: Some(plan).filter(|plan| !plan.programs.is_empty()), left_out }
}

/// Finds the places of the probes that are wanted in a kernel, and writes their C.
pub(crate) fn draft(kernel: &Kernel, EventChoice { groups, key }: &EventChoice) -> EventsDraft {
    let mut found = EventsDraft::default();
    let asked = |probe: &Probe| probe.kind != Kind::Key || key.is_some();
    for group in groups {
        let probes = || PROBES.iter().filter(|probe| probe.group == *group && asked(probe));
        if *group == Group::Vm && !probes().any(|probe| place(kernel, probe).is_ok()) {
            found.left_out.push("events vm are not recorded: KVM is not loaded".to_owned());
            continue;
        }
        let wanted = |probe: &&Probe| probe.unless.is_none_or(|other| kernel.function(other).is_none());
        for probe in probes().filter(wanted) {
            match place(kernel, probe) {
                Ok(function) => found.programs.push(EventProgram {
                    name: probe.program.to_owned(),
                    hook: probe.hook,
                    function: function.name,
                    module: function.module,
                    kind: probe.kind,
                }),
                Err(_) if probe.replaced => {}
                Err(reason) => found.left_out.push(format!(
                    "events {} are recorded without those of {}: {reason}",
                    probe.kind,
                    probe.place()
                )),
            }
        }
    }
    found.text = (!found.programs.is_empty()).then(|| text(kernel, &found.programs, key.as_ref()));
    found
}

/// Where a probe can be hooked; or why not.
fn place(kernel: &Kernel, probe: &Probe) -> Result<Function, String> {
    let name = probe.place();
    if probe.hook == Hook::Tracepoint {
        return kernel.tracepoint(name).ok_or_else(|| "the kernel has no such tracepoint".to_owned());
    }
    let renamed = || probe.renamed.and_then(|name| kernel.function(name));
    let function = kernel.function(name).or_else(renamed).ok_or("the kernel has no such function")?;
    let slots = kernel.argument_slots(&function);
    match slots {
        Some(slots) if slots <= kernel.max_arguments() => Ok(function),
        _ => Err("it has more arguments than this kernel can hook".to_owned()),
    }
}

fn text(kernel: &Kernel, programs: &[EventProgram], key: Option<&PayloadKey>) -> Text {
    let code = SOURCES.map(|(_, text)| Code::lex(text));
    let macros = prelude::macros();
    let names = code.iter().flat_map(Code::names);
    let identifiers: HashSet<&str> = names.filter(|name| !macros.contains(*name)).collect();
    let tags: HashSet<&str> = code.iter().flat_map(Code::tags).collect();
    let mut roots: Vec<TypeRef> = tags.iter().flat_map(|tag| kernel.tagged(tag)).collect();
    roots.sort();
    let types = kernel.declare(&roots, &identifiers);

    let mut text = format!("#include \"{}\"\n#include \"{}\"\n", prelude::TYPES.0, emit::KERNEL);
    text.extend(key.map(PayloadKey::definitions));
    for program in programs {
        let _ = writeln!(text, "#define XW_HAS_{}", program.name);
    }
    for (name, _) in SOURCES {
        let _ = writeln!(text, "#include \"{name}\"");
    }
    Text { programs: text, types, headers: Vec::new() }
}

impl Text {
    /// Whether an object of this text, of probes of events, has all programs that one of the other would have, and the
    /// same: where a kernel has the other's types, and some more, as those of KVM's module. Of places, it may have more of
    /// KVM's only: other programs may do something else where a kernel has the place of another one.
    pub fn covers(&self, other: &Self) -> bool {
        let mut others = other.programs.lines().peekable();
        let mut more = self.programs.lines().filter(|line| others.next_if_eq(line).is_none());
        let only_more = more.all(|line| line.strip_prefix("#define XW_HAS_").is_some_and(is_of_vcpus));
        let own: HashSet<&str> = declarations(&self.types).collect();
        only_more && others.next().is_none() && declarations(&other.types).all(|of| own.contains(of))
    }
}

/// Whether that is a program of a vCPU's probes.
fn is_of_vcpus(program: &str) -> bool {
    PROBES.iter().any(|probe| probe.group == Group::Vm && probe.program == program)
}

/// The declarations of a C text without comments and strings: each ends with a semicolon outside of braces.
fn declarations(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    let ends = move |c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ';' && depth == 0
    };
    text.split_inclusive(ends).map(str::trim).filter(|declaration| !declaration.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_that_a_probe_tells_of_are_those_of_its_group() {
        for probe in PROBES.iter().filter(|probe| probe.kind != Kind::Thread) {
            assert_eq!(probe.kind.group(), Some(probe.group.name()), "{}", probe.program);
        }
    }

    #[test]
    fn an_object_serves_a_kernel_that_has_the_same_types_and_fewer_places() {
        let text = |programs: &[&str], types: &str| Text {
            programs: programs.iter().map(|name| format!("#define XW_HAS_{name}\n")).collect::<String>()
                + "#include \"x.h\"\n",
            types: types.to_owned(),
            headers: Vec::new(),
        };
        let task = "struct task { int pid; struct { int a; }; };\n";
        let host =
            text(&["switch", "kvm_entry"], &format!("struct vcpu;\n{task}struct vcpu {{ int id; }};\n"));
        assert!(host.covers(&host));
        assert!(host.covers(&text(&["switch"], task)));
        assert!(!text(&["switch"], task).covers(&host));
        assert!(!host.covers(&text(&["switch", "wake"], task)), "it lacks a program");
        // `inet_sock_set_state` leaves to it what only this one has.
        let connects = text(&["inet_sock_set_state", "tcp_connect"], task);
        assert!(!connects.covers(&text(&["inet_sock_set_state"], task)), "its programs are others");
        let other = "struct task { int pid; struct { long a; }; };\n";
        assert!(!host.covers(&text(&["switch"], other)), "another type");
        let mut odd = text(&["switch"], task);
        odd.programs += "int x;\n";
        assert!(!odd.covers(&text(&["switch"], task)), "another program");
    }

    /// Whether nothing but a program itself depends on whether a kernel has its place.
    fn stands_alone(program: &str) -> bool {
        let define = format!("XW_HAS_{program}");
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let lines: Vec<_> = SOURCES.iter().flat_map(|(_, text)| text.lines()).collect();
        let asks = |line: &&str| line.split(|c| !is_word(c)).any(|word| word == define);
        let asking: Vec<_> = lines.iter().filter(|line| asks(line)).collect();
        let Some(begin) = lines.iter().position(|line| *line == format!("#ifdef {define}")) else {
            return false;
        };
        let Some(length) = lines[begin + 1..].iter().position(|line| line.starts_with('#')) else {
            return false;
        };
        let (within, end) = (&lines[begin + 1..][..length], lines[begin + 1 + length]);
        let programs: Vec<_> = within.iter().filter(|line| line.starts_with("XW_PROGRAM(")).collect();
        asking.len() == 1
            && end == "#endif"
            && programs.len() == 1
            && programs[0].ends_with(&format!(", {program})"))
    }

    #[test]
    fn no_program_is_another_one_where_a_kernel_has_places_of_kvm() {
        let of_kvm: Vec<_> =
            PROBES.iter().map(|probe| probe.program).filter(|name| is_of_vcpus(name)).collect();
        assert!(of_kvm.contains(&"kvm_entry"));
        for program in of_kvm {
            assert!(stands_alone(program), "{program}");
        }
        for program in ["tcp_connect", "__tcp_retransmit_skb", "softirq_raise"] {
            assert!(!stands_alone(program), "{program}");
        }
    }

    #[test]
    fn groups_are_read_each_once() {
        assert_eq!(Group::list("block, sched,block"), Ok(vec![Group::Sched, Group::Block]));
        assert_eq!(Group::list("all"), Ok(Group::ALL.to_vec()));
        for wrong in ["", "sched,", "scheduler"] {
            let said = Group::list(wrong).unwrap_err().to_string();
            assert!(said.contains("sched,block,net,vm,syscalls,power"), "{said}");
        }
    }

    #[test]
    fn each_probe_is_in_the_source_and_each_program_is_a_probe() {
        let lines = SOURCES.iter().flat_map(|(_, text)| text.lines());
        let written: Vec<_> = lines.filter(|line| line.starts_with("XW_PROGRAM(")).collect();
        for probe in &PROBES {
            let section = match probe.hook {
                Hook::Entry => "fentry",
                Hook::Return => "fexit",
                _ => "tp_btf",
            };
            let line = format!("XW_PROGRAM(\"{section}\", {})", probe.program);
            assert!(written.contains(&line.as_str()), "{line}");
        }
        assert_eq!(written.len(), PROBES.len());
    }

    #[test]
    fn the_source_counts_kinds_as_the_protocol_does() {
        let numbers =
            SOURCES[0].1.split("enum xw_kind {").nth(1).and_then(|text| text.split('}').next()).unwrap();
        let names: Vec<_> = numbers.split(',').map(|name| name.trim().to_lowercase()).collect();
        let expected: Vec<_> = Kind::ALL.iter().map(|kind| format!("xw_{kind}")).collect();
        assert_eq!(names[..names.len() - 1], expected[..expected.len() - 1]);
        assert_eq!(Kind::ALL.last(), Some(&Kind::Other));
    }

    #[test]
    fn the_running_kernel_has_a_place_for_nearly_all() {
        let kernel = Kernel::live().unwrap();
        let cache = tempfile::tempdir().unwrap();
        for key in [None, Some("line:Call-ID"), Some("first-line"), Some("bytes:4+8")] {
            let key: Option<PayloadKey> = key.map(|key| key.parse().unwrap());
            let tells = key.is_some();
            let events = events(&kernel, &EventChoice::new(Group::ALL.to_vec(), key), 4096, cache.path());
            let events = events.unwrap();
            let plan = events.plan.unwrap();
            assert!(plan.programs.len() > 30, "{:?}", events.left_out);
            assert!(plan.object.starts_with(b"\x7fELF"));
            assert_eq!(plan.programs.iter().any(|program| program.kind == Kind::Key), tells);
        }
    }
}
