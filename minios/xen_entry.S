/* Xen's ways into a PV guest: exceptions and events; and ours into Xen. */
    .intel_syntax noprefix
    .text

/* long xen_call(u64 number, u64 a, u64 b, u64 c, u64 d), by the hypercall page: 32 bytes a call. */
    .globl xen_call
xen_call:
    mov rax, rdi
    shl rax, 5
    lea r9, hypercall_page[rip]
    add rax, r9
    mov rdi, rsi
    mov rsi, rdx
    mov rdx, rcx
    mov r10, r8
    jmp rax

/* Exceptions: rcx and r11 on the stack, the error code where there is one, then as ever. None is returned from:
 * what was at work ends at run_recover, or the guest does. */
    .globl xen_vectors
    .balign 16
xen_vectors:
    .set vector, 0
    .rept 32
    .balign 16
    mov edi, vector
    jmp xen_excepted
    .set vector, vector + 1
    .endr
xen_excepted:
    cld
    mov rsi, rsp
    lea rsp, xen_exception_stack_end[rip]
    call on_xen_exception
    mov rdi, rax
    jmp run_recover

/* An event. All registers are kept: it comes in the middle of anything. */
    .globl xen_upcall
xen_upcall:
    pop rcx
    pop r11
    push rax
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
    call on_xen_event
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rax
    push 0
    jmp hypercall_page + 23 * 32

/* A selector that cannot be loaded when Xen returns: none of ours is changed, so this is never reached. */
    .globl xen_failsafe
xen_failsafe:
    ud2

    .bss
    .balign 16
    .skip 16384
xen_exception_stack_end:

    .section .note.GNU-stack, "", @progbits
