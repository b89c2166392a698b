/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Built-in probes: what happens in a kernel, in the normal form of crates/wire/src/event.rs.
 *
 * Before this file come types.h, the kernel's types (pruned to the members that this file names),
 * and a XW_HAS_name for each program that the kernel has a place for and the user asked for:
 * crates/weave/src/events.rs. A program is one place's, so it needs no cookie.
 *
 * Each is on the way of everything that the kernel does, so it does little: no table is looked up
 * but that of the rings, nothing is told twice, and nobody is woken.
 */
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char _license[] SEC("license") = "GPL";

/* Kind of crates/wire/src/event.rs. */
enum xw_kind {
	XW_SWITCH,
	XW_WAKE,
	XW_FORK,
	XW_THREAD,
	XW_EXIT,
	XW_DISK_QUEUE,
	XW_DISK_ISSUE,
	XW_DISK_MERGE,
	XW_DISK_DONE,
	XW_SEND,
	XW_RECEIVE,
	XW_SOCKET,
	XW_ACCEPT,
	XW_RETRANSMIT,
	XW_REFUSE,
	XW_IRQ_ENTER,
	XW_IRQ_EXIT,
	XW_SOFTIRQ_ENTER,
	XW_SOFTIRQ_EXIT,
	XW_LOCK_WAIT,
	XW_LOCK_DONE,
	XW_LOCK_WAKE,
	XW_SYSCALL_ENTER,
	XW_SYSCALL_EXIT,
	XW_VM_ENTER,
	XW_VM_EXIT,
	XW_VM_HALT,
	XW_VM_INJECT,
	XW_KINDS
};

/* The kind's fields are the words. */
struct xw_event {
	u64 time_ns;
	u32 tid;
	u16 cpu;
	u8 kind;
	s8 code;
	u64 words[];
};

/*
 * A ring for each CPU, made by the agent: one for all would have each event wait for those of other
 * CPUs, by a lock that they take in turns.
 */
struct xw_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct xw_ring);
} xw_rings SEC(".maps");

/* Whether events are recorded: set by the agent. */
volatile u32 xw_on SEC(".data.state") = 0;

/* If not 0, the only process whose events are recorded: for measuring beside other people's processes
 * (benches/recording). The verifier takes the question out where it is 0. */
const volatile u32 xw_only = 0;

static __always_inline bool xw_wanted(void)
{
	return xw_on && (!xw_only || bpf_get_current_pid_tgid() >> 32 == xw_only);
}

/* By kind: events for which a ring had no room. */
u64 xw_dropped[XW_KINDS];

#define XW_TID ((u32)bpf_get_current_pid_tgid())

/* The time is read when the event has its place: so the order of a ring is that of times, but for
 * an interrupt in between. */
static __always_inline struct xw_event *xw_reserve(enum xw_kind kind, u64 size, u32 tid, s8 code)
{
	u32 cpu = bpf_get_smp_processor_id();
	void *ring = bpf_map_lookup_elem(&xw_rings, &cpu);
	struct xw_event *event = ring ? bpf_ringbuf_reserve(ring, size, 0) : NULL;

	if (!event) {
		__sync_fetch_and_add(&xw_dropped[kind], 1);
		return NULL;
	}
	event->time_ns = bpf_ktime_get_ns();
	event->tid = tid;
	event->cpu = cpu;
	event->kind = kind;
	event->code = code;
	return event;
}

/* An event with these words. */
#define XW_EVENT(kind, tid, code, ...)                                                             \
	({                                                                                         \
		const u64 xw_words[] = { __VA_ARGS__ };                                            \
		struct xw_event *xw_event = xw_reserve(                                            \
			kind, sizeof(struct xw_event) + sizeof(xw_words), tid, code);              \
		if (xw_event) {                                                                    \
			_Pragma("unroll") for (u32 xw_i = 0; xw_i < sizeof(xw_words) / 8; xw_i++)  \
				xw_event->words[xw_i] = xw_words[xw_i];                            \
			bpf_ringbuf_submit(xw_event, BPF_RB_NO_WAKEUP);                            \
		}                                                                                  \
	})

