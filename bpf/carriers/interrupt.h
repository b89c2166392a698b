/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest's side of its interrupts, and the softirqs that these ask for: arch/x86/kernel/irq.c, kernel/softirq.c,
 * Linux 6.1 to 7.3.
 */
#ifndef XW_CARRIER_INTERRUPT_H
#define XW_CARRIER_INTERRUPT_H

#include "carriers/numbered.h"

/* It has become wider, not longer. */
extern u16 x86_cpu_to_apicid __ksym;

/* At the entry of __common_interrupt: the interrupt that has just come. */
static __always_inline struct xw_key interrupt_taken(u32 vector)
{
	u64 interrupt = XW_INTERRUPT(*(u16 *)bpf_this_cpu_ptr(&x86_cpu_to_apicid), vector);
	struct xw_key key = {
		.ring = interrupt,
		.index = xw_next_number(interrupt),
	};
	return key;
}

/* By CPU, from 1: the softirqs that were pending when it took its last interrupt, or that this one has asked for. */
XW_TABLE(xw_softirqs_known, 1, 4096);

/* At the entry of __common_interrupt. */
static __always_inline void softirqs_seen(void)
{
	u64 pending = xw_softirqs_pending();

	xw_softirqs_known_put(bpf_get_smp_processor_id() + 1, &pending);
}

/* In a hard interrupt: the softirqs that it has asked for, and that nobody had before; each is told once. */
static __always_inline u32 softirqs_raised(void)
{
	u64 known = 0, pending = xw_softirqs_pending();
	u32 cpu = bpf_get_smp_processor_id() + 1;

	if (!xw_softirqs_known_get(cpu, &known))
		return 0;
	xw_softirqs_known_put(cpu, &pending);
	return pending & ~known;
}

/* include/linux/interrupt.h */
#define XW_SOFTIRQS 10

/* The key of a softirq that this CPU has been asked for: neither an object's nor a thread's. */
static __always_inline u64 softirq_asked(u32 softirq)
{
	return 1ULL << 40 | (u64)bpf_get_smp_processor_id() << 4 | softirq;
}

#endif
