//! Built-in probes of events: which of them a kernel has a place for, and how their object is made to fit it.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use xweave_aspect::Code;
use xweave_code::bpf::{ObjectEditor, Relocations, Unmet};
use xweave_code::declare::declare;
use xweave_code::{Function, Kernel};
use xweave_event::{Group, Kind, c_header};
use xweave_wire::plan::{EventPlan, EventProgram, Hook};

use crate::compile::Compiler;
use crate::draft::{EventsDraft, Files, Text};
use crate::error::Error;
use crate::event_object::{EventConstants, EventObject, ProbeParameters};
use crate::payload::PayloadKey;
use crate::{emit, prelude};

/// The probes' files, in the order in which they are included: what all need, then the groups.
pub(crate) static SOURCES: LazyLock<[(&str, &str); 15]> = LazyLock::new(|| {
    [
        ("events/kinds.h", c_header()),
        ("events/event.h", include_str!("../../../bpf/events/event.h")),
        ("events/sched.h", include_str!("../../../bpf/events/sched.h")),
        ("events/block.h", include_str!("../../../bpf/events/block.h")),
        ("events/net.h", include_str!("../../../bpf/events/net.h")),
        ("events/qdisc.h", include_str!("../../../bpf/events/qdisc.h")),
        ("events/neigh.h", include_str!("../../../bpf/events/neigh.h")),
        ("events/tcp_hold.h", include_str!("../../../bpf/events/tcp_hold.h")),
        ("events/key.h", include_str!("../../../bpf/events/key.h")),
        ("events/slept.h", include_str!("../../../bpf/events/slept.h")),
        ("events/pipe.h", include_str!("../../../bpf/events/pipe.h")),
        ("events/fault.h", include_str!("../../../bpf/events/fault.h")),
        ("events/vm.h", include_str!("../../../bpf/events/vm.h")),
        ("events/syscalls.h", include_str!("../../../bpf/events/syscalls.h")),
        ("events/power.h", include_str!("../../../bpf/events/power.h")),
    ]
});

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

/// A probe.
struct Probe {
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
    /// The number of arguments, from the first on, that the program reads or passes by.
    reads: usize,
}

const fn probe(hook: Hook, kind: Kind, program: &'static str) -> Probe {
    Probe { kind, program, hook, place: None, renamed: None, replaced: false, unless: None, reads: 0 }
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

    /// Whose program reads so many arguments.
    const fn reads(mut self, count: usize) -> Self {
        self.reads = count;
        self
    }

    /// The group that it is recorded with: threads' names come with all of them, and are told where threads are.
    fn group(&self) -> Group {
        self.kind.group().unwrap_or(Group::Sched)
    }

    fn place(&self) -> &'static str {
        self.place.unwrap_or(self.program)
    }
}

