/* What the image and the process share: forms, the method, the report. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

/* Flags of a form; crates/cost/src/assembly.rs has the same. */
enum {
    FORM_SERIAL = 1,  /* copies in a row, neither chained nor kept apart */
    FORM_FEW = 2,     /* so long that a few copies suffice */
    FORM_DOUBLES = 4, /* vector registers have doubles in the beginning */
    FORM_RING0 = 8,   /* privileged */
    FORM_XEN = 16,    /* a Xen PV guest's own */
    FORM_KVM = 32,    /* a KVM guest's own */
    FORM_BARE = 64,   /* needs a machine with interrupt controller and page tables of its own */
    FORM_AVX = 128,   /* uses ymm registers' state */
    FORM_MACHINE = FORM_RING0 | FORM_XEN | FORM_KVM | FORM_BARE,
};

/* Made from forms.table by crates/cost's build script. */
struct form {
    const u8 *code, *chain, *setup, *after; /* code is a function where all sizes are 0: a probe */
    u16 code_size, chain_size, setup_size, after_size;
    u16 repetitions; /* in code */
    u16 counts;      /* instructions of the form in the chain */
    u32 flags;
};

extern const struct form forms[];
extern const u32 form_count, form_fingerprint;

/* What a repetition is for; the letters of the report. */
enum kind { LATENCY = 'L', THROUGHPUT = 'T', LOOPED = 'O', PAPER = 'P', SERIAL = 'S' };

/* A fault that code under measurement raised. */
struct fault {
    u32 vector; /* the processor's exception */
    u32 error;  /* its error code */
    u64 address; /* where */
};

/* One run of generated code. run.S knows the places of the members. */
struct run {
    const void *entry; /*  0: generated code, as emit() writes it */
    u64 iterations;    /*  8: passes through it */
    void *memory;      /* 16: r14 */
    void *stack;       /* 24: r12 and rsp */
    u64 doubles;       /* 32: whether vector registers hold doubles */
    u64 begin, end;    /* 40, 48: TSC */
    u64 saved;         /* 56: the caller's stack pointer */
    u64 faulted;       /* 64: whether `fault` is set */
    u64 avx;           /* 72: whether ymm registers are used */
};

/* Runs it; false: it faulted, and `current_fault` tells of what. */
int run_code(struct run *run);
/* Where a handler of exceptions resumes when run_code() was at work, with the run's address in rdi. */
extern char run_recover[];
extern struct run *volatile current_run;
extern struct fault current_fault;

/* How a measurement is to be made. */
struct method {
    u32 rounds;   /* of the sound method */
    u32 target;   /* ticks that a round lasts at least, if iterations allow */
    u32 paper;    /* whether the paper's method is used as well */
    u32 looped;   /* whether a small body in a loop is measured as well */
    u32 patience; /* rounds, over all forms, that are made again because the core's other thread disturbed them */
    u32 log;      /* whether lines are left in memory, where there is such a place, instead of on a console */
    u32 from, to; /* forms: the first, and the one behind the last */
    u32 skip;     /* a form that is not to be touched; form_count: none */
    u32 groups;   /* flags that a form may have */
    u32 count;    /* nothing is measured; forms run between marks that a trace of the hypervisor shows */
};

/* What the surroundings provide: the image and the process differ here. */
struct surroundings {
    u8 *memory; /* 64 KiB below 4 GiB; r14 points to its 16th KiB */
    u8 *stack;  /* 64 KiB; its middle is used */
    u8 *code;   /* 256 KiB, writable and executable */
    int avx;
    const char *name; /* process, bare, xen-pv */
    void (*mark)(u32 value); /* lets the hypervisor trace a number; none in a process */
};

extern struct surroundings around;
extern struct method method;

void method_options(const char *line);
void measure_all(void);
/* Reports what a probe measured: ticks of each of `rounds` rounds of `count` operations. */
void report_rounds(u32 form, enum kind kind, const u64 *ticks, u32 rounds, u32 count, u64 base);
void report_fault(u32 form, enum kind kind);
void report_absent(u32 form, const char *why);

/* Text. put() is of the surroundings; a line is `~` TEXT `*` CRC-32 of the text in hex, newline. */
void put(const char *text, size_t size);
void flush(void);
void line_begin(char type);
void line_number(u64 number); /* a blank, and hexadecimal digits */
void line_word(const char *word);
void line_end(void);

static inline u64 tsc(void)
{
    u32 low, high;
    __asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high) : : "memory");
    return (u64)high << 32 | low;
}

#endif
