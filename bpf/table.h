/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tables from a key to some words, on array maps. Part of xweave.h.
 *
 * The kernel's hash maps lock their buckets. Advice can be woven at the functions that do so: a CPU that held a
 * bucket of one recording could come to wait for one of another's, held by a CPU that waits for the first. So
 * advice has tables without locks. flow.h has one that is made for being fast; these are for what is seldom
 * written.
 *
 * Who changes a slot takes it first, by exchanging its key for XW_TAKEN, in which one succeeds. Nobody waits:
 * who finds a slot taken passes it by. Readers look at the version, then at the key, copy the words, and look whether
 * both are still what they were: who sees a version and after it a key sees that the key's words are written, for
 * while they are it is taken. Loads and stores keep their order because x86 keeps that of loads, and that of stores.
 * If two CPUs put one key at once, both may get a slot: the first is found, and taking away empties both.
 */
#ifndef XW_TABLE_H
#define XW_TABLE_H

#define XW_TAKEN (~0ULL)

/* A key as a number, which it is to the verifier when negated twice: it forbids to hash a pointer. */
static __always_inline u64 xw_number(u64 key)
{
	asm volatile("%[key] = -%[key]; %[key] = -%[key]" : [key] "+r"(key));
	return key;
}

static __always_inline bool xw_is_key(u64 key)
{
	return key && key != XW_TAKEN;
}

/* Fibonacci hashing spreads what lies at regular distances, as objects do, most evenly. */
static __always_inline u32 xw_hash(u64 key)
{
	return key * 0x9e3779b97f4a7c15ULL >> 32;
}

/* How many slots, from the one that it belongs in, a key may be in. */
#define XW_TABLE_REACH 8

/*
 * A table of that name, with room for `slots` keys (a power of 2) of `count` words each, and its functions:
 * name_get copies a key's words and says whether there are any; name_put gives a key words and says whether
 * there was room; name_drop takes a key away.
 */
#define XW_TABLE(name, count, slots)                                                               \
	struct name##_slot {                                                                       \
		u64 key; /* 0: empty */                                                            \
		u64 version;                                                                       \
		u64 words[count];                                                                  \
	};                                                                                         \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, slots);                                                        \
		__type(key, u32);                                                                  \
		__type(value, struct name##_slot);                                                 \
	} name SEC(".maps");                                                                       \
	static __always_inline volatile struct name##_slot *name##_at(u64 key, u32 nth)            \
	{                                                                                          \
		u32 at = (xw_hash(key) + nth) & ((slots)-1);                                       \
                                                                                                   \
		return bpf_map_lookup_elem(&name, &at);                                            \
	}                                                                                          \
	static __always_inline bool name##_write(volatile struct name##_slot *slot, u64 old,       \
						 u64 key, const u64 *words)                        \
	{                                                                                          \
		if (__sync_val_compare_and_swap(&slot->key, old, XW_TAKEN) != old)                 \
			return false;                                                              \
		slot->version++;                                                                   \
		_Pragma("unroll") for (u32 i = 0; i < (count); i++) slot->words[i] = words[i];     \
		slot->key = key;                                                                   \
		return true;                                                                       \
	}                                                                                          \
	static __noinline bool name##_get(u64 key, u64 *words)                                     \
	{                                                                                          \
		if (!xw_is_key(key))                                                               \
			return false;                                                              \
		for (u32 nth = 0; nth < XW_TABLE_REACH; nth++) {                                   \
			volatile struct name##_slot *slot = name##_at(key, nth);                   \
			u64 version;                                                               \
                                                                                                   \
			if (!slot)                                                                 \
				return false;                                                      \
			version = slot->version;                                                   \
			if (slot->key != key)                                                      \
				continue;                                                          \
			_Pragma("unroll") for (u32 i = 0; i < (count); i++) words[i] =             \
				slot->words[i];                                                    \
			return slot->version == version && slot->key == key;                       \
		}                                                                                  \
		return false;                                                                      \
	}                                                                                          \
	static __noinline bool name##_put(u64 key, const u64 *words)                               \
	{                                                                                          \
		if (!xw_is_key(key))                                                               \
			return false;                                                              \
		for (u32 nth = 0; nth < XW_TABLE_REACH; nth++) {                                   \
			volatile struct name##_slot *slot = name##_at(key, nth);                   \
                                                                                                   \
			if (slot && slot->key == key && name##_write(slot, key, key, words))       \
				return true;                                                       \
		}                                                                                  \
		for (u32 nth = 0; nth < XW_TABLE_REACH; nth++) {                                   \
			volatile struct name##_slot *slot = name##_at(key, nth);                   \
                                                                                                   \
			if (slot && !slot->key && name##_write(slot, 0, key, words))               \
				return true;                                                       \
		}                                                                                  \
		return false;                                                                      \
	}                                                                                          \
	static __noinline void name##_drop(u64 key)                                                \
	{                                                                                          \
		if (!xw_is_key(key))                                                               \
			return;                                                                    \
		for (u32 nth = 0; nth < XW_TABLE_REACH; nth++) {                                   \
			volatile struct name##_slot *slot = name##_at(key, nth);                   \
                                                                                                   \
			if (slot && slot->key == key)                                              \
				__sync_val_compare_and_swap(&slot->key, key, 0);                   \
		}                                                                                  \
	}                                                                                          \
	_Static_assert(!((slots) & ((slots)-1)), "so that a key's slot is some of its bits")

#endif
