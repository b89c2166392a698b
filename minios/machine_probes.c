/* What cannot be told by copies in a row, on a machine of its own: interrupts, waking up, memory that is touched
 * for the first time, page tables. Each probe is a form of forms.table, and reports by itself. */
#include "machine.h"

enum {
    ROUNDS = 21,
    TIMER_VECTOR = 48,
    SELF_VECTOR = 49,
    /* The local interrupt controller: AMD64 Architecture Programmer's Manual, volume 2, chapter 16. */
    APIC = 0xfee00000,
    APIC_SPURIOUS = 0xf0, APIC_COMMAND = 0x300, APIC_TIMER = 0x320, APIC_COUNT = 0x380, APIC_NOW = 0x390,
    APIC_DIVIDE = 0x3e0, MASKED = 1 << 16,
    TO_SELF = 1 << 18,
    CALIBRATION = 1 << 22, /* ticks */
    TIMER_COUNT = 200000, /* of a clock that mostly runs at 1 GHz: longer than any exit takes */
    PATIENCE = 1 << 28,   /* looks at what should have come long before */
    FRESH_FROM = 16 << 20, FRESH_PAGES = 32,
    PAGES_MOST = 128,
};

static volatile u32 *apic(u32 offset)
{
    return (volatile u32 *)(uintptr_t)(APIC + offset);
}

static void open_apic(void)
{
    *apic(APIC_SPURIOUS) = 0x100 | 63;
    *apic(APIC_DIVIDE) = 0xb; /* by 1 */
    *apic(APIC_TIMER) = TIMER_VECTOR;
}

static u64 middle(u64 *values, u32 count)
{
    for (u32 i = 1; i < count; i++)
        for (u32 j = i; j && values[j - 1] > values[j]; j--) {
            u64 value = values[j];
            values[j] = values[j - 1];
            values[j - 1] = value;
        }
    return values[count / 2];
}

/* Waits for an interrupt, at work or halted; ticks from `since` until it is over. 0: it never came. */
static u64 awaited(u32 vector, u32 before, u64 since, int halt)
{
    for (u32 i = 0; interrupts[vector] == before && i < PATIENCE; i++) {
        if (halt)
            /* sti holds interrupts off for one instruction: none is lost before the halt. */
            __asm__ volatile("sti; hlt; cli" : : : "memory");
        else
            __asm__ volatile("sti; nop; nop; cli" : : : "memory");
    }
    return interrupts[vector] == before ? 0 : tsc() - since;
}

static u64 timer(int halt)
{
    u32 before = interrupts[TIMER_VECTOR];
    u64 since = tsc();
    *apic(APIC_COUNT) = TIMER_COUNT;
    return awaited(TIMER_VECTOR, before, since, halt);
}

/* Ticks after which a timer of TIMER_COUNT is due, by what it counts in a while. */
static u64 due(void)
{
    *apic(APIC_TIMER) = MASKED;
    *apic(APIC_COUNT) = ~0u;
    u32 from = *apic(APIC_NOW);
    u64 since = tsc(), until = since;
    while (until - since < CALIBRATION)
        until = tsc();
    u32 to = *apic(APIC_NOW);
    until = tsc();
    *apic(APIC_COUNT) = 0;
    *apic(APIC_TIMER) = TIMER_VECTOR;
    return from > to ? (until - since) * TIMER_COUNT / (from - to) : 0;
}

/* From when a timer is due to the end of its interrupt's handler. */
static void probe_timer(u32 form, int halt)
{
    u64 taken[ROUNDS];
    open_apic();
    u64 expected = due();
    for (u32 i = 0; i < ROUNDS; i++) {
        taken[i] = expected ? timer(halt) : 0;
        if (!taken[i]) {
            report_absent(form, "no timer's interrupt came");
            return;
        }
    }
    report_rounds(form, SERIAL, taken, ROUNDS, 1, expected);
}

void probe_timer_at_work(u32 form)
{
    probe_timer(form, 0);
}

/* The way out of a halt as well. */
void probe_halt(u32 form)
{
    probe_timer(form, 1);
}

