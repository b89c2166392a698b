/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A ring buffer for each CPU, made by the agent. Part of xweave.h and of events/event.h.
 *
 * The kernel fills a ring under a lock (kernel/bpf/ringbuf.c). One ring for all CPUs would have them wait for
 * each other; and with two recordings, of which each is woven at functions that the other's lock passes
 * through, two CPUs could each hold one lock and wait for the other for ever. A CPU's own ring is locked on
 * that CPU alone.
 */
#ifndef XW_RINGS_H
#define XW_RINGS_H

struct xw_cpu_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/* By CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct xw_cpu_ring);
} xw_rings SEC(".maps");

/* Room for so many bytes, a number that the compiler knows; NULL if there is none. */
static __always_inline void *xw_ring_reserve(u64 size)
{
	u32 cpu = bpf_get_smp_processor_id();
	void *ring = bpf_map_lookup_elem(&xw_rings, &cpu);

	return ring ? bpf_ringbuf_reserve(ring, size, 0) : NULL;
}

/* No wake-up: the agent looks every few milliseconds, and a wake-up would run in the middle of what is being
 * measured. */
static __always_inline void xw_ring_submit(void *record)
{
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

#endif
