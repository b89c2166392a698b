//! Lives of processes and threads, by program.

use xweave_document::lives::Lives;

/// Builds the row of a program.
pub fn build(of: &xweave_model::lives::Lives) -> Lives {
    let spent = of.spent;
    Lives {
        domain: of.domain.clone(),
        program: of.program.clone(),
        lives: of.lives,
        span_ns: of.span_ns,
        elapsed_ns: of.elapsed_ns,
        min_ns: of.min_ns,
        max_ns: of.max_ns,
        on_cpu_ns: spent.on_cpu_ns,
        ready_ns: spent.ready_ns,
        disk_ns: spent.disk_ns,
        network_ns: spent.network_ns,
        lock_ns: spent.lock_ns,
        others_ns: spent.others_ns,
        host_ns: spent.host_ns,
        waiting_ns: spent.waiting_ns,
        unknown_ns: spent.unknown_ns,
        user_ns: of.user_ns,
        system_ns: of.system_ns,
    }
}
