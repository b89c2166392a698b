/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The host's side of a guest's interrupts: the local APICs that KVM emulates. arch/x86/kvm/lapic.c, Linux 6.1 to 7.3.
 *
 * An interrupt that a vCPU is asked for is a bit of its APIC's IRR. KVM takes the bit out when it puts the interrupt into the
 * vCPU; until then one that comes again changes nothing. Where the processor does that itself (APICv, AVIC), no function
 * is passed.
 */
#ifndef XW_CARRIER_LAPIC_H
#define XW_CARRIER_LAPIC_H

#include "carriers/numbered.h"

/* arch/x86/include/asm/apicdef.h, irq_vectors.h: where the ISR (interrupts that the vCPU was given and has not ended) and
 * the IRR begin, in registers of 32 bits that lie 16 bytes apart; how interrupts are delivered; and the vectors that Linux
 * gives devices, before its own for itself. Until Linux 6.7 the first was its own, too (IRQ_MOVE_CLEANUP_VECTOR): then
 * what it is sent ends where the guest is given it. */
#define XW_APIC_ISR 0x100
#define XW_APIC_IRR 0x200
#define XW_APIC_FIXED 0
#define XW_APIC_LOWEST 0x100
#define XW_FIRST_DEVICE_VECTOR 0x20
#define XW_LAST_DEVICE_VECTOR 0xea

/* The key of an interrupt that a vCPU is asked for. A struct kvm_vcpu has more bytes than there are vectors. */
static __always_inline u64 vcpu_interrupt(struct kvm_vcpu *vcpu, u32 vector)
{
	return (u64)vcpu + (u8)vector;
}

/* Whether a vector's bit is set in the registers that begin there. */
static __always_inline bool lapic_has(struct kvm_lapic *apic, u32 registers, u32 vector)
{
	void *first = READ(apic->regs) + registers;

	return READ(*(u32 *)(first + (vector >> 5 & 7) * 0x10)) >> (vector & 31) & 1;
}

/* At the entry of __apic_accept_irq: whether it is one of a device's that is accepted, and the vCPU has taken up the one
 * before. */
static __always_inline bool lapic_is_asked(struct kvm_lapic *apic, u32 mode, u32 vector, int level, int trigger)
{
	return vector >= XW_FIRST_DEVICE_VECTOR && vector <= XW_LAST_DEVICE_VECTOR &&
	       (mode == XW_APIC_FIXED || mode == XW_APIC_LOWEST) && (level || !trigger) &&
	       READ(apic->sw_enabled) && !lapic_has(apic, XW_APIC_IRR, vector);
}

/* By the running context: the interrupt that it asks a vCPU for. */
XW_TABLE(xw_asking, 1, 4096);

/* At the entry and the return of __apic_accept_irq, */
static __always_inline void lapic_asks(struct kvm_vcpu *vcpu, u32 vector)
{
	u64 interrupt = vcpu_interrupt(vcpu, vector);

	xw_asking_put(xw_number(xw_thread()), &interrupt);
}

static __always_inline void lapic_has_asked(void)
{
	xw_asking_drop(xw_number(xw_thread()));
}

/* and in between: its key. 0 elsewhere. */
static __always_inline u64 lapic_asking(void)
{
	u64 interrupt = 0;

	xw_asking_get(xw_number(xw_thread()), &interrupt);
	return interrupt;
}

/* At the return of kvm_cpu_get_interrupt: whether what it gives the vCPU is the APIC's, and not the PIC's. */
static __always_inline bool lapic_has_given(struct kvm_vcpu *vcpu, int vector)
{
	struct kvm_lapic *apic = READ(vcpu->arch.apic);

	return vector >= XW_FIRST_DEVICE_VECTOR && apic && lapic_has(apic, XW_APIC_ISR, vector);
}

/* The host's side of an interrupt that goes into a vCPU. */
static __always_inline struct xw_key lapic_given(struct kvm_vcpu *vcpu, u32 vector)
{
	struct kvm *kvm = READ(vcpu->kvm);
	struct mm_struct *mm = READ(kvm->mm);
	struct task_struct *owner = READ(mm->owner);
	struct xw_key key = {
		.ring = XW_INTERRUPT(READ(vcpu->vcpu_id), vector),
		.index = xw_next_number(vcpu_interrupt(vcpu, vector)),
		.peer = READ(owner->tgid),
	};
	return key;
}

#endif
