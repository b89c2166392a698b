/* The method: code of copies in a row is generated, run between two readings of the TSC, and what the empty
 * loop takes is subtracted.
 *
 * Beside each round stand two gauges. Dependent additions, of which a processor does one a cycle, tell the
 * core's clock from the TSC's. Independent ones, as many as it can do at once, tell whether it was alone: a
 * core's other thread, on which anything may run, takes its share of them, and rounds in which it did are
 * discarded and made again. */
#include "measure.h"

enum {
    ROUNDS_MOST = 255,
    COPIES = 100,        /* in a row */
    COPIES_SERIAL = 20,  /* of what may leave the guest */
    COPIES_FEW = 8,
    ITERATIONS_MOST = 200,
    ADDS = 100,          /* dependent additions in a row … */
    ADD_PASSES = 20,     /* … so often */
    PAPER_COPIES = 100,  /* Eto, Iwamoto, Umeno: each instruction 100 times … */
    PAPER_ROUNDS = 20,   /* … measured 20 times, and the mean of it */
    EMPTY = 0, ADDING = 8 << 10, CROWDED = 16 << 10, BODY = 32 << 10, /* places in around.code */
    BODY_SIZE = 200 << 10,
    STATIC_TICKS = 40,   /* a difference that is no outlier, however short the round is */
    RECENT = 31,         /* gauges that are looked back at: a change of the clock's speed lasts for some ten */
    ALIKE = 8,           /* alone is within so many-th; with the other thread at work it is a half more, or double */
    SHARE = 16,          /* of the patience that is left, a form may use up so much */
    /* After so much use a processor has powered its wide vector units. Until then, which may take half a millisecond,
     * Intel's are a quarter as fast; some 0.7 ms after their last use they are switched off. */
    WIDE_TICKS = 4 << 20,
    WIDE_RUNS = 4 << 10,
};

struct method method = {
    .rounds = 41, .target = 4000, .paper = 1, .looped = 0, .patience = 0, .from = 0, .to = ~0u, .skip = ~0u,
    .groups = 0,
};

/* Appends bytes to generated code. */
static u8 *append(u8 *to, const void *bytes, size_t size)
{
    const u8 *from = bytes;
    while (size--)
        *to++ = *from++;
    return to;
}

/* Reads the TSC into [r13+offset], and keeps all registers but r10, r11 and the flags. */
static u8 *append_clock(u8 *to, u8 offset)
{
    static const u8 begin[] = {
        0x49, 0x89, 0xc2,       /* mov r10, rax */
        0x49, 0x89, 0xd3,       /* mov r11, rdx */
        0x0f, 0xae, 0xe8,       /* lfence */
        0x0f, 0x31,             /* rdtsc */
        0x0f, 0xae, 0xe8,       /* lfence */
        0x48, 0xc1, 0xe2, 0x20, /* shl rdx, 32 */
        0x48, 0x09, 0xd0,       /* or rax, rdx */
        0x49, 0x89, 0x45,       /* mov [r13+offset], rax */
    };
    static const u8 end[] = {
        0x4c, 0x89, 0xd0,                   /* mov rax, r10 */
        0x4c, 0x89, 0xda,                   /* mov rdx, r11 */
        0x41, 0xba, 0x01, 0x00, 0x00, 0x00, /* mov r10d, 1 */
        0x41, 0xbb, 0x01, 0x00, 0x00, 0x00, /* mov r11d, 1 */
        0x0f, 0xae, 0xe8,                   /* lfence */
    };
    to = append(to, begin, sizeof begin);
    *to++ = offset;
    return append(to, end, sizeof end);
}

/* Generates code at `at`: `copies` of `code` in a row, as a loop or, for the paper's method, straight. */
static void emit(u32 at, const struct form *form, const u8 *code, u32 size, u32 copies, int loop)
{
    extern char run_end[];
    static const u8 again[] = {0x49, 0xff, 0xcf, 0x0f, 0x85}; /* dec r15; jnz */
    u8 *to = append(around.code + at, form->setup, form->setup_size);
    to = append_clock(to, offsetof(struct run, begin));
    while ((uintptr_t)to % 64)
        *to++ = 0x90;
    u8 *start = to;
    while (copies--)
        to = append(to, code, size);
    to = append(to, form->after, form->after_size);
    if (loop) {
        to = append(to, again, sizeof again);
        int32_t back = (int32_t)(start - (to + 4));
        to = append(to, &back, sizeof back);
    }
    to = append_clock(to, offsetof(struct run, end));
    static const u8 jump[] = {0x48, 0xb8}; /* movabs rax, run_end; jmp rax */
    void *end = run_end;
    to = append(to, jump, sizeof jump);
    to = append(to, &end, sizeof end);
    *to++ = 0xff;
    *to++ = 0xe0;
}

