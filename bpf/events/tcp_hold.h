/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes of events: what TCP was given to send, and holds back. */

/* The sockets that hold something back: their addresses, which are 64-byte aligned, and why. Of two with the same place
 * the later one stays, and what the other one holds back is told again. */
#define XW_HOLDERS 4096
#define XW_HOLD_REASONS 63ull
u64 xw_holders[XW_HOLDERS];

/* When the call began that may send it: by the time that it is over, this may have arrived. */
u64 xw_pushes[XW_HOLDERS];

static __always_inline u64 xw_socket_number(struct sock *sk)
{
	u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), &sk);
	return address & ~XW_HOLD_REASONS;
}

static __always_inline u32 xw_holder_place(u64 socket)
{
	return socket >> 6 & (XW_HOLDERS - 1);
}

/* What Nagle's algorithm is told (0: to hold small segments back): include/net/tcp.h. */
#define XW_TCP_NAGLE_CORK 2

/* Why tcp_write_xmit (net/ipv4/tcp_output.c, 6.12) sends no more: in its order. Pacing, small queues and frames that are put
 * off to become larger are not told. */
static __always_inline s8 xw_hold_reason(struct tcp_sock *tcp, u32 unsent, u32 segment, u32 nagle)
{
	u32 acknowledged = BPF_CORE_READ(tcp, snd_una), next = BPF_CORE_READ(tcp, snd_nxt);
	u32 packets = BPF_CORE_READ(tcp, packets_out), small = BPF_CORE_READ(tcp, snd_sml);
	u32 under_way = packets + BPF_CORE_READ(tcp, retrans_out) - BPF_CORE_READ(tcp, sacked_out) -
			BPF_CORE_READ(tcp, lost_out);
	u32 end = next + (unsent < segment ? unsent : segment);

	if (under_way >= BPF_CORE_READ(tcp, snd_cwnd))
		return XW_HOLD_CONGESTION_WINDOW;
	if ((s32)(end - acknowledged - BPF_CORE_READ(tcp, snd_wnd)) > 0)
		return XW_HOLD_RECEIVE_WINDOW;
	if (unsent >= segment)
		return 0;
	if (nagle & XW_TCP_NAGLE_CORK)
		return XW_HOLD_CORK;
	/* tcp_minshall_check. */
	if (!nagle && packets && (s32)(small - acknowledged) > 0 && (s32)(next - small) >= 0)
		return XW_HOLD_NAGLE;
	return 0;
}

static __always_inline void xw_tcp_holds(struct sock *sk, u32 unsent, s8 reason)
{
	u64 socket = xw_socket_number(sk), now = reason ? socket | reason : 0, before;
	u32 place = xw_holder_place(socket);

	before = xw_holders[place];
	if (before == now || (!reason && (before & ~XW_HOLD_REASONS) != socket))
		return;
	xw_holders[place] = now;
	if (reason) {
		XW_EVENT(XW_TCP_HOLD, XW_TID, reason, xw_connection(&sk->__sk_common), unsent);
	} else {
		u64 lasted = bpf_ktime_get_ns() - xw_pushes[place];

		XW_EVENT(XW_TCP_RELEASE, XW_TID, 0, xw_connection(&sk->__sk_common), xw_short(lasted));
	}
}

/* Its socket is locked, so that one such call at a time is under way. */
static __always_inline void xw_push_begins(struct sock *sk)
{
	u64 socket = xw_socket_number(sk);
	u32 place = xw_holder_place(socket);

	if ((xw_holders[place] & ~XW_HOLD_REASONS) == socket)
		xw_pushes[place] = bpf_ktime_get_ns();
}

static __always_inline u32 xw_unsent(struct tcp_sock *tcp)
{
	return BPF_CORE_READ(tcp, write_seq) - BPF_CORE_READ(tcp, snd_nxt);
}

XW_PROGRAM("fentry", tcp_push_begin)
{
	xw_push_begins((void *)ctx[0]);
}

XW_PROGRAM("fentry", tcp_write_wakeup_begin)
{
	xw_push_begins((void *)ctx[0]);
}

/* Called where something is to be sent: for a program, and as an acknowledgement or a larger window comes. */
XW_PROGRAM("fexit", tcp_pushed)
{
	struct sock *sk = (void *)ctx[0];
	u32 unsent = xw_unsent((void *)sk);

	xw_tcp_holds(sk, unsent, unsent ? xw_hold_reason((void *)sk, unsent, ctx[1], ctx[2]) : 0);
}

/* The timer's probe of a window that was full, which sends what fits. */
XW_PROGRAM("fexit", tcp_write_wakeup)
{
	struct sock *sk = (void *)ctx[0];

	if (!xw_unsent((void *)sk))
		xw_tcp_holds(sk, 0, 0);
}
