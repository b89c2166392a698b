/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes of events: frames that wait for the link-layer address of their next hop. */

/* States of a neighbour: include/uapi/linux/neighbour.h. NUD_VALID is of include/net/neighbour.h. */
#define XW_NUD_INCOMPLETE 0x01
#define XW_NUD_VALID (0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80)

/* The frame is in the neighbour's queue: __neigh_event_send has returned 1, and the address is not known
 * (net/core/neighbour.c, 6.12). Another CPU may have taken it out since: then what is read of it is nothing that it was. */
XW_PROGRAM("fexit", neigh_event_send)
{
	struct neighbour *neigh = (void *)ctx[0];
	struct sk_buff *skb = (void *)ctx[1];
	u64 name[2] = {};

	if (!skb || xw_moved(ctx) != 1 || neigh->nud_state != XW_NUD_INCOMPLETE)
		return;
	bpf_probe_read_kernel(name, sizeof(name), neigh->dev->name);
	XW_EVENT(XW_NEIGH_ENQUEUE, XW_TID, 0, xw_frame_connection(skb),
		 XW_PAIR(xw_object_key(neigh), neigh->arp_queue.qlen), name[0], name[1]);
}

/* The state is the old one still, and the frames in the queue are sent after this. */
XW_PROGRAM("tp_btf", neigh_update)
{
	struct neighbour *neigh = (void *)ctx[0];

	if (neigh->nud_state == XW_NUD_INCOMPLETE && ctx[2] & XW_NUD_VALID)
		XW_EVENT(XW_NEIGH_DEQUEUE, XW_TID, 0, xw_object_key(neigh));
}
