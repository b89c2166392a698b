/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The host's side of a guest's memory, where that is what data crosses on: for devices that QEMU itself serves.
 * No function of the host's kernel is told which ring a system call of QEMU is made for, only where in QEMU's
 * memory the data is; KVM's memory slots translate that to the guest's own address.
 * include/linux/kvm_host.h, virt/kvm/kvm_main.c; Linux 6.1 to 7.3.
 */
#ifndef XW_CARRIER_KVM_H
#define XW_CARRIER_KVM_H

#include "carriers/told.h"

/* What is known of a process. */
enum xw_machine_word {
	XW_MACHINE_KVM,	  /* its virtual machine, struct kvm */
	XW_MACHINE_GUEST, /* which guest that is: carriers/told.h */
	XW_MACHINE_KICKS, /* of one that is none of them */
	XW_MACHINE_WORDS
};

/* By the process. */
XW_TABLE(xw_machines, XW_MACHINE_WORDS, 1024);

/* The slots by the guest's addresses are a binary tree, and by QEMU's an interval tree; one this deep holds more of them
 * than KVM allows. */
#define XW_MAX_SLOT_DEPTH 32

/* Where a guest-physical address is in QEMU's memory; 0 if it is nowhere. */
__noinline u64 xw_kvm_user_address(u64 machine, u64 address)
{
	struct kvm *kvm = (struct kvm *)machine;
	struct kvm_memslots *slots = READ(kvm->memslots[0]);
	u64 frame = address >> 12, at = READ(slots->node_idx) & 1;
	struct rb_node *link = READ(slots->gfn_tree.rb_node);

	for (int i = 0; i < XW_MAX_SLOT_DEPTH && link; i++) {
		struct kvm_memory_slot *slot = (void *)link - bpf_core_field_offset(struct kvm_memory_slot, gfn_node) -
					       at * bpf_core_type_size(struct rb_node);
		u64 first = READ(slot->base_gfn);

		if (frame >= first && frame - first < READ(slot->npages))
			return READ(slot->userspace_addr) + (address - (first << 12));
		link = frame < first ? READ(link->rb_left) : READ(link->rb_right);
	}
	return 0;
}

/* The guest that a virtual machine is, in a thread of QEMU. */
__noinline u64 xw_guest_in(u64 machine)
{
	return XW_GUEST_OF(xw_kvm_user_address(machine, memory));
}

/* In a thread of QEMU: this is its virtual machine. */
static __always_inline void kvm_seen(struct kvm_vcpu *vcpu)
{
	u32 process = bpf_get_current_pid_tgid() >> 32;
	u64 machine = (u64)READ(vcpu->kvm), known[XW_MACHINE_WORDS] = {};

	if (xw_machines_get(process, known) && known[XW_MACHINE_KVM] == machine && known[XW_MACHINE_GUEST])
		return;
	if (known[XW_MACHINE_KVM] != machine)
		known[XW_MACHINE_KICKS] = 0;
	known[XW_MACHINE_KVM] = machine;
	/* A stranger is looked at again now and then: the memory that tells whose it is may have been away. */
	known[XW_MACHINE_GUEST] = known[XW_MACHINE_KICKS]++ % 64 ? 0 : xw_guest_in(xw_number(machine));
	xw_machines_put(process, known);
}

/* The guest-physical address of an address of the running process; 0 if it is none of a guest's memory. */
__noinline u64 kvm_address(u64 address)
{
	u32 process = bpf_get_current_pid_tgid() >> 32;
	struct kvm *kvm;
	struct kvm_memslots *slots;
	struct rb_node *link;
	u64 machine[XW_MACHINE_WORDS], at;

	if (!xw_machines_get(process, machine))
		return 0;
	kvm = (struct kvm *)machine[XW_MACHINE_KVM];
	slots = READ(kvm->memslots[0]);
	at = READ(slots->node_idx) & 1;
	link = READ(slots->hva_tree.rb_root.rb_node);
	for (int i = 0; i < XW_MAX_SLOT_DEPTH && link; i++) {
		struct interval_tree_node *node =
			(void *)link - bpf_core_field_offset(struct interval_tree_node, rb);
		struct rb_node *left = READ(link->rb_left);
		struct interval_tree_node *before =
			(void *)left - bpf_core_field_offset(struct interval_tree_node, rb);

		if (address >= READ(node->start) && address <= READ(node->last)) {
			struct kvm_memory_slot *slot =
				(void *)node - bpf_core_field_offset(struct kvm_memory_slot, hva_node) -
				at * bpf_core_type_size(struct interval_tree_node);

			return (READ(slot->base_gfn) << 12) + (address - READ(slot->userspace_addr));
		}
		link = left && READ(before->__subtree_last) >= address ? left : READ(link->rb_right);
	}
	return 0;
}

