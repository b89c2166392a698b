/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which of Xen's domains are recorded: back ends serve the others, too.
 */
#ifndef XW_CARRIER_XEN_GUESTS_H
#define XW_CARRIER_XEN_GUESTS_H

/* crates/wire/src/message.rs, SHARING_GUESTS */
#define XW_XEN_GUESTS 64

/* From the agent: the guests that are recorded, by their numbers; 0: there is none, and none after it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XW_XEN_GUESTS);
	__type(key, u32);
	__type(value, u32);
} xw_xen_guests SEC(".maps");

/* Whether that guest is recorded, as far as is known; where nothing is known of any, each may be. Numbers count up, and one
 * that is restored from a file, or starts anew, gets another: later ones may be guests that were recorded before
 * (crates/flow/src/crossing/peers.rs finds out). */
__noinline int xw_xen_is_recorded(u32 domid)
{
	u32 latest = 0;

	for (u32 i = 0; i < XW_XEN_GUESTS; i++) {
		u32 at = i, *guest = bpf_map_lookup_elem(&xw_xen_guests, &at);

		if (!guest || !*guest)
			break;
		if (*guest == domid)
			return true;
		if (*guest > latest)
			latest = *guest;
	}
	return domid > latest;
}

#endif
