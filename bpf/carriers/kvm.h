/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The host's side of a guest's memory, where that is what data crosses on: for devices that QEMU itself serves.
 * No function of the host's kernel is told which ring a system call of QEMU is made for, only where in QEMU's
 * memory the data is; KVM's memory slots translate that to the guest's own address.
 * include/linux/kvm_host.h, virt/kvm/kvm_main.c; Linux 6.1 to 6.12.
 */
#ifndef XW_CARRIER_KVM_H
#define XW_CARRIER_KVM_H

/* Process → its virtual machine, struct kvm. */
XW_TABLE(xw_machines, 1, 1024);

/* In a thread of QEMU: this is its virtual machine. */
static __always_inline void kvm_seen(struct kvm_vcpu *vcpu)
{
	u32 process = bpf_get_current_pid_tgid() >> 32;
	u64 machine = (u64)READ(vcpu->kvm), known;

	if (!xw_machines_get(process, &known) || known != machine)
		xw_machines_put(process, &machine);
}

/* The slots are an interval tree; one this deep holds more of them than KVM allows. */
#define XW_MAX_SLOT_DEPTH 32

/* The guest-physical address of an address of the running process; 0 if it is none of a guest's memory. */
static __noinline u64 kvm_address(u64 address)
{
	u32 process = bpf_get_current_pid_tgid() >> 32;
	struct kvm *kvm;
	struct kvm_memslots *slots;
	struct rb_node *link;
	u64 machine, at;

	if (!xw_machines_get(process, &machine))
		return 0;
	kvm = (struct kvm *)machine;
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

/*
 * What is done while the process goes on: fs/aio.c, io_uring/rw.c, Linux 6.1 to 6.12. The request's struct kiocb is what
 * both its beginning and its end are told of (for io_uring, its struct io_kiocb begins with it).
 */

/* By that: where in the guest's memory the data is, and of which process's guest. */
XW_TABLE(xw_async, 2, 8192);

/* Where the data is: the first part's, of a call that names several. */
static __always_inline u64 aio_buffer(const struct iocb *iocb, bool vectored)
{
	u64 buffer = READ(iocb->aio_buf);

	return vectored ? (u64)READ_USER(((struct iovec *)buffer)->iov_base) : buffer;
}

static __always_inline u64 uring_buffer(struct io_kiocb *request)
{
	u64 buffer = READ(((struct io_rw *)request)->addr);
	u8 opcode = READ(request->opcode);

	/* IORING_OP_READV, IORING_OP_WRITEV */
	return opcode == 1 || opcode == 2 ? (u64)READ_USER(((struct iovec *)buffer)->iov_base) : buffer;
}

/* The host's side, when it begins, in the process; and when it is done, wherever that is noticed. */
static __always_inline struct xw_key kvm_memory_of(void *request, u64 address)
{
	struct xw_key key = kvm_memory(address);
	const u64 words[2] = { key.ring, key.peer };

	xw_async_put(xw_number((u64)request), words);
	return key;
}

static __always_inline struct xw_key kvm_memory_done(void *request)
{
	u64 words[2] = {};
	struct xw_key key = {};

	if (xw_async_get(xw_number((u64)request), words)) {
		key.ring = words[0];
		key.peer = words[1];
		xw_async_drop(xw_number((u64)request));
	}
	return key;
}

#endif
