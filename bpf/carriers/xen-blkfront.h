/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest's ends of the rings of a paravirtual disk on Xen: drivers/block/xen-blkfront.c, Linux 6.1 to 6.12.
 */
#ifndef XW_CARRIER_XEN_BLKFRONT_H
#define XW_CARRIER_XEN_BLKFRONT_H

#include "carriers/xen-blk.h"
#include "carriers/xen.h"

/* By the request of the block layer: what it has been sent as. */
XW_TABLE(xw_xen_blk_sent, 1, 4096);

static __always_inline struct blkfront_info *xw_xen_blk_disk(struct request *rq)
{
	struct request_queue *queue = READ(rq->q);

	return READ(queue->queuedata);
}

/* Which of the disk's rings a request goes through. */
static __always_inline u32 xw_xen_blk_queue(struct request *rq)
{
	struct blk_mq_hw_ctx *queue = READ(rq->mq_hctx);

	return READ(queue->queue_num);
}

static __always_inline u64 xw_xen_blk_front(struct request *rq)
{
	return XW_XEN_QUEUE(READ(xw_xen_blk_disk(rq)->handle), xw_xen_blk_queue(rq));
}

/* At the entry of __blk_rq_map_sg, with a request of blkfront's: it has a slot on the ring, and the back end is not shown
 * that before all of it is there. A request without data (a flush) comes here, too. */
static __always_inline struct xw_key xen_blk_put(struct request *rq)
{
	struct blkfront_info *disk = xw_xen_blk_disk(rq);
	struct blkfront_ring_info *ring =
		(void *)READ(disk->rinfo) + (u64)xw_xen_blk_queue(rq) * READ(disk->rinfo_size);
	const u64 request = XW_XEN_BLK(READ(ring->ring.req_prod_pvt) - 1, READ(rq->__sector));

	xw_xen_blk_sent_put(xw_number((u64)rq), &request);
	return xw_xen_blk_request(xw_xen_blk_front(rq), 0, request);
}

/* At the entry of blk_mq_complete_request: whether an answer to a request that was followed has been taken off the ring, */
static __always_inline bool xen_blk_is_answered(struct request *rq)
{
	u64 request;

	return xw_xen_blk_sent_get(xw_number((u64)rq), &request);
}

/* and its key. */
static __always_inline struct xw_key xen_blk_answered(struct request *rq)
{
	u64 request = 0;

	xw_xen_blk_sent_get(xw_number((u64)rq), &request);
	xw_xen_blk_sent_drop(xw_number((u64)rq));
	return xw_xen_blk_answer(xw_xen_blk_front(rq), 0, request);
}

#endif