const PROBES: [Probe; 98] = {
    use Hook::{Entry, Return, Tracepoint};
    [
        probe(Tracepoint, Kind::Switch, "sched_switch").reads(4),
        probe(Tracepoint, Kind::Wake, "sched_waking").reads(1),
        probe(Tracepoint, Kind::Migrate, "sched_migrate_task").reads(2),
        probe(Tracepoint, Kind::Fork, "sched_process_fork").reads(2),
        probe(Tracepoint, Kind::Thread, "task_rename").reads(2),
        probe(Tracepoint, Kind::Exit, "sched_process_exit").reads(1),
        probe(Tracepoint, Kind::IrqEnter, "irq_handler_entry").reads(1),
        probe(Tracepoint, Kind::IrqExit, "irq_handler_exit").reads(1),
        probe(Tracepoint, Kind::SoftirqEnter, "softirq_raise").reads(1),
        probe(Tracepoint, Kind::SoftirqEnter, "softirq_entry").reads(1),
        probe(Tracepoint, Kind::SoftirqExit, "softirq_exit").reads(1),
        probe(Tracepoint, Kind::IrqEnter, "local_timer_entry").reads(1),
        probe(Tracepoint, Kind::IrqExit, "local_timer_exit").reads(1),
        probe(Tracepoint, Kind::IrqEnter, "reschedule_entry").reads(1),
        probe(Tracepoint, Kind::IrqExit, "reschedule_exit").reads(1),
        probe(Tracepoint, Kind::IrqEnter, "call_function_entry").reads(1),
        probe(Tracepoint, Kind::IrqExit, "call_function_exit").reads(1),
        probe(Tracepoint, Kind::IrqEnter, "call_function_single_entry").reads(1),
        probe(Tracepoint, Kind::IrqExit, "call_function_single_exit").reads(1),
        probe(Tracepoint, Kind::IrqEnter, "irq_work_entry").reads(1),
        probe(Tracepoint, Kind::IrqExit, "irq_work_exit").reads(1),
        probe(Entry, Kind::LockWait, "futex_wait_begin").reads(1).at("futex_wait"),
        probe(Return, Kind::LockAcquired, "futex_wait_end").reads(1).at("futex_wait"),
        probe(Entry, Kind::LockWake, "futex_wake").reads(1),
        probe(Tracepoint, Kind::DiskQueue, "block_bio_queue").reads(1),
        probe(Tracepoint, Kind::DiskMerge, "block_bio_backmerge").reads(1),
        probe(Tracepoint, Kind::DiskMerge, "block_bio_frontmerge").reads(1),
        probe(Tracepoint, Kind::DiskMerge, "block_rq_merge").reads(1),
        probe(Tracepoint, Kind::DiskIssue, "block_rq_issue").reads(1),
        probe(Tracepoint, Kind::DiskComplete, "block_rq_complete").reads(3),
        probe(Tracepoint, Kind::DiskComplete, "block_bio_complete").reads(2),
        probe(Tracepoint, Kind::DiskRemap, "block_bio_remap").reads(3),
        probe(Entry, Kind::PageFault, "filemap_fault").reads(1),
        probe(Return, Kind::PageFault, "filemap_fault_end").at("filemap_fault").replaced(),
        probe(Entry, Kind::SwapIn, "do_swap_page"),
        probe(Return, Kind::SwapIn, "do_swap_page_end").at("do_swap_page").replaced(),
        probe(Entry, Kind::Send, "tcp_sendmsg_locked").reads(3),
        probe(Return, Kind::Send, "tcp_sendmsg_end").reads(3).at("tcp_sendmsg_locked").replaced(),
        // From 6.5 on, tcp_sendmsg_locked sends pages too.
        probe(Entry, Kind::Send, "do_tcp_sendpages").reads(4).replaced(),
        probe(Return, Kind::Send, "tcp_sendpages_end").reads(4).at("do_tcp_sendpages").replaced(),
        // Kernels may be without MPTCP, and those before 6.0 without tcp_read_done.
        probe(Entry, Kind::Send, "mptcp_sendmsg").reads(3).replaced(),
        probe(Return, Kind::Send, "mptcp_sendmsg_end").reads(3).at("mptcp_sendmsg").replaced(),
        probe(Entry, Kind::Receive, "mptcp_recvmsg_begin").at("mptcp_recvmsg").replaced(),
        probe(Return, Kind::Receive, "mptcp_recvmsg").reads(1).replaced(),
        probe(Return, Kind::Receive, "tcp_read_sock").reads(1),
        probe(Entry, Kind::Receive, "tcp_read_done").reads(2).replaced(),
        probe(Entry, Kind::Receive, "tcp_recvmsg_begin").at("tcp_recvmsg").replaced(),
        probe(Return, Kind::Receive, "tcp_recvmsg").reads(1),
        probe(Entry, Kind::Receive, "tcp_splice_read_begin").at("tcp_splice_read").replaced(),
        probe(Return, Kind::Receive, "tcp_splice_read").reads(1),
        probe(Entry, Kind::Send, "ip_send_skb").reads(2),
        probe(Entry, Kind::Send, "ip6_send_skb").reads(1),
        probe(Entry, Kind::Receive, "skb_consume_udp").reads(3),
        probe(Entry, Kind::Send, "unix_stream_sendmsg").reads(3),
        probe(Return, Kind::Send, "unix_stream_sendmsg_end").reads(3).at("unix_stream_sendmsg").replaced(),
        // From 6.5 on, unix_stream_sendmsg sends pages too.
        probe(Entry, Kind::Send, "unix_stream_sendpage").reads(4).replaced(),
        probe(Return, Kind::Send, "unix_stream_sendpage_end").reads(4).at("unix_stream_sendpage").replaced(),
        probe(Entry, Kind::Receive, "unix_stream_recvmsg_begin").at("unix_stream_recvmsg").replaced(),
        probe(Return, Kind::Receive, "unix_stream_recvmsg").reads(1),
        probe(Entry, Kind::Receive, "unix_stream_splice_read_begin").at("unix_stream_splice_read").replaced(),
        probe(Return, Kind::Receive, "unix_stream_splice_read").reads(1),
        // From 6.15 on, FIFOs have functions of their own, which call those of pipes.
        probe(Entry, Kind::PipeWrite, "pipe_write").reads(2).or("anon_pipe_write"),
        probe(Return, Kind::PipeFull, "pipe_write_end")
            .reads(2)
            .at("pipe_write")
            .or("anon_pipe_write")
            .replaced(),
        probe(Entry, Kind::PipeRead, "pipe_read_begin").at("pipe_read").or("anon_pipe_read").replaced(),
        probe(Return, Kind::PipeRead, "pipe_read").reads(1).or("anon_pipe_read"),
        probe(Tracepoint, Kind::Socket, "inet_sock_set_state").reads(3),
        probe(Entry, Kind::Socket, "tcp_connect").reads(1),
        probe(Entry, Kind::Accept, "security_sock_graft").reads(1).replaced(),
        probe(Return, Kind::Accept, "inet_csk_accept").unless("security_sock_graft"),
        probe(Entry, Kind::Retransmit, "__tcp_retransmit_skb"),
        probe(Tracepoint, Kind::Retransmit, "tcp_retransmit_skb").reads(1),
        probe(Tracepoint, Kind::Retransmit, "tcp_retransmit_synack").reads(2),
        probe(Entry, Kind::SynDrop, "tcp_conn_request").reads(4),
        probe(Entry, Kind::SynDrop, "tcp_check_req").reads(3),
        probe(Return, Kind::SynDrop, "tcp_timewait_state_process").reads(3),
        // Kernels may be without CONFIG_NET_SCHED.
        probe(Tracepoint, Kind::QdiscEnqueue, "qdisc_enqueue").reads(3),
        probe(Tracepoint, Kind::QdiscDequeue, "qdisc_dequeue").reads(4),
        probe(Return, Kind::NeighEnqueue, "neigh_event_send").reads(2).at("__neigh_event_send"),
        probe(Tracepoint, Kind::NeighDequeue, "neigh_update").reads(3),
        probe(Entry, Kind::TcpRelease, "tcp_push_begin").reads(1).at("__tcp_push_pending_frames").replaced(),
        probe(Entry, Kind::TcpRelease, "tcp_write_wakeup_begin").reads(1).at("tcp_write_wakeup").replaced(),
        probe(Return, Kind::TcpHold, "tcp_pushed").reads(3).at("__tcp_push_pending_frames"),
        probe(Return, Kind::TcpRelease, "tcp_write_wakeup").reads(1),
        probe(Entry, Kind::Key, "key_ip_send_skb").reads(2).at("ip_send_skb"),
        probe(Entry, Kind::Key, "key_ip6_send_skb").reads(1).at("ip6_send_skb").replaced(),
        probe(Entry, Kind::Key, "key_tcp_sendmsg").reads(3).at("tcp_sendmsg_locked"),
        probe(Return, Kind::Key, "key_udp_recvmsg").reads(2).at("udp_recvmsg"),
        probe(Return, Kind::Key, "key_udpv6_recvmsg").reads(2).at("udpv6_recvmsg").replaced(),
        probe(Return, Kind::Key, "key_tcp_recvmsg").reads(2).at("tcp_recvmsg"),
        probe(Tracepoint, Kind::VmEnter, "kvm_entry").reads(1),
        probe(Tracepoint, Kind::VmExit, "kvm_exit").reads(2),
        probe(Tracepoint, Kind::VmHalt, "kvm_vcpu_wakeup").reads(2),
        probe(Tracepoint, Kind::VmInject, "kvm_inj_virq").reads(1),
        probe(Tracepoint, Kind::SyscallEnter, "sys_enter").reads(2),
        probe(Tracepoint, Kind::SyscallExit, "sys_exit").reads(2),
        probe(Tracepoint, Kind::CpuIdle, "cpu_idle").reads(1),
        // From 6.1 on.
        probe(Tracepoint, Kind::CpuIdleMiss, "cpu_idle_miss").reads(3).replaced(),
        probe(Tracepoint, Kind::CpuFrequency, "cpu_frequency").reads(2),
    ]
};

