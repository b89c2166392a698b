/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What goes one at a time: a key without a running index that both sides see. Each side numbers on its own what it puts on or
 * takes off. Times tell what belongs together, and the numbers which records are missing
 * (crates/flow/src/crossing/numbered.rs).
 */
#ifndef XW_CARRIER_NUMBERED_H
#define XW_CARRIER_NUMBERED_H

/* In place of a ring: which of the vectors of which local APIC. No guest has memory there. */
#define XW_NUMBERED (0xfeULL << 56)
#define XW_INTERRUPT(apic, vector) (XW_NUMBERED | (u64)(apic) << 8 | (u8)(vector))

/* By what a side knows an interrupt by: how many of them it has numbered. */
XW_TABLE(xw_numbers, 1, 4096);

/* The next number: from 1. */
static __always_inline u64 xw_next_number(u64 of)
{
	u64 number = 0;

	xw_numbers_get(xw_number(of), &number);
	number++;
	xw_numbers_put(xw_number(of), &number);
	return number;
}

#endif
