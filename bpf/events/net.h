/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes of events: what sockets send and receive, and connections of TCP. */

/* Connection of crates/trace/src/event.rs. */
#define XW_CONNECTION(addresses, local, remote)                                                    \
	((u64)(u32)(addresses) << 32 | (u32)(u16)(local) << 16 | (u16)(remote))

#define XW_AF_INET 2
#define XW_AF_INET6 10

/* Of a socket, a request for a connection, or what is left of one: they all begin so. */
static __always_inline u64 xw_connection(struct sock_common *common)
{
	u32 addresses = 0;

	if (common->skc_family == XW_AF_INET6)
		_Pragma("unroll") for (u32 i = 0; i < 4; i++)
			addresses ^= common->skc_v6_daddr.in6_u.u6_addr32[i] ^
				     common->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
	else
		addresses = common->skc_daddr ^ common->skc_rcv_saddr;
	return XW_CONNECTION(addresses, common->skc_num, __builtin_bswap16(common->skc_dport));
}

/* The same where the verifier does not know what the address is of. */
static __always_inline u64 xw_connection_read(struct sock_common *common)
{
	u32 addresses = 0;

	if (BPF_CORE_READ(common, skc_family) == XW_AF_INET6)
		_Pragma("unroll") for (u32 i = 0; i < 4; i++)
			addresses ^= BPF_CORE_READ(common, skc_v6_daddr.in6_u.u6_addr32[i]) ^
				     BPF_CORE_READ(common, skc_v6_rcv_saddr.in6_u.u6_addr32[i]);
	else
		addresses = BPF_CORE_READ(common, skc_daddr) ^ BPF_CORE_READ(common, skc_rcv_saddr);
	return XW_CONNECTION(addresses, BPF_CORE_READ(common, skc_num),
			     __builtin_bswap16(BPF_CORE_READ(common, skc_dport)));
}

/* Of what headers say: both addresses, and both ports, the sender's first. As the sender calls it. */
static __always_inline u64 xw_connection_of(u32 words[8], const u16 ports[2])
{
	_Pragma("unroll") for (u32 i = 1; i < 8; i++)
		words[0] ^= words[i];
	return XW_CONNECTION(words[0], __builtin_bswap16(ports[0]), __builtin_bswap16(ports[1]));
}

/* Of a packet with whole headers, as the end that it is sent by, or comes to, calls it. */
static __always_inline u64 xw_packet(struct sk_buff *skb, bool sent)
{
	unsigned char *head = skb->head, *network = head + skb->network_header, version = 0;
	u32 words[8] = {};
	u16 ports[2] = {};
	u64 connection;

	bpf_probe_read_kernel(&version, sizeof(version), network);
	if (version >> 4 == 6)
		bpf_probe_read_kernel(words, 32, network + 8);
	else
		bpf_probe_read_kernel(words, 8, network + 12);
	bpf_probe_read_kernel(ports, sizeof(ports), head + skb->transport_header);
	connection = xw_connection_of(words, ports);
	return sent ? connection : XW_CONNECTION(connection >> 32, connection, connection >> 16);
}

/* What a function that sends or receives has returned: an error is nothing. */
static __always_inline s64 xw_moved(u64 *ctx)
{
	u64 result = 0;

	bpf_get_func_ret(ctx, &result);
	return (s32)result;
}

/* Kernels without CONFIG_NET_NS have one namespace, which no socket names. */
struct ns_common___xweave {
	unsigned int inum;
} __attribute__((preserve_access_index));
struct net___xweave {
	struct ns_common___xweave ns;
} __attribute__((preserve_access_index));
struct possible_net_t___xweave {
	struct net___xweave *net;
} __attribute__((preserve_access_index));
struct sock_common___xweave {
	struct possible_net_t___xweave skc_net;
} __attribute__((preserve_access_index));

/* The number of a socket's network namespace; 0 if it cannot be found. */
static __always_inline u32 xw_netns(const void *common)
{
	const struct sock_common___xweave *socket = common;
	struct net___xweave *net = NULL;
	u32 number = 0;

	if (!bpf_core_field_exists(socket->skc_net) ||
	    bpf_core_read(&net, sizeof(net), &socket->skc_net) || !net)
		return 0;
	bpf_core_read(&number, sizeof(number), &net->ns.inum);
	return number;
}

