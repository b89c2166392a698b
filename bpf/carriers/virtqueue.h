/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest's ends of virtio rings: drivers/virtio/virtio_ring.c, split rings, Linux 6.1 to 7.3.
 *
 * The key is the ring's place in guest-physical memory, its running index, and the descriptor head.
 */
#ifndef XW_CARRIER_VIRTQUEUE_H
#define XW_CARRIER_VIRTQUEUE_H

#include "carriers/offered.h"

static __always_inline struct vring_virtqueue *xw_vring(struct virtqueue *vq)
{
	return (void *)vq - bpf_core_field_offset(struct vring_virtqueue, vq);
}

/* At the entry of virtqueue_add_*: the slot of the available ring that this buffer will take. The
 * device cannot see it before the function has published it, so a record made here precedes all of
 * the device's; and so the device is told which flow the buffer carries. */
#define virtqueue_avail(queue) xw_virtqueue_avail(queue, xw_xflow, xw_flow)

static __always_inline struct xw_offered_key xw_virtqueue_avail(struct virtqueue *queue, u64 xflow,
								   u64 flow)
{
	struct vring_virtqueue *ring = xw_vring(queue);
	struct xw_offered_key offered = { .key = {
		.ring = READ(ring->split.queue_dma_addr),
		.index = READ(ring->split.avail_idx_shadow),
		.check = READ(ring->free_head),
	} };

	xw_offer(&offered.key, xflow, flow);
	return offered;
}

/* At the return of virtqueue_get_buf*: the slot of the used ring that this buffer came from, which
 * last_used_idx has just passed. */
static __always_inline struct xw_key virtqueue_used(struct virtqueue *queue)
{
	struct vring_virtqueue *ring = xw_vring(queue);
	u16 index = READ(ring->last_used_idx) - 1;
	u32 size = READ(ring->split.vring.num);
	struct vring_used *used = READ(ring->split.vring.used);
	struct xw_key key = {
		.ring = READ(ring->split.queue_dma_addr),
		.index = index,
		.check = READ(used->ring[index & (size - 1)].id),
	};
	return key;
}

/* A receive queue of a network device: even numbers (virtio 1.2, 5.1.2), device type 1. */
static __always_inline bool virtqueue_is_net_rx(struct virtqueue *queue)
{
	struct virtio_device *device = READ(queue->vdev);

	return READ(device->id.device) == 1 && !(READ(queue->index) & 1);
}

#endif
