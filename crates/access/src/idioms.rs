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

/// A structure that is laid over members of another in some functions.
pub(crate) struct Overlay {
    /// The other structure, and the members.
    pub(crate) over: (&'static str, &'static str),
    /// Where in the member it begins; none if both structures begin at the same place.
    pub(crate) begins: Option<u32>,
    pub(crate) functions: &'static str,
    pub(crate) structure: &'static str,
}

const fn over_cb(functions: &'static str, structure: &'static str) -> Overlay {
    Overlay { over: ("sk_buff", "cb"), begins: Some(0), functions, structure }
}

/// What something has in common with the page that it is.
const fn over_page(structure: &'static str) -> Overlay {
    Overlay { over: (structure, "__page_%"), begins: None, functions: "%", structure: "folio" }
}

/// The first that fits counts.
pub(crate) const OVERLAYS: &[Overlay] = &[
    // udp_skb_scratch (include/linux/udp.h, net/ipv4/udp.c)
    Overlay { over: ("sk_buff", "dev_scratch"), ..over_cb("%udp%", "udp_dev_scratch") },
    // SKB_EXT_ERR (include/linux/errqueue.h)
    over_cb("%err_skb", "sock_exterr_skb"),
    over_cb("%errqueue%", "sock_exterr_skb"),
    over_cb("%timestamp%", "sock_exterr_skb"),
    over_cb("%zerocopy_callback", "sock_exterr_skb"),
    // skb_from_uarg (include/linux/skbuff.h)
    over_cb("%msg_zerocopy%", "ubuf_info_msgzc"),
    // TCP_SKB_CB (include/net/tcp.h)
    over_cb("%tcp%", "tcp_skb_cb"),
    // UDP_SKB_CB (include/linux/udp.h)
    over_cb("%udp%", "udp_skb_cb"),
    // NETLINK_CB (include/linux/netlink.h)
    over_cb("%netlink%", "netlink_skb_parms"),
    // NAPI_GRO_CB (include/net/gro.h)
    over_cb("%gro%", "napi_gro_cb"),
    // SKB_GSO_CB, which begins at SKB_GSO_CB_OFFSET (include/net/gso.h)
    Overlay { begins: Some(32), ..over_cb("%gso%", "skb_gso_cb") },
    Overlay { begins: Some(32), ..over_cb("%segment%", "skb_gso_cb") },
    // tc_skb_cb, which begins as a qdisc_skb_cb (include/net/pkt_sched.h)
    over_cb("tc_%", "tc_skb_cb"),
    over_cb("%dev_queue_xmit%", "tc_skb_cb"),
    over_cb("%netif_receive_skb%", "tc_skb_cb"),
    // qdisc_skb_cb (include/net/sch_generic.h)
    over_cb("%qdisc%", "qdisc_skb_cb"),
    over_cb("%sch_%", "qdisc_skb_cb"),
    over_cb("%fifo%", "qdisc_skb_cb"),
    // BPF_SKB_CB is qdisc_skb_cb too
    over_cb("%bpf%", "qdisc_skb_cb"),
    // IP6CB (include/linux/ipv6.h)
    over_cb("%ip6%", "inet6_skb_parm"),
    over_cb("%ipv6%", "inet6_skb_parm"),
    // IPCB (include/net/ip.h)
    over_cb("%ip_%", "inet_skb_parm"),
    over_cb("%icmp%", "inet_skb_parm"),
    // SLAB_MATCH (mm/slab.h), TABLE_MATCH (include/linux/mm_types.h)
    over_page("slab"),
    over_page("ptdesc"),
];

/// [`OVERLAYS`] of a kernel.
#[derive(Default)]
pub(crate) struct Overlays(pub(crate) Vec<Laid>);

/// A structure that is laid over bytes of another.
pub(crate) struct Laid {
    pub(crate) over: TypeId,
    pub(crate) bytes: Range<u32>,
    /// Where it begins.
    pub(crate) start: u32,
    pub(crate) functions: &'static str,
    pub(crate) structure: TypeId,
}

impl Overlays {
    /// What is laid over these bytes in a function, and where in that they are.
    pub(crate) fn find(&self, of: TypeId, at: u32, function: &str) -> Option<(TypeId, u32)> {
        self.0.iter().filter(|laid| laid.over == of && laid.bytes.contains(&at)).find_map(|laid| {
            let inside = at.checked_sub(laid.start)?;
            xweave_text::matches(laid.functions, function).then_some((laid.structure, inside))
        })
    }
}

/// The structure that a variable of this name is.
pub(crate) fn variable(name: &str) -> Option<&'static str> {
    let row = VARIABLES.iter().find(|(pattern, _)| xweave_text::matches(pattern, name));
    row.map(|(_, structure)| *structure)
}

/// The structure in the buffer of a function of the tracing macros.
pub(crate) fn buffer(function: &str) -> Option<String> {
    let event = BUFFERS.iter().find_map(|prefix| function.strip_prefix(prefix))?;
    Some(format!("trace_event_raw_{event}"))
}
