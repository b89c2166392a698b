/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The IDs themselves, across the boundary: in a table of the guest's that its host reads.
 *
 * Whoever gives a host memory to read, through virtio rings, writes beside it which flow it carries: into the slot of
 * this table that the ring and its running index name. The table is ordinary memory of the guest's kernel; its agent
 * tells where its pages are, and carriers/vhost.h reads them as vhost itself reads the guest's memory. So the host
 * knows the flow of each buffer when it takes it, and that a buffer carries none.
 *
 * A slot is written for every buffer and every xflow that goes through there, followed or not: what it says is about the buffer that it names, or about
 * another, and then nothing is known. That happens where rings share a slot, which their places spread them against.
 */
#ifndef XW_CARRIER_SHARED_H
#define XW_CARRIER_SHARED_H

/* A page of the table; the first has the table's secret alone, by which a host finds out whose it is. */
#define XW_PAGE 4096
#define XW_SLOTS_A_PAGE (XW_PAGE / sizeof(struct xw_shared_slot))

/* As many as a ring's running index has values: no ring meets itself. */
#define XW_SHARED_SLOTS 65536

/* crates/wire/src/message.rs, SHARED_PAGES */
#define XW_SHARED_PAGES (1 + XW_SHARED_SLOTS / XW_SLOTS_A_PAGE)

struct xw_shared_slot {
	u64 flow; /* 0: not followed */
	u64 check; /* which buffer of which xflow, and the flow: no half of one fits another's */
};

/* Where it is written that a ring's buffer carries a flow: from the table's second page on. */
static __always_inline u32 xw_shared_place(const struct xw_key *key, u64 xflow)
{
	return (xw_hash(key->ring ^ xflow) + (u16)key->index) & (XW_SHARED_SLOTS - 1);
}

/* Of data that is known by where it is, the check says in how many parts it is: less than 65,536, or it is another's. */
static __always_inline u64 xw_shared_parts(const struct xw_key *key, u64 xflow, u64 flow, u64 check)
{
	return check ^ key->ring << 4 ^ xflow ^ flow;
}

/* What tells it from others that are written there. Rings begin with a page, and physical addresses have 52 bits. */
static __always_inline u64 xw_shared_check(const struct xw_key *key, u64 xflow, u64 flow)
{
	return key->ring << 4 ^ (u16)key->index ^ xflow ^ flow;
}

#endif