/*
 * When the calls under way began. A thread is in one at a time; of two with the same place the later one stays, and
 * the other's beginning is not known. A number holds the thread's (24 bits, so that another one is recognised) and the
 * time (40 bits, 18 minutes), so that it is written at once.
 */
#define XW_CALLS 4096
#define XW_CALL_TIME ((1ull << 40) - 1)
u64 xw_calls[XW_CALLS];

static __always_inline void xw_call_begins(void)
{
	u32 tid = XW_TID;

	xw_calls[tid & (XW_CALLS - 1)] = (u64)tid << 40 | (bpf_ktime_get_ns() & XW_CALL_TIME);
}

/* The number of the call that this thread is in; 0 if it is in none, or that is not known. */
static __always_inline u64 xw_call(void)
{
	u32 tid = XW_TID;
	u64 call = xw_calls[tid & (XW_CALLS - 1)];

	return call >> 40 == (tid & 0xffffff) ? call : 0;
}

/* How long ago, in nanoseconds, as far as it fits; 0 if that is not known. */
static __always_inline u32 xw_call_lasted(void)
{
	u64 call = xw_call(), lasted = 0;

	xw_calls[XW_TID & (XW_CALLS - 1)] = 0;
	if (!call)
		return 0;
	lasted = (bpf_ktime_get_ns() - call) & XW_CALL_TIME;
	return xw_short(lasted);
}

/* What is sent is told when the call begins, with all that it is given: it may arrive, and be answered, before the call
 * is over. */
static __always_inline void xw_sends(struct sock *sk, u32 size)
{
	if (size)
		XW_EVENT(XW_SEND, XW_TID, 0, (u64)sk, xw_connection(&sk->__sk_common),
			 XW_PAIR(size, XW_SENDING_BEGINS), xw_netns(&sk->__sk_common));
}

#define XW_UNSENT(size, bytes)                                                                     \
	((bytes) > 0 ? XW_PAIR((size) - (bytes), XW_SENDING_SHORTENS) : XW_PAIR(size, XW_SENDING_CANCELS))

/* Mostly all of it was sent. Only if not is that told. */
static __always_inline void xw_sent(u64 *ctx, struct sock *sk, u32 size)
{
	s64 bytes = xw_moved(ctx);

	if (size && bytes != size)
		XW_EVENT(XW_SEND, XW_TID, 0, (u64)sk, xw_connection(&sk->__sk_common),
			 XW_UNSENT(size, bytes), xw_netns(&sk->__sk_common));
}

static __always_inline void xw_receives(struct sock *sk, s64 bytes, u32 lasted)
{
	if (bytes > 0)
		XW_EVENT(XW_RECEIVE, XW_TID, 0, (u64)sk, xw_connection(&sk->__sk_common),
			 XW_PAIR(bytes, lasted), xw_netns(&sk->__sk_common));
}

static __always_inline void xw_received(u64 *ctx, struct sock *sk)
{
	xw_receives(sk, xw_moved(ctx), xw_call_lasted());
}

/* Where the kernel's TLS sends too: it is what it has made of the data that has to arrive at the other end. */
XW_PROGRAM("fentry", tcp_sendmsg_locked)
{
	xw_sends((void *)ctx[0], ctx[2]);
}

XW_PROGRAM("fexit", tcp_sendmsg_end)
{
	xw_sent(ctx, (void *)ctx[0], ctx[2]);
}

XW_PROGRAM("fentry", do_tcp_sendpages)
{
	xw_sends((void *)ctx[0], ctx[3]);
}

XW_PROGRAM("fexit", tcp_sendpages_end)
{
	xw_sent(ctx, (void *)ctx[0], ctx[3]);
}

XW_PROGRAM("fentry", mptcp_sendmsg)
{
	xw_sends((void *)ctx[0], ctx[2]);
}

XW_PROGRAM("fexit", mptcp_sendmsg_end)
{
	xw_sent(ctx, (void *)ctx[0], ctx[2]);
}

XW_PROGRAM("fentry", tcp_recvmsg_begin)
{
	xw_call_begins();
}

