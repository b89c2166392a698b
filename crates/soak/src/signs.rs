//! What a kernel says on its console and in its log when something is wrong with it.

/// Words of which one is in every such message. All are the kernel's own, as 6.1 and 6.12 write them.
const SIGNS: &[&str] = &[
    "BUG:",
    "WARNING:",
    "Oops",
    "Call Trace:",
    "soft lockup",
    "hard LOCKUP",
    "self-detected stall",
    "detected stalls",
    "detected expedited stalls",
    "starved for",
    "INFO: task",
    "workqueue lockup",
    "Kernel panic",
    "invalid opcode",
    "general protection",
    "double fault",
    "stack guard page",
    "nable to handle",
    "KASAN:",
    "UBSAN:",
    "list_add corruption",
    "list_del corruption",
    "refcount_t:",
    "scheduling while atomic",
    "Dazed and confused",
    "segfault at",
    "traps: ",
];

/// The first line that has one of them.
pub fn first(text: &str) -> Option<&str> {
    text.lines().find(|line| SIGNS.iter().any(|sign| line.contains(sign))).map(str::trim)
}

/// Those of `functions` that a text names, in the text's order: the most likely to blame.
pub fn named<'f>(text: &str, functions: &'f [String]) -> Vec<&'f String> {
    let mut named: Vec<&String> = Vec::new();
    for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))) {
        if let Some(function) = functions.iter().find(|function| *function == word)
            && !named.contains(&function)
        {
            named.push(function);
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kernels_say_when_they_are_ill_is_a_sign() {
        for line in [
            "[  12.3] BUG: kernel NULL pointer dereference, address: 0000000000000008",
            "[  12.3] WARNING: CPU: 1 PID: 95 at kernel/trace/ftrace.c:2190 ftrace_bug+0x8e/0x2a0",
            "[  12.3] Oops: 0002 [#1] PREEMPT SMP NOPTI",
            "[  12.3] watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [xweave:95]",
            "[  12.3] rcu: INFO: rcu_preempt self-detected stall on CPU",
            "[  12.3] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "[  12.3] INFO: rcu_tasks detected stalls on tasks:",
            "[  12.3] INFO: task xweave:95 blocked for more than 120 seconds.",
            "[  12.3] BUG: TASK stack guard page was hit at 0000000012345678",
            "[  12.3] BUG: unable to handle page fault for address: ffffffffffffffd8",
            "[  12.3] kernel BUG: Unable to handle kernel paging request",
            "[  12.3] invalid opcode: 0000 [#1] PREEMPT SMP NOPTI",
            "[  12.3] general protection fault, probably for non-canonical address 0xdead",
            "[  12.3] Kernel panic - not syncing: Fatal exception in interrupt",
        ] {
            let console = format!("[  1.0] tun: Universal TUN/TAP device driver, 1.6\n{line}\n");
            assert_eq!(first(&console), Some(line), "{line}");
        }
    }

    #[test]
    fn what_healthy_kernels_say_is_none() {
        let console = "[    7.7] kvm_amd: Nested Virtualization enabled\n\
            [  519.4] kprobes: kprobe jump-optimization is enabled. All kprobes are optimized if possible.\n\
            [  521.8] hrtimer: interrupt took 1234567 ns\n\
            [    0.3] rcu: Preemptible hierarchical RCU implementation.\n\
            [    0.3] rcu: RCU calculated value of scheduler-enlistment delay is 25 jiffies.\n\
            [    0.1] Spectre V2 : Mitigation: Retpolines\n";
        assert_eq!(first(console), None);
    }

    #[test]
    fn functions_that_a_text_names_are_found_in_its_order() {
        let functions: Vec<String> = ["vfs_read", "read", "_raw_spin_lock"].map(str::to_owned).into();
        let text =
            "RIP: 0010:_raw_spin_lock+0x1f/0x30\n vfs_read+0xb7/0x160\n _raw_spin_lock+0x2\n ksys_read+1";
        assert_eq!(named(text, &functions), ["_raw_spin_lock", "vfs_read"]);
    }
}
