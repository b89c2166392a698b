/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the keys of paravirtual devices on Xen have in common.
 */
#ifndef XW_CARRIER_XEN_H
#define XW_CARRIER_XEN_H

/* In place of the address of a ring, which each side maps elsewhere: which queue of which device of the guest. */
#define XW_XEN_QUEUE(device, queue) (1ULL << 40 | (u64)(u16)(device) << 16 | (u16)(queue))

/* Which guest it is, in place of the process that runs one. XEN_DOMAIN of crates/wire/src/record.rs */
#define XW_XEN_DOMAIN(domid) (1ULL << 32 | (u16)(domid))

#endif
