/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest's side of the table in which IDs go along with buffers (carriers/shared.h): it is the guest's own.
 */
#ifndef XW_CARRIER_OFFERED_H
#define XW_CARRIER_OFFERED_H

#include "carriers/shared.h"

/* The agent maps it, and writes the secret into the first slot. Memory that could be mapped begins with a page. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, XW_SHARED_PAGES *XW_SLOTS_A_PAGE);
	__type(key, u32);
	__type(value, struct xw_shared_slot);
} xw_shared_flows SEC(".maps");

static __always_inline volatile struct xw_shared_slot *xw_offered_slot(const struct xw_key *key, u64 xflow)
{
	u32 at = XW_SLOTS_A_PAGE + xw_shared_place(key, xflow);

	return bpf_map_lookup_elem(&xw_shared_flows, &at);
}

/* Before the device can see the buffer: which flow it carries. x86 keeps the order of stores. */
static __always_inline void xw_offer(const struct xw_key *key, u64 xflow, u64 flow)
{
	volatile struct xw_shared_slot *slot = xw_offered_slot(key, xflow);

	if (!slot)
		return;
	slot->flow = flow;
	slot->check = xw_shared_check(key, xflow, flow);
}

/* The same of data that is known by where it is, in so many parts; */
static __always_inline void xw_offer_parts(const struct xw_key *key, u64 xflow, u64 flow, u16 parts)
{
	struct xw_key with_parts = { .ring = key->ring, .index = parts };
	volatile struct xw_shared_slot *slot = xw_offered_slot(key, xflow);

	if (!slot)
		return;
	slot->flow = flow;
	slot->check = xw_shared_check(&with_parts, xflow, flow);
}

/* and where that is the guest's own again. */
static __always_inline void xw_retract(const struct xw_key *key, u64 xflow)
{
	volatile struct xw_shared_slot *slot = xw_offered_slot(key, xflow);

	if (slot && xw_shared_parts(key, xflow, slot->flow, slot->check) >> 16 == 0)
		slot->check = 0;
}

#endif
