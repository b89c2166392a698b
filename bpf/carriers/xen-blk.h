/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Requests of paravirtual disks on Xen: struct blkif_request of include/xen/interface/io/blkif.h, Linux 6.1 to 6.12; what
 * the keys of both ends (xen-blkfront.h, xen-blkback.h) have in common.
 *
 * A request takes one slot of a ring, however many segments it has: indirect ones lie in pages of their own. Its key is
 * that slot, and as a check the sector it begins with. Answers come in any order, so the slots that they take say nothing:
 * an answer has the key of its request, as a check alone.
 */
#ifndef XW_CARRIER_XEN_BLK_H
#define XW_CARRIER_XEN_BLK_H

/* Of a request: in its key, and what is remembered of it until it is answered. */
#define XW_XEN_BLK(slot, sector) ((u64)(u16)(slot) << 32 | (u32)(sector))

static __always_inline struct xw_key xw_xen_blk_request(u64 ring, u64 peer, u64 request)
{
	return (struct xw_key){ .ring = ring, .index = request >> 32, .check = (u32)request, .peer = peer };
}

static __always_inline struct xw_key xw_xen_blk_answer(u64 ring, u64 peer, u64 request)
{
	return (struct xw_key){ .ring = ring, .check = request, .peer = peer };
}

#endif
