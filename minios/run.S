/* Enters generated code with known registers, and comes back from it, by its end or by a fault. */
    .intel_syntax noprefix
    .text

    /* int run_code(struct run *run) */
    .globl run_code
run_code:
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    pushfq
    sub rsp, 8
    fnstcw [rsp]
    stmxcsr [rsp+4]
    mov [rdi+56], rsp
    mov qword ptr [rdi+64], 0
    mov current_run[rip], rdi

    mov r13, rdi
    mov r14, [r13+16]
    mov r12, [r13+24]
    mov r15, [r13+8]
    fninit
    fld1; fld1; fld1; fld1; fld1; fld1; fld1; fld1
    /* Only AVX dirties upper halves, which make each instruction of SSE merge: before and after it they are clean. */
    cmp qword ptr [r13+72], 0
    je 1f
    vzeroall
1:  lea rax, singles[rip]
    lea rdx, doubles[rip]
    cmp qword ptr [r13+32], 0
    cmovne rax, rdx
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movaps xmm\n, [rax]
    .endr
    mov ebx, 1
    mov ecx, 1
    mov edx, 1
    mov esi, 1
    mov edi, 1
    mov ebp, 1
    mov r8d, 1
    mov r9d, 1
    mov r10d, 1
    mov r11d, 1
    mov rsp, r12
    mov rax, [r13]
    jmp rax

    /* Generated code jumps here at its end, run in r13. */
    .globl run_end
run_end:
    mov rdi, r13
    cmp qword ptr [r13+72], 0
    je 1f
    vzeroall
1:    mov eax, 1
    jmp 2f

    /* A handler resumes here after a fault, run in rdi. */
    .globl run_recover
run_recover:
    mov qword ptr [rdi+64], 1
    xor eax, eax
2:  mov qword ptr current_run[rip], 0
    mov rsp, [rdi+56]
    cld
    fninit
    fldcw [rsp]
    ldmxcsr [rsp+4]
    add rsp, 8
    popfq
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret

    .balign 16
singles: .float 1, 1, 1, 1
doubles: .double 1, 1

    .bss
    .balign 8
    .globl current_run, current_fault
current_run: .skip 8
current_fault: .skip 16

    .section .note.GNU-stack, "", @progbits
