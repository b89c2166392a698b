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

/* The flow of a key in this bucket; 0: none. */
static __always_inline u64 xw_find_in(volatile struct xw_bucket *bucket, u64 key)
{
	XW_EACH_SLOT(i)
	{
		if (bucket->keys[i] == key) {
			u64 id = bucket->ids[i];

			return bucket->keys[i] == key ? id : 0;
		}
	}
	return 0;
}

/* What was done in one bucket of a key's, and whether one of the next may have it. */
#define XW_DONE 1
#define XW_PASSED 2

/* Writes into a slot that has `old`: that key itself, or 0 for an empty slot. A full bucket is passed from now on. */
static __always_inline u32 xw_write_in(volatile struct xw_bucket *bucket, u64 old, u64 key, u64 id)
{
	if (!bucket)
		return 0;
	XW_EACH_SLOT(i)
	{
		if (bucket->keys[i] == old && ((old && bucket->ids[i] == id) || xw_write(bucket, i, old, key, id)))
			return XW_DONE;
	}
	if (!old)
		bucket->passed = 1;
	return bucket->passed ? XW_PASSED : 0;
}

static __always_inline u32 xw_take_in(volatile struct xw_bucket *bucket, u64 key)
{
	if (!bucket)
		return 0;
	XW_EACH_SLOT(i)
	{
		if (bucket->keys[i] == key)
			xw_swap_key(bucket, i, key, 0);
	}
	return bucket->passed ? XW_PASSED : 0;
}

/*
 * One table a flow: key → local flow ID. Memory that could be mapped begins with a page.
 *
 * What changes it are functions that other files could call: such the verifier goes through once for
 * each program, and not wherever they are called. Looking something up, which is done far more often, costs less
 * than such a call: it is one only beyond the first bucket.
 */
#define XW_FLOW(name)                                                                              \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__uint(max_entries, 1);                                                            \
		__type(key, u32);                                                                  \
		__type(value, struct xw_bucket);                                                   \
	} xw_flow_##name SEC(".maps");                                                             \
	__noinline u64 xw_find_further_##name(u64 key)                                             \
	{                                                                                          \
		u64 id = 0;                                                                        \
                                                                                                   \
		for (u32 nth = 1; nth < XW_REACH; nth++) {                                         \
			volatile struct xw_bucket *bucket = xw_bucket(&xw_flow_##name, key, nth);  \
                                                                                                   \
			id = bucket ? xw_find_in(bucket, key) : 0;                                 \
			if (id || !bucket || !bucket->passed)                                      \
				break;                                                             \
		}                                                                                  \
		return id;                                                                         \
	}                                                                                          \
	static __always_inline u64 xw_find_##name(u64 key)                                         \
	{                                                                                          \
		volatile struct xw_bucket *bucket;                                                 \
		u64 id;                                                                            \
                                                                                                   \
		if (!xw_is_key(key))                                                               \
			return 0;                                                                  \
		bucket = xw_bucket(&xw_flow_##name, key, 0);                                       \
		if (!bucket)                                                                       \
			return 0;                                                                  \
		id = xw_find_in(bucket, key);                                                      \
		return id || !bucket->passed ? id : xw_find_further_##name(key);                   \
	}                                                                                          \
	__noinline u32 xw_write_##name(u64 key, u64 id, u32 nth, u64 old)                          \
	{                                                                                          \
		return xw_write_in(xw_bucket(&xw_flow_##name, key, nth), old, key, id);            \
	}                                                                                          \
	__noinline int xw_put_##name(u64 key, u64 id, u32 place)                                   \
	{                                                                                          \
		u32 done = XW_PASSED;                                                              \
                                                                                                   \
		if (!xw_is_key(key))                                                               \
			return false;                                                              \
		for (u32 nth = 0; nth < XW_REACH && done == XW_PASSED; nth++)                      \
			done = xw_write_##name(key, id, nth, key);                                 \
		if (done == XW_DONE)                                                               \
			return true;                                                               \
		for (u32 nth = 0; nth < XW_REACH; nth++) {                                         \
			if (xw_write_##name(key, id, nth, 0) == XW_DONE)                           \
				return true;                                                       \
		}                                                                                  \
		xw_lost_flow(place);                                                               \
		return false;                                                                      \
	}                                                                                          \
	__noinline u32 xw_take_in_##name(u64 key, u32 nth)                                         \
	{                                                                                          \
		return xw_take_in(xw_bucket(&xw_flow_##name, key, nth), key);                      \
	}                                                                                          \
	__noinline int xw_take_##name(u64 key)                                                     \
	{                                                                                          \
		if (!xw_is_key(key))                                                               \
			return 0;                                                                  \
		for (u32 nth = 0; nth < XW_REACH; nth++) {                                         \
			if (xw_take_in_##name(key, nth) != XW_PASSED)                              \
				break;                                                             \
		}                                                                                  \
		return 0;                                                                          \
	}                                                                                          \
	XW_FLOW_ACTIONS(name)

/* The flow of a key, 0 if it has none; gives a key a flow, and says whether there was room; takes it away. */
#define XW_FLOW_OF(name, key) xw_find_##name(xw_number((u64)(key)))
#define XW_FLOW_PUT(name, key, id, place) xw_put_##name(xw_number((u64)(key)), id, place)
#define XW_FLOW_TAKE(name, key) xw_take_##name(xw_number((u64)(key)))

#endif
