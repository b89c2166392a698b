/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's own per-CPU data. Part of xweave.h.
 *
 * The kernel finds such data by its symbol, which it has if it was built with CONFIG_KALLSYMS_ALL, as those of
 * distributions are. XW_WITHOUT_SYMBOLS is for tests, which run where they must: everything is a task there,
 * and no spare ever stands in.
 */
#ifndef XW_PERCPU_H
#define XW_PERCPU_H

#ifdef XW_WITHOUT_SYMBOLS

static __always_inline u32 xw_level(void)
{
	return 0;
}

static __always_inline u64 xw_cpu_offset(void)
{
	return 0;
}

static __always_inline u32 xw_softirqs_pending(void)
{
	return 0;
}

#else

#include "level.h"

/*
 * The preemption count has moved: __preempt_count up to 6.1 and from 6.15, a member of pcpu_hot from 6.2
 * (arch/x86/include/asm/preempt.h).
 */
struct pcpu_hot___xweave {
	int preempt_count;
	u16 softirq_pending;
} __attribute__((preserve_access_index));
extern struct pcpu_hot___xweave pcpu_hot __ksym __weak;
extern int __preempt_count __ksym __weak;

/* 0 if it cannot be found. */
static __always_inline u32 xw_preempt_count(void)
{
	if (bpf_core_field_exists(pcpu_hot.preempt_count))
		return ((struct pcpu_hot___xweave *)bpf_this_cpu_ptr(&pcpu_hot))->preempt_count;
	if (&__preempt_count)
		return *(int *)bpf_this_cpu_ptr(&__preempt_count);
	return 0;
}

/*
 * The softirqs that this CPU has been asked for, and has not begun: a bit each. A member of irq_stat up to 6.1, of pcpu_hot
 * from 6.2, and a variable of its own from 6.15 (arch/x86/include/asm/hardirq.h).
 */
typedef struct {
	u16 __softirq_pending;
} __attribute__((preserve_access_index)) irq_cpustat_t___xweave;
extern irq_cpustat_t___xweave irq_stat __ksym __weak;
extern u16 __softirq_pending __ksym __weak;

/* 0 if it cannot be found. */
static __always_inline u32 xw_softirqs_pending(void)
{
	irq_cpustat_t___xweave *stat = NULL;
	u16 pending = 0;

	if (bpf_core_field_exists(pcpu_hot.softirq_pending))
		return ((struct pcpu_hot___xweave *)bpf_this_cpu_ptr(&pcpu_hot))->softirq_pending;
	if (bpf_core_field_exists(stat->__softirq_pending)) {
		/* The verifier minds that it is a typedef. */
		stat = bpf_this_cpu_ptr(&irq_stat);
		bpf_probe_read_kernel(&pending, sizeof(pending), &stat->__softirq_pending);
		return pending;
	}
	if (&__softirq_pending)
		return *(u16 *)bpf_this_cpu_ptr(&__softirq_pending);
	return 0;
}

extern unsigned long this_cpu_off __ksym;

/* What makes an address of per-CPU data that of this CPU's. */
static __always_inline u64 xw_cpu_offset(void)
{
	return *(unsigned long *)bpf_this_cpu_ptr(&this_cpu_off);
}

/* The level of this context. */
static __always_inline u32 xw_level(void)
{
	return xw_level_of(xw_preempt_count());
}

#endif

#endif
