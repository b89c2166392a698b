/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which frames are followed: the recording's `where`, asked at each place where frames begin.
 *
 * Weaving writes it as XW_WHERE(words), over the words of frame.h; and XW_WHERE_SOURCE, whether it looks at where a frame
 * comes from. Without a `where` every frame is followed, and nothing is read.
 */
#ifndef XW_WHERE_H
#define XW_WHERE_H

#include "frame.h"

#ifdef XW_WHERE

/* A frame whose network header is at `at`; false while its headers are not all there, as before GRO or IP have pulled
 * them out of a page: then it is asked again, further up. */
#define frame_wanted(skb, at)                                                                      \
	({                                                                                         \
		u64 xw_words[XW_FRAME_WORDS];                                                      \
		xw_frame((void *)(skb), (void *)(at), xw_words) && (XW_WHERE(xw_words));           \
	})

/* What a socket call is about to send; `msg` says where to, if the socket is not connected (0: it is). */
#define socket_wanted(sk, msg)                                                                     \
	({                                                                                         \
		u64 xw_words[XW_FRAME_WORDS];                                                      \
		xw_socket_frame((void *)(sk), (void *)(msg), xw_words) && (XW_WHERE(xw_words));    \
	})

/* What has just come off a receive queue of virtio-net: the first of the buffers that a frame is in. Where buffers are not
 * mergeable, the driver alone knows at which place in them: those are followed, whatever is in them. */
#define virtio_net_wanted(vq, buffer, bytes)                                                       \
	({                                                                                         \
		u64 xw_words[XW_FRAME_WORDS], xw_features = xw_virtio_features((void *)(vq));      \
		!(xw_features & XW_VIRTIO_NET_F_MRG_RXBUF) ||                                      \
			(xw_virtio_net_frame(xw_features, (void *)(buffer), READ(*(bytes)),        \
					     xw_words) &&                                          \
			 (XW_WHERE(xw_words)));                                                    \
	})

#else

#define frame_wanted(skb, at) true
#define socket_wanted(sk, msg) true
#define virtio_net_wanted(vq, buffer, bytes) true

#endif

/* What a filter asks of the words. */

static __always_inline bool xw_is_ether(u64 *words, u16 type)
{
	return (u16)(words[XW_FRAME_WHAT] >> 16) == type;
}

static __always_inline bool xw_is_ip(u64 *words, u8 protocol)
{
	return !xw_is_ether(words, XW_ETH_ARP) && (u8)(words[XW_FRAME_WHAT] >> 8) == protocol;
}

/* A source port, or a target port, from `first` to `last`. Fragments but the first have none. */
static __always_inline bool xw_is_port(u64 *words, bool source, bool target, u16 first, u16 last)
{
	u16 from = words[XW_FRAME_PORTS] >> 16, to = words[XW_FRAME_PORTS];

	if (!(xw_is_ip(words, XW_TCP) || xw_is_ip(words, XW_UDP)) || words[XW_FRAME_PORTS] >> 32 & 0x1fff)
		return false;
	return (source && from >= first && from <= last) || (target && to >= first && to <= last);
}

/* An address of this net: bytes as they are on the wire, in two words. */
static __always_inline bool xw_is_net(u64 *words, bool source, bool target, bool ipv6, u64 first, u64 second,
				      u64 first_mask, u64 second_mask)
{
	u64 *from = words + XW_FRAME_SOURCE, *to = words + XW_FRAME_TARGET;

	if (ipv6 ? !xw_is_ether(words, XW_ETH_IPV6) :
		   !xw_is_ether(words, XW_ETH_IPV4) && !xw_is_ether(words, XW_ETH_ARP))
		return false;
	return (source && (from[0] & first_mask) == first && (from[1] & second_mask) == second) ||
	       (target && (to[0] & first_mask) == first && (to[1] & second_mask) == second);
}

#ifdef XW_WHERE

/* include/linux/socket.h */
#define XW_AF_INET 2
#define XW_AF_INET6 10

/* An IPv6 address that stands for one of IPv4 (RFC 4291, 2.5.5.2). */
static __always_inline bool xw_is_mapped(u64 *address)
{
	return !address[0] && (u32)address[1] == 0xffff0000;
}

/* The frame that a socket's data will be in; false if the filter asks for what is not known yet, the address of a socket
 * that has none: then the frame is asked where it is given to a device. */
static __noinline bool xw_socket_frame(struct sock *sk, struct msghdr *msg, u64 *words)
{
	struct sockaddr_in6 *name = msg ? READ(msg->msg_name) : NULL;
	u16 family = READ(sk->__sk_common.skc_family), type = XW_ETH_IPV4;
	u16 port = READ(sk->__sk_common.skc_dport);

	_Pragma("unroll") for (int i = 0; i < XW_FRAME_WORDS; i++) words[i] = 0;
	words[XW_FRAME_SOURCE] = READ(sk->__sk_common.skc_rcv_saddr);
	words[XW_FRAME_TARGET] = READ(sk->__sk_common.skc_daddr);
	if (name) {
		family = READ(name->sin6_family) == XW_AF_INET6 ? XW_AF_INET6 : XW_AF_INET;
		port = READ(name->sin6_port);
		if (family == XW_AF_INET)
			words[XW_FRAME_TARGET] = READ(((struct sockaddr_in *)name)->sin_addr.s_addr);
	}
	if (family == XW_AF_INET6) {
		u64 *to = name ? (u64 *)&name->sin6_addr : (u64 *)&sk->__sk_common.skc_v6_daddr;
		u64 target[2] = { READ(to[0]), READ(to[1]) };

		if (xw_is_mapped(target)) {
			words[XW_FRAME_TARGET] = target[1] >> 32;
		} else {
			u64 *from = (u64 *)&sk->__sk_common.skc_v6_rcv_saddr;

			type = XW_ETH_IPV6;
			words[XW_FRAME_TARGET] = target[0];
			words[XW_FRAME_TARGET + 1] = target[1];
			words[XW_FRAME_SOURCE] = READ(from[0]);
			words[XW_FRAME_SOURCE + 1] = READ(from[1]);
		}
	}
	words[XW_FRAME_WHAT] = (u64)type << 16 | (READ(sk->sk_protocol) & 0xff) << 8;
	words[XW_FRAME_PORTS] = (u64)READ(sk->__sk_common.skc_num) << 16 | __builtin_bswap16(port);
	return !XW_WHERE_SOURCE || words[XW_FRAME_SOURCE] || words[XW_FRAME_SOURCE + 1];
}

#endif
#endif
