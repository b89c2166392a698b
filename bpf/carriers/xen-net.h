/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Requests of paravirtual network devices on Xen: struct xen_netif_tx_request of
 * include/xen/interface/io/netif.h, Linux 6.1 to 6.12; and what the keys of both ends (xen-netfront.h, xen-netback.h)
 * have in common.
 *
 * A frame may take several slots of a ring. Its key is that of its first request: the slot on the ring, and as a check
 * what no other request of the guest has while this one is under way, its grant reference. To the back end, where more is
 * said of a request (that the frame is to be cut), it is the slot behind, which says that: so far the back end has read
 * when it makes a socket buffer.
 */
#ifndef XW_CARRIER_XEN_NET_H
#define XW_CARRIER_XEN_NET_H

/* Of a request that a guest gives to the back end. */
#define XW_XEN_CHECK(number, grant) ((u64)(u16)(number) << 32 | (u32)(grant))

/* A request alone does not say whose it is: the join finds out which guest's keys agree. */
#define XEN_NET_SOME_GUEST 0xffff

/* In the front end, once the request has been filled. */
static __always_inline struct xw_key xen_net_sent(struct xen_netif_tx_request *request)
{
	struct xw_key key = {
		.index = READ(request->id),
		.check = READ(request->gref),
	};
	return key;
}

/* In the back end, of the request on the ring or of a copy. */
static __always_inline struct xw_key xen_net_received(struct xen_netif_tx_request *request)
{
	struct xw_key key = xen_net_sent(request);

	key.peer = XEN_NET_SOME_GUEST;
	return key;
}

/* Where an aspect gives a request instead of its key, as the paper does. */
#define XW_SENT(request) _Generic((request), struct xen_netif_tx_request * : xen_net_sent)(request)
#define XW_RECEIVED(request) _Generic((request), struct xen_netif_tx_request * : xen_net_received)(request)

#endif
