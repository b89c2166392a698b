//! What the kernel's own macros and naming say where neither prototypes nor uses do.
//!
//! A small table: each row names the macro that it comes from. All of it is only possible, not certain: a
//! kernel in which a name means something else is not this one.

use std::ops::Range;

use xweave_code::types::TypeId;

/// Variables whose names tell their types; `%` stands for anything.
const VARIABLES: &[(&str, &str)] = &[
    // DEFINE_TRACE (include/linux/tracepoint.h)
    ("__tracepoint_%", "tracepoint"),
    // TRACE_EVENT, SYSCALL_METADATA (include/trace/stages/stage7_class_define.h)
    ("event_%", "trace_event_call"),
    // cpu_possible_mask and its like (kernel/cpu.c)
    ("__cpu_%_mask", "cpumask"),
    // arch/x86/kernel/paravirt.c
    ("pv_ops", "paravirt_patch_template"),
    // DEFINE_STATIC_CALL (include/linux/static_call.h)
    ("__SCK__%", "static_call_key"),
    // What DEFINE_LSM's .blobs of every security module points to (include/linux/lsm_hooks.h)
    ("%_blob_sizes", "lsm_blob_sizes"),
];

/// A table of pointers to routines, and the structure that each of those is in that saves all registers
/// but the one with the result: PVOP_CALLEE (arch/x86/include/asm/paravirt_types.h).
pub(crate) const CALLEE_SAVED: (&str, &str) = ("pv_ops", "paravirt_callee_save");

/// Two members whose sum is an address.
pub(crate) struct Sum {
    /// The structure.
    pub(crate) of: &'static str,
    pub(crate) members: [&'static str; 2],
    /// The structure that the sum points to.
    pub(crate) points_to: &'static str,
}

pub(crate) const SUMS: &[Sum] = &[
    // skb_end_pointer, skb_shinfo (include/linux/skbuff.h)
    Sum { of: "sk_buff", members: ["head", "end"], points_to: "skb_shared_info" },
];

/// Functions whose names tell what the raw buffer that they fill or print holds: TRACE_EVENT
/// (include/trace/stages/).
const BUFFERS: &[&str] = &["trace_event_raw_event_", "perf_trace_", "trace_raw_output_"];

/// Members that other structures are laid over, in functions of these names; the first that fits counts.
const OVERLAYS: &[(&str, &str, &str, &str)] = &[
    // TCP_SKB_CB (include/net/tcp.h)
    ("sk_buff", "cb", "%tcp%", "tcp_skb_cb"),
    // UDP_SKB_CB (include/linux/udp.h)
    ("sk_buff", "cb", "%udp%", "udp_skb_cb"),
    // NETLINK_CB (include/linux/netlink.h)
    ("sk_buff", "cb", "%netlink%", "netlink_skb_parms"),
    // NAPI_GRO_CB (include/net/gro.h)
    ("sk_buff", "cb", "%gro%", "napi_gro_cb"),
    // SKB_GSO_CB (include/net/gso.h)
    ("sk_buff", "cb", "%gso%", "skb_gso_cb"),
    ("sk_buff", "cb", "%segment%", "skb_gso_cb"),
    // qdisc_skb_cb (include/net/sch_generic.h)
    ("sk_buff", "cb", "%qdisc%", "qdisc_skb_cb"),
    ("sk_buff", "cb", "%sch_%", "qdisc_skb_cb"),
    // BPF_SKB_CB is qdisc_skb_cb too
    ("sk_buff", "cb", "%bpf%", "qdisc_skb_cb"),
    // IP6CB (include/linux/ipv6.h)
    ("sk_buff", "cb", "%ip6%", "inet6_skb_parm"),
    ("sk_buff", "cb", "%ipv6%", "inet6_skb_parm"),
    // IPCB (include/net/ip.h)
    ("sk_buff", "cb", "%ip_%", "inet_skb_parm"),
    ("sk_buff", "cb", "%icmp%", "inet_skb_parm"),
];

/// [`OVERLAYS`] of a kernel.
#[derive(Default)]
pub(crate) struct Overlays(pub(crate) Vec<(TypeId, Range<u32>, &'static str, TypeId)>);

impl Overlays {
    /// What is laid over these bytes in a function, and where in that they are.
    pub(crate) fn find(&self, of: TypeId, at: u32, function: &str) -> Option<(TypeId, u32)> {
        let fits = |row: &&(TypeId, Range<u32>, &str, TypeId)| {
            row.0 == of && row.1.contains(&at) && xweave_code::kernel::matches(row.2, function)
        };
        self.0.iter().find(fits).map(|(_, range, _, overlay)| (*overlay, at - range.start))
    }
}

/// What is laid over members: structure, member, functions, what it is there.
pub(crate) fn overlays() -> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static str)> {
    OVERLAYS.iter().copied()
}

/// The structure that a variable of this name is.
pub(crate) fn variable(name: &str) -> Option<&'static str> {
    let row = VARIABLES.iter().find(|(pattern, _)| xweave_code::kernel::matches(pattern, name));
    row.map(|(_, structure)| *structure)
}

/// The structure in the buffer of a function of the tracing macros.
pub(crate) fn buffer(function: &str) -> Option<String> {
    let event = BUFFERS.iter().find_map(|prefix| function.strip_prefix(prefix))?;
    Some(format!("trace_event_raw_{event}"))
}