/* Two fields of four bytes. */
#define XW_PAIR(low, high) ((u64)(u32)(low) | (u64)(u32)(high) << 32)

/* A program of that name. */
#define XW_PROGRAM(type, name)                                                                     \
	static __always_inline void name##_body(u64 *ctx);                                         \
	SEC(type) int name(u64 *ctx)                                                               \
	{                                                                                          \
		if (xw_wanted())                                                                   \
			name##_body(ctx);                                                          \
		return 0;                                                                          \
	}                                                                                          \
	static __always_inline void name##_body(u64 *ctx)

/* ── sched: who runs ─────────────────────────────────────────────────────────────────────────── */

#ifdef XW_HAS_sched_switch
/* State of crates/trace/src/event.rs, of task_struct.__state (include/linux/sched.h): 0x402 is
 * TASK_IDLE, 2 TASK_UNINTERRUPTIBLE, 4 __TASK_STOPPED, 8 __TASK_TRACED, 0x80 TASK_DEAD. */
static __always_inline s8 xw_left_in(bool preempted, u32 state)
{
	if (!state || preempted)
		return 0;
	if ((state & 0x402) == 0x402)
		return 1;
	if (state & 0x2)
		return 2;
	if (state & 0xc)
		return 3;
	return state & 0x80 ? 4 : 1;
}

XW_PROGRAM("tp_btf", sched_switch)
{
	struct task_struct *before = (void *)ctx[1], *next = (void *)ctx[2];

	XW_EVENT(XW_SWITCH, before->pid, xw_left_in(ctx[0] & 1, ctx[3]), (u32)next->pid);
}
#endif

#ifdef XW_HAS_sched_waking
XW_PROGRAM("tp_btf", sched_waking)
{
	struct task_struct *task = (void *)ctx[0];

	XW_EVENT(XW_WAKE, XW_TID, 0, (u32)task->pid);
}
#endif

#ifdef XW_HAS_sched_process_fork
XW_PROGRAM("tp_btf", sched_process_fork)
{
	struct task_struct *child = (void *)ctx[1];
	u64 name[2] = {};

	bpf_probe_read_kernel(name, sizeof(name), child->comm);
	XW_EVENT(XW_FORK, XW_TID, 0, XW_PAIR(child->pid, child->tgid), name[0], name[1]);
}
#endif

#ifdef XW_HAS_task_rename
/* By exec, too: when the thread has the process's number already. */
XW_PROGRAM("tp_btf", task_rename)
{
	struct task_struct *task = (void *)ctx[0];
	u64 name[2] = {};

	bpf_probe_read_kernel_str(name, sizeof(name), (void *)ctx[1]);
	XW_EVENT(XW_THREAD, XW_TID, 0, XW_PAIR(task->pid, task->tgid), name[0], name[1]);
}
#endif

#ifdef XW_HAS_sched_process_exit
XW_PROGRAM("tp_btf", sched_process_exit)
{
	struct task_struct *task = (void *)ctx[0];

	XW_EVENT(XW_EXIT, task->pid, 0);
}
#endif

#ifdef XW_HAS_irq_handler_entry
XW_PROGRAM("tp_btf", irq_handler_entry)
{
	XW_EVENT(XW_IRQ_ENTER, XW_TID, 0, (u32)ctx[0]);
}
#endif

#ifdef XW_HAS_irq_handler_exit
XW_PROGRAM("tp_btf", irq_handler_exit)
{
	XW_EVENT(XW_IRQ_EXIT, XW_TID, 0, (u32)ctx[0]);
}
#endif

#ifdef XW_HAS_softirq_entry
XW_PROGRAM("tp_btf", softirq_entry)
{
	XW_EVENT(XW_SOFTIRQ_ENTER, XW_TID, 0, (u32)ctx[0]);
}
#endif

