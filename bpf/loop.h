/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loops whose turns depend on each other. Part of where.h and of events/key.h.
 */
#ifndef XW_LOOP_H
#define XW_LOOP_H

/*
 * Makes a variable unknown to the verifier; its value stays.
 *
 * Linux before 6.7 verifies the body of bpf_loop once, as the first turn finds it (kernel/bpf/verifier.c of 6.1,
 * __check_func_call; changed by "bpf: verify callbacks as if they are called unknown number of times"). A variable that
 * turns change and that begins as a constant counts as that constant in every turn, and the verifier removes each branch
 * that the constant does not take. So each variable that a turn changes and a branch reads is forgotten first.
 */
#define XW_FORGET(variable) bpf_probe_read_kernel(&(variable), sizeof(variable), &(variable))

#endif
