/* The image on a machine of its own: descriptors, exceptions, console; then everything is measured. */
#include "machine.h"

enum {
    DEBUG_PORT = 0xe9,  /* of QEMU and Bochs; it reads as its own number */
    EXIT_PORT = 0xf4, MARK_PORT = 0x560,   /* of QEMU's isa-debug-exit, beside the debug port as `xweave cost` starts it */
    SERIAL_PORT = 0x3f8,
    MULTIBOOT2 = 0x36d76289,
    PVH_MAGIC = 0x336ec578, /* xen/include/public/arch-x86/hvm/start_info.h */
    INTERRUPT_STACK = 16 << 10,
    LOG = 32 << 20, /* where lines are left in memory, if they are; `xweave cost` finds them there */
    LOG_SIZE = 1 << 20,
};

struct surroundings around = {.name = "bare"};
volatile u32 interrupts[64];
u64 memory_end = 64 << 20;

static u8 memory[64 << 10] __attribute__((aligned(4096)));
static u8 stack[64 << 10] __attribute__((aligned(4096)));
static u8 code[256 << 10] __attribute__((aligned(4096)));
static u8 interrupt_stack[INTERRUPT_STACK] __attribute__((aligned(16)));

static struct { u16 low, selector; u8 stack, type; u16 middle; u32 high, zero; } table[64]
    __attribute__((aligned(16)));
static struct __attribute__((packed)) {
    u32 reserved;
    u64 rsp[3], reserved2, ist[7], reserved3;
    u16 reserved4, io_map;
} task = {.io_map = sizeof task};

const struct guest_console *hypervisor_console;

static int debug_port;
static u32 logged;

void put(const char *text, size_t size)
{
    if (hypervisor_console) {
        hypervisor_console->put(text, size);
        return;
    }
    for (; size; size--, text++) {
        if (method.log) {
            /* Each byte to a port is an exit, which takes a tenth of a millisecond where a hypervisor is emulated. */
            if (logged < LOG_SIZE)
                ((volatile char *)(uintptr_t)LOG)[logged++] = *text;
            continue;
        }
        if (debug_port) {
            out8(DEBUG_PORT, (u8)*text);
            continue;
        }
        for (u32 patience = 100000; !(in8(SERIAL_PORT + 5) & 0x20) && patience; patience--)
            ;
        out8(SERIAL_PORT, (u8)*text);
    }
}

void flush(void)
{
    if (hypervisor_console)
        hypervisor_console->flush();
}

static void open_console(void)
{
    debug_port = in8(DEBUG_PORT) == DEBUG_PORT;
    out8(SERIAL_PORT + 1, 0);    /* no interrupts */
    out8(SERIAL_PORT + 3, 0x80); /* the divisor */
    out8(SERIAL_PORT + 0, 1);    /* 115200 */
    out8(SERIAL_PORT + 1, 0);
    out8(SERIAL_PORT + 3, 3);    /* 8 bits, no parity, 1 stop bit */
    out8(SERIAL_PORT + 2, 7);
}

static void open_descriptors(void)
{
    extern u64 descriptors[];
    extern u8 vectors[];
    u64 base = (u64)(uintptr_t)&task;
    task.ist[0] = (u64)(uintptr_t)(interrupt_stack + INTERRUPT_STACK);
    descriptors[3] = (sizeof task - 1) | (base & 0xffffff) << 16 | 0x89ull << 40 | (base >> 24 & 0xff) << 56;
    descriptors[4] = base >> 32;
    for (u32 i = 0; i < 64; i++) {
        /* Each handler begins at a 16th byte; see boot.S. On a stack of its own: a form's may be anything. */
        u64 at = (u64)(uintptr_t)(vectors + 16 * i);
        table[i].low = (u16)at;
        table[i].selector = 8;
        table[i].stack = 1;
        table[i].type = 0x8e;
        table[i].middle = (u16)(at >> 16);
        table[i].high = (u32)(at >> 32);
    }
    struct __attribute__((packed)) { u16 size; void *at; } pointer = {sizeof table - 1, table};
    __asm__ volatile("lidt %0; ltr %w1" : : "m"(pointer), "r"(0x18) : "memory");
}

static void say(const char *text)
{
    size_t size = 0;
    while (text[size])
        size++;
    put(text, size);
}

