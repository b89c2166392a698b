/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest's ends of the rings of virtio-net: drivers/net/virtio_net.c, Linux 6.1 to 7.3.
 *
 * The key is the place on the ring; where the device is emulated, what the frame is.
 */
#ifndef XW_CARRIER_VIRTIO_NET_H
#define XW_CARRIER_VIRTIO_NET_H

#include "carriers/content.h"
#include "carriers/virtqueue.h"

/* At the entry of virtqueue_add_outbuf: the place of this frame, as virtqueue_avail. */
#define virtio_net_avail(queue, skb)                                                               \
	xw_virtio_net_avail(queue, (void *)(skb), xw_config_now->emulated, xw_xflow, xw_flow)

static __always_inline struct xw_offered_key xw_virtio_net_avail(struct virtqueue *queue, struct sk_buff *skb,
								   bool emulated, u64 xflow, u64 flow)
{
	struct xw_offered_key offered = {};

	if (!emulated)
		return xw_virtqueue_avail(queue, xflow, flow);
	/* Nobody listens: nothing is offered of what is not followed. */
	if (flow)
		offered.key = xw_content_of(skb);
	return offered;
}

/* At the return of virtqueue_get_buf_ctx: the place of the frame in this buffer (the first, of several), as
 * virtqueue_used. Of an emulated device, buffers have to be mergeable. */
#define virtio_net_used(queue, buffer, bytes)                                                      \
	xw_virtio_net_used(queue, (void *)(buffer), READ(*(bytes)), xw_config_now->emulated)

static __always_inline struct xw_key xw_virtio_net_used(struct virtqueue *queue, void *buffer, u32 bytes,
							 bool emulated)
{
	u32 header = xw_virtio_net_header(xw_virtio_features(queue));
	struct xw_key key = { .ring = XW_CONTENT };

	if (!emulated)
		return virtqueue_used(queue);
	key.index = xw_content(buffer + header, (s64)bytes - header);
	return key;
}

#endif
