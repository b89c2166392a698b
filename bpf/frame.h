/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a network frame is, as its headers say: crates/flow/src/frame.rs reads it.
 *
 * Headers are a guest's word, or a stranger's: no length among them is believed beyond the buffer's linear part.
 */
#ifndef XW_FRAME_H
#define XW_FRAME_H

#include "forget.h"

/* The words of a record of kind XW_FRAME. */
enum xw_frame_word {
	/* Bytes after the headers that are known (32 bits), EtherType (16), IP protocol or ARP operation (8),
	 * TCP flags or ICMP type (8). */
	XW_FRAME_WHAT,
	/* Addresses as they are on the wire, two words each; IPv4's and ARP's are the first 4 bytes. */
	XW_FRAME_SOURCE,
	XW_FRAME_TARGET = XW_FRAME_SOURCE + 2,
	/* TCP's sequence number (32 bits) and acknowledgement (32); ICMP echo's identifier (16) and number (16), and 0. */
	XW_FRAME_SEQUENCE = XW_FRAME_TARGET + 2,
	/* IPv4's identification (16) and fragment word (16: 0x2000 more follow, offset / 8), ports (16 each). */
	XW_FRAME_PORTS,
	XW_FRAME_WORDS
};

/* include/uapi/linux/if_ether.h, include/uapi/linux/in.h, include/uapi/linux/icmpv6.h */
#define XW_ETH_IPV4 0x0800
#define XW_ETH_ARP 0x0806
#define XW_ETH_IPV6 0x86dd
#define XW_ICMP 1
#define XW_TCP 6
#define XW_UDP 17
#define XW_ICMPV6 58

static __always_inline u64 xw_four_bytes(void *from)
{
	return READ(*(u32 *)from);
}

/* The transport header, of which `room` bytes are there to be read; `what` is what is known. Returns bytes of header. */
static __always_inline u32 xw_frame_transport(u64 *words, u32 protocol, void *at, s64 room)
{
	if ((protocol == XW_TCP || protocol == XW_UDP) && room >= 8)
		words[XW_FRAME_PORTS] |= __builtin_bswap32(xw_four_bytes(at));
	if (protocol == XW_UDP && room >= 8)
		return 8;
	if (protocol == XW_TCP && room >= 20) {
		words[XW_FRAME_SEQUENCE] = (u64)__builtin_bswap32(xw_four_bytes(at + 4)) << 32 |
					   __builtin_bswap32(xw_four_bytes(at + 8));
		words[XW_FRAME_WHAT] |= READ(*(u8 *)(at + 13));
		return (READ(*(u8 *)(at + 12)) >> 4) * 4;
	}
	if ((protocol == XW_ICMP || protocol == XW_ICMPV6) && room >= 8) {
		u32 type = READ(*(u8 *)at);
		/* Echo and its reply. */
		if (protocol == XW_ICMP ? type == 8 || type == 0 : type == 128 || type == 129)
			words[XW_FRAME_SEQUENCE] = (u64)__builtin_bswap32(xw_four_bytes(at + 4)) << 32;
		words[XW_FRAME_WHAT] |= type;
		return 8;
	}
	return 0;
}

/* Whether a transport header is of a kind that is read. */
static __always_inline bool xw_is_transport(u32 protocol)
{
	return protocol == XW_TCP || protocol == XW_UDP || protocol == XW_ICMP || protocol == XW_ICMPV6;
}

struct xw_frame_words {
	u64 at[XW_FRAME_WORDS];
};

/* Reads a frame of this EtherType whose network header is at `at`, of which `left` bytes are there to be read, and which has
 * `bytes` in all; the words are 0 before. Returns whether all headers were there. Not static: the verifier goes through it
 * once for each program, however many paths of it lead here. */
