/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The host's ends of the rings of guests' paravirtual disks on Xen: drivers/block/xen-blkback/blkback.c, Linux 6.1 to
 * 6.12.
 *
 * A thread for each ring copies a request off it and submits what it asks for, in one bio or several. When all of them
 * are done, the guest is answered. Rings are memory of their guests', which may change it at any time: what is read of it is
 * taken for a part of a key and for nothing else, and is a key of that guest's alone, whose number is the back end's own.
 */
#ifndef XW_CARRIER_XEN_BLKBACK_H
#define XW_CARRIER_XEN_BLKBACK_H

#include "carriers/xen-blk.h"
#include "carriers/xen-guests.h"
#include "carriers/xen.h"

/* What completes the back end's bios, and no others. */
extern const void end_block_io_op __ksym __weak;

/* By the back end's request: what it was received as. */
XW_TABLE(xw_xen_blk_received, 1, 4096);

static __always_inline u64 xw_xen_blk_back(struct xen_blkif_ring *ring)
{
	struct xen_blkif *disk = READ(ring->blkif);
	u64 queue = ((u64)ring - (u64)READ(disk->rings)) / bpf_core_type_size(struct xen_blkif_ring);

	return XW_XEN_QUEUE(READ(disk->vbd.handle), queue);
}

static __always_inline u64 xw_xen_blk_peer(struct xen_blkif_ring *ring)
{
	struct xen_blkif *disk = READ(ring->blkif);

	return XW_XEN_DOMAIN(READ(disk->domid));
}

/* The request of a guest that a bio is for; NULL if it is none's. */
static __always_inline struct pending_req *xen_blk_of(struct bio *bio)
{
	return READ(bio->bi_end_io) == (void *)&end_block_io_op ? READ(bio->bi_private) : NULL;
}

static __noinline bool xw_xen_blk_is_recorded(struct bio *bio)
{
	struct pending_req *pending = xen_blk_of(bio);

	return pending && xw_xen_is_recorded((u16)xw_xen_blk_peer(READ(pending->ring)));
}

/* At the entry of submit_bio: whether it is for a request of a guest that is recorded. While draining, what guests begin
 * is not followed, and what they have begun is not told from that. */
#define xen_blk_is_taken(bio) (xw_config_now->state == XW_ON && xw_xen_blk_is_recorded(bio))

/* There, with a request's first bio: the key of that request. The ring has been read up to it and no further. */
static __always_inline struct xw_key xen_blk_taken(struct bio *bio)
{
	struct pending_req *pending = xen_blk_of(bio);
	struct xen_blkif_ring *ring = READ(pending->ring);
	struct blkif_sring *shared = READ(ring->blk_rings.native.sring);
	u32 slot = READ(ring->blk_rings.common.req_cons) - 1;
	u32 at = slot & (READ(ring->blk_rings.native.nr_ents) - 1);
	/* In the same place where its segments are indirect. */
	const u64 request = XW_XEN_BLK(slot, READ(shared->ring[at].req.u.rw.sector_number));

	xw_xen_blk_received_put(xw_number((u64)pending), &request);
	return xw_xen_blk_request(xw_xen_blk_back(ring), xw_xen_blk_peer(ring), request);
}

/* At the entry of xen_blkbk_unmap_and_respond_callback, which answers a request: that, */
static __always_inline struct pending_req *xen_blk_answers(struct gntab_unmap_queue_data *data)
{
	return READ(data->data);
}

/* and the key of the answer. */
static __always_inline struct xw_key xen_blk_given(struct gntab_unmap_queue_data *data)
{
	struct pending_req *pending = READ(data->data);
	struct xen_blkif_ring *ring = READ(pending->ring);
	u64 request = 0;

	xw_xen_blk_received_get(xw_number((u64)pending), &request);
	xw_xen_blk_received_drop(xw_number((u64)pending));
	return xw_xen_blk_answer(xw_xen_blk_back(ring), xw_xen_blk_peer(ring), request);
}

#endif