#ifdef XW_HAS_softirq_exit
XW_PROGRAM("tp_btf", softirq_exit)
{
	XW_EVENT(XW_SOFTIRQ_EXIT, XW_TID, 0, (u32)ctx[0]);
}
#endif

#ifdef XW_HAS_futex_wait_begin
XW_PROGRAM("fentry", futex_wait_begin)
{
	XW_EVENT(XW_LOCK_WAIT, XW_TID, 0, ctx[0]);
}
#endif

#ifdef XW_HAS_futex_wait_end
XW_PROGRAM("fexit", futex_wait_end)
{
	u64 result = 0;

	bpf_get_func_ret(ctx, &result);
	XW_EVENT(XW_LOCK_DONE, XW_TID, 0, ctx[0], (u32)result);
}
#endif

#ifdef XW_HAS_futex_wake
XW_PROGRAM("fentry", futex_wake)
{
	XW_EVENT(XW_LOCK_WAKE, XW_TID, 0, ctx[0]);
}
#endif

/* ── block: disks ────────────────────────────────────────────────────────────────────────────── */

/* The whole disk, whatever part of it was named: major << 20 | minor. */
static __always_inline u32 xw_disk(struct gendisk *disk)
{
	return (u32)disk->major << 20 | (u32)disk->first_minor;
}

/* Access of crates/trace/src/event.rs, of REQ_OP_READ and REQ_OP_WRITE (include/linux/blk_types.h). */
static __always_inline s8 xw_access(u32 flags)
{
	u32 operation = flags & 0xff;

	return operation < 2 ? operation : 2;
}

/* By then the sector is the disk's, whatever part of it was asked. */
static __always_inline void xw_bio(enum xw_kind kind, struct bio *bio)
{
	XW_EVENT(kind, XW_TID, xw_access(bio->bi_opf), bio->bi_iter.bi_sector,
		 XW_PAIR(bio->bi_iter.bi_size, xw_disk(bio->bi_bdev->bd_disk)));
}

static __always_inline void xw_request(enum xw_kind kind, struct request *request, u32 bytes)
{
	struct gendisk *disk = request->q->disk;

	/* Commands to a controller, REQ_OP_DRV_IN and REQ_OP_DRV_OUT, are no accesses to a disk. */
	if (!disk || (request->cmd_flags & 0xff) >= 34)
		return;
	XW_EVENT(kind, XW_TID, xw_access(request->cmd_flags), request->__sector,
		 XW_PAIR(bytes, xw_disk(disk)));
}

#ifdef XW_HAS_block_bio_queue
XW_PROGRAM("tp_btf", block_bio_queue)
{
	xw_bio(XW_DISK_QUEUE, (void *)ctx[0]);
}
#endif

#ifdef XW_HAS_block_bio_backmerge
XW_PROGRAM("tp_btf", block_bio_backmerge)
{
	xw_bio(XW_DISK_MERGE, (void *)ctx[0]);
}
#endif

#ifdef XW_HAS_block_bio_frontmerge
XW_PROGRAM("tp_btf", block_bio_frontmerge)
{
	xw_bio(XW_DISK_MERGE, (void *)ctx[0]);
}
#endif

#ifdef XW_HAS_block_rq_merge
XW_PROGRAM("tp_btf", block_rq_merge)
{
	struct request *request = (void *)ctx[0];

	xw_request(XW_DISK_MERGE, request, request->__data_len);
}
#endif

#ifdef XW_HAS_block_rq_issue
XW_PROGRAM("tp_btf", block_rq_issue)
{
	struct request *request = (void *)ctx[0];

	xw_request(XW_DISK_ISSUE, request, request->__data_len);
}
#endif

#ifdef XW_HAS_block_rq_complete
XW_PROGRAM("tp_btf", block_rq_complete)
{
	xw_request(XW_DISK_DONE, (void *)ctx[0], ctx[2]);
}
#endif