__noinline int xw_frame_at(u32 type, u64 at, s64 left, s64 bytes, struct xw_frame_words *frame)
{
	u32 header = 0, protocol = 0, transport = 0;
	bool whole = type != XW_ETH_IPV4 && type != XW_ETH_IPV6 && type != XW_ETH_ARP;
	void *from = (void *)at;
	u64 *words;

	if (!frame)
		return false;
	words = frame->at;
	words[XW_FRAME_WHAT] = (u64)type << 16;
	if (type == XW_ETH_IPV4 && left >= 20) {
		u32 fragment = __builtin_bswap32(xw_four_bytes(from + 4));
		u16 total = __builtin_bswap16(READ(*(u16 *)(from + 2)));

		/* Ethernet pads what is short. */
		if (total >= 20 && total < bytes)
			bytes = total;
		protocol = READ(*(u8 *)(from + 9));
		header = (READ(*(u8 *)from) & 15) * 4;
		words[XW_FRAME_SOURCE] = xw_four_bytes(from + 12);
		words[XW_FRAME_TARGET] = xw_four_bytes(from + 16);
		words[XW_FRAME_PORTS] = (u64)(fragment & 0xffff3fff) << 32;
		whole = fragment & 0x1fff;
		if (!whole)
			transport = xw_frame_transport(words, protocol, from + header, left - header);
	} else if (type == XW_ETH_IPV6 && left >= 40) {
		protocol = READ(*(u8 *)(from + 6));
		header = 40;
		words[XW_FRAME_SOURCE] = READ(*(u64 *)(from + 8));
		words[XW_FRAME_SOURCE + 1] = READ(*(u64 *)(from + 16));
		words[XW_FRAME_TARGET] = READ(*(u64 *)(from + 24));
		words[XW_FRAME_TARGET + 1] = READ(*(u64 *)(from + 32));
		transport = xw_frame_transport(words, protocol, from + header, left - header);
	} else if (type == XW_ETH_ARP && left >= 28) {
		protocol = READ(*(u8 *)(from + 7));
		bytes = header = 28;
		whole = true;
		words[XW_FRAME_SOURCE] = xw_four_bytes(from + 14);
		words[XW_FRAME_TARGET] = xw_four_bytes(from + 24);
	}
	/* Of others only the protocol is known. */
	if (header && (transport || !xw_is_transport(protocol)))
		whole = true;
	header += transport;
	words[XW_FRAME_WHAT] |= (u64)(u8)protocol << 8;
	if (bytes > header)
		words[XW_FRAME_WHAT] |= (u64)(bytes - header) << 32;
	return whole;
}

/* Reads a frame whose network header is at `at`, as xw_frame_at does. */
static __always_inline bool xw_frame(struct sk_buff *skb, void *at, struct xw_frame_words *words)
{
	s64 from = (s64)at, left, bytes;

	XW_FORGET(from);
	left = (s64)(READ(skb->head) + READ(skb->tail)) - from;
	bytes = (s64)READ(skb->len) - (from - (s64)READ(skb->data));
	return xw_frame_at(__builtin_bswap16(READ(skb->protocol)), from, left, bytes, words);
}

/* include/uapi/linux/virtio_net.h: bits 15 and 57 */
#define XW_VIRTIO_NET_F_MRG_RXBUF (1ULL << 15)
#define XW_VIRTIO_NET_F_HASH_REPORT (1ULL << 57)

static __always_inline u64 xw_virtio_features(struct virtqueue *queue)
{
	struct virtio_device *device = READ(queue->vdev);

	return READ(device->features);
}

/* Where in a mergeable buffer the network header is: behind a header of virtio's (virtio 1.2, 5.1.6) and Ethernet's. */
static __always_inline u32 xw_virtio_net_header(u64 features)
{
	return (features & XW_VIRTIO_NET_F_HASH_REPORT ? 20 : 12) + 14;
}

/* Reads the frame in such a buffer, as xw_frame_at does. */
static __always_inline bool xw_virtio_net_frame(u64 features, void *buffer, u32 bytes, struct xw_frame_words *words)
{
	u32 header = xw_virtio_net_header(features);
	s64 left = (s64)bytes - header;
	void *at = buffer + header;

	return xw_frame_at(__builtin_bswap16(READ(*(u16 *)(at - 2))), (u64)at, left, left, words);
}

/* A record of what a frame is whose network header is there: xw_flow's, as all that STORE_… makes. */
#define STORE_FRAME(skb, header)                                                                   \
	({                                                                                         \
		struct xw_frame_words xw_words = {};                                               \
		xw_frame((void *)(skb), (void *)(header), &xw_words);                              \
		_Static_assert(XW_FRAME_WORDS == 7, "all words are stored");                       \
		XW_RECORD(XW_FRAME, xw_flow, 7, xw_words.at[0], xw_words.at[1], xw_words.at[2],   \
			  xw_words.at[3], xw_words.at[4], xw_words.at[5], xw_words.at[6]);         \
	})

/* The network header of what is being sent. Of what has just been received, data begins with it. */
#define frame_header(skb) (READ((skb)->head) + READ((skb)->network_header))

#endif