XW_PROGRAM("fexit", tcp_recvmsg)
{
	xw_received(ctx, (void *)ctx[0]);
}

XW_PROGRAM("fentry", tcp_splice_read_begin)
{
	xw_call_begins();
}

XW_PROGRAM("fexit", tcp_splice_read)
{
	struct socket *socket = (void *)ctx[0];

	xw_received(ctx, socket->sk);
}

XW_PROGRAM("fentry", mptcp_recvmsg_begin)
{
	xw_call_begins();
}

XW_PROGRAM("fexit", mptcp_recvmsg)
{
	xw_received(ctx, (void *)ctx[0]);
}

/* What threads of the kernel and its TLS take from a socket; interrupts take it for whoever comes. */
static __always_inline void xw_taken(struct sock *sk, s32 bytes)
{
	if (xw_context() <= 1)
		xw_receives(sk, bytes, 0);
}

XW_PROGRAM("fexit", tcp_read_sock)
{
	/* Within tcp_splice_read, which tells it. */
	if (!xw_call())
		xw_taken((void *)ctx[0], xw_moved(ctx));
}

XW_PROGRAM("fentry", tcp_read_done)
{
	xw_taken((void *)ctx[0], ctx[1]);
}

/* UDP's header. */
#define XW_UDP 8

/* How many bytes of a program a packet with whole headers has behind UDP's; 0 if it is no datagram. */
static __always_inline u32 xw_datagram(struct sk_buff *skb, u32 protocol_at)
{
	unsigned char *head = skb->head, protocol = 0;
	u16 length = 0;

	bpf_probe_read_kernel(&protocol, sizeof(protocol), head + skb->network_header + protocol_at);
	if (protocol != 17)
		return 0;
	bpf_probe_read_kernel(&length, sizeof(length), head + skb->transport_header + 4);
	length = __builtin_bswap16(length);
	return length > XW_UDP ? length - XW_UDP : 0;
}

/*
 * Datagrams are seen where their headers are: a socket need not know its own address, nor whom it
 * talks to. What has gone to IP is sent.
 */
static __always_inline void xw_datagram_sent(struct sk_buff *skb, u32 protocol_at)
{
	u32 bytes = xw_datagram(skb, protocol_at);

	if (bytes)
		XW_EVENT(XW_SEND, XW_TID, 0, (u64)skb->sk, xw_packet(skb, true),
			 XW_PAIR(bytes, XW_SENDING_BEGINS), xw_netns(&skb->sk->__sk_common));
}

XW_PROGRAM("fentry", ip_send_skb)
{
	xw_datagram_sent((void *)ctx[1], 9);
}

XW_PROGRAM("fentry", ip6_send_skb)
{
	xw_datagram_sent((void *)ctx[0], 6);
}

/* The end of udp_recvmsg and udpv6_recvmsg; below 0 if the datagram stays there (MSG_PEEK). */
XW_PROGRAM("fentry", skb_consume_udp)
{
	s32 bytes = ctx[2];

	if (bytes > 0)
		XW_EVENT(XW_RECEIVE, XW_TID, 0, ctx[0], xw_packet((void *)ctx[1], false), bytes,
			 xw_netns((void *)ctx[0]));
}

/*
 * There are no addresses and ports; the two sockets stand for them. A socket is larger than a KiB, so
 * neighbours differ in the bits above.
 */
static __always_inline void xw_unix(enum xw_kind kind, u64 *ctx, u64 pair)
{
	struct socket *socket = (void *)ctx[0];
	u64 own, other;

	/* Read so that they are numbers: the verifier lets nobody reckon with pointers. */
	own = (u64)BPF_CORE_READ(socket, sk);
	other = (u64)BPF_CORE_READ((struct unix_sock *)own, peer);
	XW_EVENT(kind, XW_TID, 0, own, XW_CONNECTION(own ^ other, own >> 10, other >> 10),
		 pair, 0);
}

static __always_inline void xw_unix_sends(u64 *ctx, u32 size)
{
	if (size)
		xw_unix(XW_SEND, ctx, XW_PAIR(size, XW_SENDING_BEGINS));
}

