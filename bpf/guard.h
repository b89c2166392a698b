/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guard: of one recording's programs at most one runs in a context at a time. Part of xweave.h.
 *
 * A context is a task, or a CPU's softirq, hard interrupt or NMI. A program that is reached in the
 * context of another was reached from within it: from a helper that it called. That helper may hold a lock of
 * the kernel's, as bpf_ringbuf_reserve does when it passes through _raw_spin_unlock_irqrestore, and the second
 * program would wait for it for ever. The kernel itself leaves out only the very same program, and then the
 * spare would run. So whoever finds its own context in the guard returns at once, and is counted as missed.
 *
 * An interrupt on top of a program, and a task that preempted another in the middle of one, are other
 * contexts: their programs run. What they can meet of the program below is a lock only if it does not hold off
 * interrupts; the one lock that advice takes, its CPU's ring's, does (rings.h), and in NMIs the kernel tries
 * for it and gives up (__bpf_ringbuf_reserve, kernel/bpf/ringbuf.c: in_nmi() up to 6.14; since 6.15 the lock
 * itself finds that its CPU holds it). The tables of advice have no locks (flow.h, table.h).
 *
 * So a CPU's stacks hold four programs of a recording at most: one in a task (and each task has a stack of its
 * own), a softirq, a hard interrupt and an NMI, which includes the handlers of breakpoints: the kernel
 * counts those as NMIs (exc_int3, arch/x86/kernel/traps.c).
 *
 * Where the level cannot be told it is too low, never too high: before an interrupt's entry has counted itself
 * (__irq_enter_raw, kernel/softirq.c), after its exit has, and all of it on a kernel whose preemption count
 * cannot be found. What runs then has the key of the task below: it is missed if that runs a program.
 */
#ifndef XW_GUARD_H
#define XW_GUARD_H

#include "percpu.h"
#include "state.h"

/* Which of this CPU's contexts this is. Never 0; a task's is odd and no small number. */
static __always_inline u64 xw_context(void)
{
	u32 level = xw_level();

	return level ? level : bpf_get_current_task() | 1;
}

/*
 * The contexts in which programs run: three levels, the task, and tasks that were preempted in the middle of a
 * program (they come back to this CPU, for the kernel does not move them meanwhile). Who finds no slot is
 * counted as missed.
 */
#define XW_CONTEXTS 8

struct xw_guard {
	u64 contexts[XW_CONTEXTS]; /* 0: free */
	u32 places[XW_CONTEXTS];   /* of the clauses that run there */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct xw_guard);
} xw_guard SEC(".maps");

static __always_inline struct xw_guard *xw_guard_here(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&xw_guard, &zero);
}

/*
 * Takes a slot for this context. Gives its number; below 0 if a program runs in this context, or no slot is free.
 *
 * What it calls (two helpers, and the lookup of the guard on kernels before 6.10) runs before the guard is
 * taken, so these functions are not woven at: crates/weave/src/unhookable.rs.
 *
 * A function that other files could call, so that its result is any number to the verifier, which would go
 * through all that comes after once for each slot.
 */
__noinline int xw_guard_take(struct xw_guard *guard)
{
	volatile u64 *contexts;
	u64 context;

	if (!guard)
		return -1;
	contexts = guard->contexts;
	context = xw_context();
	for (int i = 0; i < XW_CONTEXTS; i++) {
		if (contexts[i] == context)
			return -1;
	}
	/* Atomically: an interrupt takes a slot and frees it, a task that preempts this one may keep it for a while. */
	for (int i = 0; i < XW_CONTEXTS; i++) {
		if (!contexts[i] && !__sync_val_compare_and_swap(&guard->contexts[i], 0, context))
			return i;
	}
	return -1;
}

static __always_inline void xw_guard_free(struct xw_guard *guard, u32 slot)
{
	*(volatile u64 *)&guard->contexts[slot % XW_CONTEXTS] = 0;
}

/* The clause that runs from now on. */
static __always_inline void xw_guard_set_place(struct xw_guard *guard, u32 slot, u32 place)
{
	*(volatile u32 *)&guard->places[slot % XW_CONTEXTS] = place;
}

/* A program that was reached from within another. */
static __noinline void xw_nested(u32 place)
{
	struct xw_tally *tally = bpf_map_lookup_elem(&xw_tallies, &place);

	if (tally)
		xw_count(&tally->nested);
}

/* A read met memory that is not there: counted for the clause that runs in this context, whatever function of
 * the carriers' it was in. */
__noinline int xw_fault(void)
{
	struct xw_guard *guard = xw_guard_here();
	u64 context = xw_context();

	if (!guard)
		return 0;
	for (int i = 0; i < XW_CONTEXTS; i++) {
		if (*(volatile u64 *)&guard->contexts[i] == context) {
			u32 place = *(volatile u32 *)&guard->places[i];
			struct xw_tally *tally = bpf_map_lookup_elem(&xw_tallies, &place);

			if (tally)
				xw_count(&tally->faults);
			return 0;
		}
	}
	return 0;
}

#endif
