/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which frames a bridge is flooding: net/bridge/br_forward.c, Linux 6.1 to 7.3, where br_flood() and
 * br_multicast_flood() clone a frame for every port but the last.
 */
#ifndef XW_BRIDGE_H
#define XW_BRIDGE_H

/* By the address of its socket buffer: as many as CPUs flood at once. */
XW_TABLE(xw_floods, 1, 1024);

/* At the entry of the flooding function. */
static __always_inline void bridge_floods(struct sk_buff *skb)
{
	u64 one = 1;

	xw_floods_put(xw_number((u64)skb), &one);
}

/* At its return. */
static __always_inline void bridge_has_flooded(struct sk_buff *skb)
{
	xw_floods_drop(xw_number((u64)skb));
}

/* In between: whether a clone of this is another port's. */
static __always_inline bool bridge_is_flooding(struct sk_buff *skb)
{
	u64 one;

	return xw_floods_get(xw_number((u64)skb), &one);
}

#endif
