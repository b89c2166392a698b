/* SPDX-License-Identifier: GPL-2.0-only */
/* The prelude's flow table, operation by operation; see flow_table.rs. */
#include "types.h"
#include "xweave.h"

XW_FLOW(test);

SEC("raw_tp") int register_flow(u64 *ctx)
{
	return XW_FLOW_PUT(test, ctx[0], ctx[1], 0);
}

SEC("raw_tp") int lookup(u64 *ctx)
{
	return XW_FLOW_OF(test, ctx[0]);
}

SEC("raw_tp") int remove_flow(u64 *ctx)
{
	XW_FLOW_TAKE(test, ctx[0]);
	return 0;
}

/* What clauses do at a start, and where memory is given out; gives what the key carries then. */
SEC("raw_tp") int start_flow(u64 *ctx)
{
	u32 zero = 0, xw_place = 0, xw_site = 1;
	u64 xw_flow = 0;
	struct xw_config *xw_config_now = bpf_map_lookup_elem(&xw_config, &zero);

	if (!xw_config_now)
		return 0;
	flow_start(test, ctx[0]);
	return XW_FLOW_OF(test, ctx[0]);
}

SEC("raw_tp") int fresh(u64 *ctx)
{
	u32 xw_place = 0;

	flow_fresh(test, ctx[0]);
	return XW_FLOW_OF(test, ctx[0]);
}

SEC("raw_tp") int drop_flow(u64 *ctx)
{
	u32 xw_place = 0, xw_site = 1;
	u64 xw_flow = 0;

	flow_drop(test, ctx[0], 3, 0xabc);
	return xw_flow;
}

/* Loaded and never run: keys are pointers that the verifier knows. */
SEC("tp_btf/sched_switch") int typed(u64 *ctx)
{
	if (!XW_FLOW_OF(test, ctx[1]))
		XW_FLOW_PUT(test, ctx[2], 1, 0);
	XW_FLOW_TAKE(test, ctx[1]);
	return 0;
}

#define KEYS 64
#define STEPS 100000

struct churn {
	u64 random;
	u64 wrong;
};

static long churn_step(u32 nth, struct churn *churn)
{
	u64 key, id;

	churn->random = churn->random * 6364136223846793005ULL + 1442695040888963407ULL;
	key = 1 + (churn->random >> 40) % KEYS;
	switch (churn->random >> 62) {
	case 0:
		XW_FLOW_TAKE(test, key);
		break;
	case 1:
		XW_FLOW_PUT(test, key, key << 32 | nth, 0);
		break;
	default:
		id = XW_FLOW_OF(test, key);
		churn->wrong += id && id >> 32 != key;
	}
	return 0;
}

/* What every CPU may do at any time, to the same few keys. Gives how often an ID was another key's. */
SEC("raw_tp") int churn(u64 *ctx)
{
	struct churn churn = { .random = ctx[0] };

	bpf_loop(STEPS, churn_step, &churn, 0);
	return churn.wrong;
}