/* ── net: sockets ────────────────────────────────────────────────────────────────────────────── */

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

/* Of a packet with whole headers, as the end that it is sent by, or comes to, calls it. */
static __always_inline u64 xw_packet(struct sk_buff *skb, bool sent)
{
	unsigned char *head = skb->head, *network = head + skb->network_header, version = 0;
	u32 words[8] = {};
	u16 ports[2] = {}, from, to;

	bpf_probe_read_kernel(&version, sizeof(version), network);
	if (version >> 4 == 6)
		bpf_probe_read_kernel(words, 32, network + 8);
	else
		bpf_probe_read_kernel(words, 8, network + 12);
	bpf_probe_read_kernel(ports, sizeof(ports), head + skb->transport_header);
	_Pragma("unroll") for (u32 i = 1; i < 8; i++)
		words[0] ^= words[i];
	from = __builtin_bswap16(ports[0]);
	to = __builtin_bswap16(ports[1]);
	return sent ? XW_CONNECTION(words[0], from, to) : XW_CONNECTION(words[0], to, from);
}

/* What a function that sends or receives has returned: an error is nothing. */
static __always_inline s64 xw_moved(u64 *ctx)
{
	u64 result = 0;

	bpf_get_func_ret(ctx, &result);
	return (s32)result;
}

static __always_inline void xw_transfer(enum xw_kind kind, u64 *ctx, struct sock *sk)
{
	s64 bytes = xw_moved(ctx);

	if (bytes > 0)
		XW_EVENT(kind, XW_TID, 0, (u64)sk, xw_connection(&sk->__sk_common), bytes);
}

#ifdef XW_HAS_tcp_sendmsg
XW_PROGRAM("fexit", tcp_sendmsg)
{
	xw_transfer(XW_SEND, ctx, (void *)ctx[0]);
}
#endif

#ifdef XW_HAS_tcp_sendpage
XW_PROGRAM("fexit", tcp_sendpage)
{
	xw_transfer(XW_SEND, ctx, (void *)ctx[0]);
}
#endif

#ifdef XW_HAS_tcp_recvmsg
XW_PROGRAM("fexit", tcp_recvmsg)
{
	xw_transfer(XW_RECEIVE, ctx, (void *)ctx[0]);
}
#endif

#ifdef XW_HAS_tcp_splice_read
XW_PROGRAM("fexit", tcp_splice_read)
{
	struct socket *socket = (void *)ctx[0];

	xw_transfer(XW_RECEIVE, ctx, socket->sk);
}
#endif

/*
 * Datagrams are seen where their headers are: a socket need not know its own address, nor whom it
 * talks to. What has gone to IP is sent.
 */
static __always_inline void xw_datagram_sent(struct sk_buff *skb, u32 protocol_at)
{
	unsigned char *head = skb->head, protocol = 0;
	u16 length = 0;

	bpf_probe_read_kernel(&protocol, sizeof(protocol), head + skb->network_header + protocol_at);
	if (protocol != 17)
		return;
	bpf_probe_read_kernel(&length, sizeof(length), head + skb->transport_header + 4);
	length = __builtin_bswap16(length);
	if (length > 8)
		XW_EVENT(XW_SEND, XW_TID, 0, (u64)skb->sk, xw_packet(skb, true), length - 8);
}

#ifdef XW_HAS_ip_send_skb
XW_PROGRAM("fentry", ip_send_skb)
{
	xw_datagram_sent((void *)ctx[1], 9);
}
#endif

#ifdef XW_HAS_ip6_send_skb
XW_PROGRAM("fentry", ip6_send_skb)
{
	xw_datagram_sent((void *)ctx[0], 6);
}
#endif

#ifdef XW_HAS_skb_consume_udp
/* The end of udp_recvmsg and udpv6_recvmsg; below 0 if the datagram stays there (MSG_PEEK). */
XW_PROGRAM("fentry", skb_consume_udp)
{
	s32 bytes = ctx[2];

	if (bytes > 0)
		XW_EVENT(XW_RECEIVE, XW_TID, 0, ctx[0], xw_packet((void *)ctx[1], false), bytes);
}
#endif

