/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Probes of events: keys in the payload (record --key), which tell apart messages that one socket carries for many. Read
 * once per message, where its bytes pass a system call: what is followed has its own ID anyway. Loaded only where a key
 * is asked for.
 */

/* How much of a message is looked through, and how much of a key is taken: powers of two. */
#define XW_PAYLOAD 1024
#define XW_KEY_MOST 64

/* The words of the name that a key's line begins with. */
#define XW_KEY_WORDS 4

/* Where a message's key is: from the controller (crates/weave/src/payload.rs). */
struct xw_key_place {
	u32 is_line; /* behind a name at the beginning of a line but the first; */
	u32 at; /* else here, */
	u32 length; /* so many bytes (of a line: the name's), or up to the line's end if this is 0 */
	u32 unused;
	u64 name[XW_KEY_WORDS]; /* in lower-case letters */
	u64 masks[XW_KEY_WORDS]; /* which of their bytes count */
};

const volatile struct xw_key_place xw_key_place = {};

/* Beyond what is looked through there is room for what a line begins with. */
struct xw_payload {
	u8 bytes[XW_PAYLOAD + 2 * XW_KEY_MOST];
};

/* What is sent and what is received, each program's own: one that is interrupted on a CPU does not begin there again. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct xw_payload);
} xw_payloads SEC(".maps");

struct xw_key_search {
	struct xw_payload *payload;
	u32 length; /* of the message, as far as it was read */
	u32 at; /* where the key begins; of a search, 0 if it was not found */
	u32 taken;
	u32 wanted; /* so many bytes, whatever they are; 0: until the line's end */
	u64 hash;
	u64 text; /* the first bytes */
};

/* FNV-1a */
#define XW_KEY_HASH 0xcbf29ce484222325ull
#define XW_KEY_PRIME 0x100000001b3ull

/* Whether a line that begins at a place is the key's. */
static __always_inline bool xw_key_begins(const u8 *line)
{
	const u64 *words = (const void *)line;
	u8 next = line[xw_key_place.length & (XW_KEY_MOST - 1)];

	_Pragma("unroll") for (u32 i = 0; i < XW_KEY_WORDS; i++)
	{
		/* Letters in either case; the few other bytes that this makes equal are in no header's name. */
		if (((words[i] | 0x2020202020202020ull) & xw_key_place.masks[i]) != xw_key_place.name[i])
			return false;
	}
	return next == ':' || next == '=' || next == ' ' || next == '\t';
}

static long xw_key_look(u32 at, struct xw_key_search *search)
{
	if (at >= search->length)
		return 1;
	at &= XW_PAYLOAD - 1;
	if (search->payload->bytes[at] != '\n' || !xw_key_begins(&search->payload->bytes[at + 1]))
		return 0;
	search->at = at + 1 + xw_key_place.length;
	return 1;
}

static long xw_key_take(u32 nth, struct xw_key_search *search)
{
	u32 at = search->at + nth;
	u8 byte;

	if (at >= search->length)
		return 1;
	byte = search->payload->bytes[at & (XW_PAYLOAD - 1)];
	if (!search->wanted) {
		if (byte == '\r' || byte == '\n' || !byte)
			return 1;
		if (!search->taken && (byte == ':' || byte == '=' || byte == ' ' || byte == '\t'))
			return 0;
	}
	if (search->taken < 8)
		search->text |= (u64)byte << (search->taken * 8 & 63);
	search->hash = (search->hash ^ byte) * XW_KEY_PRIME;
	search->taken++;
	return search->taken == search->wanted;
}

/* Tells of the key of a message of that length, of which the beginning has been read. Looked through by the verifier once. */
__noinline int xw_key_of(u32 slot, u32 read, u32 length)
{
	struct xw_key_search search = { .hash = XW_KEY_HASH };
	struct xw_key_search head = { .hash = XW_KEY_HASH, .length = read, .wanted = XW_KEY_MOST };

	slot &= 1;
	search.payload = bpf_map_lookup_elem(&xw_payloads, &slot);
	if (!search.payload)
		return 0;
	search.length = read;
	if (xw_key_place.is_line) {
		bpf_loop(XW_PAYLOAD, xw_key_look, &search, 0);
		if (!search.at)
			return 0;
	} else {
		search.at = xw_key_place.at;
		search.wanted = xw_key_place.length;
	}
	XW_FORGET(search.taken);
	bpf_loop(XW_KEY_MOST, xw_key_take, &search, 0);
	if (!search.taken || search.taken < search.wanted)
		return 0;
	/* What is sent once more begins alike; what else has the key does not: a method, a status. */
	head.payload = search.payload;
	XW_FORGET(head.taken);
	bpf_loop(XW_KEY_MOST, xw_key_take, &head, 0);
	XW_EVENT(XW_KEY, XW_TID, 0, search.hash, search.text, XW_PAIR(length, slot),
		 (u32)(head.hash ^ head.hash >> 32));
	return 0;
}

