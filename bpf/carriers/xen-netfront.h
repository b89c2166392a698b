/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest's ends of the rings of a paravirtual network device on Xen: drivers/net/xen-netfront.c, Linux 6.1 to 6.12.
 */
#ifndef XW_CARRIER_XEN_NETFRONT_H
#define XW_CARRIER_XEN_NETFRONT_H

#include "carriers/xen-net.h"
#include "carriers/xen.h"
#include "where.h"

extern const void vmemmap_base __ksym;
extern const void page_offset_base __ksym;

/* drivers/net/xen-netfront.c: an entry of tx_link with none behind it. */
#define XW_TX_LINK_NONE 0xffff

/* The name of its node in XenStore, up to its number: "device/vif/". */
#define XW_XEN_VIF 11

/* Which of its queues this is. The back end calls the device by the number that its node has. */
__noinline u64 xw_xen_front_queue(u64 number)
{
	struct netfront_queue *queue = (void *)number;
	struct netfront_info *info = READ(queue->info);
	struct xenbus_device *device_of = READ(info->xbdev);
	const char *node = READ(device_of->nodename);
	char digits[6] = {};
	u32 device = 0;

	bpf_probe_read_kernel_str(digits, sizeof(digits), node + XW_XEN_VIF);
	_Pragma("unroll") for (u32 i = 0; i < sizeof(digits) - 1; i++)
	{
		if (digits[i] < '0' || digits[i] > '9')
			break;
		device = device * 10 + (digits[i] - '0');
	}
	return XW_XEN_QUEUE(device, READ(queue->id));
}

/* struct skb_shared_info lies where the buffer's linear part ends. */
static __always_inline struct skb_shared_info *xw_xen_shared(struct sk_buff *skb)
{
	return (void *)READ(skb->head) + READ(skb->end);
}

/* At the return of xennet_tx_setup_grant, which fills one request of a frame: whether that is its first. Requests are
 * linked, the last of them first, until all of a frame are there and the back end is shown them. */
static __always_inline bool xen_net_begins(void *data)
{
	struct xennet_gnttab_make_txreq *made = data;
	struct netfront_queue *queue = READ(made->queue);

	return READ(made->skb) && READ(queue->tx_link[READ(made->tx_local.id) & 0xff]) == XW_TX_LINK_NONE;
}

/* There: the socket buffer, */
static __always_inline u64 xen_net_sends(void *data)
{
	return (u64)READ(((struct xennet_gnttab_make_txreq *)data)->skb);
}

/* and the key of the frame. What is said besides of a frame that is to be cut takes the slot behind. */
static __always_inline struct xw_key xen_net_put(void *data)
{
	struct xennet_gnttab_make_txreq *made = data;
	struct netfront_queue *queue = READ(made->queue);
	u32 extras = READ(xw_xen_shared(READ(made->skb))->gso_size) ? 1 : 0;
	struct xw_key key = {
		.ring = xw_xen_front_queue(xw_number((u64)queue)),
		.index = (u16)(READ(queue->tx.req_prod_pvt) - 1 + extras),
		.check = XW_XEN_CHECK(READ(made->tx_local.id), READ(made->tx_local.gref)),
	};
	return key;
}

/* At the entry of xennet_get_responses, which takes a frame off: the first of the socket buffers that it lies in, */
static __always_inline struct sk_buff *xen_net_gets(struct netfront_queue *queue)
{
	return READ(queue->rx_skbs[READ(queue->rx.rsp_cons) & 0xff]);
}

/* and its key. */
static __always_inline struct xw_key xen_net_got(struct netfront_queue *queue)
{
	u32 at = READ(queue->rx.rsp_cons);
	struct xw_key key = {
		.ring = xw_xen_front_queue(xw_number((u64)queue)),
		.index = (u16)at,
		.check = (u32)READ(queue->grant_rx_ref[at & 0xff]),
	};
	return key;
}

/* Whether that is to be followed: it lies in the page that was granted for it, which is the first of the buffer's. */
static __noinline bool xw_xen_net_wanted(struct netfront_queue *queue, struct netfront_rx_info *info)
{
	u64 page = 0, pages = 0, memory = 0;
	struct xw_frame_words words = {};
	s64 left = (s64)(s16)READ(info->rx.status) - 14;
	void *at;

	/* A page, and in its lowest bit whether it is memory of another kind: include/net/netmem.h */
	bpf_probe_read_kernel(&page, sizeof(page), &xw_xen_shared(xen_net_gets(queue))->frags[0]);
	bpf_probe_read_kernel(&pages, sizeof(pages), &vmemmap_base);
	bpf_probe_read_kernel(&memory, sizeof(memory), &page_offset_base);
	at = (void *)(memory + (((page & ~1ULL) - pages) / bpf_core_type_size(struct page) << 12) +
		      READ(info->rx.offset) + 14);
	return xw_frame_at(__builtin_bswap16(READ(*(u16 *)(at - 2))), (u64)at, left, left, &words) &&
	       xw_where_accepts(&words);
}
#define xw_xen_is_wanted(queue, info) (!XW_HAS_WHERE || xw_xen_net_wanted(queue, info))

/* While draining, what dom0 begins is not followed, and what it has begun is not told from that. */
#define xen_net_wanted(queue, info) (xw_config_now->state == XW_ON && xw_xen_is_wanted(queue, info))

#endif
