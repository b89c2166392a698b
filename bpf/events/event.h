/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Built-in probes: what happens in a kernel, in the normal form of crates/event, as crates/wire/src/event.rs lays it out.
 *
 * Before this file come types.h, the types that the probes need of a kernel (bpf/kernel.h), and events/kinds.h, which is made
 * from crates/event: the kinds, and what their codes mean. After it come the groups, a file each. All are compiled into one
 * object when xweave is built; those that a kernel has a place for and the user asked for are loaded:
 * crates/weave/src/events.rs. A program is one place's, so it needs no cookie.
 *
 * Each is on the way of everything that the kernel does, so it does little: no table is looked up
 * but that of the rings, nothing is told twice, and nobody is woken.
 */
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char _license[] SEC("license") = "GPL";

/* The kind's fields are the words. */
struct xw_event {
	u64 time_ns;
	u32 tid;
	u16 cpu;
	u8 kind;
	s8 code;
	u64 words[];
};

#include "held.h"
#include "forget.h"
#include "level.h"
#include "rings.h"

/* Whether events are recorded: set by the agent. */
volatile u32 xw_on SEC(".data.state") = 0;

/* If not 0, the only process whose events are recorded: for measuring beside other people's processes
 * (benches/recording). The verifier takes the question out where it is 0. */
const volatile u32 xw_only = 0;

static __always_inline bool xw_wanted(void)
{
	return xw_on && (!xw_only || bpf_get_current_pid_tgid() >> 32 == xw_only);
}

/* By kind: events for which a ring had no room. In a section of its own: the agent reads it by its place. */
u64 xw_dropped[XW_KINDS] SEC(".bss.dropped");

#define XW_TID ((u32)bpf_get_current_pid_tgid())

/* As many CPUs as a kernel for x86 can have: NR_CPUS_RANGE_END of arch/x86/Kconfig. A power of two. */
#define XW_CPUS 8192

/* As many CPUs as there is room for where something larger, or of less use, is kept of each. */
#define XW_SOME_CPUS 1024

/* What a CPU's ring had no room for since the last event that it took. */
struct xw_gap {
	u64 from; /* when the first was lost; 0: none was */
	u64 until; /* when the last was */
	u64 lost;
};

/* By CPU. What no later event told of, the agent tells at the end. */
struct xw_gap xw_gaps[XW_CPUS] SEC(".bss.gaps");

/* Interrupts come between any two of these steps, and lose and tell as well. So each number is set or taken out in
 * one step: a loss may be told with the time of another next to it, and none is told twice or not at all. */
static __always_inline void xw_lose(struct xw_gap *gap, enum xw_kind kind)
{
	__sync_fetch_and_add(&xw_dropped[kind], 1);
	__sync_val_compare_and_swap(&gap->from, 0, bpf_ktime_get_ns());
	gap->until = bpf_ktime_get_ns();
	__sync_fetch_and_add(&gap->lost, 1);
}

/* Tells of the loss before the event that comes next, as soon as there is room again. Gives whether there was. Out of
 * line: it is rare. */
static __noinline bool xw_tell_loss(u32 cpu)
{
	struct xw_gap *gap = &xw_gaps[cpu & (XW_CPUS - 1)];
	struct xw_event *event = xw_ring_reserve(sizeof(struct xw_event) + 3 * sizeof(u64));
	u64 from, until, now;

	if (!event)
		return false;
	from = __sync_lock_test_and_set(&gap->from, 0);
	if (!from) {
		bpf_ringbuf_discard(event, BPF_RB_NO_WAKEUP);
		return true;
	}
	until = gap->until;
	now = bpf_ktime_get_ns();
	event->time_ns = now;
	event->tid = XW_TID;
	event->cpu = cpu;
	event->kind = XW_LOST;
	event->code = 0;
	event->words[0] = now - until;
	event->words[1] = now - from;
	event->words[2] = __sync_lock_test_and_set(&gap->lost, 0);
	xw_ring_submit(event);
	return true;
}