static __always_inline void xw_unix_sent(u64 *ctx, u32 size)
{
	s64 bytes = xw_moved(ctx);

	if (size && bytes != size)
		xw_unix(XW_SEND, ctx, XW_UNSENT(size, bytes));
}

static __always_inline void xw_unix_received(u64 *ctx)
{
	s64 bytes = xw_moved(ctx);
	u32 lasted = xw_call_lasted();

	if (bytes > 0)
		xw_unix(XW_RECEIVE, ctx, XW_PAIR(bytes, lasted));
}

XW_PROGRAM("fentry", unix_stream_sendmsg)
{
	xw_unix_sends(ctx, ctx[2]);
}

XW_PROGRAM("fexit", unix_stream_sendmsg_end)
{
	xw_unix_sent(ctx, ctx[2]);
}

XW_PROGRAM("fentry", unix_stream_sendpage)
{
	xw_unix_sends(ctx, ctx[3]);
}

XW_PROGRAM("fexit", unix_stream_sendpage_end)
{
	xw_unix_sent(ctx, ctx[3]);
}

XW_PROGRAM("fentry", unix_stream_recvmsg_begin)
{
	xw_call_begins();
}

XW_PROGRAM("fexit", unix_stream_recvmsg)
{
	xw_unix_received(ctx);
}

XW_PROGRAM("fentry", unix_stream_splice_read_begin)
{
	xw_call_begins();
}

XW_PROGRAM("fexit", unix_stream_splice_read)
{
	xw_unix_received(ctx);
}

#define XW_SYN_SENT 2

/* Whether tcp_connect is hooked: from the controller, as the constants below. */
const volatile u32 xw_sees_connects = 0;

/* A socket that closes has given its port back if that was given to it by the kernel (tcp_set_state of
 * net/ipv4/tcp.c, 6.12: inet_put_port comes first); what it sent from is still there. */
static __always_inline u64 xw_connection_until(struct sock *sk)
{
	u64 connection = xw_connection(&sk->__sk_common);
	struct inet_sock *inet = (void *)sk;
	u16 port = 0;

	if (!(connection & 0xffff0000) && !bpf_core_read(&port, sizeof(port), &inet->inet_sport))
		connection |= (u32)__builtin_bswap16(port) << 16;
	return connection;
}

XW_PROGRAM("tp_btf", inet_sock_set_state)
{
	struct sock *sk = (void *)ctx[0];

	/* IPPROTO_TCP */
	if (sk->sk_protocol != 6)
		return;
	/* tcp_connect tells of it; here the socket has no port of its own yet. */
	if (xw_sees_connects && ctx[2] == XW_SYN_SENT)
		return;
	XW_EVENT(XW_SOCKET, XW_TID, ctx[2], (u64)sk, xw_connection_until(sk), xw_netns(&sk->__sk_common));
}

/* About to send the first SYN. */
XW_PROGRAM("fentry", tcp_connect)
{
	struct sock *sk = (void *)ctx[0];

	XW_EVENT(XW_SOCKET, XW_TID, XW_SYN_SENT, (u64)sk, xw_connection(&sk->__sk_common),
		 xw_netns(&sk->__sk_common));
}

/* On the way from a connection to the file that the thread gets. The return from accept itself is not seen of
 * threads that were waiting in it when the recording began. */
XW_PROGRAM("fentry", security_sock_graft)
{
	struct sock *sk = (void *)ctx[0];
	u16 family = sk->__sk_common.skc_family;

	/* IPPROTO_TCP, IPPROTO_MPTCP */
	if ((sk->sk_protocol == 6 || sk->sk_protocol == 262) &&
	    (family == XW_AF_INET || family == XW_AF_INET6))
		XW_EVENT(XW_ACCEPT, XW_TID, 0, (u64)sk, xw_connection(&sk->__sk_common),
			 xw_netns(&sk->__sk_common));
}

XW_PROGRAM("fexit", inet_csk_accept)
{
	u64 result = 0;

	bpf_get_func_ret(ctx, &result);
	if (result)
		XW_EVENT(XW_ACCEPT, XW_TID, 0, result, xw_connection_read((void *)result),
			 xw_netns((void *)result));
}

/* Whether the tracepoint tcp_retransmit_skb also tells of what could not be sent, by an error: from 6.17 on
 * (include/trace/events/tcp.h). */
