/* The measuring code as an unprivileged Linux process: no C library, a few system calls.
 *
 *   process CPU [OPTION=NUMBER…]     pinned to the CPU; results on standard output */
#include "measure.h"

/* Numbers and layouts of Linux's x86-64 ABI: arch/x86/entry/syscalls/syscall_64.tbl, asm/sigcontext.h. */
enum {
    SYS_WRITE = 1, SYS_MMAP = 9, SYS_SIGACTION = 13, SYS_SIGRETURN = 15, SYS_EXIT = 231,
    SYS_SETAFFINITY = 203, SYS_SIGALTSTACK = 131,
    SIGILL = 4, SIGTRAP = 5, SIGBUS = 7, SIGFPE = 8, SIGSEGV = 11,
    SA_SIGINFO = 4, SA_ONSTACK = 0x08000000, SA_NODEFER = 0x40000000, SA_RESTORER = 0x04000000,
    PROT_RWX = 7, MAP_PRIVATE = 2, MAP_ANONYMOUS = 0x20, MAP_32BIT = 0x40, MAP_POPULATE = 0x8000,
    STACK = 64 << 10,
};

struct sigaction { void *handler; u64 flags; void *restorer; u64 mask; };
struct sigstack { void *sp; int flags; u64 size; };
struct sigcontext {
    u64 r8, r9, r10, r11, r12, r13, r14, r15, di, si, bp, bx, dx, ax, cx, sp, ip, flags;
    u16 cs, gs, fs, ss;
    u64 err, trapno, oldmask, cr2, fpstate;
};
struct ucontext { u64 flags; struct ucontext *link; struct sigstack stack; struct sigcontext mcontext; };

struct surroundings around = {.name = "process"};

static long call6(long number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
    register u64 r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static long call(long number, u64 a, u64 b, u64 c, u64 d)
{
    return call6(number, a, b, c, d, 0, 0);
}

__attribute__((noreturn)) static void leave(int status)
{
    for (;;)
        call(SYS_EXIT, (u64)status, 0, 0, 0);
}

__attribute__((noreturn)) static void die(const char *why)
{
    size_t size = 0;
    while (why[size])
        size++;
    call(SYS_WRITE, 2, (u64)(uintptr_t)why, size, 0);
    leave(1);
}

/* Written only between measurements, and all at once: a system call disturbs the processor. */
static char pending[32 << 10];
static size_t pending_size;

void flush(void)
{
    size_t done = 0;
    while (done < pending_size) {
        long wrote = call(SYS_WRITE, 1, (u64)(uintptr_t)(pending + done), pending_size - done, 0);
        if (wrote <= 0)
            leave(1);
        done += (size_t)wrote;
    }
    pending_size = 0;
}

void put(const char *text, size_t size)
{
    if (pending_size + size > sizeof pending)
        flush();
    while (size--)
        pending[pending_size++] = *text++;
}

/* A fault in code under measurement becomes a result; any other is a bug of ours. */
static void on_fault(int signal, void *info, struct ucontext *context)
{
    (void)signal, (void)info;
    struct sigcontext *at = &context->mcontext;
    if (!current_run)
        die("the measuring process itself faulted\n");
    current_fault.vector = (u32)at->trapno;
    current_fault.error = (u32)at->err;
    current_fault.address = at->ip;
    at->di = (u64)(uintptr_t)current_run;
    at->ip = (u64)(uintptr_t)run_recover;
    at->flags &= ~0x44d00ull; /* AC, NT, DF, TF: whatever the form left */
}

__asm__(".globl restorer\nrestorer: mov $15, %eax\n syscall\n");
extern char restorer[];

static void *map(size_t size, u64 flags)
{
    long at = call6(SYS_MMAP, 0, size, PROT_RWX, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | flags, ~0ull, 0);
    if (at < 0 && at > -4096)
        die("no memory for the measuring process\n");
    return (void *)at;
}

static u32 number(const char *text)
{
    u32 value = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        value = value * 10 + (u32)(*text - '0');
    return value;
}

/* Whether the system keeps ymm registers: XCR0's bits 1 and 2, if CPUID's leaf 1 has OSXSAVE and AVX. */
static int has_avx(void)
{
    u32 a = 1, b, c = 0, d;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    if ((c >> 27 & 3) != 3)
        return 0;
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (a & 6) == 6;
}

__attribute__((noreturn, used)) static void process_main(u64 *stack)
{
    u64 count = stack[0];
    char **arguments = (char **)(stack + 1);
    u64 mask[16] = {0};
    if (count < 2)
        die("usage: process CPU [OPTION=NUMBER…]\n");
    u32 cpu = number(arguments[1]) % 1024;
    mask[cpu / 64] = 1ull << cpu % 64;
    if (call(SYS_SETAFFINITY, 0, sizeof mask, (u64)(uintptr_t)mask, 0) < 0)
        die("the measuring process cannot run on the CPU that was asked for\n");

    around.memory = map(64 << 10, MAP_32BIT);
    around.stack = map(64 << 10, 0);
    around.code = map(256 << 10, 0);
    around.avx = has_avx();
    struct sigstack alternative = {.sp = map(STACK, 0), .size = STACK};
    call(SYS_SIGALTSTACK, (u64)(uintptr_t)&alternative, 0, 0, 0);
    struct sigaction action = {
        .handler = (void *)on_fault,
        .flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTORER,
        .restorer = restorer,
    };
    static const int signals[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV};
    for (u32 i = 0; i < sizeof signals / sizeof *signals; i++)
        call(SYS_SIGACTION, (u64)signals[i], (u64)(uintptr_t)&action, 0, 8);
    for (u64 i = 2; i < count; i++)
        method_options(arguments[i]);
    measure_all();
    leave(0);
}

__asm__(".globl _start\n_start: mov %rsp, %rdi\n xor %ebp, %ebp\n and $-16, %rsp\n call process_main\n");