/* The time is read when the event has its place: so the order of a ring is that of times, but for
 * an interrupt in between. */
static __always_inline struct xw_event *xw_reserve(enum xw_kind kind, u64 size, u32 tid, s8 code)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct xw_gap *gap = &xw_gaps[cpu & (XW_CPUS - 1)];
	struct xw_event *event;

	/* A short one that still fits would be amid what is lost. */
	event = !gap->from || xw_tell_loss(cpu) ? xw_ring_reserve(size) : NULL;
	if (!event) {
		xw_lose(gap, kind);
		return NULL;
	}
	event->time_ns = bpf_ktime_get_ns();
	event->tid = tid;
	event->cpu = cpu;
	event->kind = kind;
	event->code = code;
	return event;
}

/* An event with these words. */
#define XW_EVENT(kind, tid, code, ...)                                                             \
	({                                                                                         \
		const u64 xw_words[] = { __VA_ARGS__ };                                            \
		struct xw_event *xw_event = xw_reserve(                                            \
			kind, sizeof(struct xw_event) + sizeof(xw_words), tid, code);              \
		if (xw_event) {                                                                    \
			_Pragma("unroll") for (u32 xw_i = 0; xw_i < sizeof(xw_words) / 8; xw_i++)  \
				xw_event->words[xw_i] = xw_words[xw_i];                            \
			xw_ring_submit(xw_event);                                                  \
		}                                                                                  \
	})

/*
 * The preemption count is per-CPU data: a member of pcpu_hot from 6.2 to 6.14, else of its own. It is found by its
 * address: kernels that have no symbols of data (CONFIG_KALLSYMS_ALL) tell it of nothing, and probes that name it as
 * data of a type would be refused there.
 */
struct pcpu_hot___xweave {
	int preempt_count;
} __attribute__((preserve_access_index));
extern const void pcpu_hot __ksym __weak;
extern const void __preempt_count __ksym __weak;
extern const void __per_cpu_offset __ksym __weak;

/* enum xw_context; 0 if it cannot be found. */
static __always_inline s8 xw_context(void)
{
	struct pcpu_hot___xweave *hot = (void *)&pcpu_hot;
	const void *at = hot && bpf_core_field_exists(hot->preempt_count) ? &hot->preempt_count :
									  &__preempt_count;
	u64 here = 0;
	u32 count = 0;

	if (!at || !&__per_cpu_offset ||
	    bpf_probe_read_kernel(&here, sizeof(here),
				  &__per_cpu_offset + 8 * (u64)bpf_get_smp_processor_id()) ||
	    bpf_probe_read_kernel(&count, sizeof(count), at + here))
		return 0;
	count = xw_level_of(count);
	return count > 2 ? XW_CONTEXT_HARD : count + 1;
}

/* Nanoseconds, as far as they fit into half a word. */
static __always_inline u32 xw_short(u64 lasted)
{
	return lasted > 0x7fffffff ? 0x7fffffff : lasted;
}

/* What tells objects under way apart, of those that are 64-byte aligned: none is 0. Read so that it is a number: the
 * verifier lets nobody reckon with pointers. */
static __always_inline u32 xw_object_key(const void *object)
{
	u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), &object);
	return address >> 6;
}

/* Two fields of four bytes. */
#define XW_PAIR(low, high) ((u64)(u32)(low) | (u64)(u32)(high) << 32)

/* A program of that name. */
#define XW_PROGRAM(type, name)                                                                     \
	static __always_inline void name##_body(u64 *ctx);                                         \
	SEC(type) int name(u64 *ctx)                                                               \
	{                                                                                          \
		if (!xw_wanted())                                                                  \
			return 0;                                                                  \
		xw_hold_cpu();                                                                     \
		name##_body(ctx);                                                                  \
		xw_release_cpu();                                                                  \
		return 0;                                                                          \
	}                                                                                          \
	static __always_inline void name##_body(u64 *ctx)