/* Runs what emit() wrote at `at`, and gives its ticks; ~0: it faulted. */
static u64 ticks(u32 at, const struct form *form, u64 iterations)
{
    struct run run = {
        .entry = around.code + at,
        .iterations = iterations,
        .memory = around.memory + (16 << 10),
        .stack = around.stack + (32 << 10),
        .doubles = (form->flags & FORM_DOUBLES) != 0,
        .avx = around.avx && form->flags & FORM_AVX,
    };
    return run_code(&run) ? run.end - run.begin : ~0ull;
}

/* Memory as forms.table promises it. */
static void prepare_memory(void)
{
    u64 *words = (u64 *)around.memory;
    for (u32 i = 0; i < (64 << 10) / sizeof *words; i++)
        words[i] = 0;
    u64 *at = (u64 *)(around.memory + (16 << 10));
    *at = (u64)(uintptr_t)at;
}

static void sort(u64 *values, u32 count)
{
    for (u32 i = 1; i < count; i++) {
        u64 value = values[i];
        u32 j = i;
        for (; j && values[j - 1] > value; j--)
            values[j] = values[j - 1];
        values[j] = value;
    }
}

static u64 less(u64 from, u64 what)
{
    return from > what ? from - what : 0;
}

/* Rounds that took a quarter longer than the median: interrupts, or time stolen by a hypervisor. */
static u32 outliers(const u64 *sorted, u32 count)
{
    u64 median = sorted[count / 2], limit = median + median / 4 + STATIC_TICKS;
    u32 over = 0;
    while (over < count && sorted[count - 1 - over] > limit)
        over++;
    return over;
}

/* The five numbers that a distribution is told by. */
static void report_spread(const u64 *sorted, u32 count)
{
    line_number(sorted[0]);
    line_number(sorted[count / 4]);
    line_number(sorted[count / 2]);
    line_number(sorted[count - 1 - count / 4]);
    line_number(sorted[count - 1]);
}

static void report(u32 number, enum kind kind, u64 instructions, u32 discarded, u64 empty, u64 adds, u64 *taken,
                   u64 *cycles, u32 rounds)
{
    u64 sum = 0;
    for (u32 i = 0; i < rounds; i++)
        sum += taken[i];
    sort(taken, rounds);
    sort(cycles, rounds);
    line_begin('R');
    line_number(number);
    line_number(kind);
    line_number(instructions);
    line_number(rounds);
    line_number(outliers(taken, rounds));
    line_number(discarded);
    line_number(empty);
    line_number(adds);
    line_number(sum);
    report_spread(taken, rounds);
    report_spread(cycles, rounds);
    line_end();
}

void report_rounds(u32 number, enum kind kind, const u64 *taken, u32 rounds, u32 count, u64 empty)
{
    static u64 mine[ROUNDS_MOST], none[ROUNDS_MOST];
    if (rounds > ROUNDS_MOST)
        rounds = ROUNDS_MOST;
    for (u32 i = 0; i < rounds; i++)
        mine[i] = less(taken[i], empty);
    report(number, kind, count, 0, empty, 0, mine, none, rounds);
}

void report_fault(u32 number, enum kind kind)
{
    line_begin('F');
    line_number(number);
    line_number(kind);
    line_number(current_fault.vector);
    line_number(current_fault.error);
    line_number(current_fault.address);
    line_end();
}

void report_absent(u32 number, const char *why)
{
    line_begin('A');
    line_number(number);
    line_word(why);
    line_end();
}

static const struct form adding = {.repetitions = 1};

/* What a gauge's code takes, less the empty loop. */
static u64 gauge(u32 at)
{
    static u64 empty = ~0ull;
    u64 one = ticks(EMPTY, &adding, ADD_PASSES);
    if (one < empty)
        empty = one;
    return less(ticks(at, &adding, ADD_PASSES), empty);
}

static void open_gauges(void)
{
    /* Added by register: some processors do additions of constants while they rename. */
    static const u8 add[] = {0x48, 0x01, 0xd8}; /* add rax, rbx */
    /* Six instructions, which saturate a core that takes six a cycle, and four adders. */
    static const u8 crowd[] = {
        0x48, 0x01, 0xd8, /* add rax, rbx */
        0x90,             /* nop */
        0x48, 0x01, 0xda, /* add rdx, rbx */
        0x49, 0x01, 0xd8, /* add r8, rbx */
        0x90,             /* nop */
        0x49, 0x01, 0xd9, /* add r9, rbx */
    };
    emit(EMPTY, &adding, add, 0, 0, 1);
    emit(ADDING, &adding, add, sizeof add, ADDS, 1);
    emit(CROWDED, &adding, crowd, sizeof crowd, ADDS, 1);
    for (u32 i = 0; i < 3; i++)
        gauge(ADDING);
}

