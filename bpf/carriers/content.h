/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frames known by what they are: the key where a network device is emulated (QEMU's vhost=off).
 *
 * There a process copies each frame between its guest's memory and the host's device, and no kernel sees which buffer
 * of which ring that was. What both kernels see is the frame. Frames whose headers say the same are told apart by their
 * order alone (crates/flow/src/crossing/matching.rs).
 */
#ifndef XW_CARRIER_CONTENT_H
#define XW_CARRIER_CONTENT_H

#include "frame.h"

/* In place of a ring: none is there. crates/flow/src/crossing.rs */
#define XW_CONTENT (~0ULL)

/* IPv4 says how long a frame is; how much of it lies in one piece differs from side to side. */
#define XW_ANY_LENGTH (1 << 20)

/* The key of a frame whose network header is at `at`, of which `left` bytes are there to be read. */
static __noinline u64 xw_content(void *at, s64 left)
{
	struct xw_frame_words words = {};
	u64 hash = 0xcbf29ce484222325ULL;

	xw_frame_at(__builtin_bswap16(READ(*(u16 *)(at - 2))), (u64)at, left, XW_ANY_LENGTH, &words);
	_Pragma("unroll") for (int i = 0; i < XW_FRAME_WORDS; i++)
	{
		hash = (hash ^ words.at[i]) * 0x9e3779b97f4a7c15ULL;
		hash ^= hash >> 32;
	}
	return hash;
}

/* Of a socket buffer that a device has, or had. Bytes of an Ethernet header: 14. */
static __always_inline struct xw_key xw_content_of(struct sk_buff *skb)
{
	void *head = READ(skb->head), *at = head + READ(skb->mac_header) + 14;
	struct xw_key key = {
		.ring = XW_CONTENT,
		.index = xw_content(at, (s64)(head + READ(skb->tail)) - (s64)at),
	};
	return key;
}

#endif