#if defined(XW_HAS_unix_stream_sendmsg) || defined(XW_HAS_unix_stream_recvmsg) ||                  \
	defined(XW_HAS_unix_stream_splice_read)
/*
 * There are no addresses and ports; the two sockets stand for them. A socket is larger than a KiB, so
 * neighbours differ in the bits above.
 */
static __always_inline void xw_unix_transfer(enum xw_kind kind, u64 *ctx)
{
	struct socket *socket = (void *)ctx[0];
	s64 bytes = xw_moved(ctx);
	u64 own, other;

	if (bytes <= 0)
		return;
	/* Read so that they are numbers: the verifier lets nobody reckon with pointers. */
	own = (u64)BPF_CORE_READ(socket, sk);
	other = (u64)BPF_CORE_READ((struct unix_sock *)own, peer);
	XW_EVENT(kind, XW_TID, 0, own, XW_CONNECTION(own ^ other, own >> 10, other >> 10), bytes);
}
#endif

#ifdef XW_HAS_unix_stream_sendmsg
XW_PROGRAM("fexit", unix_stream_sendmsg)
{
	xw_unix_transfer(XW_SEND, ctx);
}
#endif

#ifdef XW_HAS_unix_stream_sendpage
XW_PROGRAM("fexit", unix_stream_sendpage)
{
	xw_unix_transfer(XW_SEND, ctx);
}
#endif

#ifdef XW_HAS_unix_stream_recvmsg
XW_PROGRAM("fexit", unix_stream_recvmsg)
{
	xw_unix_transfer(XW_RECEIVE, ctx);
}
#endif

#ifdef XW_HAS_unix_stream_splice_read
XW_PROGRAM("fexit", unix_stream_splice_read)
{
	xw_unix_transfer(XW_RECEIVE, ctx);
}
#endif

#define XW_SYN_SENT 2

#ifdef XW_HAS_inet_sock_set_state
XW_PROGRAM("tp_btf", inet_sock_set_state)
{
	struct sock *sk = (void *)ctx[0];

	/* IPPROTO_TCP */
	if (sk->sk_protocol != 6)
		return;
#ifdef XW_HAS_tcp_connect
	/* The socket has no port of its own yet. */
	if (ctx[2] == XW_SYN_SENT)
		return;
#endif
	XW_EVENT(XW_SOCKET, XW_TID, ctx[2], (u64)sk, xw_connection(&sk->__sk_common));
}
#endif

#ifdef XW_HAS_tcp_connect
/* About to send the first SYN. */
XW_PROGRAM("fentry", tcp_connect)
{
	struct sock *sk = (void *)ctx[0];

	XW_EVENT(XW_SOCKET, XW_TID, XW_SYN_SENT, (u64)sk, xw_connection(&sk->__sk_common));
}
#endif

#ifdef XW_HAS_security_sock_graft
/* On the way from a connection to the file that the thread gets. The return from accept itself is not seen of
 * threads that were waiting in it when the recording began. */
XW_PROGRAM("fentry", security_sock_graft)
{
	struct sock *sk = (void *)ctx[0];
	u16 family = sk->__sk_common.skc_family;

	if (sk->sk_protocol == 6 && (family == XW_AF_INET || family == XW_AF_INET6))
		XW_EVENT(XW_ACCEPT, XW_TID, 0, (u64)sk, xw_connection(&sk->__sk_common));
}
#endif

#ifdef XW_HAS_inet_csk_accept
XW_PROGRAM("fexit", inet_csk_accept)
{
	u64 result = 0;
	struct sock_common common;

	bpf_get_func_ret(ctx, &result);
	if (result && !bpf_probe_read_kernel(&common, sizeof(common), (void *)result))
		XW_EVENT(XW_ACCEPT, XW_TID, 0, result, xw_connection(&common));
}
#endif

