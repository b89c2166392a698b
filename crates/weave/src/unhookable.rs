//! Functions that nothing is woven at, though the kernel would allow it.
//!
//! A kernel refuses by itself what it cannot hook, and what would break it as far as it knows (`notrace`, the
//! kprobes' blacklist, `btf_id_deny` of kernel/bpf/verifier.c). Here is what it cannot know of. A name has to
//! have a reason: what is merely on the way of every program is left alone by the guard (`bpf/guard.h`).

/// Called by each program before it has taken its guard.
const BEFORE_THE_GUARD: &str =
    "xweave's own programs call it before they can tell that they run inside each other";

/// Called where the CPU has told RCU that it is idle, up to Linux 6.1 (default_idle_call, cpuidle_enter_state; since
/// 6.3 they are `noinstr`).
const RCU_IS_OFF: &str =
    "it runs while RCU does not watch the CPU: what is woven there could be freed while it runs";

/// Called by the kernel's own entry into every program (`__bpf_tramp_enter`, `__bpf_prog_enter` of
/// kernel/bpf/trampoline.c) where RCU is preemptible. `btf_id_deny` has them since Linux 6.4; 6.1 hooks them, and is stuck
/// at the first call: `make soak` found it.
const ENTERS_PROGRAMS: &str =
    "the kernel calls it on its way into every program: it would call itself without end";

/// Called by the kernel's own exit from every program: `rcu_read_unlock` calls `rcu_read_unlock_special` as long as something
/// is to be done, and that, in an interrupt, `raise_softirq_irqoff` (kernel/rcu/tree_plugin.h; mended for the softirq in Linux
/// 6.17). The stack ends before the calls do: `make soak` found it on 6.12.
const LEAVES_PROGRAMS: &str =
    "the kernel calls it on its way out of every program: it would call itself without end";

/// By name. What [`BEFORE_THE_GUARD`] are: the lookup in a per-CPU array (a call before Linux 6.10), and the two
/// helpers that tell the context (`xw_context` of the prelude). A program that is hooked there runs inside every
/// other's beginning, and inside its own; with n such programs that is n! runs each time.
const UNHOOKABLE: [(&str, &str); 24] = [
    ("bpf_get_current_task", BEFORE_THE_GUARD),
    ("bpf_this_cpu_ptr", BEFORE_THE_GUARD),
    ("percpu_array_map_lookup_elem", BEFORE_THE_GUARD),
    ("__rcu_read_lock", ENTERS_PROGRAMS),
    ("__rcu_read_unlock", ENTERS_PROGRAMS),
    ("rcu_read_unlock_special", LEAVES_PROGRAMS),
    ("raise_softirq_irqoff", LEAVES_PROGRAMS),
    ("__raise_softirq_irqoff", LEAVES_PROGRAMS),
    ("acpi_idle_do_entry", RCU_IS_OFF),
    ("acpi_idle_enter", RCU_IS_OFF),
    ("acpi_idle_enter_bm", RCU_IS_OFF),
    ("acpi_idle_enter_s2idle", RCU_IS_OFF),
    ("acpi_idle_lpi_enter", RCU_IS_OFF),
    ("acpi_processor_ffh_cstate_enter", RCU_IS_OFF),
    ("amd_e400_idle", RCU_IS_OFF),
    ("arch_cpu_idle", RCU_IS_OFF),
    ("default_enter_idle", RCU_IS_OFF),
    ("default_idle", RCU_IS_OFF),
    ("intel_idle", RCU_IS_OFF),
    ("intel_idle_ibrs", RCU_IS_OFF),
    ("intel_idle_s2idle", RCU_IS_OFF),
    ("intel_idle_xstate", RCU_IS_OFF),
    ("mwait_idle", RCU_IS_OFF),
    ("poll_idle", RCU_IS_OFF),
];

/// Why nothing is woven at a function of the kernel's image; none if something can be.
pub(crate) fn why(function: &str) -> Option<&'static str> {
    UNHOOKABLE.iter().find(|(name, _)| *name == function).map(|(_, reason)| *reason)
}
