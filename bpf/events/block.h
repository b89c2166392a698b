/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes of events: disk I/O requests. */

/* The whole disk, whatever part of it was named: major << 20 | minor. */
static __always_inline u32 xw_disk(struct gendisk *disk)
{
	return (u32)disk->major << 20 | (u32)disk->first_minor;
}

/* enum xw_access, of REQ_OP_READ and REQ_OP_WRITE, which are 0 and 1 as well (include/linux/blk_types.h). */
static __always_inline s8 xw_access(u32 flags)
{
	u32 operation = flags & 0xff;

	return operation <= XW_ACCESS_WRITE ? operation : XW_ACCESS_OTHER;
}

/* By then the sector is the disk's, whatever part of it was asked. */
static __always_inline void xw_bio(enum xw_kind kind, struct bio *bio)
{
	XW_EVENT(kind, XW_TID, xw_access(bio->bi_opf), bio->bi_iter.bi_sector,
		 XW_PAIR(bio->bi_iter.bi_size, xw_disk(bio->bi_bdev->bd_disk)), xw_object_key(bio));
}

static __always_inline void xw_request(enum xw_kind kind, struct request *request, u32 bytes)
{
	struct gendisk *disk = request->q->disk;

	/* Commands to a controller, REQ_OP_DRV_IN and REQ_OP_DRV_OUT, are no accesses to a disk. */
	if (!disk || (request->cmd_flags & 0xff) >= 34)
		return;
	XW_EVENT(kind, XW_TID, xw_access(request->cmd_flags), request->__sector,
		 XW_PAIR(bytes, xw_disk(disk)), xw_object_key(request->bio));
}

XW_PROGRAM("tp_btf", block_bio_queue)
{
	xw_bio(XW_DISK_QUEUE, (void *)ctx[0]);
}

XW_PROGRAM("tp_btf", block_bio_backmerge)
{
	xw_bio(XW_DISK_MERGE, (void *)ctx[0]);
}

XW_PROGRAM("tp_btf", block_bio_frontmerge)
{
	xw_bio(XW_DISK_MERGE, (void *)ctx[0]);
}

XW_PROGRAM("tp_btf", block_rq_merge)
{
	struct request *request = (void *)ctx[0];

	xw_request(XW_DISK_MERGE, request, request->__data_len);
}

XW_PROGRAM("tp_btf", block_rq_issue)
{
	struct request *request = (void *)ctx[0];

	xw_request(XW_DISK_ISSUE, request, request->__data_len);
}

XW_PROGRAM("tp_btf", block_rq_complete)
{
	xw_request(XW_DISK_COMPLETE, (void *)ctx[0], ctx[2]);
}

/* By drivers that make no requests. By now the bio's sectors may be those of its last part. */
XW_PROGRAM("tp_btf", block_bio_complete)
{
	struct bio *bio = (void *)ctx[1];

	XW_EVENT(XW_DISK_COMPLETE, XW_TID, xw_access(bio->bi_opf), 0,
		 XW_PAIR(0, xw_disk(bio->bi_bdev->bd_disk)), xw_object_key(bio));
}

/* The number of the flag BIO_TRACE_COMPLETION, which differs between kernels and is of an enumeration without a name, which
 * cannot be relocated: from the controller. */
const volatile u32 xw_bio_trace_completion = 0;

/* bio_endio clears that flag, and blk_update_request for what a request has done: what still has
 * it was queued, and is no part of a request (include/linux/blk_types.h). */
static __always_inline bool xw_bio_traced(const struct bio *bio)
{
	return bio->bi_flags >> (xw_bio_trace_completion & 63) & 1;
}

/* A bio that goes on to another disk as it is. What is remapped before it is queued, from a partition or as a copy for
 * the disk below, is told when it is queued. */
XW_PROGRAM("tp_btf", block_bio_remap)
{
	struct bio *bio = (void *)ctx[0];
	struct block_device *device = bio->bi_bdev;
	u32 from = ctx[1];

	if (!xw_bio_traced(bio))
		return;
	/* From a partition, which stands for its disk, as it does in all of these events. */
	if (from == device->bd_dev)
		from = xw_disk(device->bd_disk);
	XW_EVENT(XW_DISK_REMAP, XW_TID, 0, bio->bi_iter.bi_sector, ctx[2],
		 XW_PAIR(xw_disk(device->bd_disk), from), bio->bi_iter.bi_size >> 9);
}
