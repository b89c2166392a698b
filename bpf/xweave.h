/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The prelude: what every piece of advice is compiled with.
 *
 * Weaving puts, in this order, into one translation unit per kernel: types.h, the kernel's types
 * (pruned to the members that the code names), libbpf's helpers, this file, the carriers in use,
 * the flows, and a program per clause. Words in capitals that start with XW_ are for generated
 * code; STORE_DATA1…7, DO_RDTSC, READ and flow_* are for people.
 */
#ifndef XW_XWEAVE_H
#define XW_XWEAVE_H

#include "types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char _license[] SEC("license") = "GPL";

/* The kinds of record; crates/wire/src/record.rs. */
enum xw_kind {
	XW_HOP,
	XW_START,
	XW_MOVE,
	XW_COPY,
	XW_QUIT,
	XW_XIN,
	XW_XOUT,
	XW_SPLIT,
	XW_MERGE
};

/* The header of a record; the values follow. Layout as in crates/wire/src/record.rs. */
struct xw_header {
	u64 time_ns;
	u64 flow;
	u32 site;
	u32 pid;
	u32 tid;
	u16 cpu;
	u8 kind;
	u8 n;
	char comm[16];
};

/* What both ends of a crossing see; crates/wire/src/record.rs, CarrierKey. */
struct xw_key {
	u64 ring;
	u64 index;
	u64 check;
	u64 peer;
};

/* What a site counts, on each CPU. */
struct xw_tally {
	u64 dropped;	  /* records for which the buffer had no room */
	u64 table_full;	  /* flows that could not be begun or moved */
	u64 unattributed; /* dropped, and the flow could not be noted */
	u64 spare_runs;	  /* runs of the spare; this and the next: counted by a program's first site */
	u64 nested;	  /* times that the program was reached from within another, and did not run */
	u64 faults;	  /* reads of memory that is not there */
};

enum xw_state { XW_OFF, XW_ON, XW_DRAINING };

/* Set by the agent. */
struct xw_config {
	u32 state;	 /* enum xw_state */
	u32 last_bucket; /* of each flow table; their number is a power of 2 */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct xw_config);
} xw_config SEC(".maps");

