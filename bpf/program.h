/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How a program runs: once where it and its spare are attached, its clauses in their order, and with the words that its
 * variables are made of. Part of xweave.h.
 */
#ifndef XW_PROGRAM_H
#define XW_PROGRAM_H

#include "guard.h"
#include "held.h"
#include "lost.h"
#include "percpu.h"
#include "table.h"

/*
 * A program holds all that is woven at its join point, clause after clause, flows first: so the
 * order does not depend on how a kernel chains programs. Its cookie is the place in the plan (bits
 * 32 to 62) and the number (low half) of the site of the first clause; those of the others follow.
 *
 * The kernel does not run a program on a CPU where that program is running already: under an
 * interrupt, or under a task that preempted another. So each is attached twice. The second, the
 * spare (bit 63 of its cookie), acts only while the first is running, which is when the first was
 * left out; in which order the kernel calls the two does not matter. Neither acts in the context of
 * another of our programs (guard.h), and where kernels allow it, no other task takes the CPU meanwhile
 * (held.h).
 *
 * What is missed all the same is the kernel's count of the first's omissions less the spare's runs,
 * and the times that the first found the guard taken. Each is counted once: the kernel has run the
 * first, or left it out; and a spare that finds the guard taken counts nothing, for then either the
 * first did, or the kernel did and no run of the spare is taken off that.
 */
#define XW_RUN(cookie, if_nested, ...)                                                             \
	XW_WITHOUT_PRIVATE_STACK();                                                                \
	u32 xw_zero = 0, xw_first;                                                                 \
	u64 xw_cookie;                                                                             \
	int xw_slot;                                                                               \
	struct xw_config *xw_config_now = bpf_map_lookup_elem(&xw_config, &xw_zero);               \
	struct xw_guard *xw_guard_now;                                                             \
	if (!xw_config_now || xw_config_now->state == XW_OFF)                                      \
		return 0;                                                                          \
	xw_guard_now = xw_guard_here();                                                            \
	if (!xw_guard_now)                                                                         \
		return 0;                                                                          \
	xw_hold_cpu();                                                                             \
	xw_slot = xw_guard_take(xw_guard_now);                                                     \
	xw_cookie = (cookie);                                                                      \
	xw_first = xw_place_of(xw_cookie);                                                         \
	if (xw_slot < 0) {                                                                         \
		if (!(xw_cookie >> 63)) {                                                          \
			xw_nested(xw_first);                                                       \
			if_nested;                                                                 \
		}                                                                                  \
		xw_release_cpu();                                                                  \
		return 0;                                                                          \
	}                                                                                          \
	if (!(xw_cookie >> 63) || xw_stand_in(xw_first)) {                                         \
		xw_guard_set_place(xw_guard_now, xw_slot, xw_first);                               \
		__VA_ARGS__;                                                                       \
	}                                                                                          \
	xw_guard_free(xw_guard_now, xw_slot);                                                      \
	xw_release_cpu();                                                                          \
	return 0

/*
 * A spare runs the code of its program (crates/agent/src/stand_in.rs) while that is running below it on the same CPU. So
 * the two must not share a stack. From 6.13 on the kernel gives a program that uses much stack one for each CPU, since it
 * never runs a program twice there (bpf_enable_priv_stack, kernel/bpf/verifier.c): the second run would overwrite the
 * first's pointers, and the first write through them (seen on 7.3: the host's kernel died of it). Programs that make tail
 * calls get none. This is one (BPF_FUNC_tail_call is 12) that is never reached; the verifier counts it, and removes it.
 */
#define XW_WITHOUT_PRIVATE_STACK() asm volatile("r0 = 0; if r0 == 0 goto +1; call 12" ::: "r0")

#define XW_COOKIE bpf_get_attach_cookie(ctx)

/* What a program that runs is given: besides the words that its parameters are bound from. */
#define XW_RUNS                                                                                    \
	u64 xw_cookie, struct xw_config *xw_config_now, struct xw_guard *xw_guard_now, u32 xw_slot
