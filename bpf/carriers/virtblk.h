/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest's side of its memory, where that is what data crosses on: the requests of virtio-blk and virtio-scsi.
 * drivers/block/virtio_blk.c, drivers/scsi/virtio_scsi.c, include/linux/blk-mq.h, include/scsi/scsi_cmnd.h,
 * arch/x86/include/asm/page_64.h; Linux 6.1 to 7.3.
 */
#ifndef XW_CARRIER_VIRTBLK_H
#define XW_CARRIER_VIRTBLK_H

#include "carriers/offered.h"

extern const void vmemmap_base __ksym;

/* How far into a bio's current part it has come: include/linux/bvec.h, renamed in 7.3. */
struct bvec_iter___renamed {
	unsigned int bi_offset;
	unsigned int bi_bvec_done;
} __attribute__((preserve_access_index));

static __always_inline u32 xw_bio_part_done(struct bio *bio)
{
	struct bvec_iter___renamed *iter = (void *)&bio->bi_iter;

	return bpf_core_field_exists(iter->bi_offset) ? READ(iter->bi_offset) : READ(iter->bi_bvec_done);
}

/* The physical address of the first byte of a request's data; 0 if it has none, or there is no request. */
static __noinline u64 request_address(struct request *rq)
{
	struct bio *bio = rq ? READ(rq->bio) : NULL;
	struct bio_vec *part = bio ? READ(bio->bi_io_vec) : NULL;
	u64 pages = 0;

	if (!bio || !part || !READ(rq->__data_len))
		return 0;
	part = (void *)part + READ(bio->bi_iter.bi_idx) * bpf_core_type_size(struct bio_vec);
	bpf_probe_read_kernel(&pages, sizeof(pages), &vmemmap_base);
	return (((u64)READ(part->bv_page) - pages) / bpf_core_type_size(struct page) << 12) +
	       READ(part->bv_offset) + xw_bio_part_done(bio);
}

/* What the drivers have behind a request: drivers/block/virtio_blk.c and include/scsi/scsi_cmnd.h, Linux 6.1 to 7.3. */
struct sg_table___count {
	unsigned int nents;
} __attribute__((preserve_access_index));
struct virtblk_req___table {
	struct sg_table___count sg_table;
} __attribute__((preserve_access_index));
struct scsi_data_buffer___table {
	struct sg_table___count table;
} __attribute__((preserve_access_index));
struct scsi_cmnd___table {
	struct scsi_data_buffer___table sdb;
} __attribute__((preserve_access_index));

/* The number of parts of a request's data that its driver gives the ring. That is what the block layer has made of its
 * segments: those that follow each other in memory are one part. Where the driver's structures are not known, the number of
 * segments. */
static __noinline u32 request_parts(struct request *rq)
{
	void *behind = (void *)rq + bpf_core_type_size(struct request);
	struct virtblk_req___table *block = behind;
	struct scsi_cmnd___table *scsi = behind;
	struct request_queue *queue = READ(rq->q);
	struct gendisk *disk = READ(queue->disk);

	if (READ(disk->disk_name[0]) == 's') {
		if (bpf_core_field_exists(scsi->sdb))
			return READ(scsi->sdb.table.nents);
	} else if (bpf_core_field_exists(block->sg_table)) {
		return READ(block->sg_table.nents);
	}
	return READ(rq->nr_phys_segments);
}

/* The guest's side: the data of a request that it puts onto the ring; the device is told which flow that is. */
#define request_memory(rq) xw_request_memory(rq, xw_xflow, xw_flow)

static __always_inline struct xw_offered_key xw_request_memory(struct request *rq, u64 xflow, u64 flow)
{
	struct xw_offered_key offered = { .key.ring = request_address(rq) };

	xw_offer_parts(&offered.key, xflow, flow, request_parts(rq));
	return offered;
}

/* And of one that has been done. */
#define request_done(rq) xw_request_done(rq, xw_xflow)

static __always_inline struct xw_key xw_request_done(struct request *rq, u64 xflow)
{
	struct xw_key key = { .ring = request_address(rq) };

	xw_retract(&key, xflow);
	return key;
}

/* The request that a driver of disks gave its ring this for; NULL if it is none. A request has the driver's words behind
 * it: for virtio-blk (a device of type 2) these, for virtio-scsi (8) the SCSI command, to which the first of these points.
 * The first two queues of virtio-scsi are for other things. */
static __always_inline struct request *virtio_request(struct virtqueue *queue, void *data)
{
	struct virtio_device *device = READ(queue->vdev);
	u32 type = READ(device->id.device);

	if (type == 8)
		data = READ(queue->index) < 2 ? NULL : READ(*(void **)data);
	else if (type != 2)
		data = NULL;
	return data ? data - bpf_core_type_size(struct request) : NULL;
}

/* Whether a request is for a disk of these drivers: vda, sda. */
static __always_inline bool request_is_virtio(struct request *rq)
{
	u8 first = READ(rq->q->disk->disk_name[0]);

	return (first == 'v' || first == 's') && READ(rq->q->disk->disk_name[1]) == 'd';
}

#endif
