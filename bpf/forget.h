/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Values that the verifier shall know nothing about. Part of frame.h, where.h and events/event.h.
 */
#ifndef XW_FORGET_H
#define XW_FORGET_H

/*
 * Makes a variable any number to the verifier; its value stays.
 *
 * Variables that turns of a loop change: Linux before 6.7 verifies the body of bpf_loop once, as the first turn finds it
 * (kernel/bpf/verifier.c of 6.1, __check_func_call; changed by "bpf: verify callbacks as if they are called unknown number
 * of times"). A variable that begins as a constant counts as that constant in every turn, and the verifier removes each
 * branch that the constant does not take.
 *
 * Addresses that a function is called with which is verified alone: since 6.17 an address that was read from a kernel's
 * structure may be memory to the verifier (PTR_TO_MEM | PTR_UNTRUSTED), also where it was calculated with; such a
 * function takes numbers only.
 */
#define XW_FORGET(variable) bpf_probe_read_kernel(&(variable), sizeof(variable), &(variable))

#endif
