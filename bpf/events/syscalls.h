/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes of events: system calls. */

XW_PROGRAM("tp_btf", sys_enter)
{
	XW_EVENT(XW_SYSCALL_ENTER, XW_TID, 0, (u32)ctx[1]);
}

XW_PROGRAM("tp_btf", sys_exit)
{
	struct pt_regs *registers = (void *)ctx[0];

	XW_EVENT(XW_SYSCALL_EXIT, XW_TID, 0, ctx[1], (u32)registers->orig_ax);
}