/* Whether the core was ours alone just now. `adds` is what the dependent additions took, so that the clock does
 * not matter. What alone looks like is learned: the least median of so many in a row, as single ones are wrong
 * where the clock's speed changes between the two gauges. */
static int alone(u64 adds)
{
    static u64 least = ~0ull, recent[RECENT];
    static u32 at;
    u64 ratio = adds ? gauge(CROWDED) * 1024 / adds : ~0ull, sorted[RECENT];
    recent[at++ % RECENT] = ratio;
    for (u32 i = 0; i < RECENT; i++)
        sorted[i] = recent[i];
    sort(sorted, RECENT);
    if (at >= RECENT && sorted[RECENT / 2] < least)
        least = sorted[RECENT / 2];
    /* Less than alone: an interrupt was in the dependent additions, and made them long. */
    return ratio <= least + least / ALIKE && ratio + least / ALIKE >= least;
}

/* The sound method. True: it faulted, which is reported. */
static int measure(u32 number, enum kind kind, const u8 *code, u32 size, u32 copies, u64 counted)
{
    static u64 taken[ROUNDS_MOST], cycles[ROUNDS_MOST], empties[ROUNDS_MOST], adds[ROUNDS_MOST];
    const struct form *form = &forms[number];
    u32 empty_at = BODY + BODY_SIZE;
    prepare_memory();
    if (copies * size > BODY_SIZE - 512)
        copies = (BODY_SIZE - 512) / size;
    emit(BODY, form, code, size, copies, 1);
    emit(empty_at, form, code, 0, 0, 1);
    u64 once = ticks(BODY, form, 1);
    if (once != ~0ull)
        once = ticks(BODY, form, 1);
    if (once == ~0ull) {
        report_fault(number, kind);
        return 1;
    }
    u64 iterations = method.target / (once + 1) + 1;
    if (kind == LOOPED)
        iterations = ITERATIONS_MOST;
    if (iterations > ITERATIONS_MOST)
        iterations = ITERATIONS_MOST;
    u64 wide = form->flags & FORM_AVX ? 0 : WIDE_TICKS;
    for (u32 i = 0; i < WIDE_RUNS && wide < WIDE_TICKS; i++) {
        u64 run = ticks(BODY, form, iterations);
        if (run == ~0ull)
            break;
        wide += run;
    }
    u32 wanted = method.rounds < ROUNDS_MOST ? method.rounds : ROUNDS_MOST;
    /* What takes long is steady, and there is no time to see it often. */
    if (once > 1000000 && wanted > 7)
        wanted = 7;
    u32 allowed = method.patience / SHARE, rounds = 0, discarded = 0;
    while (rounds < wanted) {
        int patient = discarded < allowed;
        if (patient && !alone(gauge(ADDING))) {
            discarded++;
            continue;
        }
        /* Where the loop itself is what is looked at, only the clock's reading is taken off. */
        empties[rounds] = ticks(empty_at, form, kind == LOOPED ? 1 : iterations);
        taken[rounds] = ticks(BODY, form, iterations);
        adds[rounds] = gauge(ADDING);
        if (taken[rounds] == ~0ull || empties[rounds] == ~0ull) {
            report_fault(number, kind);
            return 1;
        }
        if (patient && !alone(adds[rounds]))
            discarded++;
        else
            rounds++;
    }
    method.patience -= discarded;
    sort(empties, rounds);
    u64 empty = empties[rounds / 2];
    for (u32 i = 0; i < rounds; i++) {
        taken[i] = less(taken[i], empty);
        /* 64ths of a core cycle. */
        cycles[i] = adds[i] ? taken[i] * (ADDS * ADD_PASSES) * 64 / adds[i] : 0;
    }
    sort(adds, rounds);
    report(number, kind, copies * counted * iterations, discarded, empty, adds[rounds / 2], taken, cycles, rounds);
    return 0;
}

