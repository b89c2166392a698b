/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes of events: who runs. */

/* Kernels without CONFIG_CFS_BANDWIDTH have no quotas. */
struct cfs_rq___xweave {
	int throttle_count;
} __attribute__((preserve_access_index));
struct sched_entity___xweave {
	struct cfs_rq___xweave *cfs_rq;
} __attribute__((preserve_access_index));
struct task_struct___xweave {
	int prio;
	struct sched_entity___xweave se;
} __attribute__((preserve_access_index));

/* Whether a quota of processor time is used up that the thread would run on: kernel/sched/fair.c counts the groups
 * above it of which that is so, when it takes it off its processor. Real-time threads have none. */
static __always_inline bool xw_throttled(struct task_struct *task)
{
	struct task_struct___xweave *one = (void *)task;
	struct cfs_rq___xweave *queue = NULL;
	int count = 0, priority = 0;

	if (!bpf_core_field_exists(one->prio) || !bpf_core_field_exists(one->se.cfs_rq) ||
	    !bpf_core_field_exists(queue->throttle_count))
		return false;
	/* MAX_RT_PRIO of include/linux/sched/prio.h */
	if (bpf_core_read(&priority, sizeof(priority), &one->prio) || priority < 100 ||
	    bpf_core_read(&queue, sizeof(queue), &one->se.cfs_rq) ||
	    bpf_core_read(&count, sizeof(count), &queue->throttle_count))
		return false;
	return count > 0;
}

/* enum xw_state, of task_struct.__state (include/linux/sched.h): 0x402 is TASK_IDLE,
 * 2 TASK_UNINTERRUPTIBLE, 4 __TASK_STOPPED, 8 __TASK_TRACED, 0x80 TASK_DEAD. */
static __always_inline s8 xw_left_in(struct task_struct *task, bool preempted, u32 state)
{
	if (!state || preempted)
		return task->pid && xw_throttled(task) ? XW_STATE_THROTTLED : XW_STATE_RUNNABLE;
	if ((state & 0x402) == 0x402)
		return XW_STATE_SLEEPING;
	if (state & 0x2)
		return XW_STATE_BLOCKED;
	if (state & 0xc)
		return XW_STATE_STOPPED;
	return state & 0x80 ? XW_STATE_DEAD : XW_STATE_SLEEPING;
}

XW_PROGRAM("tp_btf", sched_switch)
{
	struct task_struct *before = (void *)ctx[1], *next = (void *)ctx[2];

	XW_EVENT(XW_SWITCH, before->pid, xw_left_in(before, ctx[0] & 1, ctx[3]), (u32)next->pid);
}

XW_PROGRAM("tp_btf", sched_waking)
{
	struct task_struct *task = (void *)ctx[0];

	/* The CPU that it ran on last: if it is given to another one, that is told before it is able to run. */
	XW_EVENT(XW_WAKE, XW_TID, xw_context() | (xw_throttled(task) ? XW_QUOTA_USED_UP : XW_QUOTA_LEFT),
		 XW_PAIR(task->pid, task->thread_info.cpu + 1));
}

XW_PROGRAM("tp_btf", sched_migrate_task)
{
	struct task_struct *task = (void *)ctx[0];

	XW_EVENT(XW_MIGRATE, XW_TID, 0, XW_PAIR(task->pid, (u32)ctx[1]),
		 task->thread_info.cpu);
}

XW_PROGRAM("tp_btf", sched_process_fork)
{
	struct task_struct *child = (void *)ctx[1];
	u64 name[2] = {};

	bpf_probe_read_kernel(name, sizeof(name), child->comm);
	XW_EVENT(XW_FORK, XW_TID, 0, XW_PAIR(child->pid, child->tgid), name[0], name[1]);
}

/* By exec, too: when the thread has the process's number already. */
XW_PROGRAM("tp_btf", task_rename)
{
	struct task_struct *task = (void *)ctx[0];
	u64 name[2] = {};

	bpf_probe_read_kernel_str(name, sizeof(name), (void *)ctx[1]);
	XW_EVENT(XW_THREAD, XW_TID, 0, XW_PAIR(task->pid, task->tgid), name[0], name[1]);
}

XW_PROGRAM("tp_btf", sched_process_exit)
{
	struct task_struct *task = (void *)ctx[0];

	XW_EVENT(XW_EXIT, task->pid, 0);
}