#define XW_RUNS_NOW xw_cookie, xw_config_now, xw_guard_now, xw_slot

static __always_inline u32 xw_place_of(u64 cookie)
{
	return cookie >> 32 & 0x7fffffff;
}

/* By place: where the kernel keeps, for each CPU, whether the program runs there; from the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} xw_running SEC(".maps");

static __noinline bool xw_stand_in(u32 place)
{
	u64 *running = bpf_map_lookup_elem(&xw_running, &place);
	struct xw_tally *tally = bpf_map_lookup_elem(&xw_tallies, &place);
	int count = 0;

	if (!running || !*running || !tally)
		return false;
	bpf_probe_read_kernel(&count, sizeof(count), (void *)(*running + xw_cpu_offset()));
	if (!count)
		return false;
	xw_count(&tally->spare_runs);
	return true;
}

/* Tells the agent where that is: pairs of a program's ID and its `active` (include/linux/bpf.h). */
struct bpf_prog_aux___xweave {
	u32 id;
} __attribute__((preserve_access_index));
struct bpf_prog___xweave {
	int *active;
	struct bpf_prog_aux___xweave *aux;
} __attribute__((preserve_access_index));
struct bpf_iter_meta___xweave {
	struct seq_file *seq;
} __attribute__((preserve_access_index));
struct bpf_iter__bpf_prog___xweave {
	struct bpf_iter_meta___xweave *meta;
	struct bpf_prog___xweave *prog;
} __attribute__((preserve_access_index));

SEC("iter/bpf_prog") int xw_programs(struct bpf_iter__bpf_prog___xweave *ctx)
{
	struct bpf_prog___xweave *program = ctx->prog;
	u64 pair[2];

	if (!program)
		return 0;
	pair[0] = program->aux->id;
	pair[1] = (u64)program->active;
	bpf_seq_write(ctx->meta->seq, pair, sizeof(pair));
	return 0;
}

/*
 * The return from a function that return hooks cannot reach is a pair of kprobes: the one at the
 * entry saves the arguments under the stack slot of the return address, which belongs to this call
 * and no other; the one at the return finds them there, one word further down. Words of struct
 * pt_regs (arch/x86/include/asm/ptrace.h): di si dx cx r8 r9 are 14 13 12 11 9 8, ax 10, sp 19.
 */
XW_TABLE(xw_calls, 6, 8192);

static __always_inline void xw_save(u64 *ctx, u32 place)
{
	const u64 words[] = { ctx[14], ctx[13], ctx[12], ctx[11], ctx[9], ctx[8] };

	if (!xw_calls_put(ctx[19], words))
		xw_lost_record(place, 0);
}

/* Arguments 0 to 5, then what is returned; and whether there are any: a call that began before the
 * recording is left out. */
static __always_inline bool xw_saved(u64 *ctx, u64 *words)
{
	u64 slot = ctx[19] - 8;

	if (!xw_calls_get(slot, words))
		return false;
	xw_calls_drop(slot);
	words[6] = ctx[10];
	return true;
}

/*
 * At an instruction, what a variable is depends on the site: the agent puts where it lies into this
 * table, by the place of the join point's first clause. VariablePlace of crates/wire/src/plan.rs.
 */
#define XW_MAX_VARIABLES 8
#define XW_NO_REGISTER 255

struct xw_variable {
	s64 add;
	u32 word; /* of struct pt_regs; XW_NO_REGISTER: it is a constant */
	u32 load; /* not 0: that is its address */
};

struct xw_variables {
	struct xw_variable at[XW_MAX_VARIABLES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct xw_variables);
} xw_variables SEC(".maps");

/*
 * Programs at tracepoints find their cookie here, by their number among those of the plan: kernels
 * before 6.10 have no cookies there.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} xw_tracepoints SEC(".maps");

static __always_inline u64 xw_tracepoint_cookie(u32 number)
{
	u64 *cookie = bpf_map_lookup_elem(&xw_tracepoints, &number);

	return cookie ? *cookie : 0;
}

/* A word of struct pt_regs. The verifier wants the distance to be a constant, which the compiler, left alone,
 * makes a variable of. */