/* Sizes of this and of most maps that follow are set by the agent before loading. By the site's place in the plan. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct xw_tally);
} xw_tallies SEC(".maps");

/* Counted with atomics: an interrupt may come between a load and a store, even on per-CPU data. */
static __always_inline void xw_count(u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

#include "percpu.h"
#include "rings.h"
#include "guard.h"
#include "table.h"

/* How many records a flow has lost. */
struct xw_lossy_flow {
	u64 flow; /* local flow ID; 0: none */
	u64 records;
};

#define XW_LOSSY_FLOWS 16384

/* A flow is in one of the XW_TABLE_REACH slots from that of its hash on, and stays there. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XW_LOSSY_FLOWS);
	__type(key, u32);
	__type(value, struct xw_lossy_flow);
} xw_lossy_flows SEC(".maps");

/* Notes that a flow lost a record. Gives whether there was room to. */
static __noinline bool xw_note_lossy(u64 flow)
{
	for (u32 nth = 0; nth < XW_TABLE_REACH; nth++) {
		u32 at = (xw_hash(flow) + nth) % XW_LOSSY_FLOWS;
		struct xw_lossy_flow *lossy = bpf_map_lookup_elem(&xw_lossy_flows, &at);
		u64 found;

		if (!lossy)
			return false;
		found = *(volatile u64 *)&lossy->flow;
		if (!found)
			found = __sync_val_compare_and_swap(&lossy->flow, 0, flow);
		if (!found || found == flow) {
			xw_count(&lossy->records);
			return true;
		}
	}
	return false;
}

static __noinline void xw_lost_record(u32 place, u64 flow)
{
	struct xw_tally *tally = bpf_map_lookup_elem(&xw_tallies, &place);

	if (!tally)
		return;
	xw_count(&tally->dropped);
	if (flow && !xw_note_lossy(flow))
		xw_count(&tally->unattributed);
}

static __noinline void xw_lost_flow(u32 place)
{
	struct xw_tally *tally = bpf_map_lookup_elem(&xw_tallies, &place);

	if (tally)
		xw_count(&tally->table_full);
}

#include "flow.h"

/*
 * A program holds all that is woven at its join point, clause after clause, flows first: so the
 * order does not depend on how a kernel chains programs. Its cookie is the place in the plan (bits
 * 32 to 62) and the number (low half) of the site of the first clause; those of the others follow.
 *
 * The kernel does not run a program on a CPU where that program is running already: under an
 * interrupt, or under a task that preempted another. So each is attached twice. The second, the
 * spare (bit 63 of its cookie), acts only while the first is running, which is when the first was
 * left out; in which order the kernel calls the two does not matter. Neither acts in the context of
 * another of our programs (guard.h).
 *
 * What is missed all the same is the kernel's count of the first's omissions less the spare's runs,
 * and the times that the first found the guard taken. Each is counted once: the kernel has run the
 * first, or left it out; and a spare that finds the guard taken counts nothing, for then either the
 * first did, or the kernel did and no run of the spare is taken off that.
 */
#define XW_RUN(cookie, if_nested, ...)                                                             \
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
	xw_slot = xw_guard_take(xw_guard_now);                                                     \
	xw_cookie = (cookie);                                                                      \
	xw_first = xw_place_of(xw_cookie);                                                         \
	if (xw_slot < 0) {                                                                         \
		if (!(xw_cookie >> 63)) {                                                          \
			xw_nested(xw_first);                                                       \
			if_nested;                                                                 \
		}                                                                                  \
		return 0;                                                                          \
	}                                                                                          \
	if (!(xw_cookie >> 63) || xw_stand_in(xw_first)) {                                         \
		xw_guard_set_place(xw_guard_now, xw_slot, xw_first);                               \
		__VA_ARGS__;                                                                       \
	}                                                                                          \
	xw_guard_free(xw_guard_now, xw_slot);                                                      \
	return 0

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

static __always_inline void xw_fill(struct xw_header *header, u32 site, u64 flow, u8 kind, u8 n)
{
	u64 ids = bpf_get_current_pid_tgid();

	header->time_ns = bpf_ktime_get_ns();
	header->flow = flow;
	header->site = site;
	header->pid = ids >> 32;
	header->tid = (u32)ids;
	header->cpu = bpf_get_smp_processor_id();
	header->kind = kind;
	header->n = n;
	bpf_get_current_comm(header->comm, sizeof(header->comm));
}

/* A record of exactly its size. */
#define XW_RECORD(kind, flow_id, count, ...)                                                       \
	({                                                                                         \
		struct {                                                                           \
			struct xw_header header;                                                   \
			u64 values[count];                                                         \
		} *xw_record = xw_ring_reserve(sizeof(*xw_record));                                \
		u64 xw_record_flow = (flow_id);                                                    \
		if (xw_record) {                                                                   \
			const u64 xw_values[] = { __VA_ARGS__ };                                   \
			xw_fill(&xw_record->header, xw_site, xw_record_flow, kind, count);         \
			_Pragma("unroll") for (int xw_i = 0; xw_i < count; xw_i++)                 \
				xw_record->values[xw_i] = xw_values[xw_i];                         \
			xw_ring_submit(xw_record);                                                 \
		} else {                                                                           \
			xw_lost_record(xw_place, xw_record_flow);                                  \
		}                                                                                  \
	})

#define STORE_DATA1(a) XW_RECORD(XW_HOP, xw_flow, 1, (u64)(a))
#define STORE_DATA2(a, b) XW_RECORD(XW_HOP, xw_flow, 2, (u64)(a), (u64)(b))
#define STORE_DATA3(a, b, c) XW_RECORD(XW_HOP, xw_flow, 3, (u64)(a), (u64)(b), (u64)(c))
#define STORE_DATA4(a, b, c, d)                                                                    \
	XW_RECORD(XW_HOP, xw_flow, 4, (u64)(a), (u64)(b), (u64)(c), (u64)(d))
#define STORE_DATA5(a, b, c, d, e)                                                                 \
	XW_RECORD(XW_HOP, xw_flow, 5, (u64)(a), (u64)(b), (u64)(c), (u64)(d), (u64)(e))
#define STORE_DATA6(a, b, c, d, e, f)                                                              \
	XW_RECORD(XW_HOP, xw_flow, 6, (u64)(a), (u64)(b), (u64)(c), (u64)(d), (u64)(e), (u64)(f))
#define STORE_DATA7(a, b, c, d, e, f, g)                                                           \
	XW_RECORD(XW_HOP, xw_flow, 7, (u64)(a), (u64)(b), (u64)(c), (u64)(d), (u64)(e), (u64)(f),  \
		  (u64)(g))

/* The paper's name. Stock eBPF cannot read the TSC; this is CLOCK_MONOTONIC in nanoseconds, the
 * clock that every record carries anyway and that the controller relates to the TSC. */
#define DO_RDTSC(variable) ((variable) = bpf_ktime_get_ns())

/* A member or array element that the verifier does not know the pointer of: 0 where it cannot be
 * read, for the helper clears what it could not fill; and that is counted. */
#define READ(lvalue)                                                                               \
	({                                                                                         \
		__typeof__(lvalue) xw_value;                                                       \
		if (bpf_probe_read_kernel(&xw_value, sizeof(xw_value), &(lvalue)))                 \
			xw_fault();                                                                \
		xw_value;                                                                          \
	})

/* What weaving makes of `->` where the verifier does not know the pointer: an array is its address. */
#define XW_IS_ARRAY(lvalue)                                                                        \
	(!__builtin_types_compatible_p(__typeof__(lvalue), __typeof__((0, (lvalue)))))
#define XW_LOAD(lvalue) __builtin_choose_expr(XW_IS_ARRAY(lvalue), (lvalue), READ(lvalue))

/* The same as READ in the memory of the running process. */
#define READ_USER(lvalue)                                                                          \
	({                                                                                         \
		__typeof__(lvalue) xw_value;                                                       \
		if (bpf_probe_read_user(&xw_value, sizeof(xw_value), &(lvalue)))                   \
			xw_fault();                                                                \
		xw_value;                                                                          \
	})

/* Whether the running thread's name is this; of `length` characters, or begins with them. */
static __always_inline bool xw_comm_is(const char *name, u32 length, bool whole)
{
	char comm[16];

	bpf_get_current_comm(comm, sizeof(comm));
	_Pragma("unroll") for (u32 i = 0; i < sizeof(comm); i++)
	{
		if (i >= length)
			return !whole || i == sizeof(comm) - 1 || !comm[i];
		if (comm[i] != name[i])
			return false;
	}
	return true;
}

/*
 * What is running: a key under which a flow can be kept while its data changes shape inside one
 * function call. Never equal to the address of an object: odd, or small.
 */
static __always_inline u64 xw_thread(void)
{
	u32 level = xw_level();

	if (level)
		return (u64)bpf_get_smp_processor_id() << 2 | level;
	return bpf_get_current_task() | 1;
}

/* While draining, flows under way go on and none begins. */
#define XW_FLOW_START(name, key)                                                                   \
	({                                                                                         \
		u64 xw_key = (u64)(key);                                                           \
		if (xw_config_now->state == XW_ON) {                                               \
			xw_flow = xw_new_flow();                                                   \
			if (XW_FLOW_PUT(name, xw_key, xw_flow, xw_place))               \
				XW_RECORD(XW_START, xw_flow, 1, xw_key);                           \
		}                                                                                  \
	})

#define XW_TRANSIT(name, from, to, kind, leave)                                                    \
	({                                                                                         \
		u64 xw_from = (u64)(from), xw_to = (u64)(to);                                      \
		xw_flow = XW_FLOW_OF(name, xw_from);                                    \
		if (xw_flow && XW_FLOW_PUT(name, xw_to, xw_flow, xw_place)) {           \
			if (leave && xw_from != xw_to)                                             \
				XW_FLOW_TAKE(name, xw_from);                               \
			XW_RECORD(kind, xw_flow, 2, xw_from, xw_to);                               \
		}                                                                                  \
	})

#define XW_FLOW_MOVE(name, from, to) XW_TRANSIT(name, from, to, XW_MOVE, 1)
#define XW_FLOW_COPY(name, from, to) XW_TRANSIT(name, from, to, XW_COPY, 0)

#define XW_FLOW_QUIT(name, key)                                                                    \
	({                                                                                         \
		u64 xw_key = (u64)(key);                                                           \
		xw_flow = XW_FLOW_OF(name, xw_key);                                     \
		if (xw_flow) {                                                                     \
			XW_FLOW_TAKE(name, xw_key);                                        \
			XW_RECORD(XW_QUIT, xw_flow, 1, xw_key);                                    \
		}                                                                                  \
	})

/* A part of what `from` carries is a flow of its own from here. */
#define XW_FLOW_SPLIT(name, from, to)                                                              \
	({                                                                                         \
		u64 xw_from = (u64)(from), xw_to = (u64)(to);                                      \
		u64 xw_parent = XW_FLOW_OF(name, xw_from);                              \
		if (xw_parent) {                                                                   \
			xw_flow = xw_new_flow();                                                   \
			if (XW_FLOW_PUT(name, xw_to, xw_flow, xw_place))           \
				XW_RECORD(XW_SPLIT, xw_flow, 3, xw_parent, xw_from, xw_to);        \
		}                                                                                  \
	})

/* What `from` carries is part of `to` from here: a new flow, whose parents both are. */
#define XW_FLOW_MERGE(name, from, to)                                                              \
	({                                                                                         \
		u64 xw_from = (u64)(from), xw_to = (u64)(to);                                      \
		u64 xw_taken = XW_FLOW_OF(name, xw_from);                               \
		if (xw_taken) {                                                                    \
			u64 xw_taker = XW_FLOW_OF(name, xw_to);                         \
			xw_flow = xw_new_flow();                                                   \
			if (XW_FLOW_PUT(name, xw_to, xw_flow, xw_place)) {         \
				XW_FLOW_TAKE(name, xw_from);                               \
				XW_RECORD(XW_MERGE, xw_flow, 3, xw_taken, xw_from, xw_to);         \
				if (xw_taker)                                                      \
					XW_RECORD(XW_MERGE, xw_flow, 3, xw_taker, xw_to, xw_to);   \
			}                                                                          \
		}                                                                                  \
	})

/* The key is computed only for data that is followed. */
#define XW_XIN(name, from, key, leave)                                                             \
	({                                                                                         \
		u64 xw_from = (u64)(from);                                                         \
		xw_flow = XW_FLOW_OF(name, xw_from);                                    \
		if (xw_flow) {                                                                     \
			struct xw_key xw_carrier = (key);                                          \
			if (leave)                                                                 \
				XW_FLOW_TAKE(name, xw_from);                               \
			XW_RECORD(XW_XIN, xw_flow, 4, xw_carrier.ring, xw_carrier.index,           \
				  xw_carrier.check, xw_carrier.peer);                              \
		}                                                                                  \
	})

#define XW_XIN_COPY(name, from, key) XW_XIN(name, from, key, 0)
#define XW_XIN_MOVE(name, from, key) XW_XIN(name, from, key, 1)

/* Whether the other side followed the data cannot be known here: a local flow begins, and the join
 * makes it the continuation of the flow that was put on the carrier under the same key. */
#define XW_XOUT(name, key, to)                                                                     \
	({                                                                                         \
		struct xw_key xw_carrier = (key);                                                  \
		u64 xw_to = (u64)(to);                                                             \
		xw_flow = xw_new_flow();                                                           \
		if (XW_FLOW_PUT(name, xw_to, xw_flow, xw_place))                        \
			XW_RECORD(XW_XOUT, xw_flow, 4, xw_carrier.ring, xw_carrier.index,          \
				  xw_carrier.check, xw_carrier.peer);                              \
	})

/* For action blocks. */
#define flow_start(name, key) XW_FLOW_START(name, key)
#define flow_move(name, from, to) XW_FLOW_MOVE(name, from, to)
#define flow_copy(name, from, to) XW_FLOW_COPY(name, from, to)
#define flow_quit(name, key) XW_FLOW_QUIT(name, key)
#define flow_split(name, from, to) XW_FLOW_SPLIT(name, from, to)
#define flow_merge(name, from, to) XW_FLOW_MERGE(name, from, to)
#define flow_of(name, key) XW_FLOW_OF(name, key)

#endif
