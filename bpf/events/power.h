/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes of events: idle states and frequencies of processors. */

/* By the processor itself, which is not idle yet, or not any more. PWR_EVENT_EXIT of include/trace/events/power.h, that it
 * has come out, is -1; a driver has no more than CPUIDLE_STATE_MAX states (include/linux/cpuidle.h): 10. */
XW_PROGRAM("tp_btf", cpu_idle)
{
	XW_EVENT(XW_CPU_IDLE, XW_TID, (s8)ctx[0]);
}

XW_PROGRAM("tp_btf", cpu_idle_miss)
{
	XW_EVENT(XW_CPU_IDLE_MISS, XW_TID, (s8)ctx[1], (u64)(ctx[2] & 1));
}

/* Any processor tells of those that change their frequency together. */
XW_PROGRAM("tp_btf", cpu_frequency)
{
	XW_EVENT(XW_CPU_FREQUENCY, XW_TID, 0, XW_PAIR(ctx[1], ctx[0]));
}