const volatile u32 xw_retransmit_has_error = 0;

/* By CPU: when it began to send something again; 0 where that is not seen. Softirqs are off meanwhile. */
u64 xw_repeating[XW_SOME_CPUS];

/* No event: the tracepoint tells whether it was sent, but only when it has been; the answer may be there before. */
XW_PROGRAM("fentry", __tcp_retransmit_skb)
{
	u32 cpu = bpf_get_smp_processor_id();

	if (cpu < XW_SOME_CPUS)
		xw_repeating[cpu] = bpf_ktime_get_ns();
}

XW_PROGRAM("tp_btf", tcp_retransmit_skb)
{
	struct sock *sk = (void *)ctx[0];
	u32 cpu = bpf_get_smp_processor_id();
	u64 lasted = 0;

	if (cpu < XW_SOME_CPUS && xw_repeating[cpu]) {
		lasted = bpf_ktime_get_ns() - xw_repeating[cpu];
		xw_repeating[cpu] = 0;
	}
	if (xw_retransmit_has_error && (s32)ctx[2])
		return;
	XW_EVENT(XW_RETRANSMIT, XW_TID, sk->__sk_common.skc_state, (u64)sk,
		 xw_connection(&sk->__sk_common),
		 XW_PAIR(xw_netns(&sk->__sk_common), xw_short(lasted)));
}

XW_PROGRAM("tp_btf", tcp_retransmit_synack)
{
	struct request_sock *request = (void *)ctx[1];

	XW_EVENT(XW_RETRANSMIT, XW_TID, request->__req_common.skc_state, ctx[0],
		 xw_connection(&request->__req_common), xw_netns(&request->__req_common));
}

/* Of byte 13 of TCP's header. */
#define XW_SYN 0x02
#define XW_RST 0x04
#define XW_ACK 0x10
#define XW_FLAGS (XW_SYN | XW_RST | XW_ACK)

static __always_inline u8 xw_flags(void *header)
{
	u8 flags = 0;

	bpf_probe_read_kernel(&flags, sizeof(flags), header + 13);
	return flags;
}

/* sk_acceptq_is_full of include/net/sock.h. */
static __always_inline bool xw_full(struct sock *listener)
{
	return listener->sk_ack_backlog > listener->sk_max_ack_backlog;
}

XW_PROGRAM("fentry", tcp_conn_request)
{
	struct sock *listener = (void *)ctx[2];

	if (xw_full(listener))
		XW_EVENT(XW_SYN_DROP, XW_TID, XW_REFUSAL_ACCEPT_QUEUE, (u64)listener,
			 xw_packet((void *)ctx[3], false),
			 XW_PAIR(listener->sk_ack_backlog, xw_netns(&listener->__sk_common)));
}

/* The end of a connection's beginning, an ACK alone. The function that looks for room comes later, and has one
 * argument more than some kernels can hook. */
XW_PROGRAM("fentry", tcp_check_req)
{
	struct sock *listener = (void *)ctx[0];
	struct sk_buff *skb = (void *)ctx[1];
	struct request_sock *request = (void *)ctx[2];

	if (xw_full(listener) && (xw_flags(skb->head + skb->transport_header) & XW_FLAGS) == XW_ACK)
		XW_EVENT(XW_SYN_DROP, XW_TID, XW_REFUSAL_ACCEPT_QUEUE, (u64)listener,
			 xw_connection(&request->__req_common),
			 XW_PAIR(listener->sk_ack_backlog, xw_netns(&listener->__sk_common)));
}

/* A request for a connection to what is left of the last one, of which none comes (TCP_TW_SYN is 3,
 * include/net/tcp.h). */
XW_PROGRAM("fexit", tcp_timewait_state_process)
{
	struct sock_common *left = (void *)ctx[0];
	u64 result = 0;

	bpf_get_func_ret(ctx, &result);
	if ((xw_flags((void *)ctx[2]) & XW_FLAGS) == XW_SYN && (u32)result != 3)
		XW_EVENT(XW_SYN_DROP, XW_TID, XW_REFUSAL_TIME_WAIT, (u64)left, xw_connection(left),
			 XW_PAIR(0, xw_netns(left)));
}