/* The host's side: data at this address of the running process. */
static __always_inline struct xw_key kvm_memory(u64 address)
{
	struct xw_key key = {
		.ring = kvm_address(address),
		.peer = bpf_get_current_pid_tgid() >> 32,
	};
	return key;
}

/* What the guest says of the data at this address of the running process, and where that is. */
#define kvm_told(address) xw_kvm_told(address, xw_xflow)

/* (Not static: the verifier goes through it once.) */
__noinline int xw_kvm_listen(u64 xflow, struct xw_told_key *told)
{
	u64 machine[XW_MACHINE_WORDS] = {};

	if (!told)
		return 0;
	xw_machines_get(told->key.peer, machine);
	XW_LISTEN_TO_PARTS(machine[XW_MACHINE_GUEST], xflow, told,
			   xw_kvm_user_address(xw_number(machine[XW_MACHINE_KVM]), memory));
	return 0;
}

static __always_inline struct xw_told_key xw_kvm_told(u64 address, u64 xflow)
{
	struct xw_told_key told = { .key = kvm_memory(address) };

	xw_kvm_listen(xflow, &told);
	return told;
}

/*
 * What is done while the process goes on: fs/aio.c, io_uring/rw.c, Linux 6.1 to 7.3. The request's struct kiocb is what
 * both its beginning and its end are told of (for io_uring, its struct io_kiocb begins with it).
 */

/* By that, or by the thread, and for each other request by what keeps its flow: where in the guest's memory the data is,
 * of which process's guest, and which flow that is, if it was told. */
XW_TABLE(xw_async, 3, 8192);

static __always_inline void xw_async_begin(u64 request, const struct xw_told_key *told)
{
	const u64 words[3] = { told->key.ring, told->key.peer, told->flow };

	xw_async_put(xw_number(request), words);
}

/* Where the data is: the first part's, of a call that names several. */
static __always_inline u64 aio_buffer(const struct iocb *iocb, bool vectored)
{
	u64 buffer = READ(iocb->aio_buf);

	return vectored ? (u64)READ_USER(((struct iovec *)buffer)->iov_base) : buffer;
}

/* IORING_OP_READV, IORING_OP_WRITEV */
static __always_inline bool uring_is_vectored(struct io_kiocb *request)
{
	u8 opcode = READ(request->opcode);

	return opcode == 1 || opcode == 2;
}

static __always_inline struct iovec *uring_vector(struct io_kiocb *request)
{
	return (struct iovec *)READ(((struct io_rw *)request)->addr);
}

static __always_inline u64 uring_buffer(struct io_kiocb *request)
{
	struct iovec *buffer = uring_vector(request);

	return uring_is_vectored(request) ? (u64)READ_USER(buffer->iov_base) : (u64)buffer;
}

static __always_inline u32 uring_parts(struct io_kiocb *request)
{
	return uring_is_vectored(request) ? READ(((struct io_rw *)request)->len) : 1;
}

/* When it begins, in the process: as kvm_told; */
#define kvm_told_of(request, address)                                                              \
	xw_kvm_told_of((u64)(request), address, xw_xflow, xw_config_now->hears_all)

static __always_inline struct xw_told_key xw_kvm_told_of(u64 request, u64 address, u64 xflow, bool hears_all)
{
	struct xw_told_key told = xw_kvm_told(address, xflow);

	if (told.known ? told.flow : !(told.stranger && hears_all))
		xw_async_begin(request, &told);
	return told;
}

/* and when it is done, wherever that is noticed: the host's side. */
#define kvm_memory_done(request) xw_kvm_memory_done((u64)(request))

