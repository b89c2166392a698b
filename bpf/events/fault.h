/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Probes of events: page faults that wait. Nearly none does, so they are hooked where a page of a file, or one that was
 * swapped out, has been asked for; and told, when they are over, only if it had to be read or the thread has slept.
 */

/* VM_FAULT_MAJOR of include/linux/mm_types.h */
#define XW_MAJOR 4

/*
 * Faults under way, by thread. Of two with the same place the later one stays, and the other is not told. When a fault is
 * over, what was mapped there may be another file, or nothing: so that is kept from its beginning.
 */
struct xw_fault {
	u64 sleeps; /* of xw_sleeps; 0 while the others are written */
	u64 began;
	u64 inode;
	u64 device;
	u64 name[2];
};
#define XW_FAULTS 1024
struct xw_fault xw_faults[XW_FAULTS];

#define XW_FAULT (&xw_faults[XW_TID & (XW_FAULTS - 1)])

/* Interrupts and other CPUs see what is written, and this sees what they write, in the order of the source. */
#define XW_IN_ORDER() asm volatile("" ::: "memory")

/* Gives whether that is to be told, and the fault as it was. */
static __always_inline bool xw_fault_over(u64 *ctx, struct xw_fault *over)
{
	struct xw_fault *fault = XW_FAULT;
	u64 now = xw_sleeps();
	bool same;

	*over = *fault;
	XW_IN_ORDER();
	same = fault->sleeps == over->sleeps;
	fault->sleeps = 0;
	return same && over->sleeps >> 40 == now >> 40 &&
	       (xw_moved(ctx) & XW_MAJOR || over->sleeps != now);
}

XW_PROGRAM("fentry", filemap_fault)
{
	struct vm_fault *vmf = (void *)ctx[0];
	struct file *file = vmf->vma->vm_file;
	struct xw_fault *fault = XW_FAULT;

	fault->sleeps = 0;
	XW_IN_ORDER();
	fault->began = bpf_ktime_get_ns();
	fault->inode = BPF_CORE_READ(file, f_inode, i_ino);
	fault->device = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
	fault->name[0] = fault->name[1] = 0;
	bpf_probe_read_kernel_str(fault->name, sizeof(fault->name),
				  BPF_CORE_READ(file, f_path.dentry, d_name.name));
	XW_IN_ORDER();
	fault->sleeps = xw_sleeps();
}

XW_PROGRAM("fexit", filemap_fault_end)
{
	struct xw_fault over;

	if (xw_fault_over(ctx, &over))
		XW_EVENT(XW_PAGE_FAULT, XW_TID, !!(xw_moved(ctx) & XW_MAJOR), over.inode,
			 XW_PAIR(over.device, xw_short(bpf_ktime_get_ns() - over.began)),
			 over.name[0], over.name[1]);
}

XW_PROGRAM("fentry", do_swap_page)
{
	struct xw_fault *fault = XW_FAULT;

	fault->sleeps = 0;
	XW_IN_ORDER();
	fault->began = bpf_ktime_get_ns();
	XW_IN_ORDER();
	fault->sleeps = xw_sleeps();
}

XW_PROGRAM("fexit", do_swap_page_end)
{
	struct xw_fault over;

	if (xw_fault_over(ctx, &over))
		XW_EVENT(XW_SWAP_IN, XW_TID, !!(xw_moved(ctx) & XW_MAJOR),
			 xw_short(bpf_ktime_get_ns() - over.began));
}