void on_interrupt(struct frame *frame)
{
    if (frame->vector >= 32) {
        interrupts[frame->vector]++;
        /* End of interrupt, at the local controller. */
        *(volatile u32 *)(uintptr_t)0xfee000b0 = 0;
        return;
    }
    if (!current_run) {
        say("\nThe image itself faulted.\n");
        line_begin('B');
        line_number(frame->vector);
        line_number(frame->rip);
        line_end();
        for (;;)
            __asm__ volatile("cli; hlt");
    }
    current_fault.vector = (u32)frame->vector;
    current_fault.error = (u32)frame->error;
    current_fault.address = frame->rip;
    frame->rdi = (u64)(uintptr_t)current_run;
    frame->rip = (u64)(uintptr_t)run_recover;
    frame->rflags = 2;
    frame->rsp = (u64)(uintptr_t)(around.stack + (32 << 10));
}

int guarded(void (*function)(void *), void *argument)
{
    extern char guarded_entry[];
    struct { struct run run; void (*function)(void *); void *argument; } call = {
        .run = {.entry = guarded_entry, .stack = around.stack + (60 << 10), .memory = around.memory},
        .function = function,
        .argument = argument,
    };
    return run_code(&call.run);
}

/* Lets ymm registers be used: CR4.OSXSAVE, XCR0. */
static void enable_avx(void *unused)
{
    (void)unused;
    u64 cr4;
    __asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
    __asm__ volatile("mov %0, %%cr4" : : "r"(cr4 | 1 << 18));
    __asm__ volatile("xsetbv" : : "a"(7), "d"(0), "c"(0));
}

/* Emulated hypervisors have been seen to forget ymm registers: that they are on is believed when it is seen. */
static void try_avx(void *unused)
{
    (void)unused;
    __asm__ volatile("vzeroall");
}

/* Lets rdfsbase and its kin be used: CR4.FSGSBASE. */
static void enable_fsgsbase(void *unused)
{
    (void)unused;
    u64 cr4;
    __asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
    __asm__ volatile("mov %0, %%cr4" : : "r"(cr4 | 1 << 16));
}

/* On AMD's processors lfence waits for all before it only if this bit is set: MSR C001_1029, bit 1. */
static void serialise_lfence(void *unused)
{
    (void)unused;
    u32 low, high;
    __asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(0xc0011029));
    __asm__ volatile("wrmsr" : : "a"(low | 2), "d"(high), "c"(0xc0011029));
}

void machine_memory(void)
{
    around.memory = memory;
    around.stack = stack;
    around.code = code;
}

void open_processor(void)
{
    u32 r[4];
    cpuid(1, 0, r);
    if ((r[2] >> 26 & 1) && (r[2] >> 28 & 1))
        around.avx = guarded(enable_avx, 0) && guarded(try_avx, 0);
    cpuid(7, 0, r);
    if (r[1] & 1)
        guarded(enable_fsgsbase, 0);
    cpuid(0, 0, r);
    /* "Auth"; Xen lets no paravirtual guest write the register. */
    if (r[1] == 0x68747541 && !hypervisor_console)
        guarded(serialise_lfence, 0);
}

/* Nobody is to interrupt but whom a measurement asks: the two old controllers are masked. */
static void mask_interrupts(void)
{
    out8(0x21, 0xff);
    out8(0xa1, 0xff);
}

static const char *command_line(u32 magic, const u8 *information)
{
    if (magic == MULTIBOOT2) {
        u32 size = *(const u32 *)information;
        for (u32 at = 8; at + 8 <= size; at += (*(const u32 *)(information + at + 4) + 7) & ~7u)
            if (*(const u32 *)(information + at) == 1)
                return (const char *)information + at + 8;
        return "";
    }
    /* struct hvm_start_info: magic, version, flags, modules, the list of them, the command line, … */
    if (information && *(const u32 *)information == PVH_MAGIC) {
        u64 line = *(const u64 *)(information + 24);
        return line ? (const char *)(uintptr_t)line : "";
    }
    return "";
}

/* Which hypervisor says it is there decides what may be asked of it. */
static u32 hypervisor(void)
{
    u32 r[4];
    cpuid(1, 0, r);
    if (!(r[2] >> 31))
        return 0;
    cpuid(0x40000000, 0, r);
    return r[1] == 0x4b4d564b ? FORM_KVM : 0; /* "KVMK" */
}

/* KVM's tracepoint kvm:kvm_pio shows port and value. Nothing is at that port. */
static void mark(u32 value)
{
    out32(MARK_PORT, value);
}

void machine_main(u32 magic, const u8 *information)
{
    open_descriptors();
    open_console();
    machine_memory();
    around.mark = mark;
    mask_interrupts();
    open_processor();
    method_options(command_line(magic, information));
    method.groups = FORM_RING0 | FORM_BARE | hypervisor();
    measure_all();
    if (debug_port)
        out8(EXIT_PORT, 0);
}
