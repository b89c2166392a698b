//! The weave plan: what a controller asks an agent to load and where to hook it.

use serde::{Deserialize, Serialize};

use crate::event::Kind;

/// When, at a function, a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Hook {
    /// On entry (`fentry`).
    Entry,
    /// On return, with arguments and return value (`fexit`).
    Return,
    /// On entry, by a kprobe: what entry hooks of kernels before 6.6 cannot do is to hook functions
    /// with more than six parameters.
    Probe,
    /// On return, by two kprobes: the one on entry saves the arguments for the one on return.
    ProbeReturn,
    /// Before an instruction, by a kprobe.
    Instruction,
    /// At a static tracepoint, with its typed arguments (`tp_btf`).
    Tracepoint,
    /// On entry of a program's function, by a uprobe.
    User,
    /// On return from a program's function.
    UserReturn,
}

/// A place to hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSite {
    /// The number that records of the first clause woven here carry: unique across the recording.
    pub site: u32,
    /// How many clauses are woven here: their sites have consecutive numbers.
    pub clauses: u32,
    /// The function's name, as in BTF and kallsyms, or in the program's symbol table. For
    /// [`Hook::Tracepoint`]: the tracepoint's name. For [`Hook::Instruction`] it may be another function that
    /// lies before it, whose name no other has.
    pub function: String,
    /// The module it lives in; none for the kernel image. For [`Hook::User`] and [`Hook::UserReturn`]: the
    /// path of the program.
    pub module: Option<String>,
    /// The type ID in that module's (or the kernel's) BTF: the function's; for [`Hook::Tracepoint`], that of
    /// `btf_trace_NAME`; 0 where the hook needs none.
    pub btf_id: u32,
    /// For [`Hook::Instruction`]: its distance from the function's beginning in bytes; else 0.
    pub offset: u32,
    /// For [`Hook::Instruction`]: where the variables of the program lie, in the order in which it asks for
    /// them, [`MAX_VARIABLES`] at most; else none.
    pub places: Vec<VariablePlace>,
    /// Whether it may be left out where the kernel cannot hook it: a pattern selected it among others.
    pub optional: bool,
    /// For [`Hook::Entry`] and [`Hook::Return`]: how many registers for arguments the function has by its type, 6 at most:
    /// the kernel's trampolines save no others. Else 0.
    pub arguments: u8,
}

/// How many variables a program can have at an instruction: `XW_MAX_VARIABLES` of the prelude.
pub const MAX_VARIABLES: usize = 8;

/// Where a variable lies at an instruction: `struct xw_variable` of the prelude.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VariablePlace {
    /// The word of the kernel's `struct pt_regs` that the place is relative to; none if it is a constant.
    pub register: Option<u8>,
    /// To be added to the register.
    pub add: i64,
    /// Whether that is the address of the value in memory, rather than the value.
    pub load: bool,
}

/// One compiled program and the join points that it serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanProgram {
    /// The number of the object that has it, in [`Plan::objects`].
    pub object: u32,
    /// The program's name in the object.
    pub name: String,
    /// When it runs.
    pub hook: Hook,
    /// The program that saves the arguments, for [`Hook::ProbeReturn`].
    pub saver: Option<String>,
    /// For [`Hook::Tracepoint`]: the number by which it finds its cookie in its object's table; else 0.
    pub tracepoint: u32,
    /// Where: at least one, all with the same prototype.
    pub sites: Vec<PlanSite>,
    /// What it was written as (`virtio-net.aspect:12 transit`), for messages.
    pub origin: String,
}

/// Everything that one domain is to weave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The domain's number: the top byte of the flow IDs that it makes. From 1.
    pub domain: u8,
    /// BPF objects (ELF) with CO-RE relocations, of programs that [`Plan::programs`] names. Maps of the same name are one,
    /// but for those of a single object: its table of tracepoints and its constants.
    pub objects: Vec<Vec<u8>>,
    /// In the order in which they are attached: the last of a flow first, its start last, so that
    /// no flow is begun that could not be followed.
    pub programs: Vec<PlanProgram>,
    /// What the ring buffers of all CPUs may take together, in bytes: a power of two, at least a page. No CPU's has
    /// less than a page.
    pub buffer: u32,
    /// How many keys may carry flows at once in this domain.
    pub flow_table: u32,
    /// Whether hooks are attached and detached one after the other, and the kernel's settings left alone.
    pub serial_attach: bool,
    /// The events to record beside, if any.
    pub events: Option<EventPlan>,
}

/// The built-in probes of events (`bpf/events/`) that a domain is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventPlan {
    /// A BPF object (ELF) with CO-RE relocations, of programs that [`EventPlan::programs`] names.
    pub object: Vec<u8>,
    /// At least one.
    pub programs: Vec<EventProgram>,
    /// What the ring buffers of all CPUs may take together, in bytes: a power of two, at least a page. No CPU's has
    /// less than a page.
    pub buffer: u32,
}

/// One probe of events. What one kernel lets us hook another may not: those that cannot be are left out, and told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventProgram {
    /// The program's name in the object.
    pub name: String,
    /// When it runs: [`Hook::Entry`], [`Hook::Return`] or [`Hook::Tracepoint`].
    pub hook: Hook,
    /// The function's or the tracepoint's name.
    pub function: String,
    /// The module it lives in; none for the kernel image.
    pub module: Option<String>,
    /// The kind of its events.
    pub kind: Kind,
}