/// What the probes' C is compiled from, and what of a kernel's functions it relies on.
#[derive(Clone, Debug)]
pub struct EventSource {
    text: Text,
    parameters: Vec<ProbeParameters>,
}

impl EventSource {
    /// For these kernels, the oldest first: each probe that one of them has a place for, and the types of the newest.
    ///
    /// # Errors
    ///
    /// What cannot be compiled for several kernels.
    pub fn new(kernels: &[&Kernel]) -> Result<Self, Error> {
        let parameters = PROBES.iter().filter_map(|probe| {
            let mut newest_first = kernels.iter().rev();
            let (kernel, function) = newest_first.find_map(|kernel| Some((kernel, find(kernel, probe)?)))?;
            let types = types_of(kernel, &function, probe.reads)?;
            Some(ProbeParameters { program: probe.program.to_owned(), types })
        });
        Ok(Self { parameters: parameters.collect(), text: text(kernels)? })
    }

    /// All that the compiler reads, by name.
    fn files(&self) -> Files<'_> {
        let mut files = self.text.own();
        files.extend(SOURCES.map(|(name, text)| (name.to_owned(), text)));
        files
    }

    /// Has the compiler make the object. `cache` is a folder for its work, where the result is kept as well.
    ///
    /// # Errors
    ///
    /// The compiler cannot be run, or refuses the text.
    pub fn compile(self, compiler: &Compiler, cache: &Path) -> Result<EventObject, Error> {
        let compiled = compiler.compile(&self.files(), cache, &mut Vec::new())?;
        let elf = compiled.object.ok_or(Error::C(compiled.log))?;
        Ok(EventObject { elf, parameters: self.parameters })
    }
}

