/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where guests' memory is in the processes that run them: KVM's memory slots of every virtual machine, whoever made it, read
 * from the files that processes have open. A program of its own, not part of the prelude.
 * virt/kvm/kvm_main.c, include/linux/kvm_host.h, Linux 6.1 to 7.3.
 */
#include "types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* include/uapi/linux/magic.h */
#define ANON_INODE_FS_MAGIC 0x09041934

/* How many lists slots are hashed to (DECLARE_HASHTABLE(id_hash, 7)), and how many of a list are looked at. QEMU has a few
 * dozen slots in all. */
#define LISTS 128
#define OF_LIST 8

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct super_block {
	unsigned long s_magic;
};

struct inode {
	struct super_block *i_sb;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
	void *private_data;
};

struct task_struct {
	int tgid;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u32 fd;
	struct file *file;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct kvm_memory_slot {
	struct hlist_node id_node[2];
	u64 base_gfn;
	unsigned long npages;
	unsigned long userspace_addr;
	u32 flags;
};

struct kvm_memslots {
	struct hlist_head id_hash[LISTS];
	int node_idx;
};

struct kvm {
	struct kvm_memslots *memslots[1];
};

#pragma clang attribute pop

/* What is told of each: `struct Told` of crates/merge/src/slots.rs. */
struct told {
	u32 pid;
	u32 flags;
	u64 first_frame;
	u64 pages;
	u64 address;
};

#define NAME "kvm-vm"

/* A virtual machine's: no other file has that name there. */
static __always_inline bool is_machine(struct file *file)
{
	char name[sizeof(NAME)] = {};

	if (BPF_CORE_READ(file, f_inode, i_sb, s_magic) != ANON_INODE_FS_MAGIC)
		return false;
	bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(file, f_path.dentry, d_name.name));
	for (int i = 0; i < sizeof(NAME); i++)
		if (name[i] != NAME[i])
			return false;
	return true;
}

/* Slots may go while they are looked at: then what is read is nonsense, and is no harm. It is looked over where it arrives. */
SEC("iter/task_file")
int kvm_slots(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct kvm_memslots *slots;
	struct kvm *kvm;
	u32 at;

	if (!task || !file || !is_machine(file))
		return 0;
	kvm = BPF_CORE_READ(file, private_data);
	slots = BPF_CORE_READ(kvm, memslots[0]);
	at = BPF_CORE_READ(slots, node_idx) & 1;
	for (u32 list = 0; list < LISTS; list++) {
		struct hlist_node *node = 0;

		bpf_core_read(&node, sizeof(node), (void *)slots + bpf_core_field_offset(struct kvm_memslots, id_hash) + list * sizeof(node));
		for (u32 nth = 0; nth < OF_LIST && node; nth++) {
			struct kvm_memory_slot *slot =
				(void *)node - bpf_core_field_offset(struct kvm_memory_slot, id_node) -
				at * bpf_core_type_size(struct hlist_node);
			struct told told = {
				.pid = task->tgid,
				.flags = BPF_CORE_READ(slot, flags),
				.first_frame = BPF_CORE_READ(slot, base_gfn),
				.pages = BPF_CORE_READ(slot, npages),
				.address = BPF_CORE_READ(slot, userspace_addr),
			};

			bpf_seq_write(ctx->meta->seq, &told, sizeof(told));
			node = BPF_CORE_READ(node, next);
		}
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
