/* The image as a Xen PV guest: exceptions, console ring, shared page; then everything is measured. */
#include "xen.h"

static const u64 *const machine_to_physical = (const u64 *)0xffff800000000000ull;

struct start_info *xen;
struct shared_info *xen_shared;
volatile u32 xen_events;

static struct console *console;
static u8 shared_page[4096] __attribute__((aligned(4096)));

/* Where the domain builder put a machine frame: all of the first mapping is at its pseudo-physical address. */
static void *at_frame(u64 mfn)
{
    return (void *)(uintptr_t)(machine_to_physical[mfn] << 12);
}

static u64 frame_of(u64 entry)
{
    return (entry & 0x000ffffffffff000ull) >> 12;
}

u64 *xen_entry(const void *at)
{
    u64 address = (u64)(uintptr_t)at;
    u64 *table = (u64 *)(uintptr_t)xen->page_tables;
    for (int shift = 39; shift > 12; shift -= 9)
        table = at_frame(frame_of(table[address >> shift & 511]));
    return &table[address >> 12 & 511];
}

u64 xen_mfn(const void *at)
{
    return frame_of(*xen_entry(at));
}

static void notify(void)
{
    u32 port = xen->console_event;
    xen_call(XEN_EVENT_CHANNEL_OP, EVENT_SEND, (u64)(uintptr_t)&port, 0, 0);
}

static void yield(void)
{
    xen_call(XEN_SCHED_OP, SCHED_YIELD, 0, 0, 0);
}

static void put_to_xen(const char *text, size_t size)
{
    while (size) {
        u32 produced = console->out_produced;
        while (produced - console->out_consumed >= sizeof console->out) {
            notify();
            yield();
        }
        while (size && produced - console->out_consumed < sizeof console->out) {
            console->out[produced++ % sizeof console->out] = (u8)*text++;
            size--;
        }
        __asm__ volatile("" : : : "memory");
        console->out_produced = produced;
    }
}

/* Waits until all has been read: what the guest says last must not be lost with it. */
static void flush_to_xen(void)
{
    while (console->out_consumed != console->out_produced) {
        notify();
        yield();
    }
}

static const struct guest_console xen_console = {put_to_xen, flush_to_xen};

/* Gives the run that is to be ended; the stack is Xen's frame. */
struct run *on_xen_exception(u32 vector, const u64 *stack)
{
    static const u32 with_error = 1 << 8 | 1 << 10 | 1 << 11 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 17;
    int error = with_error >> vector & 1;
    current_fault.vector = vector;
    current_fault.error = error ? (u32)stack[2] : 0;
    current_fault.address = stack[error ? 3 : 2];
    if (!current_run) {
        line_begin('B');
        line_number(vector);
        line_number(current_fault.address);
        line_end();
        flush_to_xen();
        u32 reason = SHUTDOWN_POWEROFF;
        xen_call(XEN_SCHED_OP, SCHED_SHUTDOWN, (u64)(uintptr_t)&reason, 0, 0);
    }
    return current_run;
}

void on_xen_event(void)
{
    xen_shared->vcpu[0].upcall_pending = 0;
    xen_shared->vcpu[0].pending_words = 0;
    for (u32 i = 0; i < 64; i++)
        xen_shared->pending[i] = 0;
    xen_events++;
}

static void open_exceptions(void)
{
    extern u8 xen_vectors[], xen_upcall[], xen_failsafe[];
    /* struct trap_info: vector, privilege, selector, address; the last is zero. */
    static struct { u8 vector, privilege; u16 selector; u64 address; } traps[33];
    u32 used = 0;
    for (u32 i = 0; i < 32; i++) {
        /* Interrupts of the machine, and what Xen keeps for itself, have no place here. */
        if (i == 2 || i == 15 || i > 19)
            continue;
        traps[used].vector = (u8)i;
        traps[used].privilege = i == 3 || i == 4 ? 3 : 0;
        traps[used].selector = FLAT_KERNEL_CS;
        traps[used++].address = (u64)(uintptr_t)(xen_vectors + 16 * i);
    }
    xen_call(XEN_SET_TRAP_TABLE, (u64)(uintptr_t)traps, 0, 0, 0);
    xen_call(XEN_SET_CALLBACKS, (u64)(uintptr_t)xen_upcall, (u64)(uintptr_t)xen_failsafe, 0, 0);
}

/* Xen traces the first argument of this hypercall, and refuses what there is not. */
static void mark(u32 value)
{
    xen_call(XEN_SCHED_OP, SCHED_MARK | value, 0, 0, 0);
}

void xen_main(struct start_info *start)
{
    xen = start;
    console = at_frame(xen->console_mfn);
    hypervisor_console = &xen_console;
    xen_shared = (struct shared_info *)shared_page;
    xen_call(XEN_UPDATE_VA_MAPPING, (u64)(uintptr_t)shared_page, xen->shared_info | 7, UVMF_INVLPG, 0);
    open_exceptions();
    /* A write to a page table, which is read-only to the guest, is then emulated; else it faults. */
    xen_call(XEN_VM_ASSIST, ASSIST_ENABLE, ASSIST_WRITABLE_PAGETABLES, 0, 0);
    around.name = "xen-pv";
    around.mark = mark;
    machine_memory();
    open_processor();
    method_options(xen->command_line);
    method.groups = FORM_RING0 | FORM_XEN;
    measure_all();
    u32 reason = SHUTDOWN_POWEROFF;
    xen_call(XEN_SCHED_OP, SCHED_SHUTDOWN, (u64)(uintptr_t)&reason, 0, 0);
}