/// The probes of a domain.
#[derive(Clone, Debug)]
pub struct Events {
    /// For its agent; `None` if the kernel has no place for any of them.
    pub plan: Option<EventPlan>,
    /// What the kernel has no place for, and why, for people.
    pub left_out: Vec<String>,
}

/// Finds the places of the probes that are wanted in a kernel. `buffer` is that of [`crate::Options`].
///
/// # Errors
///
/// The object is unusable.
pub fn events(
    kernel: &Kernel,
    wanted: &EventChoice,
    buffer: u32,
    object: &EventObject,
) -> Result<Events, Error> {
    let mut draft = draft(kernel, wanted, object)?;
    let left_out = std::mem::take(&mut draft.left_out);
    Ok(Events { plan: draft.plan(object, wanted.key.as_ref(), buffer)?, left_out })
}

impl EventsDraft {
    /// What an agent is to load and hook; `None` if there are no probes.
    pub(crate) fn plan(
        self,
        object: &EventObject,
        key: Option<&PayloadKey>,
        buffer: u32,
    ) -> Result<Option<EventPlan>, Error> {
        if self.programs.is_empty() {
            return Ok(None);
        }
        let mut editor = ObjectEditor::new(object.elf.clone());
        let EventConstants { sees_connects, retransmit_has_error, bio_trace_completion } = self.constants;
        for (name, value) in [
            ("xw_sees_connects", u32::from(sees_connects)),
            ("xw_retransmit_has_error", u32::from(retransmit_has_error)),
            ("xw_bio_trace_completion", bio_trace_completion),
        ] {
            editor.set_constant(name, &value.to_le_bytes())?;
        }
        if let Some(key) = key {
            editor.set_constant("xw_key_place", &key.encode())?;
        }
        Ok(Some(EventPlan { object: editor.finish(), programs: self.programs, buffer }))
    }
}

/// The flag of a bio that the probe of `block_bio_remap` reads: of an enumeration without a name, in
/// include/linux/blk_types.h.
const BIO_FLAG: (&str, &str) = ("block_bio_remap", "BIO_TRACE_COMPLETION");

