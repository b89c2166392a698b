/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Requests of paravirtual network devices on Xen: struct xen_netif_tx_request of
 * include/xen/interface/io/netif.h, Linux 6.1 to 6.12.
 *
 * The key is what a request says to both sides: its number, which is the front end's, and its grant reference,
 * which no other request of the guest has while this one is under way.
 */
#ifndef XW_CARRIER_XEN_NET_H
#define XW_CARRIER_XEN_NET_H

/* A request does not say whose it is: the join finds out which guest's keys agree. */
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