#ifdef XW_HAS_tcp_retransmit_skb
XW_PROGRAM("tp_btf", tcp_retransmit_skb)
{
	struct sock *sk = (void *)ctx[0];

	XW_EVENT(XW_RETRANSMIT, XW_TID, sk->__sk_common.skc_state, (u64)sk,
		 xw_connection(&sk->__sk_common));
}
#endif

#ifdef XW_HAS_tcp_retransmit_synack
XW_PROGRAM("tp_btf", tcp_retransmit_synack)
{
	struct request_sock *request = (void *)ctx[1];

	XW_EVENT(XW_RETRANSMIT, XW_TID, request->__req_common.skc_state, ctx[0],
		 xw_connection(&request->__req_common));
}
#endif

/* Refusal of crates/trace/src/event.rs. */
#define XW_ACCEPT_QUEUE 1
#define XW_TIME_WAIT 2

/* sk_acceptq_is_full of include/net/sock.h: both functions look at that first. */
static __always_inline bool xw_full(struct sock *listener)
{
	return listener->sk_ack_backlog > listener->sk_max_ack_backlog;
}

#ifdef XW_HAS_tcp_conn_request
XW_PROGRAM("fentry", tcp_conn_request)
{
	struct sock *listener = (void *)ctx[2];

	if (xw_full(listener))
		XW_EVENT(XW_REFUSE, XW_TID, XW_ACCEPT_QUEUE, (u64)listener,
			 xw_packet((void *)ctx[3], false), listener->sk_ack_backlog);
}
#endif

#if defined(XW_HAS_tcp_v4_syn_recv_sock) || defined(XW_HAS_tcp_v6_syn_recv_sock)
static __always_inline void xw_last_ack(u64 *ctx)
{
	struct sock *listener = (void *)ctx[0];
	struct request_sock *request = (void *)ctx[2];

	if (xw_full(listener))
		XW_EVENT(XW_REFUSE, XW_TID, XW_ACCEPT_QUEUE, (u64)listener,
			 xw_connection(&request->__req_common), listener->sk_ack_backlog);
}
#endif

#ifdef XW_HAS_tcp_v4_syn_recv_sock
XW_PROGRAM("fentry", tcp_v4_syn_recv_sock)
{
	xw_last_ack(ctx);
}
#endif

#ifdef XW_HAS_tcp_v6_syn_recv_sock
XW_PROGRAM("fentry", tcp_v6_syn_recv_sock)
{
	struct sk_buff *skb = (void *)ctx[1];

	/* An IPv4 packet (ETH_P_IP) is handed on to tcp_v4_syn_recv_sock. */
	if (skb->protocol != __builtin_bswap16(0x0800))
		xw_last_ack(ctx);
}
#endif

#ifdef XW_HAS_tcp_timewait_state_process
/* A request for a connection (SYN and neither ACK nor RST, in byte 13 of the header) to what is left of the
 * last one, of which none comes (TCP_TW_SYN is 3, include/net/tcp.h). */
XW_PROGRAM("fexit", tcp_timewait_state_process)
{
	struct sock_common *left = (void *)ctx[0];
	unsigned char flags = 0;
	u64 result = 0;

	bpf_probe_read_kernel(&flags, sizeof(flags), (unsigned char *)ctx[2] + 13);
	bpf_get_func_ret(ctx, &result);
	if ((flags & 0x16) == 0x02 && (u32)result != 3)
		XW_EVENT(XW_REFUSE, XW_TID, XW_TIME_WAIT, (u64)left, xw_connection(left), 0);
}
#endif

/* ── vm: virtual processors ──────────────────────────────────────────────────────────────────── */

