/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Contexts as the kernel's preemption count tells them (include/linux/preempt.h). Part of xweave.h and of
 * events/event.h.
 */
#ifndef XW_LEVEL_H
#define XW_LEVEL_H

/* kernel/softirq.c; a symbol of data, to know by that spinlocks count how often interrupts were disabled. */
extern const void local_interrupt_disable_state __ksym __weak;

/*
 * 0: a task; 1: a softirq; 2: a hard interrupt; 3: an NMI, or the handler of a breakpoint. The latter run on top of the
 * former, with the same current task.
 *
 * Serving a softirq is bit 8 of the count. Hard interrupts are bits 16–19 and NMIs 20–23 before 7.3; since then, bits
 * 16–23 are how often interrupts were disabled, hard interrupts 24–27 and NMIs 28–31.
 */
static __always_inline u32 xw_level_of(u32 count)
{
	u32 interrupts = &local_interrupt_disable_state ? count >> 24 : count >> 16;

	return interrupts & 0xf0 ? 3 : interrupts & 0xf ? 2 : count & 0x100 ? 1 : 0;
}

#endif
