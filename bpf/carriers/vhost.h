/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The host's ends of virtio rings that vhost serves: drivers/vhost/{vhost,net}.c, Linux 6.1 to 7.3.
 *
 * vhost knows a ring by its address in QEMU's memory; the guest by its guest-physical one: the one is
 * turned into the other once a ring.
 */
#ifndef XW_CARRIER_VHOST_H
#define XW_CARRIER_VHOST_H

#include "carriers/told.h"
#include "carriers/vhost-memory.h"

/* The guest whose ring it is (carriers/told.h), in a thread of vhost. */
__noinline u64 xw_guest_of(u64 queue)
{
	return XW_GUEST_OF(xw_vhost_translate(queue, memory, 1));
}

/* What the guest says of the buffer with this key. */
static __always_inline void xw_listen(u64 queue, u64 number, u64 xflow, struct xw_told_key *told)
{
	XW_LISTEN(number, xflow, told, xw_vhost_translate(queue, memory, 1));
}

/* What is known of a ring. */
enum xw_vhost_word {
	XW_VHOST_DESC, /* QEMU's address: if it changes, the ring was set up anew */
	XW_VHOST_GPA,
	XW_VHOST_PID, /* QEMU */
	XW_VHOST_GUEST, /* whose it is: carriers/told.h */
	XW_VHOST_WORDS
};

/* By the address of its struct vhost_virtqueue. */
XW_TABLE(xw_vhost_rings, XW_VHOST_WORDS, 4096);

/* Fills in which ring it is. Gives whose. */
static __always_inline u64 xw_vhost_ring(struct vhost_virtqueue *queue, struct xw_key *key)
{
	u64 address = xw_number((u64)queue), desc = (u64)READ(queue->desc);
	u64 ring[XW_VHOST_WORDS];

	/* Of a stranger, it is looked again now and then: the memory that tells whose it is may have been away. */
	if (!xw_vhost_rings_get(address, ring) || ring[XW_VHOST_DESC] != desc ||
	    (!ring[XW_VHOST_GUEST] && !(key->index % 64))) {
		struct vhost_dev *dev = READ(queue->dev);
		struct mm_struct *mm = READ(dev->mm);
		struct task_struct *owner = READ(mm->owner);

		ring[XW_VHOST_DESC] = desc;
		ring[XW_VHOST_GPA] = xw_vhost_translate(address, desc, 0);
		ring[XW_VHOST_PID] = READ(owner->tgid);
		ring[XW_VHOST_GUEST] = xw_guest_of(address);
		xw_vhost_rings_put(address, ring);
	}
	key->ring = ring[XW_VHOST_GPA];
	key->peer = ring[XW_VHOST_PID];
	return ring[XW_VHOST_GUEST];
}

/* At the return of vhost_get_vq_desc: the slot of the available ring that it has just taken, and which flow the guest
 * says that it carries. */
#define vhost_avail(queue, head) xw_vhost_avail(queue, head, xw_xflow)

static __always_inline struct xw_told_key xw_vhost_avail(struct vhost_virtqueue *queue, int head, u64 xflow)
{
	struct xw_told_key told = {
		.key.index = (u16)(READ(queue->last_avail_idx) - 1),
		.key.check = head,
	};
	u64 guest = xw_vhost_ring(queue, &told.key);

	xw_listen(xw_number((u64)queue), guest, xflow, &told);
	return told;
}

/* The device of a queue of vhost-net; its queues are numbered 0 receive, 1 transmit (seen from the guest). */
static __always_inline struct vhost_net *xw_vhost_net(struct vhost_virtqueue *queue)
{
	struct vhost_dev *dev = READ(queue->dev);

	return (void *)dev - bpf_core_field_offset(struct vhost_net, dev);
}

static __always_inline bool vhost_is_net_rx(struct vhost_virtqueue *queue)
{
	struct vhost_net *net = xw_vhost_net(queue);
	struct vhost_virtqueue **queues = READ(net->dev.vqs);

	/* The first queue of vhost-vsock is at the same place; the second is not. */
	return queue == &net->vqs[0].vq && READ(queues[1]) == &net->vqs[1].vq;
}

static __always_inline bool vhost_is_net_tx(struct vhost_virtqueue *queue)
{
	struct vhost_net *net = xw_vhost_net(queue);

	return queue == &net->vqs[1].vq;
}

/* The xdp_buff that handle_tx_copy will build the buffer it has just taken into, if it can. */
static __always_inline u64 vhost_net_xdp_slot(struct vhost_virtqueue *queue)
{
	struct vhost_net_virtqueue *nvq =
		(void *)queue - bpf_core_field_offset(struct vhost_net_virtqueue, vq);

	return (u64)READ(nvq->xdp) +
	       READ(nvq->batched_xdp) * bpf_core_type_size(struct xdp_buff);
}

/* The socket buffer that handle_rx is looking for room for, when it asks for descriptors; or the XDP frame
 * (drivers/net/tun.c marks those in bit 0), which lies where its buffer begins (xdp_convert_buff_to_frame). */
static __always_inline u64 vhost_net_rx_frame(struct vhost_virtqueue *queue)
{
	struct vhost_net_virtqueue *nvq =
		(void *)queue - bpf_core_field_offset(struct vhost_net_virtqueue, vq);
	void **entries = READ(nvq->rxq.queue);
	u64 entry = (u64)READ(entries[READ(nvq->rxq.head)]);

	return entry & ~1ULL;
}

/* At the return of vhost_get_vq_desc in handle_rx, for the first descriptor of a packet: the slot
 * of the used ring that it will be announced in. Buffers taken but not yet announced come before. */
static __always_inline struct xw_key vhost_used(struct vhost_virtqueue *queue, int head)
{
	struct vhost_net_virtqueue *nvq =
		(void *)queue - bpf_core_field_offset(struct vhost_net_virtqueue, vq);
	struct xw_key key = {
		.index = (u16)(READ(queue->last_used_idx) + READ(nvq->done_idx)),
		.check = head,
	};
	xw_vhost_ring(queue, &key);
	return key;
}

#endif
