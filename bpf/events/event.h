/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Built-in probes: what happens in a kernel, in the normal form of crates/wire/src/event.rs.
 *
 * Before this file come types.h, the kernel's types (pruned to the members that the probes name),
 * and a XW_HAS_name for each program that the kernel has a place for and the user asked for:
 * crates/weave/src/events.rs. After it come the groups, a file each. A program is one place's, so it
 * needs no cookie.
 *
 * Each is on the way of everything that the kernel does, so it does little: no table is looked up
 * but that of the rings, nothing is told twice, and nobody is woken.
 */
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char _license[] SEC("license") = "GPL";

/* Kind of crates/wire/src/event.rs. */
enum xw_kind {
	XW_SWITCH,
	XW_WAKE,
	XW_FORK,
	XW_THREAD,
	XW_EXIT,
	XW_DISK_QUEUE,
	XW_DISK_ISSUE,
	XW_DISK_MERGE,
	XW_DISK_COMPLETE,
	XW_SEND,
	XW_RECEIVE,
	XW_SOCKET,
	XW_ACCEPT,
	XW_RETRANSMIT,
	XW_SYN_DROP,
	XW_IRQ_ENTER,
	XW_IRQ_EXIT,
	XW_SOFTIRQ_ENTER,
	XW_SOFTIRQ_EXIT,
	XW_LOCK_WAIT,
	XW_LOCK_ACQUIRED,
	XW_LOCK_WAKE,
	XW_SYSCALL_ENTER,
	XW_SYSCALL_EXIT,
	XW_VM_ENTER,
	XW_VM_EXIT,
	XW_VM_HALT,
	XW_VM_INJECT,
	XW_MIGRATE,
	XW_KINDS
};

/* The kind's fields are the words. */
struct xw_event {
	u64 time_ns;
	u32 tid;
	u16 cpu;
	u8 kind;
	s8 code;
	u64 words[];
};

#include "percpu.h"
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

/* By kind: events for which a ring had no room. */
u64 xw_dropped[XW_KINDS];

#define XW_TID ((u32)bpf_get_current_pid_tgid())

/* The time is read when the event has its place: so the order of a ring is that of times, but for
 * an interrupt in between. */
static __always_inline struct xw_event *xw_reserve(enum xw_kind kind, u64 size, u32 tid, s8 code)
{
	struct xw_event *event = xw_ring_reserve(size);

	if (!event) {
		__sync_fetch_and_add(&xw_dropped[kind], 1);
		return NULL;
	}
	event->time_ns = bpf_ktime_get_ns();
	event->tid = tid;
	event->cpu = bpf_get_smp_processor_id();
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

/* Context of crates/wire/src/event.rs; 0 if it cannot be found. */
static __always_inline s8 xw_context(void)
{
	return xw_preempt_count() < 0 ? 0 : 1 + xw_level();
}

/* Two fields of four bytes. */
#define XW_PAIR(low, high) ((u64)(u32)(low) | (u64)(u32)(high) << 32)

/* A program of that name. */
#define XW_PROGRAM(type, name)                                                                     \
	static __always_inline void name##_body(u64 *ctx);                                         \
	SEC(type) int name(u64 *ctx)                                                               \
	{                                                                                          \
		if (xw_wanted())                                                                   \
			name##_body(ctx);                                                          \
		return 0;                                                                          \
	}                                                                                          \
	static __always_inline void name##_body(u64 *ctx)
