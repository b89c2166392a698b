/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest's side of its memory, where that is what data crosses on: the requests of virtio-blk.
 * drivers/block/virtio_blk.c, include/linux/blk-mq.h, arch/x86/include/asm/page_64.h; Linux 6.1 to 6.12.
 */
#ifndef XW_CARRIER_VIRTBLK_H
#define XW_CARRIER_VIRTBLK_H

extern const void vmemmap_base __ksym;

/* The physical address of the first byte of a request's data; 0 if it has none. */
static __noinline u64 request_address(struct request *rq)
{
	struct bio *bio = READ(rq->bio);
	struct bio_vec *part = READ(bio->bi_io_vec);
	u64 pages = 0;

	if (!bio || !part || !READ(rq->__data_len))
		return 0;
	part = (void *)part + READ(bio->bi_iter.bi_idx) * bpf_core_type_size(struct bio_vec);
	bpf_probe_read_kernel(&pages, sizeof(pages), &vmemmap_base);
	return (((u64)READ(part->bv_page) - pages) / bpf_core_type_size(struct page) << 12) +
	       READ(part->bv_offset) + READ(bio->bi_iter.bi_bvec_done);
}

/* The guest's side: the data of a request. */
static __always_inline struct xw_key request_memory(struct request *rq)
{
	struct xw_key key = { .ring = request_address(rq) };
	return key;
}

/* The request that the driver of virtio-blk gave its ring this for. */
static __always_inline struct request *virtblk_request(void *data)
{
	return data - bpf_core_type_size(struct request);
}

/* Whether the queue is a block device's: type 2. */
static __always_inline bool virtqueue_is_block(struct virtqueue *queue)
{
	struct virtio_device *device = READ(queue->vdev);

	return READ(device->id.device) == 2;
}

#endif
