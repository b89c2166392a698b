/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Probes of events: what is written to pipes and FIFOs, and read from them. What is spliced to or from one comes by other
 * functions, and is not seen.
 *
 * Calls under way, and what is told when, are as those of sockets: net.h.
 */

/* By its inode, which both ends have in common. */
static __always_inline void xw_pipe(enum xw_kind kind, u64 *ctx, u32 bytes, u32 code)
{
	struct kiocb *iocb = (void *)ctx[0];
	struct inode *inode = iocb->ki_filp->f_inode;

	XW_EVENT(kind, XW_TID, 0, inode->i_ino, XW_PAIR(inode->i_sb->s_dev, bytes), code);
}

static __always_inline u32 xw_left_to_write(u64 *ctx)
{
	return BPF_CORE_READ((struct iov_iter *)ctx[1], count);
}

/* By thread, as the calls of net.h. */
u64 xw_pipe_sleeps[XW_CALLS];

XW_PROGRAM("fentry", pipe_write)
{
	u32 size = xw_left_to_write(ctx);

	if (!size)
		return;
	xw_call_begins();
	xw_pipe_sleeps[XW_TID & (XW_CALLS - 1)] = xw_sleeps();
	xw_pipe(XW_PIPE_WRITE, ctx, size, XW_SENDING_BEGINS);
}

XW_PROGRAM("fexit", pipe_write_end)
{
	struct kiocb *iocb = (void *)ctx[0];
	struct inode *inode = iocb->ki_filp->f_inode;
	u32 left = xw_left_to_write(ctx), lasted = xw_call_lasted();

	if (xw_slept(xw_pipe_sleeps[XW_TID & (XW_CALLS - 1)], xw_sleeps()))
		XW_EVENT(XW_PIPE_FULL, XW_TID, 0, inode->i_ino, XW_PAIR(inode->i_sb->s_dev, lasted));
	if (left)
		xw_pipe(XW_PIPE_WRITE, ctx, left, xw_moved(ctx) > 0 ? XW_SENDING_SHORTENS : XW_SENDING_CANCELS);
}

XW_PROGRAM("fentry", pipe_read_begin)
{
	xw_call_begins();
}

XW_PROGRAM("fexit", pipe_read)
{
	s64 bytes = xw_moved(ctx);
	u32 lasted = xw_call_lasted();

	/* 0: nobody writes to it any more, which may be what was waited for. */
	if (bytes >= 0)
		xw_pipe(XW_PIPE_READ, ctx, bytes, lasted);
}
