/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The prelude: what every piece of advice is compiled with.
 *
 * Weaving puts, in this order, into one translation unit per kernel: types.h, the kernel's types
 * (pruned to the members that the code names), libbpf's helpers, this file, the carriers in use,
 * the flows, and a program per clause. Words in capitals that start with XW_ are for generated
 * code; STORE_DATA1…7, DO_RDTSC, READ and flow_* are for people.
 */
#ifndef XW_XWEAVE_H
#define XW_XWEAVE_H

#include "types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char _license[] SEC("license") = "GPL";

#include "program.h"
#include "record.h"
#include "flow.h"

/* The paper's name. Stock eBPF cannot read the TSC; this is CLOCK_MONOTONIC in nanoseconds, the
 * clock that every record carries anyway and that the controller relates to the TSC. */
#define DO_RDTSC(variable) ((variable) = bpf_ktime_get_ns())

/* A member or array element that the verifier does not know the pointer of: 0 where it cannot be
 * read, for the helper clears what it could not fill; and that is counted. */
#define READ(lvalue)                                                                               \
	({                                                                                         \
		__typeof__(lvalue) xw_value;                                                       \
		if (bpf_probe_read_kernel(&xw_value, sizeof(xw_value), &(lvalue)))                 \
			xw_fault();                                                                \
		xw_value;                                                                          \
	})

/* A number that kernels give different widths, of up to 64 bits: as it is without a sign. */
#define READ_NUMBER(lvalue)                                                                        \
	({                                                                                         \
		u64 xw_value = 0;                                                                  \
		if (bpf_probe_read_kernel(&xw_value, bpf_core_field_size(lvalue), &(lvalue)))      \
			xw_fault();                                                                \
		xw_value;                                                                          \
	})

/* What weaving makes of `->` where the verifier does not know the pointer: an array is its address. */
#define XW_IS_ARRAY(lvalue)                                                                        \
	(!__builtin_types_compatible_p(__typeof__(lvalue), __typeof__((0, (lvalue)))))
#define XW_LOAD(lvalue) __builtin_choose_expr(XW_IS_ARRAY(lvalue), (lvalue), READ(lvalue))

/* The same as READ in the memory of the running process. */
#define READ_USER(lvalue)                                                                          \
	({                                                                                         \
		__typeof__(lvalue) xw_value;                                                       \
		if (bpf_probe_read_user(&xw_value, sizeof(xw_value), &(lvalue)))                   \
			xw_fault();                                                                \
		xw_value;                                                                          \
	})

/* Whether the running thread's name is this; of `length` characters, or begins with them. */
static __always_inline bool xw_comm_is(const char *name, u32 length, bool whole)
{
	char comm[16];

	bpf_get_current_comm(comm, sizeof(comm));
	_Pragma("unroll") for (u32 i = 0; i < sizeof(comm); i++)
	{
		if (i >= length)
			return !whole || i == sizeof(comm) - 1 || !comm[i];
		if (comm[i] != name[i])
			return false;
	}
	return true;
}

/*
 * What is running: a key under which a flow can be kept while its data changes shape inside one
 * function call. Never equal to the address of an object: odd, or small.
 */
static __always_inline u64 xw_thread(void)
{
	u32 level = xw_level();

	if (level)
		return (u64)bpf_get_smp_processor_id() << 2 | level;
	return bpf_get_current_task() | 1;
}

/* What begins here is no stranger's continuation: a flow that the key still carries has ended where nobody saw it. */
#define XW_FLOW_FRESH(name, key)                                                                   \
	({                                                                                         \
		u64 xw_fresh = (u64)(key);                                                         \
		if (XW_FLOW_OF(name, xw_fresh)) {                                                  \
			XW_FLOW_TAKE(name, xw_fresh);                                              \
			xw_overwritten(xw_place);                                                  \
		}                                                                                  \
	})

/* While draining, flows under way go on and none begins. */
#define XW_FLOW_START(name, key)                                                                   \
	({                                                                                         \
		u64 xw_key = (u64)(key);                                                           \
		XW_FLOW_FRESH(name, xw_key);                                                       \
		if (xw_config_now->state == XW_ON) {                                               \
			xw_flow = xw_new_flow();                                                   \
			if (XW_FLOW_PUT(name, xw_key, xw_flow, xw_place))               \
				XW_RECORD(XW_START, xw_flow, 1, xw_key);                           \
		}                                                                                  \
	})