XW_PROGRAM("tp_btf", irq_handler_entry)
{
	XW_EVENT(XW_IRQ_ENTER, XW_TID, 0, (u32)ctx[0]);
}

XW_PROGRAM("tp_btf", irq_handler_exit)
{
	XW_EVENT(XW_IRQ_EXIT, XW_TID, 0, (u32)ctx[0]);
}

/* NR_SOFTIRQS of include/linux/interrupt.h is 10. */
#define XW_SOFTIRQS 16

/* By CPU: the context in which each softirq was raised that has not begun since. */
s8 xw_raised[XW_SOME_CPUS][XW_SOFTIRQS];

/* No event: who raised a softirq is told by its beginning. */
XW_PROGRAM("tp_btf", softirq_raise)
{
	u32 cpu = bpf_get_smp_processor_id();

	if (cpu < XW_SOME_CPUS)
		xw_raised[cpu][ctx[0] & (XW_SOFTIRQS - 1)] = xw_context();
}

XW_PROGRAM("tp_btf", softirq_entry)
{
	u32 cpu = bpf_get_smp_processor_id();
	s8 raised = 0;

	if (cpu < XW_SOME_CPUS) {
		raised = xw_raised[cpu][ctx[0] & (XW_SOFTIRQS - 1)];
		xw_raised[cpu][ctx[0] & (XW_SOFTIRQS - 1)] = 0;
	}
	XW_EVENT(XW_SOFTIRQ_ENTER, XW_TID, raised, (u32)ctx[0]);
}

XW_PROGRAM("tp_btf", softirq_exit)
{
	XW_EVENT(XW_SOFTIRQ_EXIT, XW_TID, 0, (u32)ctx[0]);
}

/* Interrupts that no device's handler is called for, by their vectors: arch/x86/include/asm/trace/irq_vectors.h. A
 * thread that the local timer wakes above another was not woken by that one. */
#define XW_VECTOR(vector) (XW_VECTORS | (u32)(vector))

XW_PROGRAM("tp_btf", local_timer_entry)
{
	XW_EVENT(XW_IRQ_ENTER, XW_TID, 0, XW_VECTOR(ctx[0]));
}

XW_PROGRAM("tp_btf", local_timer_exit)
{
	XW_EVENT(XW_IRQ_EXIT, XW_TID, 0, XW_VECTOR(ctx[0]));
}

XW_PROGRAM("tp_btf", reschedule_entry)
{
	XW_EVENT(XW_IRQ_ENTER, XW_TID, 0, XW_VECTOR(ctx[0]));
}

XW_PROGRAM("tp_btf", reschedule_exit)
{
	XW_EVENT(XW_IRQ_EXIT, XW_TID, 0, XW_VECTOR(ctx[0]));
}

XW_PROGRAM("tp_btf", call_function_entry)
{
	XW_EVENT(XW_IRQ_ENTER, XW_TID, 0, XW_VECTOR(ctx[0]));
}

XW_PROGRAM("tp_btf", call_function_exit)
{
	XW_EVENT(XW_IRQ_EXIT, XW_TID, 0, XW_VECTOR(ctx[0]));
}

XW_PROGRAM("tp_btf", call_function_single_entry)
{
	XW_EVENT(XW_IRQ_ENTER, XW_TID, 0, XW_VECTOR(ctx[0]));
}

XW_PROGRAM("tp_btf", call_function_single_exit)
{
	XW_EVENT(XW_IRQ_EXIT, XW_TID, 0, XW_VECTOR(ctx[0]));
}

XW_PROGRAM("tp_btf", irq_work_entry)
{
	XW_EVENT(XW_IRQ_ENTER, XW_TID, 0, XW_VECTOR(ctx[0]));
}

XW_PROGRAM("tp_btf", irq_work_exit)
{
	XW_EVENT(XW_IRQ_EXIT, XW_TID, 0, XW_VECTOR(ctx[0]));
}

XW_PROGRAM("fentry", futex_wait_begin)
{
	XW_EVENT(XW_LOCK_WAIT, XW_TID, 0, ctx[0]);
}

XW_PROGRAM("fexit", futex_wait_end)
{
	u64 result = 0;

	bpf_get_func_ret(ctx, &result);
	XW_EVENT(XW_LOCK_ACQUIRED, XW_TID, 0, ctx[0], (u32)result);
}

XW_PROGRAM("fentry", futex_wake)
{
	XW_EVENT(XW_LOCK_WAKE, XW_TID, 0, ctx[0]);
}
