/* Page-table updates by the batch: the same forms, by what the surroundings have for them. */
#include "machine.h"

void update_pages_machine(u32 form, u32 batch);
void update_pages_xen(u32 form, u32 batch);

static void update(u32 form, u32 batch)
{
    if (around.name[0] == 'x')
        update_pages_xen(form, batch);
    else
        update_pages_machine(form, batch);
}

void probe_pages_1(u32 form) { update(form, 1); }
void probe_pages_8(u32 form) { update(form, 8); }
void probe_pages_32(u32 form) { update(form, 32); }
void probe_pages_128(u32 form) { update(form, 128); }