/// Finds the places of the probes that are wanted in a kernel.
///
/// # Errors
///
/// The object is unusable.
pub(crate) fn draft(
    kernel: &Kernel,
    EventChoice { groups, key }: &EventChoice,
    object: &EventObject,
) -> Result<EventsDraft, Error> {
    let mut found = EventsDraft::default();
    if groups.is_empty() {
        return Ok(found);
    }
    let fitting = Fitting { kernel, object, relocations: Relocations::read(&object.elf)? };
    let asked = |probe: &Probe| probe.kind != Kind::Key || key.is_some();
    for group in groups {
        let probes = || PROBES.iter().filter(|probe| probe.group() == *group && asked(probe));
        if *group == Group::Vm && !probes().any(|probe| find(kernel, probe).is_some()) {
            found.left_out.push("events vm are not recorded: KVM is not loaded".to_owned());
            continue;
        }
        let wanted = |probe: &&Probe| probe.unless.is_none_or(|other| kernel.function(other).is_none());
        for probe in probes().filter(wanted) {
            match fitting.place(probe) {
                Ok(function) => found.programs.push(EventProgram {
                    name: probe.program.to_owned(),
                    hook: probe.hook,
                    function: function.name,
                    module: function.module,
                    kind: probe.kind,
                }),
                Err(Unplaced::Absent) if probe.replaced => {}
                Err(reason) => found.left_out.push(format!(
                    "events {} are recorded without those of {}: {reason}",
                    probe.kind,
                    probe.place()
                )),
            }
        }
    }
    let has = |program: &str| found.programs.iter().any(|of| of.name == program);
    found.constants = EventConstants {
        sees_connects: has("tcp_connect"),
        retransmit_has_error: kernel
            .tracepoint("tcp_retransmit_skb")
            .is_some_and(|of| of.params.len() > 2 && kernel.size_of(of.params[2].type_) == Some(4)),
        bio_trace_completion: match has(BIO_FLAG.0) {
            true => kernel.enumerator(BIO_FLAG.1).and_then(|value| u32::try_from(value).ok()).unwrap_or(0),
            false => 0,
        },
    };
    Ok(found)
}

/// Why a probe has no place in a kernel.
#[derive(Debug, thiserror::Error)]
enum Unplaced {
    #[error("the kernel has no such {0}")]
    Missing(&'static str),
    /// As `Missing`, where nothing is missed by it.
    #[error("the kernel has no such function")]
    Absent,
    #[error("it has more arguments than this kernel can hook")]
    Arguments,
    #[error("its argument {nth} is `{there}`, and `{here}` in what was compiled")]
    Parameter { nth: usize, there: String, here: String },
    #[error("{0}")]
    Unmet(Unmet),
    #[error("the kernel has no `{0}`")]
    Enumerator(&'static str),
}

/// A kernel, and the object that is to fit it.
struct Fitting<'a> {
    kernel: &'a Kernel,
    object: &'a EventObject,
    relocations: Relocations,
}

impl Fitting<'_> {
    /// Where a probe can be hooked; or why not.
    fn place(&self, probe: &Probe) -> Result<Function, Unplaced> {
        let missing = match probe.hook {
            Hook::Tracepoint => Unplaced::Missing("tracepoint"),
            _ => Unplaced::Missing("function"),
        };
        let missing = if probe.replaced { Unplaced::Absent } else { missing };
        let function = find(self.kernel, probe).ok_or(missing)?;
        if probe.hook != Hook::Tracepoint {
            let slots = self.kernel.argument_slots(&function);
            if slots.is_none_or(|slots| slots > self.kernel.max_arguments()) {
                return Err(Unplaced::Arguments);
            }
        }
        self.compare_parameters(probe, &function)?;
        if let Some(unmet) = self.relocations.unmet(probe.program, self.kernel).into_iter().next() {
            return Err(Unplaced::Unmet(unmet));
        }
        if probe.program == BIO_FLAG.0 && self.kernel.enumerator(BIO_FLAG.1).is_none() {
            return Err(Unplaced::Enumerator(BIO_FLAG.1));
        }
        Ok(function)
    }

