/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The operations of the paper's table 1, as the prelude has them and as the kernel's maps have them. A
 * program makes CALLS calls and gives the nanoseconds that took; 0 where the calls did not do what
 * they are for.
 */
#include "types.h"
#include "xweave.h"

#define CALLS 2000
#define KEY(nth) (0xffff888100000000ULL + (u64)(nth) * 256)

/* What calls that did what they are for have added. The verifier would follow a variable through all calls. */
u64 count;

#define TIMED(name, done, ...)                                                                     \
	static long name##_call(u32 nth, void *unused)                                             \
	{                                                                                          \
		u64 key = KEY(nth), id = nth + 1, one = 1;                                         \
		__VA_ARGS__;                                                                       \
		return 0;                                                                          \
	}                                                                                          \
	SEC("raw_tp") int name(void *ctx)                                                          \
	{                                                                                          \
		u64 start = bpf_ktime_get_ns();                                                    \
		count = 0;                                                                         \
		bpf_loop(CALLS, name##_call, NULL, 0);                                             \
		start = bpf_ktime_get_ns() - start;                                                \
		return count == (done) ? start : 0;                                                \
	}

XW_FLOW(ours);

/* Its type is set before it is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, u64);
} kernels SEC(".maps");

/* What the other loops do besides: they take this longer than a call. */
TIMED(nothing, CALLS, count += *(volatile u64 *)&key != 0)

TIMED(new_ours, CALLS, count += xw_new_flow() != 0)
TIMED(new_kernels, CALLS, u32 zero = 0; u64 *last = bpf_map_lookup_elem(&xw_last_flow, &zero);
      if (last) count += __sync_fetch_and_add(last, 1) != ~0ULL)

TIMED(empty_ours, 0, count += XW_FLOW_OF(ours, key) != 0)
TIMED(empty_kernels, 0, count += bpf_map_lookup_elem(&kernels, &key) != NULL)

TIMED(register_ours, CALLS, count += XW_FLOW_PUT(ours, key, id, 0))
TIMED(register_kernels, CALLS, count += !bpf_map_update_elem(&kernels, &key, &id, BPF_ANY))
TIMED(lookup_ours, CALLS, count += XW_FLOW_OF(ours, key) == id)
TIMED(lookup_kernels, CALLS, count += bpf_map_lookup_elem(&kernels, &key) != NULL)
TIMED(remove_ours, 0, XW_FLOW_TAKE(ours, key))
TIMED(remove_kernels, CALLS, count += !bpf_map_delete_elem(&kernels, &key))

TIMED(register_same_ours, CALLS, count += XW_FLOW_PUT(ours, key, one, 0))
TIMED(register_same_kernels, CALLS, count += !bpf_map_update_elem(&kernels, &key, &one, BPF_ANY))
TIMED(lookup_same_ours, CALLS, count += XW_FLOW_OF(ours, key) == one)

/* What happens at a place where advice does nothing: its program begins and ends; then its spare does, which
 * need not stand in. */
#define COOKIE (1ULL << 32 | 1)
#define SPARE (1ULL << 63)

static __noinline int guarded(u64 *ctx)
{
	XW_RUN(COOKIE, , count++);
}

static __noinline int guarded_spare(u64 *ctx)
{
	XW_RUN(COOKIE | SPARE, , count--);
}

/* The same without a guard. */
static __noinline int bare(u64 cookie)
{
	u32 zero = 0, first = xw_place_of(cookie);
	struct xw_config *config = bpf_map_lookup_elem(&xw_config, &zero);

	if (!config || config->state == XW_OFF)
		return 0;
	if (cookie >> 63 && !xw_stand_in(first))
		return 0;
	count++;
	return 0;
}

TIMED(program_guarded, CALLS, guarded(&key); guarded_spare(&key))
TIMED(program_bare, CALLS, bare(COOKIE + one); bare(COOKIE | SPARE))

/*
 * What a host does with a buffer that came off a ring: it makes the key that both sides see, of what vhost has of the
 * ring and what is known of it; and it reads which flow the guest says that it carries, here in this process's memory,
 * where flow_table.rs has put it.
 */
static u64 xw_vhost_translate(u64 queue, u64 address, u32 to_qemu)
{
	return 0;
}
#include "carriers/told.h"

#define RING 0x12345000
#define SLOT_OF(nth) { .ring = RING, .index = (u16)(nth) }

XW_TABLE(known_rings, 4, 4096);

struct {
	void *desc;
	u16 last_avail_idx;
} queue = { .desc = (void *)RING };

SEC("raw_tp") int know_ring(void *ctx)
{
	const u64 ring[4] = { RING, RING, 1, 1 };

	return known_rings_put(RING, ring);
}

TIMED(keys_of_ring, CALLS, u64 ring[4]; u64 desc = (u64)READ(queue.desc);
      u16 index = READ(queue.last_avail_idx);
      count += known_rings_get(RING, ring) && ring[0] == desc && !index)
TIMED(told_by_guest, CALLS, struct xw_told_key told = { .key = SLOT_OF(nth) }; XW_LISTEN(1, 0, &told, xw_vhost_translate(0, memory, 1));
      count += told.known && told.flow == (1ULL << 56 | told.key.index))

/* The guest's part. */
#include "carriers/offered.h"

TIMED(key_of_guest, CALLS, u64 desc = (u64)READ(queue.desc); u16 index = READ(queue.last_avail_idx);
      u16 head = READ(queue.last_avail_idx); count += desc == RING && !index && !head)
TIMED(told_to_host, CALLS, struct xw_key slot = SLOT_OF(nth); xw_offer(&slot, 0, id); count++)

/* Keys of others: nearly as many as the tables are meant for. */
static long fill_call(u32 nth, void *unused)
{
	u64 key = KEY(nth + CALLS), one = 1;

	count += XW_FLOW_PUT(ours, key, one, 0);
	bpf_map_update_elem(&kernels, &key, &one, BPF_ANY);
	return 0;
}

SEC("raw_tp") int fill(void *ctx)
{
	count = 0;
	bpf_loop(60000, fill_call, NULL, 0);
	return count == 60000;
}

/*
 * A bucket in an arena, beside one in an array map. A program reaches it by its address in the process, which
 * is set before it is loaded, and an instruction that not every compiler can write: r1 = cast(r1, 0, 1).
 */
#define ARENA_START (1ULL << 44)
#define ARENA_BUCKETS 32768

struct {
	__uint(type, 33); /* BPF_MAP_TYPE_ARENA */
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ARENA_BUCKETS * sizeof(struct xw_bucket) / 4096);
} arena SEC(".maps");

static __always_inline u64 hashed(u64 key)
{
	return key * 0x9e3779b97f4a7c15ULL >> 32 & (ARENA_BUCKETS - 1);
}

TIMED(bucket_array, CALLS, u32 at = hashed(key);
      volatile struct xw_bucket *bucket = bpf_map_lookup_elem(&xw_flow_ours, &at);
      if (bucket) count += bucket->keys[0] != key)
TIMED(bucket_arena, CALLS, u64 at = ARENA_START + hashed(key) * sizeof(struct xw_bucket);
      asm volatile("r1 = %[at]; .byte 0xbf, 0x11, 1, 0, 1, 0, 0, 0; %[at] = r1"
		   : [at] "+r"(at)
		   : "r"(&arena)
		   : "r1");
      count += *(volatile u64 *)at != key)
