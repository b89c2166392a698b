/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the programs of a recording and its agent share: whether there is anything to record, and what was counted.
 * Part of xweave.h.
 */
#ifndef XW_STATE_H
#define XW_STATE_H

/* What a site counts, on each CPU. */
struct xw_tally {
	u64 dropped;	  /* records for which the buffer had no room */
	u64 table_full;	  /* flows that could not be begun or moved */
	u64 unattributed; /* dropped, and the flow could not be noted */
	u64 spare_runs;	  /* runs of the spare; this and the next: counted by a program's first site */
	u64 nested;	  /* times that the program was reached from within another, and did not run */
	u64 faults;	  /* reads of memory that is not there */
	u64 overwritten;  /* keys that something began under while they still carried a flow */
};

enum xw_state { XW_OFF, XW_ON, XW_DRAINING };

/* Set by the agent. */
struct xw_config {
	u32 state;	 /* enum xw_state */
	u32 last_bucket; /* of each flow table; their number is a power of 2 */
	u32 shares;	 /* whether a host reads what this domain's buffers carry: carriers/shared.h */
	u32 hears_all;	 /* whether all guests that are recorded tell it what their buffers carry: carriers/told.h */
	u32 emulated;	 /* whether a process of the host emulates this guest's network devices: carriers/content.h */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct xw_config);
} xw_config SEC(".maps");

/* Sizes of this and of most maps that follow are set by the agent before loading. By the site's place in the plan. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct xw_tally);
} xw_tallies SEC(".maps");

/* Counted with atomics: an interrupt may come between a load and a store, even on per-CPU data. */
static __always_inline void xw_count(u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

#endif