static __always_inline u64 xw_word(u64 *ctx, u32 word)
{
	u64 value = 0;

	switch (word) {
#define XW_WORD(n)                                                                                 \
	case n:                                                                                    \
		asm volatile("%0 = *(u64 *)(%1 + %2)" : "=r"(value) : "r"(ctx), "i"((n) * 8));     \
		break
		XW_WORD(0);
		XW_WORD(1);
		XW_WORD(2);
		XW_WORD(3);
		XW_WORD(4);
		XW_WORD(5);
		XW_WORD(6);
		XW_WORD(7);
		XW_WORD(8);
		XW_WORD(9);
		XW_WORD(10);
		XW_WORD(11);
		XW_WORD(12);
		XW_WORD(13);
		XW_WORD(14);
		XW_WORD(19);
#undef XW_WORD
	}
	return value;
}

static __always_inline u64 xw_variable(u64 *ctx, struct xw_variable *variable)
{
	u64 value = xw_word(ctx, variable->word) + variable->add;

	if (variable->load && bpf_probe_read_kernel(&value, sizeof(value), (void *)value))
		xw_fault();
	return value;
}

/* The words of a program at an instruction: its variables' values; and whether they are known. */
static __always_inline bool xw_read_variables(u64 *ctx, u64 *words, u32 count, u32 place)
{
	struct xw_variables *all = bpf_map_lookup_elem(&xw_variables, &place);

	if (!all)
		return false;
	_Pragma("unroll") for (u32 i = 0; i < count; i++) words[i] = xw_variable(ctx, &all->at[i]);
	return true;
}

/*
 * Argument `nth` of what a program is given in `xw_context`. Which word of the context it is depends on the kernel: loads
 * from behind XW_MARK, where no context has anything, are given their word when the object is made to fit one
 * (crates/code/src/bpf/edit.rs). A load that the compiler did not make it may not change.
 */
#define XW_MARK 0x4000
#define XW_ARGUMENT(nth)                                                                           \
	({                                                                                         \
		u64 xw_value;                                                                      \
		asm("%0 = *(u64 *)(%1 + %2)" : "=r"(xw_value) : "r"(xw_context), "i"(XW_MARK + (nth) * 8)); \
		xw_value;                                                                          \
	})
/* The same where the context is a copy on the program's stack, which has to have been written. */
#define XW_SAVED_ARGUMENT(nth)                                                                     \
	({                                                                                         \
		u64 xw_value;                                                                      \
		asm volatile("%0 = *(u64 *)(%1 + %2)"                                              \
			     : "=r"(xw_value)                                                      \
			     : "r"(xw_context), "i"(XW_MARK + (nth) * 8)                           \
			     : "memory");                                                          \
		xw_value;                                                                          \
	})

/* Lets the verifier know what a pointer points to, so that members can be read through it. */
extern void *bpf_rdonly_cast(const void *object, u32 btf_id) __ksym __weak;
#define XW_TYPED(type, value)                                                                      \
	((type *)bpf_rdonly_cast((void *)(value), bpf_core_type_id_kernel(type)))

/* Each clause is a block that begins with this. */
#define XW_CLAUSE(nth)                                                                             \
	u32 xw_place = xw_place_of(xw_cookie) + (nth), xw_site = (u32)xw_cookie + (nth);           \
	u64 xw_flow = 0;                                                                           \
	if (nth)                                                                                   \
		xw_guard_set_place(xw_guard_now, xw_slot, xw_place);                               \
	(void)xw_site;                                                                             \
	(void)xw_flow

#define xw_pc bpf_get_func_ip(ctx)
/* Handlers of kprobes see the address behind the breakpoint, those of uprobes the address itself. */
#define xw_pc_instruction (ctx[16] - 1)
#define xw_pc_user ctx[16]

#endif