    /// Whether the arguments that the program reads are what they were when it was compiled.
    fn compare_parameters(&self, probe: &Probe, function: &Function) -> Result<(), Unplaced> {
        let known = self.object.parameters.iter().find(|of| of.program == probe.program);
        let expected = known.map_or(&[][..], |of| &of.types);
        for (nth, here) in expected.iter().enumerate() {
            let there = function.params.get(nth).and_then(|of| self.kernel.variable(of.type_, ""));
            if there.as_deref() != Some(here) {
                let there = there.unwrap_or_else(|| "not there".to_owned());
                return Err(Unplaced::Parameter { nth: nth + 1, there, here: here.clone() });
            }
        }
        Ok(())
    }
}

/// The function or tracepoint of a probe in a kernel.
fn find(kernel: &Kernel, probe: &Probe) -> Option<Function> {
    let name = probe.place();
    match probe.hook {
        Hook::Tracepoint => kernel.tracepoint(name),
        _ => kernel.function(name).or_else(|| kernel.function(probe.renamed?)),
    }
}

/// The types of the first `count` parameters of a function.
fn types_of(kernel: &Kernel, function: &Function, count: usize) -> Option<Vec<String>> {
    (0..count).map(|nth| kernel.variable(function.params.get(nth)?.type_, "")).collect()
}

/// The functions and tracepoints (`true`) that the probes hook, on one kernel or another.
pub(crate) fn places() -> impl Iterator<Item = (&'static str, bool)> {
    PROBES.iter().flat_map(|probe| {
        let names = [Some(probe.place()), probe.renamed].into_iter().flatten();
        names.map(|name| (name, probe.hook == Hook::Tracepoint))
    })
}

/// The enumerators whose values the probes are given.
pub(crate) fn constants() -> [&'static str; 1] {
    [BIO_FLAG.1]
}

/// The names that the probes' C has, and the structures among them.
pub(crate) fn names() -> (HashSet<String>, HashSet<String>) {
    let code = SOURCES.map(|(_, text)| Code::lex(text));
    let macros = prelude::macros();
    let names = code.iter().flat_map(Code::names).filter(|name| !macros.contains(*name));
    let tags = code.iter().flat_map(Code::tags);
    (names.map(str::to_owned).collect(), tags.map(str::to_owned).collect())
}

fn text(kernels: &[&Kernel]) -> Result<Text, Error> {
    let (names, tags) = names();
    let identifiers: HashSet<&str> = names.iter().map(String::as_str).collect();
    let tagged = |kernel: &Kernel| tags.iter().flat_map(|tag| kernel.tagged(tag)).collect::<Vec<_>>();
    let mut roots: Vec<_> = kernels.iter().rev().map(|kernel| (*kernel, tagged(kernel))).collect();
    roots.iter_mut().for_each(|(_, roots)| roots.sort());
    let roots: Vec<_> = roots.iter().map(|(kernel, roots)| (*kernel, roots.as_slice())).collect();
    let types = declare(&roots, &identifiers);
    if let [first, ..] = &types.fixed[..] {
        return Err(Error::BitField(first.clone()));
    }
    let mut text = format!("#include \"{}\"\n#include \"{}\"\n", prelude::TYPES.0, emit::KERNEL);
    for (name, _) in SOURCES.iter() {
        let _ = writeln!(text, "#include \"{name}\"");
    }
    Ok(Text { programs: text, types: types.text, headers: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// The body of a program, in the sources.
    fn body(program: &str) -> String {
        let all: Vec<_> = SOURCES.iter().flat_map(|(_, text)| text.lines()).collect();
        let begins =
            |line: &&str| line.starts_with("XW_PROGRAM(") && line.ends_with(&format!(", {program})"));
        let begin = all.iter().position(begins).unwrap();
        let end = begin + all[begin..].iter().position(|line| *line == "}").unwrap();
        all[begin..end].join("\n")
    }

    #[test]
    fn arguments_that_programs_read_are_compared() {
        for probe in &PROBES {
            let body = body(probe.program);
            let reads =
                body.split("ctx[").skip(1).filter_map(|rest| rest.split(']').next()?.parse::<usize>().ok());
            // What kernels since 6.17 have besides is asked for.
            let reads = reads.filter(|nth| (probe.program, *nth) != ("tcp_retransmit_skb", 2));
            let most = reads.map(|nth| nth + 1).max().unwrap_or(0);
            assert!(
                most <= probe.reads,
                "{} reads {most} arguments, and says {}",
                probe.program,
                probe.reads
            );
        }
    }
}
