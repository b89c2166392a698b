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

#endif
