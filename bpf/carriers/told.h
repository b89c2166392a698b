/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The host's side of the tables in which guests say what their buffers carry (carriers/shared.h).
 *
 * A guest is believed about its own buffers alone. Whose memory it is tells the secret that the controller has given the
 * guest's agent: it must be in that memory, where that agent says that its table is. All that is read is that memory, at
 * addresses that the tables of who serves the buffers give, vhost's or KVM's; and a flow is one that the guest's domain
 * can have made, or nothing is known.
 */
#ifndef XW_CARRIER_TOLD_H
#define XW_CARRIER_TOLD_H

#include "carriers/shared.h"

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

/* The place in that table of the guest whose memory it is, from 1; 0 if it is none of them. `translate` gives where the
 * guest's address `memory` is for the running thread. Memory that is not there has not been written to, as the secret was
 * a moment ago; or it is swapped out. */
#define XW_GUEST_OF(translate)                                                                     \
	({                                                                                         \
		u64 xw_found = 0;                                                                  \
		for (u64 number = 1; number <= XW_GUESTS && !xw_found; number++) {                 \
			struct xw_guest *guest = xw_guest(number);                                 \
			u64 memory, secret[2];                                                     \
                                                                                                   \
			if (!guest || !guest->domain)                                              \
				break;                                                             \
			memory = guest->pages[0];                                                  \
			memory = (translate);                                                      \
			if (memory && !bpf_probe_read_user(secret, sizeof(secret), (void *)memory) && \
			    secret[0] == guest->secret[0] && secret[1] == guest->secret[1])        \
				xw_found = number;                                                 \
		}                                                                                  \
		xw_found;                                                                          \
	})

/* What the guest says under this key, if it is there. `translate` is as above. */
#define XW_HEAR(number, xflow, told, slot, translate)                                              \
	({                                                                                         \
		u32 xw_at = xw_shared_place(&(told)->key, xflow), page = 1 + xw_at / XW_SLOTS_A_PAGE; \
		struct xw_guest *guest = xw_guest(number);                                         \
		u64 memory = 0, domain = 0;                                                        \
                                                                                                   \
		(told)->stranger = !(number);                                                      \
		if (guest && page < XW_SHARED_PAGES) {                                             \
			domain = guest->domain;                                                    \
			memory = guest->known[page];                                               \
			if (!memory) {                                                             \
				memory = guest->pages[page];                                       \
				guest->known[page] = memory = (translate);                         \
			}                                                                          \
		}                                                                                  \
		memory &&!bpf_probe_read_user(slot, sizeof(*(slot)),                               \
					      (void *)memory +                                     \
						      xw_at % XW_SLOTS_A_PAGE * sizeof(*(slot))) && \
			(!(slot)->flow || (slot)->flow >> 56 == domain);                           \
	})

/* What it says of the buffer with this key. */
#define XW_LISTEN(number, xflow, told, translate)                                                  \
	({                                                                                         \
		struct xw_shared_slot xw_slot;                                                     \
                                                                                                   \
		if (XW_HEAR(number, xflow, told, &xw_slot, translate)) {                           \
			(told)->known = xw_slot.check ==                                           \
					xw_shared_check(&(told)->key, xflow, xw_slot.flow);        \
			(told)->flow = xw_slot.flow;                                               \
		}                                                                                  \
	})

/* What it says of the data that is known by where it is: where nothing is said, nothing begins there, but it is more of
 * the same. */
#define XW_LISTEN_TO_PARTS(number, xflow, told, translate)                                         \
	({                                                                                         \
		struct xw_shared_slot xw_slot;                                                     \
                                                                                                   \
		(told)->parts = 1;                                                                 \
		if (XW_HEAR(number, xflow, told, &xw_slot, translate)) {                           \
			u64 parts = xw_shared_parts(&(told)->key, xflow, xw_slot.flow, xw_slot.check); \
                                                                                                   \
			(told)->known = 1;                                                         \
			if (parts && !(parts >> 16)) {                                             \
				(told)->flow = xw_slot.flow;                                       \
				(told)->parts = parts;                                             \
			}                                                                          \
		}                                                                                  \
	})

#endif
