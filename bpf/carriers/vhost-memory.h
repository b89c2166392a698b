/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A guest's memory as vhost has it: drivers/vhost/{vhost.h,iotlb.c}, Linux 6.1 to 7.3.
 *
 * The table that vhost itself translates with (vhost_virtqueue.umem) has, for each region of a guest's memory, where it
 * begins for the guest (start) and in QEMU (addr).
 */
#ifndef XW_CARRIER_VHOST_MEMORY_H
#define XW_CARRIER_VHOST_MEMORY_H

/* QEMU maps a guest's memory in a handful of regions; a guest with more has been given hot-plugged
 * memory in many pieces, and its rings keep the address 0, which joins nothing and is counted. */
#define XW_MAX_REGIONS 32

/* An address of QEMU's memory for its guest, or of the guest's for QEMU; 0 if it is none. The queue is given as a
 * number: so the verifier goes through this once, and not wherever it is called. */
__noinline u64 xw_vhost_translate(u64 number, u64 address, u32 to_qemu)
{
	struct vhost_virtqueue *queue = (void *)number;
	struct vhost_iotlb *table = READ(queue->umem);
	struct list_head *head = &table->list;
	struct list_head *link = READ(head->next);

	for (int i = 0; i < XW_MAX_REGIONS && link != head && link; i++) {
		struct vhost_iotlb_map *map =
			(void *)link - bpf_core_field_offset(struct vhost_iotlb_map, link);
		u64 guest = READ(map->start), qemu = READ(map->addr), size = READ(map->size);
		u64 offset = address - (to_qemu ? guest : qemu);

		if (offset < size)
			return (to_qemu ? qemu : guest) + offset;
		link = READ(link->next);
	}
	return 0;
}

#endif