static __always_inline struct xw_key xw_kvm_memory_done(u64 request)
{
	u64 words[3] = {};
	struct xw_key key = {};

	if (xw_async_get(xw_number(request), words)) {
		key.ring = words[0];
		key.peer = words[1];
		xw_async_drop(xw_number(request));
	}
	return key;
}

/*
 * Requests that QEMU has put together, as they follow each other on the disk (VIRTIO_BLK_MAX_MERGE_REQS: 32): the call
 * names the parts of one after those of the other. The guest says of each in how many parts it is; where it says nothing,
 * each part may be the first of one.
 *
 * The others than the first are kept by places within what keeps the first, its struct kiocb or the thread's.
 */
#define XW_MOST_OTHERS 31
#define XW_OTHER(base, nth) ((base) + 2 * (nth))

/* By the first: how many others. */
XW_TABLE(xw_others, 1, 1024);

/* Looks whether one begins with this part, which is not the first if `nth` is not 0: so many have been found with it. Gives
 * in how many parts it is, and in the upper half how many have been found. (Neither this nor the next is static: the
 * verifier goes through them once, and not at each turn.) */
__noinline u64 xw_find_other(u64 keeper, u64 address, u64 nth, u64 xflow)
{
	struct xw_told_key told = xw_kvm_told(address, xflow);

	if (!nth)
		return 1ULL << 32 | (u16)told.parts;
	if (told.known && told.flow && nth <= XW_MOST_OTHERS)
		xw_async_begin(XW_OTHER(keeper, nth++), &told);
	return nth << 32 | (u16)told.parts;
}

/* Finds them, and how many they are. */
__noinline int xw_find_others(u64 keeper, u64 vector, u64 count, u64 xflow)
{
	const struct iovec *parts = (void *)vector;
	u64 nth = 0, at = 0;

	for (u32 look = 0; look < 64 && at < count; look++) {
		u64 found = xw_find_other(keeper, (u64)READ_USER(parts[at].iov_base), nth, xflow);

		/* What the verifier knows of them would tell each turn from each other. */
		at = xw_number(at + (u32)found);
		nth = xw_number(found >> 32);
	}
	if (nth < 2)
		return 0;
	nth--;
	xw_others_put(keeper, &nth);
	return nth;
}

/* That of those found. */
static __always_inline struct xw_told_key xw_other(u64 request)
{
	u64 words[3] = {};
	struct xw_told_key told = { .known = 1 };

	if (xw_async_get(xw_number(request), words)) {
		told.key.ring = words[0];
		told.key.peer = words[1];
		told.flow = words[2];
	}
	return told;
}

#define flow_xout_others(name, carrier, keeper, vector, count)                                     \
	({                                                                                         \
		u64 xw_base = xw_number((u64)(keeper)), xw_count = 0;                              \
                                                                                                   \
		/* (where it is tried again, they have been taken) */                              \
		if (!xw_others_get(xw_base, &xw_count))                                            \
			xw_count = xw_find_others(xw_base, xw_number((u64)(vector)), count,         \
						  XW_NAMED(name));                                 \
		else                                                                               \
			xw_count = 0;                                                              \
		for (u32 xw_nth = 1; xw_nth <= XW_MOST_OTHERS && xw_nth <= xw_count; xw_nth++)     \
			XW_XOUT(name, xw_other(XW_OTHER(xw_base, xw_nth)), XW_OTHER(xw_base, xw_nth)); \
	})

#define flow_xin_others(name, carrier, keeper)                                                     \
	({                                                                                         \
		u64 xw_base = (u64)(keeper), xw_count = 0;                                         \
                                                                                                   \
		if (xw_others_get(xw_number(xw_base), &xw_count))                                  \
			xw_others_drop(xw_number(xw_base));                                        \
		for (u32 xw_nth = 1; xw_nth <= XW_MOST_OTHERS && xw_nth <= xw_count; xw_nth++)     \
			XW_XIN_MOVE(name, XW_OTHER(xw_base, xw_nth),                               \
				    xw_kvm_memory_done(XW_OTHER(xw_base, xw_nth)));                \
	})

#endif