/* KVM's types are its modules', and may not be there: what is needed of them is told here. */
struct kvm_vcpu___xw {
	int vcpu_id;
	struct xw_any {
	} preempt_notifier;
} __attribute__((preserve_access_index));
struct vmcb_control_area___xw {
	u32 exit_code;
} __attribute__((preserve_access_index));
struct vmcb___xw {
	struct vmcb_control_area___xw control;
} __attribute__((preserve_access_index));
struct vcpu_svm___xw {
	struct vmcb___xw *vmcb;
} __attribute__((preserve_access_index));
union vmx_exit_reason___xw {
	u32 full;
} __attribute__((preserve_access_index));
struct vcpu_vmx___xw {
	union vmx_exit_reason___xw exit_reason;
} __attribute__((preserve_access_index));

/* The virtual processor that runs, where the tracepoint does not tell it: it asks to be told when its
 * thread is preempted (vcpu_load of virt/kvm/kvm_main.c), and nobody else does. */
static __always_inline u32 xw_own_vcpu(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	void *notifier = BPF_CORE_READ(task, preempt_notifiers.first);
	struct kvm_vcpu___xw *vcpu;

	if (!notifier)
		return -1;
	vcpu = notifier - bpf_core_field_offset(struct kvm_vcpu___xw, preempt_notifier);
	return BPF_CORE_READ(vcpu, vcpu_id);
}

#ifdef XW_HAS_kvm_entry
XW_PROGRAM("tp_btf", kvm_entry)
{
	struct kvm_vcpu___xw *vcpu = (void *)ctx[0];

	/* The verifier knows of no module's tracepoint that it tells something. */
	if (vcpu)
		XW_EVENT(XW_VM_ENTER, XW_TID, 0, (u32)vcpu->vcpu_id);
}
#endif

#ifdef XW_HAS_kvm_exit
/* Which of the two structures the processor is part of, the tracepoint's second word tells: KVM_ISA_VMX is
 * 1, KVM_ISA_SVM 2 (arch/x86/include/uapi/asm/kvm.h). */
XW_PROGRAM("tp_btf", kvm_exit)
{
	struct kvm_vcpu___xw *vcpu = (void *)ctx[0];
	struct vcpu_svm___xw *svm = (void *)vcpu;
	struct vcpu_vmx___xw *vmx = (void *)vcpu;
	u32 reason = -1;

	if (!vcpu)
		return;
	if (ctx[1] == 2 && bpf_core_field_exists(svm->vmcb))
		reason = BPF_CORE_READ(svm, vmcb, control.exit_code);
	if (ctx[1] == 1 && bpf_core_field_exists(vmx->exit_reason.full))
		reason = BPF_CORE_READ(vmx, exit_reason.full);
	XW_EVENT(XW_VM_EXIT, XW_TID, 0, XW_PAIR(vcpu->vcpu_id, reason));
}
#endif

#ifdef XW_HAS_kvm_vcpu_wakeup
XW_PROGRAM("tp_btf", kvm_vcpu_wakeup)
{
	XW_EVENT(XW_VM_HALT, XW_TID, ctx[1] & 1 ? 0 : 1, ctx[0], xw_own_vcpu());
}
#endif

#ifdef XW_HAS_kvm_inj_virq
XW_PROGRAM("tp_btf", kvm_inj_virq)
{
	XW_EVENT(XW_VM_INJECT, XW_TID, 0, XW_PAIR(xw_own_vcpu(), ctx[0]));
}
#endif

/* ── syscalls ────────────────────────────────────────────────────────────────────────────────── */

#ifdef XW_HAS_sys_enter
XW_PROGRAM("tp_btf", sys_enter)
{
	XW_EVENT(XW_SYSCALL_ENTER, XW_TID, 0, (u32)ctx[1]);
}
#endif

#ifdef XW_HAS_sys_exit
XW_PROGRAM("tp_btf", sys_exit)
{
	struct pt_regs *registers = (void *)ctx[0];

	XW_EVENT(XW_SYSCALL_EXIT, XW_TID, 0, ctx[1], (u32)registers->orig_ax);
}
#endif
