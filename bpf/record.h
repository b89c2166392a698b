/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Records, as crates/wire/src/record.rs reads them. Part of xweave.h.
 */
#ifndef XW_RECORD_H
#define XW_RECORD_H

#include "lost.h"
#include "rings.h"

/* The kinds of record; crates/wire/src/record.rs. */
enum xw_kind {
	XW_HOP,
	XW_START,
	XW_MOVE,
	XW_COPY,
	XW_QUIT,
	XW_XIN,
	XW_XOUT,
	XW_SPLIT,
	XW_MERGE,
	XW_FRAME
};

/* The header of a record; the values follow. Layout as in crates/wire/src/record.rs. */
struct xw_header {
	u64 time_ns;
	u64 flow;
	u32 site;
	u32 pid;
	u32 tid;
	u16 cpu;
	u8 kind;
	u8 n;
	char comm[16];
};

/* What both ends of a crossing see; crates/wire/src/record.rs, CarrierKey. */
struct xw_key {
	u64 ring;
	u64 index;
	u64 check;
	u64 peer;
};

/* The same, of what a guest says in memory that both can read which flow it carries (carriers/shared.h): its own side,
 * where that has been written, also of what is not followed; */
struct xw_offered_key {
	struct xw_key key;
};

/* and the other, where it has been read. */
struct xw_told_key {
	struct xw_key key;
	u64 flow; /* 0: it is not followed */
	u32 known;
	u32 stranger; /* it is of no guest that tells */
	u64 parts; /* of data that is known by where it is, in how many parts it is; 1 if that is not known */
};

#define XW_IS(type, value) __builtin_types_compatible_p(__typeof__(value), type)

static __always_inline void xw_fill(struct xw_header *header, u32 site, u64 flow, u8 kind, u8 n)
{
	u64 ids = bpf_get_current_pid_tgid();

	header->time_ns = bpf_ktime_get_ns();
	header->flow = flow;
	header->site = site;
	header->pid = ids >> 32;
	header->tid = (u32)ids;
	header->cpu = bpf_get_smp_processor_id();
	header->kind = kind;
	header->n = n;
	bpf_get_current_comm(header->comm, sizeof(header->comm));
}

/*
 * Records of so many values, each of exactly its size. Functions that other files could call: such the verifier goes
 * through once for each program, and not wherever it stores something, again and again in a loop.
 */
#define XW_RECORDER(count)                                                                         \
	struct xw_values_##count {                                                                 \
		u64 at[count];                                                                     \
	};                                                                                         \
	__noinline int xw_record_##count(u64 clause, u64 flow, u32 kind,                           \
					 struct xw_values_##count *values)                         \
	{                                                                                          \
		struct {                                                                           \
			struct xw_header header;                                                   \
			struct xw_values_##count values;                                           \
		} *record;                                                                         \
                                                                                                   \
		if (!values)                                                                       \
			return 0;                                                                  \
		record = xw_ring_reserve(sizeof(*record));                                         \
		if (!record) {                                                                     \
			xw_lost_record(clause >> 32, flow);                                        \
			return 0;                                                                  \
		}                                                                                  \
		xw_fill(&record->header, (u32)clause, flow, kind, count);                          \
		record->values = *values;                                                          \
		xw_ring_submit(record);                                                            \
		return 0;                                                                          \
	}                                                                                          \
	_Static_assert(count < 256, "so that a semicolon may follow")

XW_RECORDER(1);
XW_RECORDER(2);
XW_RECORDER(3);
XW_RECORDER(4);
XW_RECORDER(5);
XW_RECORDER(6);
XW_RECORDER(7);

/* The clause that runs, as functions are told of it: its place, and its site in the low half. */
#define XW_CLAUSE_NOW ((u64)xw_place << 32 | xw_site)

#define XW_RECORD(kind, flow_id, count, ...)                                                       \
	({                                                                                         \
		struct xw_values_##count xw_values = { { __VA_ARGS__ } };                          \
		xw_record_##count(XW_CLAUSE_NOW, (flow_id), (kind), &xw_values);                   \
	})

#define STORE_DATA1(a) XW_RECORD(XW_HOP, xw_flow, 1, (u64)(a))
#define STORE_DATA2(a, b) XW_RECORD(XW_HOP, xw_flow, 2, (u64)(a), (u64)(b))
#define STORE_DATA3(a, b, c) XW_RECORD(XW_HOP, xw_flow, 3, (u64)(a), (u64)(b), (u64)(c))
#define STORE_DATA4(a, b, c, d)                                                                    \
	XW_RECORD(XW_HOP, xw_flow, 4, (u64)(a), (u64)(b), (u64)(c), (u64)(d))
#define STORE_DATA5(a, b, c, d, e)                                                                 \
	XW_RECORD(XW_HOP, xw_flow, 5, (u64)(a), (u64)(b), (u64)(c), (u64)(d), (u64)(e))
#define STORE_DATA6(a, b, c, d, e, f)                                                              \
	XW_RECORD(XW_HOP, xw_flow, 6, (u64)(a), (u64)(b), (u64)(c), (u64)(d), (u64)(e), (u64)(f))
#define STORE_DATA7(a, b, c, d, e, f, g)                                                           \
	XW_RECORD(XW_HOP, xw_flow, 7, (u64)(a), (u64)(b), (u64)(c), (u64)(d), (u64)(e), (u64)(f),  \
		  (u64)(g))

#endif
