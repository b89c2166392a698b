/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes of events: vCPUs of KVM. */

/* KVM's types are its modules', and may not be there: what is needed of them is told here. */
struct kvm_vcpu___xw {
	int vcpu_id;
	struct xw_any {
	} preempt_notifier;
} __attribute__((preserve_access_index));
struct vmcb_control_area___xw {
	u32 exit_code;
} __attribute__((preserve_access_index));
struct vmcb___xw {
	struct vmcb_control_area___xw control;
} __attribute__((preserve_access_index));
struct vcpu_svm___xw {
	struct vmcb___xw *vmcb;
} __attribute__((preserve_access_index));
union vmx_exit_reason___xw {
	u32 full;
} __attribute__((preserve_access_index));
struct vcpu_vmx___xw {
	union vmx_exit_reason___xw exit_reason;
} __attribute__((preserve_access_index));

/* The vCPU that runs, where the tracepoint does not tell it: it asks to be told when its
 * thread is preempted (vcpu_load of virt/kvm/kvm_main.c), and nobody else does. */
static __always_inline u32 xw_own_vcpu(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	void *notifier = BPF_CORE_READ(task, preempt_notifiers.first);
	struct kvm_vcpu___xw *vcpu;

	if (!notifier)
		return -1;
	vcpu = notifier - bpf_core_field_offset(struct kvm_vcpu___xw, preempt_notifier);
	return BPF_CORE_READ(vcpu, vcpu_id);
}

XW_PROGRAM("tp_btf", kvm_entry)
{
	struct kvm_vcpu___xw *vcpu = (void *)ctx[0];

	/* The verifier knows of no module's tracepoint that it tells something. */
	if (vcpu)
		XW_EVENT(XW_VM_ENTER, XW_TID, 0, (u32)vcpu->vcpu_id);
}

/* In 64 bits on newer kernels (7.2), and in 32 before (6.18). No code needs more, but for -1. */
static __always_inline u32 xw_exit_code(struct vmcb___xw *vmcb)
{
	u64 code = 0;

	bpf_probe_read_kernel(&code, bpf_core_field_size(vmcb->control.exit_code), &vmcb->control.exit_code);
	return code;
}

/* Which of the two structures the processor is part of, the tracepoint's second word tells: KVM_ISA_VMX is
 * 1, KVM_ISA_SVM 2 (arch/x86/include/uapi/asm/kvm.h). */
XW_PROGRAM("tp_btf", kvm_exit)
{
	struct kvm_vcpu___xw *vcpu = (void *)ctx[0];
	struct vcpu_svm___xw *svm = (void *)vcpu;
	struct vcpu_vmx___xw *vmx = (void *)vcpu;
	u32 reason = -1;

	if (!vcpu)
		return;
	if (ctx[1] == 2 && bpf_core_field_exists(svm->vmcb))
		reason = xw_exit_code(BPF_CORE_READ(svm, vmcb));
	if (ctx[1] == 1 && bpf_core_field_exists(vmx->exit_reason.full))
		reason = BPF_CORE_READ(vmx, exit_reason.full);
	XW_EVENT(XW_VM_EXIT, XW_TID, 0, XW_PAIR(vcpu->vcpu_id, reason));
}

XW_PROGRAM("tp_btf", kvm_vcpu_wakeup)
{
	XW_EVENT(XW_VM_HALT, XW_TID, ctx[1] & 1 ? 0 : 1, ctx[0], xw_own_vcpu());
}

XW_PROGRAM("tp_btf", kvm_inj_virq)
{
	XW_EVENT(XW_VM_INJECT, XW_TID, 0, XW_PAIR(xw_own_vcpu(), ctx[0]));
}