/* The bytes lie in the kernel's memory, or in that of the running process; so many of them in one piece. */
static __always_inline void xw_key(u32 sent, const void *bytes, bool is_user, u64 there, u64 length)
{
	struct xw_payload *payload = bpf_map_lookup_elem(&xw_payloads, &sent);
	u32 size = there < XW_PAYLOAD ? there : XW_PAYLOAD;

	if (!payload || !bytes || !size)
		return;
	if (is_user ? bpf_probe_read_user(payload->bytes, size, bytes) :
		      bpf_probe_read_kernel(payload->bytes, size, bytes))
		return;
	xw_key_of(sent, size, length);
}

/* iov_iter has changed: include/linux/uio.h of 6.1 has `iov`, 6.4 and later `__iov`. */
struct iovec___xweave {
	void *iov_base;
	unsigned long iov_len;
} __attribute__((preserve_access_index));
struct iov_iter___xweave {
	u8 iter_type;
	unsigned long iov_offset;
	void *ubuf;
	struct iovec___xweave *iov;
	struct iovec___xweave *__iov;
} __attribute__((preserve_access_index));
enum iter_type___xweave {
	ITER_IOVEC___xweave = 1,
	ITER_UBUF___xweave = 2,
};

/* Of what a message is copied to, or from, in the running process: what lies `back` before where it stands, in one
 * piece of so many bytes. NULL if that is not known. */
static __always_inline const void *xw_key_user(struct msghdr *msg, u64 back, u64 *there)
{
	struct iov_iter___xweave *iter = (void *)&msg->msg_iter;
	struct iovec___xweave *piece = NULL;
	u64 offset = BPF_CORE_READ(iter, iov_offset), length, base;
	u8 type = BPF_CORE_READ(iter, iter_type);

	if (bpf_core_enum_value_exists(enum iter_type___xweave, ITER_UBUF___xweave) &&
	    type == bpf_core_enum_value(enum iter_type___xweave, ITER_UBUF___xweave))
		return offset < back ? NULL : (void *)((u64)BPF_CORE_READ(iter, ubuf) + offset - back);
	if (type != bpf_core_enum_value(enum iter_type___xweave, ITER_IOVEC___xweave))
		return NULL;
	if (bpf_core_field_exists(iter->__iov))
		piece = BPF_CORE_READ(iter, __iov);
	else if (bpf_core_field_exists(iter->iov))
		piece = BPF_CORE_READ(iter, iov);
	/* Filled to its end: it stands at the next one. */
	if (!offset && back)
		piece--;
	length = BPF_CORE_READ(piece, iov_len);
	base = (u64)BPF_CORE_READ(piece, iov_base);
	if (!offset && back)
		offset = length;
	if (offset < back || offset > length)
		return NULL;
	if (*there > length - offset + back)
		*there = length - offset + back;
	return (void *)(base + offset - back);
}

static __always_inline void xw_key_received(u64 *ctx)
{
	s64 bytes = xw_moved(ctx);
	u64 there = bytes;

	if (bytes > 0)
		xw_key(0, xw_key_user((void *)ctx[1], bytes, &there), true, there, bytes);
}

/* What is in the buffer itself, behind the header of UDP. */
static __always_inline void xw_key_datagram(struct sk_buff *skb, u32 protocol_at)
{
	unsigned char *payload = skb->head + skb->transport_header + XW_UDP;
	u64 before = (u64)payload - (u64)skb->data, linear = skb->len - skb->data_len;
	u64 length = xw_datagram(skb, protocol_at);

	if (!length || before >= linear)
		return;
	linear -= before;
	xw_key(1, payload, false, linear < length ? linear : length, length);
}


XW_PROGRAM("fentry", key_ip_send_skb)
{
	xw_key_datagram((void *)ctx[1], 9);
}

XW_PROGRAM("fentry", key_ip6_send_skb)
{
	xw_key_datagram((void *)ctx[0], 6);
}

XW_PROGRAM("fentry", key_tcp_sendmsg)
{
	u64 size = ctx[2], there = size;

	if (size)
		xw_key(1, xw_key_user((void *)ctx[1], 0, &there), true, there, size);
}

XW_PROGRAM("fexit", key_udp_recvmsg)
{
	xw_key_received(ctx);
}

XW_PROGRAM("fexit", key_udpv6_recvmsg)
{
	xw_key_received(ctx);
}

XW_PROGRAM("fexit", key_tcp_recvmsg)
{
	xw_key_received(ctx);
}