/* Eto, Iwamoto and Umeno's method: 100 copies in a row, 20 times, the mean. Nothing is subtracted. */
static void measure_paper(u32 number, const u8 *code, u32 size, u32 counted)
{
    static u64 taken[PAPER_ROUNDS], none[PAPER_ROUNDS];
    const struct form *form = &forms[number];
    u32 copies = (PAPER_COPIES + counted - 1) / counted;
    if (form->flags & FORM_FEW)
        copies = COPIES_FEW;
    prepare_memory();
    emit(BODY, form, code, size, copies, 0);
    u32 rounds = PAPER_ROUNDS;
    /* Once before, so that the mean is not that of a cold cache, or of an emulator's first look at the code. */
    ticks(BODY, form, 1);
    for (u32 i = 0; i < rounds; i++) {
        taken[i] = ticks(BODY, form, 1);
        if (taken[i] == ~0ull) {
            report_fault(number, PAPER);
            return;
        }
    }
    report(number, PAPER, copies * counted, 0, 0, 0, taken, none, rounds);
}

static void measure_form(u32 number)
{
    const struct form *form = &forms[number];
    int serial = (form->flags & FORM_SERIAL) != 0;
    u32 in_a_row = form->flags & FORM_FEW ? COPIES_FEW : serial ? COPIES_SERIAL : COPIES;
    u32 copies = (in_a_row + form->repetitions - 1) / form->repetitions;
    if (measure(number, serial ? SERIAL : THROUGHPUT, form->code, form->code_size, copies, form->repetitions))
        return;
    if (form->chain_size && measure(number, LATENCY, form->chain, form->chain_size, in_a_row, form->counts))
        return;
    if (method.looped && !serial)
        measure(number, LOOPED, form->code, form->code_size, 1, form->repetitions);
    if (!method.paper)
        return;
    if (form->chain_size && form->counts == 1)
        measure_paper(number, form->chain, form->chain_size, 1);
    else
        measure_paper(number, form->code, form->code_size, form->repetitions);
}

/* For who counts what the hypervisor does: a form's set-up alone, then with copies, each between marks, which are the
 * form's number and what follows. crates/cost/src/counted.rs has the same. */
enum { MARK_BITS = 2, MARK_EMPTY = 0, MARK_FULL = 1, MARK_END = 2 };

static void count_form(u32 number)
{
    const struct form *form = &forms[number];
    u32 empty_at = BODY + BODY_SIZE;
    prepare_memory();
    emit(BODY, form, form->code, form->code_size, COPIES_SERIAL / form->repetitions, 1);
    emit(empty_at, form, form->code, 0, 0, 1);
    around.mark(number << MARK_BITS | MARK_EMPTY);
    int whole = ticks(empty_at, form, 1) != ~0ull;
    around.mark(number << MARK_BITS | MARK_FULL);
    whole = whole && ticks(BODY, form, 1) != ~0ull;
    around.mark(number << MARK_BITS | MARK_END);
    if (!whole)
        report_fault(number, SERIAL);
}

void measure_all(void)
{
    if (method.to > form_count)
        method.to = form_count;
    open_gauges();
    line_begin('H');
    line_word(around.name);
    line_number(form_fingerprint);
    line_number(form_count);
    line_number(ADDS * ADD_PASSES);
    line_number((u64)around.avx);
    line_end();
    for (u32 i = method.from; i < method.to; i++) {
        const struct form *form = &forms[i];
        u32 machine = form->flags & FORM_MACHINE;
        /* Any of the surroundings that a form is for will do. */
        if (i == method.skip || (machine && !(machine & method.groups)))
            continue;
        if (machine) {
            /* Should it be the last thing that is heard, one knows of which form. */
            line_begin('S');
            line_number(i);
            line_end();
            flush();
        }
        if (method.count) {
            if (machine && form->code_size && around.mark)
                count_form(i);
        } else if (form->code_size)
            measure_form(i);
        else if (form->code)
            ((void (*)(u32))(uintptr_t)form->code)(i);
    }
    line_begin('E');
    line_number(method.to);
    line_end();
    flush();
}

/* Options are words KEY=NUMBER among others that are not ours. */
void method_options(const char *line)
{
    static const struct {
        const char *key;
        u32 *value;
    } options[] = {
        {"rounds=", &method.rounds}, {"target=", &method.target}, {"paper=", &method.paper},
        {"looped=", &method.looped}, {"patience=", &method.patience}, {"from=", &method.from},
        {"to=", &method.to},         {"skip=", &method.skip},         {"log=", &method.log},
        {"count=", &method.count},
    };
    while (*line) {
        for (u32 i = 0; i < sizeof options / sizeof *options; i++) {
            const char *key = options[i].key, *at = line;
            while (*key && *key == *at)
                key++, at++;
            if (*key)
                continue;
            u32 number = 0;
            for (; *at >= '0' && *at <= '9'; at++)
                number = number * 10 + (u32)(*at - '0');
            *options[i].value = number;
        }
        while (*line && *line != ' ')
            line++;
        while (*line == ' ')
            line++;
    }
    if (!method.rounds)
        method.rounds = 1;
}
