/* What only a Xen PV guest does: page tables by hypercall, events. */
#include "xen.h"

enum { ROUNDS = 21, PAGES_MOST = 128, DIRTY = 1 << 6 };

struct update { u64 where, value; };

static u8 pages[PAGES_MOST][4096] __attribute__((aligned(4096)));
static struct update updates[PAGES_MOST];

/* The machine address of a page-table entry. */
static u64 entry_address(const u64 *entry)
{
    return xen_mfn(entry) << 12 | ((u64)(uintptr_t)entry & 4095);
}

void update_pages_xen(u32 form, u32 batch)
{
    u64 taken[ROUNDS];
    for (u32 page = 0; page < batch; page++)
        updates[page].where = entry_address(xen_entry(pages[page]));
    for (u32 i = 0; i < ROUNDS; i++) {
        for (u32 page = 0; page < batch; page++)
            updates[page].value = *xen_entry(pages[page]) ^ DIRTY;
        u64 since = tsc();
        long result = xen_call(XEN_MMU_UPDATE, (u64)(uintptr_t)updates, batch, 0, DOMID_SELF);
        taken[i] = tsc() - since;
        if (result) {
            report_absent(form, "mmu_update was refused");
            return;
        }
    }
    report_rounds(form, SERIAL, taken, ROUNDS, batch, 0);
}

void probe_va_mapping(u32 form)
{
    u64 taken[ROUNDS];
    for (u32 i = 0; i < ROUNDS; i++) {
        u64 value = *xen_entry(pages[0]) ^ DIRTY;
        u64 since = tsc();
        long result = xen_call(XEN_UPDATE_VA_MAPPING, (u64)(uintptr_t)pages[0], value, UVMF_INVLPG, 0);
        taken[i] = tsc() - since;
        if (result) {
            report_absent(form, "update_va_mapping was refused");
            return;
        }
    }
    report_rounds(form, SERIAL, taken, ROUNDS, 1, 0);
}

static void write_entry(void *entry)
{
    *(volatile u64 *)entry ^= DIRTY;
}

/* A page table is read-only to the guest; a write to it traps, and Xen does it instead. */
void probe_entry_write(u32 form)
{
    u64 taken[ROUNDS];
    u64 *entry = xen_entry(pages[0]);
    for (u32 i = 0; i < ROUNDS; i++) {
        u64 since = tsc();
        if (!guarded(write_entry, entry)) {
            report_fault(form, SERIAL);
            return;
        }
        taken[i] = tsc() - since;
    }
    report_rounds(form, SERIAL, taken, ROUNDS, 1, 0);
}

/* What stands for a write of CR3. */
void probe_new_base(u32 form)
{
    struct { u32 command, pad; u64 mfn, unused; } operation = {
        MMUEXT_NEW_BASEPTR, 0, xen_mfn((void *)(uintptr_t)xen->page_tables), 0,
    };
    u64 taken[ROUNDS];
    for (u32 i = 0; i < ROUNDS; i++) {
        u64 since = tsc();
        long result = xen_call(XEN_MMUEXT_OP, (u64)(uintptr_t)&operation, 1, 0, DOMID_SELF);
        taken[i] = tsc() - since;
        if (result) {
            report_absent(form, "mmuext_op was refused");
            return;
        }
    }
    report_rounds(form, SERIAL, taken, ROUNDS, 1, 0);
}

/* A channel whose two ends are this guest. 0: Xen refused. */
static u32 open_channel(void)
{
    struct { u16 domain, remote; u32 port; } unbound = {DOMID_SELF, DOMID_SELF, 0};
    if (xen_call(XEN_EVENT_CHANNEL_OP, EVENT_ALLOC_UNBOUND, (u64)(uintptr_t)&unbound, 0, 0))
        return 0;
    struct { u16 remote, pad; u32 remote_port, port; } bind = {DOMID_SELF, 0, unbound.port, 0};
    if (xen_call(XEN_EVENT_CHANNEL_OP, EVENT_BIND_INTERDOMAIN, (u64)(uintptr_t)&bind, 0, 0))
        return 0;
    xen_shared->mask[unbound.port / 64] &= ~(1ull << unbound.port % 64);
    return bind.port;
}

static void probe_event(u32 form, int delivered)
{
    static u32 port;
    u64 taken[ROUNDS];
    if (!port)
        port = open_channel();
    if (!port) {
        report_absent(form, "no event channel to oneself was granted");
        return;
    }
    on_xen_event();
    for (u32 i = 0; i < ROUNDS; i++) {
        u32 before = xen_events;
        xen_shared->vcpu[0].upcall_mask = !delivered;
        u64 since = tsc();
        long result = xen_call(XEN_EVENT_CHANNEL_OP, EVENT_SEND, (u64)(uintptr_t)&port, 0, 0);
        taken[i] = tsc() - since;
        xen_shared->vcpu[0].upcall_mask = 1;
        if (result || (delivered && xen_events == before)) {
            report_absent(form, "the event did not come");
            return;
        }
        on_xen_event();
    }
    report_rounds(form, SERIAL, taken, ROUNDS, 1, 0);
}

void probe_event_notify(u32 form)
{
    probe_event(form, 0);
}

void probe_event_round_trip(u32 form)
{
    probe_event(form, 1);
}
