/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The host's ends of the rings of guests' paravirtual network devices on Xen: drivers/net/xen-netback/{netback,rx}.c,
 * Linux 6.1 to 6.12.
 *
 * Rings are memory of their guests', which may change it at any time: what is read of it is taken for a part of a key and
 * for nothing else, and is a key of that guest's alone, whose number is the back end's own.
 */
#ifndef XW_CARRIER_XEN_NETBACK_H
#define XW_CARRIER_XEN_NETBACK_H

#include "carriers/xen-guests.h"
#include "carriers/xen-net.h"
#include "carriers/xen.h"
#include "where.h"

/* include/xen/interface/io/netif.h: more is said of a request in the slot behind it. */
#define XW_XEN_NETTXF_EXTRA_INFO 8

static __always_inline void xw_xen_back_queue(struct xenvif_queue *queue, struct xw_key *key)
{
	struct xenvif *vif = READ(queue->vif);

	key->ring = XW_XEN_QUEUE(READ(vif->handle), READ(queue->id));
	key->peer = XW_XEN_DOMAIN(READ(vif->domid));
}

/* What a context has taken last. */
enum xw_xen_taking_word {
	XW_XEN_TAKING_QUEUE, /* struct xenvif_queue */
	XW_XEN_TAKING_LAST,  /* how far that had been read, and one: nothing at first */
	XW_XEN_TAKING_WORDS
};

/* By the running context. */
XW_TABLE(xw_xen_taking, XW_XEN_TAKING_WORDS, 1024);

/* At the entry of xenvif_tx_action, which takes requests off until it copies what they have, */
static __always_inline void xen_net_takes(struct xenvif_queue *queue)
{
	const u64 words[XW_XEN_TAKING_WORDS] = { (u64)queue };
	struct xenvif *vif = READ(queue->vif);

	if (xw_xen_is_recorded(READ(vif->domid)))
		xw_xen_taking_put(xw_number(xw_thread()), words);
}

/* and there. */
static __always_inline void xen_net_has_taken(void)
{
	xw_xen_taking_drop(xw_number(xw_thread()));
}

/* In between, a socket buffer is made when a request has been taken, and what is said besides of it; and one more, if what
 * it has does not fit one. Whether this is a frame's first. */
__noinline int xw_xen_is_taken(u64 thread)
{
	u64 words[XW_XEN_TAKING_WORDS];
	struct xenvif_queue *queue;

	if (!xw_xen_taking_get(thread, words))
		return false;
	queue = (void *)words[XW_XEN_TAKING_QUEUE];
	return words[XW_XEN_TAKING_LAST] != (u64)READ(queue->tx.req_cons) + 1;
}

/* Its key. */
static __noinline int xw_xen_take(struct xw_key *key)
{
	u64 words[XW_XEN_TAKING_WORDS], thread = xw_number(xw_thread());
	struct xenvif_queue *queue;
	struct xen_netif_tx_sring *ring;
	struct xen_netif_tx_request *request;
	u32 next, slots;

	if (!xw_xen_taking_get(thread, words))
		return 0;
	queue = (void *)words[XW_XEN_TAKING_QUEUE];
	next = READ(queue->tx.req_cons);
	slots = READ(queue->tx.nr_ents);
	ring = READ(queue->tx.sring);
	words[XW_XEN_TAKING_LAST] = (u64)next + 1;
	xw_xen_taking_put(thread, words);

	/* Linux says at most one thing besides; in which the flags' place is 0. */
	request = &ring->ring[(next - 2) & (slots - 1)].req;
	if (!(READ(request->flags) & XW_XEN_NETTXF_EXTRA_INFO))
		request = &ring->ring[(next - 1) & (slots - 1)].req;
	xw_xen_back_queue(queue, key);
	key->index = (u16)(next - 1);
	key->check = XW_XEN_CHECK(READ(request->id), READ(request->gref));
	return 1;
}

/* While draining, what guests begin is not followed, and what they have begun is not told from that. */
#define xen_net_is_taken(skb)                                                                      \
	(xw_config_now->state == XW_ON && xw_xen_is_taken(xw_number(xw_thread())) && !xw_xen_keeps(skb))

static __always_inline struct xw_key xen_net_taken(void)
{
	struct xw_key key = {};

	xw_xen_take(&key);
	return key;
}

/* Whether a frame is wanted is known when what it is has been copied: until then its key is kept, by its socket buffer. */
XW_TABLE(xw_xen_kept, 4, 1024);

static __always_inline bool xw_xen_keep(struct sk_buff *skb)
{
	struct xw_key key = xen_net_taken();
	const u64 words[4] = { key.ring, key.index, key.check, key.peer };

	xw_xen_kept_put(xw_number((u64)skb), words);
	return true;
}
#define xw_xen_keeps(skb) (XW_HAS_WHERE && xw_xen_keep(skb))

static __always_inline bool xen_net_is_kept(struct sk_buff *skb)
{
	u64 words[4];

	return XW_HAS_WHERE && xw_xen_kept_get(xw_number((u64)skb), words);
}

static __always_inline struct xw_key xen_net_kept(struct sk_buff *skb)
{
	u64 words[4] = {};

	xw_xen_kept_get(xw_number((u64)skb), words);
	return (struct xw_key){ .ring = words[0], .index = words[1], .check = words[2], .peer = words[3] };
}

static __always_inline void xen_net_forgets(struct sk_buff *skb)
{
	if (XW_HAS_WHERE)
		xw_xen_kept_drop(xw_number((u64)skb));
}

/* At the entry of xenvif_rx_skb: the socket buffer that it takes off the queue, */
static __always_inline struct sk_buff *xen_net_next(struct xenvif_queue *queue)
{
	return READ(queue->rx_queue.next);
}

/* and the key of the frame that it makes of that: the guest sees it later. */
static __always_inline struct xw_key xen_net_given(struct xenvif_queue *queue)
{
	u32 at = READ(queue->rx.req_cons), slots = READ(queue->rx.nr_ents);
	struct xen_netif_rx_sring *ring = READ(queue->rx.sring);
	struct xw_key key = {
		.index = (u16)at,
		.check = READ(ring->ring[at & (slots - 1)].req.gref),
	};

	xw_xen_back_queue(queue, &key);
	return key;
}

#endif
