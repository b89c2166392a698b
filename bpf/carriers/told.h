/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The host's side of the tables in which guests say what their buffers carry (carriers/shared.h).
 *
 * A guest is believed about its own buffers alone. Whose a ring is tells the secret that the controller has given the
 * guest's agent: it must be in the memory that the ring is in, where that agent says that its table is. All that is
 * read is that memory, at addresses that vhost's own table of it gives; and a flow is one that the guest's domain can
 * have made, or nothing is known.
 */
#ifndef XW_CARRIER_TOLD_H
#define XW_CARRIER_TOLD_H

#include "carriers/shared.h"
#include "carriers/vhost-memory.h"

/* crates/wire/src/message.rs, SHARING_GUESTS */
#define XW_GUESTS 64

/* From the agent, but for the last. crates/agent/src/shared.rs */
struct xw_guest {
	u64 domain; /* 0: there is none, and none after it */
	u64 secret[2];
	u64 pages[XW_SHARED_PAGES]; /* where each begins in the guest's physical memory */
	u64 known[XW_SHARED_PAGES]; /* and in the memory of its QEMU, if it was looked for */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XW_GUESTS);
	__type(key, u32);
	__type(value, struct xw_guest);
} xw_guests SEC(".maps");

/* From 1: there is none with the number 0. */
static __always_inline struct xw_guest *xw_guest(u64 number)
{
	u32 at = number - 1;

	return bpf_map_lookup_elem(&xw_guests, &at);
}

/* The place in that table of the guest whose ring it is, from 1; 0 if it is none of them. In a thread of vhost. Memory
 * that is not there has not been written to, as the secret was a moment ago; or it is swapped out. */
__noinline u64 xw_guest_of(u64 queue)
{
	for (u64 number = 1; number <= XW_GUESTS; number++) {
		struct xw_guest *guest = xw_guest(number);
		u64 there, secret[2];

		if (!guest || !guest->domain)
			break;
		there = xw_vhost_translate(queue, guest->pages[0], 1);
		if (there && !bpf_probe_read_user(secret, sizeof(secret), (void *)there) &&
		    secret[0] == guest->secret[0] && secret[1] == guest->secret[1])
			return number;
	}
	return 0;
}

/* What the guest says of the buffer with this key. */
static __always_inline void xw_listen(u64 queue, u64 number, u64 xflow, struct xw_told_key *told)
{
	u32 place = xw_shared_place(&told->key, xflow), page = 1 + place / XW_SLOTS_A_PAGE;
	struct xw_guest *guest = xw_guest(number);
	struct xw_shared_slot slot;
	u64 there;

	told->stranger = !number;
	if (!guest || page >= XW_SHARED_PAGES)
		return;
	there = guest->known[page];
	if (!there)
		guest->known[page] = there = xw_vhost_translate(queue, guest->pages[page], 1);
	if (!there || bpf_probe_read_user(&slot, sizeof(slot),
					  (void *)there + place % XW_SLOTS_A_PAGE * sizeof(slot)))
		return;
	told->known = slot.check == xw_shared_check(&told->key, xflow, slot.flow) &&
		      (!slot.flow || slot.flow >> 56 == guest->domain);
	told->flow = slot.flow;
}

#endif
