/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes of events: whether a thread has slept in a call. */

/* This thread, and how often it has gone to sleep: 24 bits of its number, so that another one is recognised, and 40 of
 * the count. */
static __always_inline u64 xw_sleeps(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return (u64)XW_TID << 40 | (BPF_CORE_READ(task, nvcsw) & ((1ull << 40) - 1));
}

/* Whether the two tell of one thread that has slept in between. */
static __always_inline bool xw_slept(u64 before, u64 now)
{
	return before >> 40 == now >> 40 && before != now;
}
