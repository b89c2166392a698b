/* SPDX-License-Identifier: GPL-2.0-only */
/* The prelude's guard, tables and counters, step by step; see guard.rs. */
#include "types.h"
#include "xweave.h"

/* A cookie as the agent makes them: the place 3, the site 7. */
#define COOKIE(place) ((u64)(place) << 32 | 7)
#define SPARE (1ULL << 63)

/* How often a body was run. */
u64 ran;

static __always_inline int leaves_early_body(u64 *ctx, XW_RUNS)
{
	ran++;
	if (ctx[0])
		return 0;
	ran += 100;
	return 0;
}

/* As weaving writes programs: what the user's code returns from is a function of its own. */
SEC("raw_tp") int leaves_early(u64 *ctx)
{
	XW_RUN(COOKIE(0), , leaves_early_body(ctx, XW_RUNS_NOW));
}

/* What a helper of the program in between would reach: programs, and spares of programs. */
static __noinline int inner_main(u64 *ctx)
{
	XW_RUN(COOKIE(1), ran += 10, ran++);
}

static __noinline int inner_spare(u64 *ctx)
{
	XW_RUN(COOKIE(1) | SPARE, ran += 10, ran++);
}

SEC("raw_tp") int nested(u64 *ctx)
{
	XW_RUN(COOKIE(0), , inner_main(ctx); inner_spare(ctx); ran += 100);
}

static __always_inline int reads_body(u64 *ctx, XW_RUNS)
{
	{
		XW_CLAUSE(0);
		ran += READ(*(u64 *)ctx[0]);
	}
	{
		XW_CLAUSE(1);
		ran += READ(*(u64 *)ctx[0]) + READ_USER(*(u64 *)ctx[0]);
	}
	return 0;
}

SEC("raw_tp") int reads(u64 *ctx)
{
	XW_RUN(COOKIE(2), , reads_body(ctx, XW_RUNS_NOW));
}

SEC("raw_tp") int lose(u64 *ctx)
{
	xw_lost_record(0, ctx[0]);
	return 0;
}

XW_TABLE(pairs, 2, 64);

SEC("raw_tp") int put(u64 *ctx)
{
	const u64 words[] = { ctx[1], ~ctx[1] };

	return pairs_put(ctx[0], words);
}

/* Gives the first word; -1 if the second does not belong to it. */
SEC("raw_tp") int get(u64 *ctx)
{
	u64 words[2];

	if (!pairs_get(ctx[0], words))
		return 0;
	return words[1] == ~words[0] ? words[0] : -1;
}

SEC("raw_tp") int drop(u64 *ctx)
{
	pairs_drop(ctx[0]);
	return 0;
}

#define STEPS 50000

struct churn {
	u64 random;
	u64 wrong;
};

static long churn_step(u32 nth, struct churn *churn)
{
	u64 key, words[2];

	churn->random = churn->random * 6364136223846793005ULL + 1442695040888963407ULL;
	key = 1 + (churn->random >> 40) % 16;
	switch (churn->random >> 62) {
	case 0:
		pairs_drop(key);
		break;
	case 1:
		words[0] = key << 32 | nth;
		words[1] = ~words[0];
		pairs_put(key, words);
		break;
	default:
		if (pairs_get(key, words))
			churn->wrong += words[1] != ~words[0] || words[0] >> 32 != key;
	}
	return 0;
}

/* What every CPU may do at any time, to the same few keys. Gives how often words were another's. */
SEC("raw_tp") int churn(u64 *ctx)
{
	struct churn churn = { .random = ctx[0] };

	bpf_loop(STEPS, churn_step, &churn, 0);
	return churn.wrong;
}