/* An interrupt that the processor sends itself, from the command to the end of its handler. */
void probe_self_interrupt(u32 form)
{
    u64 taken[ROUNDS];
    open_apic();
    for (u32 i = 0; i < ROUNDS; i++) {
        u32 before = interrupts[SELF_VECTOR];
        u64 since = tsc();
        *apic(APIC_COMMAND) = TO_SELF | SELF_VECTOR;
        taken[i] = awaited(SELF_VECTOR, before, since, 0);
        if (!taken[i]) {
            report_absent(form, "no interrupt came");
            return;
        }
    }
    report_rounds(form, SERIAL, taken, ROUNDS, 1, 0);
}

/* Memory that the guest touches first: the hypervisor has to find it. Less what the second touch takes. */
void probe_first_touch(u32 form)
{
    static u64 next = FRESH_FROM;
    u64 first[ROUNDS], second[ROUNDS];
    if (next + (u64)ROUNDS * FRESH_PAGES * 4096 > memory_end) {
        report_absent(form, "too little memory");
        return;
    }
    for (u32 i = 0; i < ROUNDS; i++) {
        for (u32 pass = 0; pass < 2; pass++) {
            u64 since = tsc();
            for (u32 page = 0; page < FRESH_PAGES; page++)
                *(volatile u8 *)(uintptr_t)(next + page * 4096) = 1;
            *(pass ? &second[i] : &first[i]) = tsc() - since;
        }
        next += FRESH_PAGES * 4096;
    }
    report_rounds(form, SERIAL, first, ROUNDS, FRESH_PAGES, middle(second, ROUNDS));
}

static void nothing(void *unused)
{
    (void)unused;
}

static void undefined(void *unused)
{
    (void)unused;
    __asm__ volatile("ud2");
}

static void not_present(void *unused)
{
    (void)unused;
    /* Above the four gigabytes that are mapped. */
    *(volatile u8 *)(uintptr_t)0x7000000000ull;
}

/* An exception, from the instruction to the handler's end. */
static void probe_exception(u32 form, void (*raise)(void *))
{
    u64 taken[ROUNDS], empty[ROUNDS];
    for (u32 i = 0; i < ROUNDS; i++) {
        u64 since = tsc();
        guarded(nothing, 0);
        empty[i] = tsc() - since;
        since = tsc();
        guarded(raise, 0);
        taken[i] = tsc() - since;
    }
    report_rounds(form, SERIAL, taken, ROUNDS, 1, middle(empty, ROUNDS));
}

void probe_undefined(u32 form)
{
    probe_exception(form, undefined);
}

void probe_page_fault(u32 form)
{
    probe_exception(form, not_present);
}

/* Page-table entries of 4 KiB pages, of our own: directory entry 4 of the second level is free. */
static u64 entries[512] __attribute__((aligned(4096)));
static u64 directory[512] __attribute__((aligned(4096)));
enum { SMALL_PAGES = 0x100000000ull / 0x40000000 };

static void open_small_pages(void)
{
    extern u64 page_map[];
    u64 *pointers = (u64 *)(uintptr_t)(page_map[0] & ~0xfffull);
    if (pointers[SMALL_PAGES])
        return;
    for (u32 i = 0; i < 512; i++)
        entries[i] = (u64)(uintptr_t)around.memory | 3;
    directory[0] = (u64)(uintptr_t)entries | 3;
    pointers[SMALL_PAGES] = (u64)(uintptr_t)directory | 3;
}

void update_pages_machine(u32 form, u32 batch)
{
    u64 taken[ROUNDS];
    open_small_pages();
    for (u32 i = 0; i < ROUNDS; i++) {
        u64 since = tsc();
        for (u32 page = 0; page < batch; page++)
            *(volatile u64 *)&entries[page] ^= 0x200; /* a bit that is ours */
        for (u32 page = 0; page < batch; page++)
            __asm__ volatile("invlpg (%0)" : : "r"(0x100000000ull + page * 4096) : "memory");
        taken[i] = tsc() - since;
    }
    report_rounds(form, SERIAL, taken, ROUNDS, batch, 0);
}
