/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes of events: frames in queueing disciplines. */

/* Frames that are dequeued at once are told up to here. */
#define XW_BULK 16

#define XW_ETH_P_IP 0x0800
#define XW_ETH_P_IPV6 0x86dd
#define XW_IPPROTO_TCP 6
#define XW_IPPROTO_UDP 17

/* As the frame's sender calls the connection; 0 if it is of none, or a later part of a packet. Frames that are forwarded
 * have no transport header set. */
static __always_inline u64 xw_frame_connection(struct sk_buff *skb)
{
	unsigned char *network = skb->head + skb->network_header;
	u16 type = __builtin_bswap16(skb->protocol), offset = 0, ports[2] = {};
	u8 first = 0, protocol = 0;
	u32 words[8] = {}, size;

	if (type == XW_ETH_P_IP) {
		bpf_probe_read_kernel(&first, sizeof(first), network);
		bpf_probe_read_kernel(&offset, sizeof(offset), network + 6);
		bpf_probe_read_kernel(&protocol, sizeof(protocol), network + 9);
		bpf_probe_read_kernel(words, 8, network + 12);
		size = (first & 0xf) * 4;
		if (__builtin_bswap16(offset) & 0x1fff)
			return 0;
	} else if (type == XW_ETH_P_IPV6) {
		bpf_probe_read_kernel(&protocol, sizeof(protocol), network + 6);
		bpf_probe_read_kernel(words, 32, network + 8);
		size = 40;
	} else {
		return 0;
	}
	if (protocol != XW_IPPROTO_TCP && protocol != XW_IPPROTO_UDP)
		return 0;
	bpf_probe_read_kernel(ports, sizeof(ports), network + size);
	return xw_connection_of(words, ports);
}

/* A queue that needs no lock may have given the frame away already: what is read of it then is nothing that it was. */
XW_PROGRAM("tp_btf", qdisc_enqueue)
{
	struct Qdisc *discipline = (void *)ctx[0];
	struct netdev_queue *queue = (void *)ctx[1];
	struct sk_buff *skb = (void *)ctx[2];
	u64 kind[2] = {};

	bpf_probe_read_kernel(kind, sizeof(kind), discipline->ops->id);
	XW_EVENT(XW_QDISC_ENQUEUE, XW_TID, 0, xw_frame_connection(skb),
		 XW_PAIR(queue->dev->ifindex, xw_object_key(skb)), kind[0], kind[1]);
}

XW_PROGRAM("tp_btf", qdisc_dequeue)
{
	struct netdev_queue *queue = (void *)ctx[1];
	struct sk_buff *skb = (void *)ctx[3];
	u64 name[2] = {};
	s32 frames = ctx[2];

	if (!skb)
		return;
	bpf_probe_read_kernel(name, sizeof(name), queue->dev->name);
	for (s32 i = 0; i < XW_BULK && i < frames && skb; i++) {
		XW_EVENT(XW_QDISC_DEQUEUE, XW_TID, 0, XW_PAIR(queue->dev->ifindex, xw_object_key(skb)), name[0],
			 name[1]);
		skb = BPF_CORE_READ(skb, next);
	}
}
