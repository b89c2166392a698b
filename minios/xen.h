/* The interface of Xen 4.17 that a PV guest sees: xen/include/public/xen.h, event_channel.h, sched.h,
 * io/console.h, arch-x86/xen-x86_64.h. Only what is used. */
#ifndef XEN_H
#define XEN_H

#include "machine.h"

enum {
    XEN_SET_TRAP_TABLE = 0, XEN_MMU_UPDATE = 1, XEN_SET_CALLBACKS = 4, XEN_UPDATE_VA_MAPPING = 14,
    XEN_VM_ASSIST = 21, XEN_MMUEXT_OP = 26, XEN_SCHED_OP = 29, XEN_EVENT_CHANNEL_OP = 32,
    SCHED_YIELD = 0, SCHED_SHUTDOWN = 2, SCHED_MARK = 0x10000, SHUTDOWN_POWEROFF = 0,
    EVENT_BIND_INTERDOMAIN = 0, EVENT_SEND = 4, EVENT_ALLOC_UNBOUND = 6,
    MMUEXT_NEW_BASEPTR = 5,
    ASSIST_ENABLE = 0, ASSIST_WRITABLE_PAGETABLES = 2,
    UVMF_INVLPG = 2,
    DOMID_SELF = 0x7ff0,
    FLAT_KERNEL_CS = 0xe033,
};

/* struct start_info; the padding is the ABI's. */
struct start_info {
    char magic[32];
    u64 pages, shared_info;
    u32 flags, pad;
    u64 store_mfn;
    u32 store_event, pad2;
    u64 console_mfn;
    u32 console_event, pad3;
    u64 page_tables, page_table_frames, mfn_list, module, module_size;
    char command_line[1024];
};

/* struct vcpu_info and struct shared_info, as far as they are used. */
struct vcpu_info {
    u8 upcall_pending, upcall_mask;
    u8 pad[6];
    u64 pending_words;
    u8 rest[48];
};
struct shared_info {
    struct vcpu_info vcpu[32];
    volatile u64 pending[64], mask[64];
};

/* struct xencons_interface. */
struct console {
    u8 in[1024], out[2048];
    volatile u32 in_consumed, in_produced, out_consumed, out_produced;
};

long xen_call(u64 number, u64 a, u64 b, u64 c, u64 d);

extern struct start_info *xen;
extern struct shared_info *xen_shared;
/* Events that came, by the upcall. */
extern volatile u32 xen_events;

/* Takes note of all events that are pending; xen_entry.S calls it on the upcall. */
void on_xen_event(void);

/* The machine's frame of a page of ours, and the other way round. */
u64 xen_mfn(const void *at);
/* The page-table entry that maps an address. */
u64 *xen_entry(const void *at);

#endif
