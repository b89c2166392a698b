/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The flow table: which flow a key carries; a key is an address, or xw_thread(). Part of xweave.h.
 *
 * A table of our own, on an array map: the kernel's hash maps take several times as long, mostly for
 * a lock, a free list and calls that are not inlined, as an array's lookup is
 * (`make bench BENCH=flow-table`). Open addressing, and no locks.
 *
 * A bucket's keys are one cache line: what is not followed, which is nearly everything, costs one. A
 * key that finds its bucket full goes into one of the next, and the bucket notes for ever that it was
 * passed; no other bucket need be looked at beyond one that was not.
 *
 * Who changes a slot takes it first, by exchanging its key for XW_TAKEN, in which one succeeds; then
 * writes the ID, and then the key. Who reads looks at the key once more after the ID: so no ID is
 * ever seen with another's key. Nobody waits, not even an interrupt that came in between: a lookup
 * does not find what is being written, a registration takes another slot. If two CPUs register one
 * key at once, both may get a slot: lookups find the first of them, and xw_take empties both.
 * Loads and stores keep their order here because x86 keeps that of loads, and that of stores.
 */
#ifndef XW_FLOW_H
#define XW_FLOW_H

#include "lost.h"

#define XW_WAYS 7
#define XW_REACH 4

struct xw_bucket {
	u64 keys[XW_WAYS]; /* 0: empty */
	u64 passed;
	u64 ids[XW_WAYS];
	u64 unused; /* so that the next begins with a cache line */
};

/* The ID that each CPU gave last. Before the first, the agent puts there what all of them have. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} xw_last_flow SEC(".maps");

/* Local flow IDs: domain (8 bits), CPU (12), a counter of that CPU (44). Never 0. */
static __always_inline u64 xw_new_flow(void)
{
	u32 zero = 0;
	u64 *last = bpf_map_lookup_elem(&xw_last_flow, &zero);

	return last ? __sync_fetch_and_add(last, 1) + 1 : 0;
}

/* The bucket that a key belongs in, or the nth after it. */
static __always_inline volatile struct xw_bucket *xw_bucket(void *table, u64 key, u32 nth)
{
	u32 at = 0;
	struct xw_config *config = bpf_map_lookup_elem(&xw_config, &at);

	if (!config)
		return NULL;
	at = (xw_hash(key) + nth) & config->last_bucket;
	return bpf_map_lookup_elem(table, &at);
}

#define XW_EACH_SLOT(i) _Pragma("unroll") for (u32 i = 0; i < XW_WAYS; i++)

static __always_inline bool xw_swap_key(volatile struct xw_bucket *bucket, u32 slot, u64 old, u64 new)
{
	return __sync_val_compare_and_swap(&bucket->keys[slot], old, new) == old;
}

/* Puts a flow into a slot, if that has this key still. */
static __always_inline bool xw_write(volatile struct xw_bucket *bucket, u32 slot, u64 old, u64 key, u64 id)
{
	if (!xw_swap_key(bucket, slot, old, XW_TAKEN))
		return false;
	bucket->ids[slot] = id;
	bucket->keys[slot] = key;
	return true;
}

/* 0: none. */
static __always_inline u64 xw_find(void *table, u64 key)
{
	if (!xw_is_key(key))
		return 0;
	for (u32 nth = 0; nth < XW_REACH; nth++) {
		volatile struct xw_bucket *bucket = xw_bucket(table, key, nth);

		if (!bucket)
			return 0;
		XW_EACH_SLOT(i)
		{
			if (bucket->keys[i] == key) {
				u64 id = bucket->ids[i];

				return bucket->keys[i] == key ? id : 0;
			}
		}
		if (!bucket->passed)
			return 0;
	}
	return 0;
}

static __always_inline bool xw_put(void *table, u64 key, u64 id, u32 place)
{
	if (!xw_is_key(key))
		return false;
	for (u32 nth = 0; nth < XW_REACH; nth++) {
		volatile struct xw_bucket *bucket = xw_bucket(table, key, nth);

		if (!bucket)
			return false;
		XW_EACH_SLOT(i)
		{
			if (bucket->keys[i] == key && (bucket->ids[i] == id || xw_write(bucket, i, key, key, id)))
				return true;
		}
		if (!bucket->passed)
			break;
	}
	/* What the compiler would carry over from the first search the verifier would go through again. */
	asm volatile("" : "+r"(key), "+r"(id));
	for (u32 nth = 0; nth < XW_REACH; nth++) {
		volatile struct xw_bucket *bucket = xw_bucket(table, key, nth);

		if (!bucket)
			return false;
		XW_EACH_SLOT(i)
		{
			if (!bucket->keys[i] && xw_write(bucket, i, 0, key, id))
				return true;
		}
		bucket->passed = 1;
	}
	xw_lost_flow(place);
	return false;
}

static __always_inline void xw_take(void *table, u64 key)
{
	if (!xw_is_key(key))
		return;
	for (u32 nth = 0; nth < XW_REACH; nth++) {
		volatile struct xw_bucket *bucket = xw_bucket(table, key, nth);

		if (!bucket)
			return;
		XW_EACH_SLOT(i)
		{
			if (bucket->keys[i] == key)
				xw_swap_key(bucket, i, key, 0);
		}
		if (!bucket->passed)
			return;
	}
}

/*
 * One table a flow: key → local flow ID. Memory that could be mapped begins with a page.
 *
 * What changes it are functions that other files could call: such the verifier goes through once for
 * each program, and not wherever they are called. To look something up, which is done far more often,
 * costs less than such a call.
 */
#define XW_FLOW(name)                                                                              \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__uint(max_entries, 1);                                                            \
		__type(key, u32);                                                                  \
		__type(value, struct xw_bucket);                                                   \
	} xw_flow_##name SEC(".maps");                                                             \
	__noinline int xw_put_##name(u64 key, u64 id, u32 place)                                   \
	{                                                                                          \
		return xw_put(&xw_flow_##name, key, id, place);                                    \
	}                                                                                          \
	__noinline int xw_take_##name(u64 key)                                                     \
	{                                                                                          \
		xw_take(&xw_flow_##name, key);                                                     \
		return 0;                                                                          \
	}                                                                                          \
	_Static_assert(XW_WAYS < XW_TAKEN, "so that a semicolon may follow")

/* The flow of a key, 0 if it has none; gives a key a flow, and says whether there was room; takes it away. */
#define XW_FLOW_OF(name, key) xw_find(&xw_flow_##name, xw_number((u64)(key)))
#define XW_FLOW_PUT(name, key, id, place) xw_put_##name(xw_number((u64)(key)), id, place)
#define XW_FLOW_TAKE(name, key) xw_take_##name(xw_number((u64)(key)))

#endif
