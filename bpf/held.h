/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keeping the CPU while a program runs. Part of xweave.h and of events/event.h.
 *
 * Where kernels are preemptible, which all for x86 are since 7.0, another task may take the CPU in the middle of a
 * program and keep it for milliseconds. The kernel leaves the same program out on that CPU meanwhile, in whichever task:
 * with all that preempt each other on a busy CPU, the spare as well. So preemption is off from a program's first steps to
 * its last.
 *
 * Who turns it on again is preempted there and then, if that is due, and the program would still count as running. So
 * that is done with interrupts off, when the kernel does not preempt; it does so at its next opportunity, which is when
 * it has left the program.
 *
 * Since 6.15: before, the verifier took no calls of global functions meanwhile (check_func_call, kernel/bpf/verifier.c).
 */
#ifndef XW_HELD_H
#define XW_HELD_H

/* libbpf compares what a function takes: a structure that is only declared is no structure. */
struct bpf_res_spin_lock___xweave {
	u32 val;
};

/* kernel/bpf/helpers.c, kernel/bpf/rqspinlock.c; the last only to know a kernel by. */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;
extern void bpf_local_irq_save(unsigned long *flags) __ksym __weak;
extern void bpf_local_irq_restore(unsigned long *flags) __ksym __weak;
extern int bpf_res_spin_lock(struct bpf_res_spin_lock___xweave *lock) __ksym __weak;

static __always_inline void xw_hold_cpu(void)
{
	if (bpf_ksym_exists(bpf_res_spin_lock))
		bpf_preempt_disable();
}

static __always_inline void xw_release_cpu(void)
{
	unsigned long flags;

	if (bpf_ksym_exists(bpf_res_spin_lock)) {
		bpf_local_irq_save(&flags);
		bpf_preempt_enable();
		bpf_local_irq_restore(&flags);
	}
}

#endif