#define XW_TRANSIT(name, from, to, kind, leave)                                                    \
	({                                                                                         \
		u64 xw_from = (u64)(from), xw_to = (u64)(to);                                      \
		xw_flow = XW_FLOW_OF(name, xw_from);                                    \
		if (xw_flow && XW_FLOW_PUT(name, xw_to, xw_flow, xw_place)) {           \
			if (leave && xw_from != xw_to)                                             \
				XW_FLOW_TAKE(name, xw_from);                               \
			XW_RECORD(kind, xw_flow, 2, xw_from, xw_to);                               \
		}                                                                                  \
	})

#define XW_FLOW_MOVE(name, from, to) XW_TRANSIT(name, from, to, XW_MOVE, 1)
#define XW_FLOW_COPY(name, from, to) XW_TRANSIT(name, from, to, XW_COPY, 0)

/* An end; of data that was dropped, the kernel's number for why, and the address of the code that did it, follow the key. */
#define XW_FLOW_QUIT(name, key) XW_FLOW_END(name, key, 1)
#define XW_FLOW_DROP(name, key, reason, where) XW_FLOW_END(name, key, 3, (u64)(reason), (u64)(where))

#define XW_FLOW_END(name, key, count, ...)                                                         \
	({                                                                                         \
		u64 xw_key = (u64)(key);                                                           \
		xw_flow = XW_FLOW_OF(name, xw_key);                                     \
		if (xw_flow) {                                                                     \
			XW_FLOW_TAKE(name, xw_key);                                        \
			XW_RECORD(XW_QUIT, xw_flow, count, xw_key, ##__VA_ARGS__);                 \
		}                                                                                  \
	})

/* A part of what `from` carries is a flow of its own from here. */
#define XW_FLOW_SPLIT(name, from, to)                                                              \
	({                                                                                         \
		u64 xw_from = (u64)(from), xw_to = (u64)(to);                                      \
		u64 xw_parent = XW_FLOW_OF(name, xw_from);                              \
		if (xw_parent) {                                                                   \
			xw_flow = xw_new_flow();                                                   \
			if (XW_FLOW_PUT(name, xw_to, xw_flow, xw_place))           \
				XW_RECORD(XW_SPLIT, xw_flow, 3, xw_parent, xw_from, xw_to);        \
		}                                                                                  \
	})

/* What `from` carries is part of `to` from here: a new flow, whose parents both are. */
#define XW_FLOW_MERGE(name, from, to)                                                              \
	({                                                                                         \
		u64 xw_from = (u64)(from), xw_to = (u64)(to);                                      \
		u64 xw_taken = XW_FLOW_OF(name, xw_from);                               \
		if (xw_taken) {                                                                    \
			u64 xw_taker = XW_FLOW_OF(name, xw_to);                         \
			xw_flow = xw_new_flow();                                                   \
			if (XW_FLOW_PUT(name, xw_to, xw_flow, xw_place)) {         \
				XW_FLOW_TAKE(name, xw_from);                               \
				XW_RECORD(XW_MERGE, xw_flow, 3, xw_taken, xw_from, xw_to);         \
				if (xw_taker)                                                      \
					XW_RECORD(XW_MERGE, xw_flow, 3, xw_taker, xw_to, xw_to);   \
			}                                                                          \
		}                                                                                  \
	})

/* The first words of any kind of key. */
#define XW_RECORD_CARRIER(kind, carrier)                                                           \
	({                                                                                         \
		const struct xw_key *xw_words = (const void *)&(carrier);                          \
		XW_RECORD(kind, xw_flow, 4, xw_words->ring, xw_words->index, xw_words->check,      \
			  xw_words->peer);                                                         \
	})

/* A number for the name of an xflow, which the compiler knows (FNV-1a). */
static __always_inline u64 xw_named(const char *name, u32 length)
{
	u64 hash = 0xcbf29ce484222325ULL;

	_Pragma("clang loop unroll(full)") for (u32 i = 0; i < length; i++) hash =
		(hash ^ (u8)name[i]) * 0x100000001b3ULL;
	return hash;
}
#define XW_NAMED(name) xw_named(#name, sizeof(#name) - 1)

/* The key is computed only for data that is followed; but where the other side is told that, for all. */
#define XW_XIN(name, from, key, leave)                                                             \
	({                                                                                         \
		const u64 xw_xflow = XW_NAMED(name);                                               \
		u64 xw_from = (u64)(from);                                                         \
		xw_flow = XW_FLOW_OF(name, xw_from);                                               \
		if (xw_flow || (XW_IS(struct xw_offered_key, key) && xw_config_now->shares)) {     \
			__typeof__(key) xw_carrier = (key);                                        \
			if (leave)                                                                 \
				XW_FLOW_TAKE(name, xw_from);                                       \
			if (xw_flow)                                                               \
				XW_RECORD_CARRIER(XW_XIN, xw_carrier);                             \
		}                                                                                  \
	})

#define XW_XIN_COPY(name, from, key) XW_XIN(name, from, key, 0)
#define XW_XIN_MOVE(name, from, key) XW_XIN(name, from, key, 1)

/* Where the other side has told which flow it is, that goes on, if it is any. Of a guest that is not recorded nothing goes
 * on, which is known where all that are tell; nor, while draining, of one that says nothing: its programs are gone, and
 * what it sends now is not followed. Else whether the other side followed the data cannot be known here: a local flow
 * begins, and the join makes it the continuation of the flow that was put on the carrier under the same key. */
#define XW_XOUT(name, key, to)                                                                     \
	({                                                                                         \
		const u64 xw_xflow = XW_NAMED(name);                                               \
		__typeof__(key) xw_carrier = (key);                                                \
		const struct xw_told_key *xw_told = (const void *)&xw_carrier;                     \
		const bool xw_is_told =                                                            \
			XW_IS(struct xw_told_key, key) &&                                          \
			(xw_told->known ||                                                         \
			 (xw_config_now->hears_all &&                                              \
			  (xw_told->stranger || xw_config_now->state != XW_ON)));                  \
		u64 xw_to = (u64)(to);                                                             \
		xw_flow = xw_is_told ? xw_told->flow : xw_new_flow();                              \
		if (!xw_flow)                                                                      \
			XW_FLOW_TAKE(name, xw_to);                                                 \
		else if (XW_FLOW_PUT(name, xw_to, xw_flow, xw_place))                              \
			XW_RECORD_CARRIER(XW_XOUT, xw_carrier);                                    \
	})

/*
 * For action blocks. What may stand in a loop there is a function that the verifier goes through once for each program,
 * and not once in each turn.
 */
#define XW_FLOW_ACTION(name, action, what)                                                         \
	__noinline u64 xw_##action##_##name(u64 clause, u64 from, u64 to)                          \
	{                                                                                          \
		u32 xw_place = clause >> 32, xw_site = (u32)clause;                                \
		u64 xw_flow = 0;                                                                   \
                                                                                                   \
		what(name, from, to);                                                              \
		return xw_flow;                                                                    \
	}
#define XW_FLOW_ACTIONS(name)                                                                      \
	XW_FLOW_ACTION(name, move, XW_FLOW_MOVE)                                                   \
	XW_FLOW_ACTION(name, copy, XW_FLOW_COPY)                                                   \
	XW_FLOW_ACTION(name, split, XW_FLOW_SPLIT)                                                 \
	XW_FLOW_ACTION(name, merge, XW_FLOW_MERGE)                                                 \
	_Static_assert(sizeof(#name) > 1, "so that a semicolon may follow")
#define XW_ACT(name, action, from, to)                                                             \
	(xw_flow = xw_##action##_##name(XW_CLAUSE_NOW, xw_number((u64)(from)), xw_number((u64)(to))))

#define flow_fresh(name, key) XW_FLOW_FRESH(name, key)
#define flow_start(name, key) XW_FLOW_START(name, key)
#define flow_move(name, from, to) XW_ACT(name, move, from, to)
#define flow_copy(name, from, to) XW_ACT(name, copy, from, to)
#define flow_quit(name, key) XW_FLOW_QUIT(name, key)
#define flow_drop(name, key, reason, where) XW_FLOW_DROP(name, key, reason, where)
#define flow_split(name, from, to) XW_ACT(name, split, from, to)
#define flow_merge(name, from, to) XW_ACT(name, merge, from, to)
/* What a key carries is carried by another: no end, and no record. */
#define flow_forget(name, key) XW_FLOW_TAKE(name, key)
#define flow_of(name, key) XW_FLOW_OF(name, key)

#endif
