/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which frames are followed: the recording's filter (--where), evaluated where frames begin.
 *
 * The filter is data, so that an object serves any of them: tests of a frame's words (frame.h), each with the test to go
 * on with when it holds and when it does not (crates/weave/src/selection.rs). Without a filter there are no tests, which
 * the verifier knows: then every frame is followed, and nothing is read.
 */
#ifndef XW_WHERE_H
#define XW_WHERE_H

#include "forget.h"
#include "frame.h"

/* How many tests a filter has at most, and the numbers that stand for its results instead of a further test. */
#define XW_WHERE_TESTS 64
#define XW_WHERE_ACCEPT 255
#define XW_WHERE_REJECT 254

/* What a test asks. */
enum xw_where_kind {
	XW_WHERE_ETHER, /* the EtherType is `low` */
	XW_WHERE_IP,    /* the protocol within IPv4 or IPv6 is `low` */
	XW_WHERE_PORT,  /* a port of TCP or UDP is from `low` to `high` */
	XW_WHERE_NET4,  /* an address, under the masks, is this: of IPv4 or ARP, */
	XW_WHERE_NET6   /* of IPv6 */
};

/* Ends of a frame that a test of ports or addresses asks for. */
#define XW_WHERE_SOURCE 1
#define XW_WHERE_TARGET 2

/* crates/weave/src/selection.rs */
struct xw_where_test {
	u64 net[2]; /* bytes as they are on the wire */
	u64 masks[2];
	u16 low, high;
	u8 kind, ends;
	u8 accept, reject; /* the test to go on with, or a result */
};

struct xw_where_filter {
	u32 count; /* the last test is the first that is asked; 0: there is no filter */
	u32 source; /* whether a test asks for a source address */
	struct xw_where_test tests[XW_WHERE_TESTS];
};

const volatile struct xw_where_filter xw_where = {};

#define XW_HAS_WHERE (xw_where.count != 0)

struct xw_where_run {
	u64 words[XW_FRAME_WORDS];
	u64 at;
};

static __always_inline bool xw_where_is_port(const volatile struct xw_where_test *test, u64 *words)
{
	u16 from = words[XW_FRAME_PORTS] >> 16, to = words[XW_FRAME_PORTS];
	u32 protocol = (u8)(words[XW_FRAME_WHAT] >> 8);

	/* Fragments but the first have no ports. */
	if ((u16)(words[XW_FRAME_WHAT] >> 16) == XW_ETH_ARP || (protocol != XW_TCP && protocol != XW_UDP) ||
	    words[XW_FRAME_PORTS] >> 32 & 0x1fff)
		return false;
	return (test->ends & XW_WHERE_SOURCE && from >= test->low && from <= test->high) ||
	       (test->ends & XW_WHERE_TARGET && to >= test->low && to <= test->high);
}

static __always_inline bool xw_where_is_net(const volatile struct xw_where_test *test, u64 *words)
{
	u64 *from = words + XW_FRAME_SOURCE, *to = words + XW_FRAME_TARGET;

	return (test->ends & XW_WHERE_SOURCE && (from[0] & test->masks[0]) == test->net[0] &&
		(from[1] & test->masks[1]) == test->net[1]) ||
	       (test->ends & XW_WHERE_TARGET && (to[0] & test->masks[0]) == test->net[0] &&
		(to[1] & test->masks[1]) == test->net[1]);
}

static __always_inline bool xw_where_holds(const volatile struct xw_where_test *test, u64 *words)
{
	u16 ether = words[XW_FRAME_WHAT] >> 16;

	switch (test->kind) {
	case XW_WHERE_ETHER:
		return ether == test->low;
	case XW_WHERE_IP:
		return ether != XW_ETH_ARP && (u8)(words[XW_FRAME_WHAT] >> 8) == test->low;
	case XW_WHERE_PORT:
		return xw_where_is_port(test, words);
	case XW_WHERE_NET4:
		return (ether == XW_ETH_IPV4 || ether == XW_ETH_ARP) && xw_where_is_net(test, words);
	case XW_WHERE_NET6:
		return ether == XW_ETH_IPV6 && xw_where_is_net(test, words);
	}
	return false;
}

static long xw_where_step(u32 nth, struct xw_where_run *run)
{
	const volatile struct xw_where_test *test;
	u64 at = run->at;

	if (at >= XW_WHERE_TESTS)
		return 1;
	test = &xw_where.tests[at];
	run->at = xw_where_holds(test, run->words) ? test->accept : test->reject;
	return 0;
}

/* Whether the filter accepts these words. Not static: the verifier goes through it once for each program. */
__noinline int xw_where_accepts(struct xw_frame_words *words)
{
	struct xw_where_run run = { .at = xw_where.count - 1 };

	if (!words)
		return false;
	_Pragma("unroll") for (u32 i = 0; i < XW_FRAME_WORDS; i++) run.words[i] = words->at[i];
	XW_FORGET(run.at);
	bpf_loop(XW_WHERE_TESTS, xw_where_step, &run, 0);
	return run.at == XW_WHERE_ACCEPT;
}

/* A frame with this network header; false while its headers are not all there, as before GRO or IP have pulled
 * them out of a page: then it is asked again, further up. */
#define frame_wanted(skb, header)                                                                  \
	(!XW_HAS_WHERE || ({                                                                       \
		struct xw_frame_words xw_words = {};                                               \
		xw_frame((void *)(skb), (void *)(header), &xw_words) &&                            \
			xw_where_accepts(&xw_words);                                                 \
	}))

/* What a socket call is about to send; `msg` says where to, if the socket is not connected (0: it is). */
#define socket_wanted(sk, msg)                                                                     \
	(!XW_HAS_WHERE || ({                                                                       \
		struct xw_frame_words xw_words = {};                                               \
		xw_socket_frame((void *)(sk), (void *)(msg), &xw_words) &&                         \
			xw_where_accepts(&xw_words);                                                 \
	}))

/* What has just come off a receive queue of virtio-net: the first of the buffers that a frame is in. Where buffers are not
 * mergeable, the driver alone knows at which place in them: those are followed, whatever is in them. */
#define virtio_net_wanted(vq, buffer, bytes)                                                       \
	(!XW_HAS_WHERE || ({                                                                       \
		struct xw_frame_words xw_words = {};                                               \
		u64 xw_features = xw_virtio_features((void *)(vq));                                \
		!(xw_features & XW_VIRTIO_NET_F_MRG_RXBUF) ||                                      \
			(xw_virtio_net_frame(xw_features, (void *)(buffer), READ(*(bytes)),        \
					     &xw_words) &&                                         \
			 xw_where_accepts(&xw_words));                                               \
	}))

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
static __noinline bool xw_socket_frame(struct sock *sk, struct msghdr *msg, struct xw_frame_words *frame)
{
	struct sockaddr_in6 *name = msg ? READ(msg->msg_name) : NULL;
	u16 family = READ(sk->__sk_common.skc_family), type = XW_ETH_IPV4;
	u16 port = READ(sk->__sk_common.skc_dport);
	u64 *words = frame->at;

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
	return !xw_where.source || words[XW_FRAME_SOURCE] || words[XW_FRAME_SOURCE + 1];
}

#endif
