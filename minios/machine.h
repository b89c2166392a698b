/* A machine of one's own: bare metal, or a hardware-assisted or emulated guest. */
#ifndef MACHINE_H
#define MACHINE_H

#include "measure.h"

/* What `interrupted` in boot.S leaves on the stack. */
struct frame {
    u64 r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax;
    u64 vector, error;
    u64 rip, cs, rflags, rsp, ss;
};

/* Runs what may fault; false: it did, current_fault tells of what. */
int guarded(void (*function)(void *), void *argument);

/* The image's own memory, that no bootloader's lies in. */
extern u8 image_end[];
/* Bytes of memory that may be touched from image_end on. */
extern u64 memory_end;

/* Sets `around`'s memory; what the processor has is switched on. */
void machine_memory(void);
void open_processor(void);

/* What a paravirtual guest has instead of ports. */
struct guest_console {
    void (*put)(const char *text, size_t size);
    void (*flush)(void); /* waits until all has been read */
};

/* Set in a paravirtual guest before anything is reported; null elsewhere. */
extern const struct guest_console *hypervisor_console;

/* Interrupts that came, by vector. */
extern volatile u32 interrupts[64];

static inline void out8(u16 port, u8 value)
{
    __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static inline void out32(u16 port, u32 value)
{
    __asm__ volatile("outl %0, %1" : : "a"(value), "Nd"(port));
}

static inline u8 in8(u16 port)
{
    u8 value;
    __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}

static inline void cpuid(u32 leaf, u32 sub, u32 out[4])
{
    __asm__ volatile("cpuid" : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3]) : "a"(leaf), "c"(sub));
}

#endif
