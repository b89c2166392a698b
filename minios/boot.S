/* Where the image begins: by multiboot2 (GRUB) and PVH in 32-bit protected mode, as a Xen PV guest in 64-bit
 * mode with paging. All end in C on a stack of our own. */
    .intel_syntax noprefix

/* Multiboot2, section 3.1: magic, architecture (i386), length, checksum; a tag for the entry, the end. */
    .section .head, "a"
    .balign 8
multiboot:
    .long 0xe85250d6, 0, multiboot_end - multiboot, -(0xe85250d6 + (multiboot_end - multiboot))
    .short 3, 0
    .long 12, start32
    .balign 8
    .short 0, 0
    .long 8
multiboot_end:

/* xen/include/public/elfnote.h of Xen 4.17. */
    .macro note type, values:vararg
    .long 4, 9002f - 9001f, \type
    .asciz "Xen"
9001: \values
9002: .balign 4
    .endm
    .section .note.Xen, "a"
    note 1, .quad start_xen           /* ENTRY */
    note 2, .quad hypercall_page      /* HYPERCALL_PAGE */
    note 3, .quad 0                   /* VIRT_BASE */
    note 4, .quad 0                   /* PADDR_OFFSET */
    note 5, .asciz "xen-3.0"          /* XEN_VERSION */
    note 6, .asciz "xweave-cost"      /* GUEST_OS */
    note 8, .asciz "generic"          /* LOADER */
    note 9, .asciz "yes"              /* PAE_MODE */
    note 18, .quad start32            /* PHYS32_ENTRY */

    .text
    .code32
    .globl start32
/* eax: multiboot2's magic, or whatever; ebx: its information, or PVH's hvm_start_info. */
start32:
    cli
    cld
    mov esp, offset boot_stack_end
    mov ebp, eax
    /* Four gigabytes, identical, in pages of 2 MiB. */
    mov edi, offset directories
    mov eax, 0x83
    mov ecx, 2048
1:  mov [edi], eax
    mov dword ptr [edi+4], 0
    add eax, 0x200000
    add edi, 8
    dec ecx
    jnz 1b
    mov eax, offset directories + 3
    mov edi, offset directory_pointers
    mov ecx, 4
2:  mov [edi], eax
    add eax, 0x1000
    add edi, 8
    dec ecx
    jnz 2b
    mov eax, offset directory_pointers + 3
    mov [page_map], eax
    mov eax, offset page_map
    mov cr3, eax
    mov eax, cr4
    or eax, 0x620            /* PAE, OSFXSR, OSXMMEXCPT */
    mov cr4, eax
    mov ecx, 0xc0000080      /* EFER.LME, and SCE for Xen's sake: syscall is a form, not undefined */
    rdmsr
    or eax, 0x100
    wrmsr
    mov eax, cr0
    and eax, 0xfffffff3      /* no EM, no TS */
    or eax, 0x80010022       /* PG, WP, NE, MP */
    mov cr0, eax
    lgdt [descriptor_pointer]
    ljmp 8, offset start64

    .code64
start64:
    mov eax, 16
    mov ds, eax
    mov es, eax
    mov ss, eax
    xor eax, eax
    mov fs, eax
    mov gs, eax
    mov rsp, offset boot_stack_end
    mov edi, ebp
    mov esi, ebx
    call machine_main
3:  cli
    hlt
    jmp 3b

    .globl start_xen
/* rsi: start_info (xen/include/public/xen.h). The page tables are Xen's domain builder's. */
start_xen:
    cld
    mov rsp, offset boot_stack_end
    mov rdi, rsi
    call xen_main
4:  jmp 4b

/* Exceptions and interrupts of a machine of its own: vector and error code on the stack, then the same way. */
    .globl vectors
    .balign 16
vectors:
    .set vector, 0
    .rept 64
    .balign 16
    .if (vector == 8) || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21 || vector == 29 || vector == 30
    .else
    push 0
    .endif
    push vector
    jmp interrupted
    .set vector, vector + 1
    .endr

/* struct frame (machine.h) is what lies on the stack. */
interrupted:
    cld
    push rax
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
    mov rdi, rsp
    call on_interrupt
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rax
    add rsp, 16
    iretq

/* int guarded(void (*function)(void *), void *argument) calls it in a way that a fault ends, by run_code(). */
    .globl guarded_entry
guarded_entry:
    mov rdi, [r13+88]
    call [r13+80]
    jmp run_end

    .data
    .balign 16
    .globl descriptors
/* null, code, data, and the task state's two, which C writes; 0x28: the code again, for a privileged level 3. */
descriptors:
    .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff, 0, 0
descriptors_end:
descriptor_pointer:
    .short descriptors_end - descriptors - 1
    .quad descriptors

    .bss
    .balign 4096
    .globl page_map, hypercall_page, boot_stack_end
page_map: .skip 4096
directory_pointers: .skip 4096
directories: .skip 4 * 4096
hypercall_page: .skip 4096
boot_stack: .skip 32768
boot_stack_end:

    .section .note.GNU-stack, "", @progbits
