/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The host's ends of network devices that a process emulates: what it reads from a tap or macvtap device, it copies into
 * its guest; what its guest sends, it writes there. drivers/net/{tun,tap,macvtap}.c, Linux 6.1 to 7.3.
 */
#ifndef XW_CARRIER_TAP_H
#define XW_CARRIER_TAP_H

#include "carriers/content.h"

/* crates/wire/src/message.rs, SHARING_GUESTS */
#define XW_EMULATORS 64

/* From the agent: the processes that emulate the network devices of guests that are recorded; 0: there is none, and
 * none after it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XW_EMULATORS);
	__type(key, u32);
	__type(value, u32);
} xw_emulators SEC(".maps");

/* Whether the running process is one of them. */
__noinline int xw_emulates(void)
{
	u32 process = bpf_get_current_pid_tgid() >> 32;

	for (u32 i = 0; i < XW_EMULATORS; i++) {
		u32 at = i, *emulator = bpf_map_lookup_elem(&xw_emulators, &at);

		if (!emulator || !*emulator)
			break;
		if (*emulator == process)
			return true;
	}
	return false;
}

/* "tun" and its end, or the beginning of "macvtap". */
static __always_inline bool xw_is_tap(struct net_device *device)
{
	const struct rtnl_link_ops *ops = device ? READ(device->rtnl_link_ops) : NULL;
	u32 kind = ops ? READ(*(u32 *)READ(ops->kind)) : 0;

	return kind == 0x006e7574 || kind == 0x7663616d;
}

/* At the entry of skb_copy_datagram_iter: whether a guest's process is reading this from its device. */
static __always_inline bool tap_is_read(struct sk_buff *skb)
{
	return xw_emulates() && xw_is_tap(READ(skb->dev));
}

/* Thread → the socket buffer that it is writing into its device. */
XW_TABLE(xw_written, 1, 1024);

/* At the return of build_skb and sock_alloc_send_pskb: what is written will be in this, unless it is an interrupt's. */
static __always_inline void tap_is_written(struct sk_buff *skb)
{
	u64 buffer = (u64)skb;

	if (!xw_level() && xw_emulates())
		xw_written_put(bpf_get_current_pid_tgid(), &buffer);
}

/* Whether this has just been written, and has not been taken up yet. */
static __always_inline bool tap_was_written(struct sk_buff *skb)
{
	u64 buffer;

	return !xw_level() && xw_written_get(bpf_get_current_pid_tgid(), &buffer) && buffer == (u64)skb;
}

/* The host's side of a frame that is read, or that has been written: that is one of a guest that is recorded, and
 * whether it is followed nobody tells. */
static __always_inline struct xw_told_key tap_frame(struct sk_buff *skb)
{
	struct xw_told_key told = { .key = xw_content_of(skb) };
	u64 thread = bpf_get_current_pid_tgid();

	told.key.peer = thread >> 32;
	xw_written_drop(thread);
	return told;
}

#endif
