/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is lost, counted: records for which a ring had no room, by their sites and their flows; flows for which the
 * table had none. Part of xweave.h.
 */
#ifndef XW_LOST_H
#define XW_LOST_H

#include "state.h"
#include "table.h"

/* How many records a flow has lost. */
struct xw_lossy_flow {
	u64 flow; /* local flow ID; 0: none */
	u64 records;
};

#define XW_LOSSY_FLOWS 16384

/* A flow is in one of the XW_TABLE_REACH slots from that of its hash on, and stays there. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XW_LOSSY_FLOWS);
	__type(key, u32);
	__type(value, struct xw_lossy_flow);
} xw_lossy_flows SEC(".maps");

/* Notes that a flow lost a record. Gives whether there was room to. */
static __noinline bool xw_note_lossy(u64 flow)
{
	for (u32 nth = 0; nth < XW_TABLE_REACH; nth++) {
		u32 at = (xw_hash(flow) + nth) % XW_LOSSY_FLOWS;
		struct xw_lossy_flow *lossy = bpf_map_lookup_elem(&xw_lossy_flows, &at);
		u64 found;

		if (!lossy)
			return false;
		found = *(volatile u64 *)&lossy->flow;
		if (!found)
			found = __sync_val_compare_and_swap(&lossy->flow, 0, flow);
		if (!found || found == flow) {
			xw_count(&lossy->records);
			return true;
		}
	}
	return false;
}

static __noinline void xw_lost_record(u32 place, u64 flow)
{
	struct xw_tally *tally = bpf_map_lookup_elem(&xw_tallies, &place);

	if (!tally)
		return;
	xw_count(&tally->dropped);
	if (flow && !xw_note_lossy(flow))
		xw_count(&tally->unattributed);
}

static __noinline void xw_lost_flow(u32 place)
{
	struct xw_tally *tally = bpf_map_lookup_elem(&xw_tallies, &place);

	if (tally)
		xw_count(&tally->table_full);
}

static __noinline void xw_overwritten(u32 place)
{
	struct xw_tally *tally = bpf_map_lookup_elem(&xw_tallies, &place);

	if (tally)
		xw_count(&tally->overwritten);
}

#endif
