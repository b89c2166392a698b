/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes of events: disk I/O requests. */

/* The whole disk, whatever part of it was named: major << 20 | minor. */
static __always_inline u32 xw_disk(struct gendisk *disk)
{
	return (u32)disk->major << 20 | (u32)disk->first_minor;
}

/* Access of crates/trace/src/event.rs, of REQ_OP_READ and REQ_OP_WRITE (include/linux/blk_types.h). */
static __always_inline s8 xw_access(u32 flags)
{
	u32 operation = flags & 0xff;

	return operation < 2 ? operation : 2;
}

/* By then the sector is the disk's, whatever part of it was asked. */
static __always_inline void xw_bio(enum xw_kind kind, struct bio *bio)
{
	XW_EVENT(kind, XW_TID, xw_access(bio->bi_opf), bio->bi_iter.bi_sector,
		 XW_PAIR(bio->bi_iter.bi_size, xw_disk(bio->bi_bdev->bd_disk)));
}

static __always_inline void xw_request(enum xw_kind kind, struct request *request, u32 bytes)
{
	struct gendisk *disk = request->q->disk;

	/* Commands to a controller, REQ_OP_DRV_IN and REQ_OP_DRV_OUT, are no accesses to a disk. */
	if (!disk || (request->cmd_flags & 0xff) >= 34)
		return;
	XW_EVENT(kind, XW_TID, xw_access(request->cmd_flags), request->__sector,
		 XW_PAIR(bytes, xw_disk(disk)));
}

#ifdef XW_HAS_block_bio_queue
XW_PROGRAM("tp_btf", block_bio_queue)
{
	xw_bio(XW_DISK_QUEUE, (void *)ctx[0]);
}
#endif

#ifdef XW_HAS_block_bio_backmerge
XW_PROGRAM("tp_btf", block_bio_backmerge)
{
	xw_bio(XW_DISK_MERGE, (void *)ctx[0]);
}
#endif

#ifdef XW_HAS_block_bio_frontmerge
XW_PROGRAM("tp_btf", block_bio_frontmerge)
{
	xw_bio(XW_DISK_MERGE, (void *)ctx[0]);
}
#endif

#ifdef XW_HAS_block_rq_merge
XW_PROGRAM("tp_btf", block_rq_merge)
{
	struct request *request = (void *)ctx[0];

	xw_request(XW_DISK_MERGE, request, request->__data_len);
}
#endif

#ifdef XW_HAS_block_rq_issue
XW_PROGRAM("tp_btf", block_rq_issue)
{
	struct request *request = (void *)ctx[0];

	xw_request(XW_DISK_ISSUE, request, request->__data_len);
}
#endif

#ifdef XW_HAS_block_rq_complete
XW_PROGRAM("tp_btf", block_rq_complete)
{
	xw_request(XW_DISK_COMPLETE, (void *)ctx[0], ctx[2]);
}
#endif
