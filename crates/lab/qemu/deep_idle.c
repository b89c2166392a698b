// Plugin of QEMU (interface 7): emulated CPUs leave idle as slowly as real ones leave a deep idle state, which QEMU's leave at
// once. Its argument is the exit latency in nanoseconds; a CPU that was idle for a shorter time was not in such a state.
//
// A CPU that is idle is halted until an interrupt comes, and the first thing that it then runs is the entry of a handler,
// which begins with `clac` (ASM_CLAC, arch/x86/entry/entry_64.S, 6.12): there it sleeps, in its own thread. QEMU holds its
// lock where it tells that a CPU is not idle any more, so that sleeping there would stop devices and the other CPUs.
#include "plugin.h"
#include <time.h>

enum { CPUS = 64, NS_PER_S = 1000000000 };

static int64_t latency;
// When each CPU became idle, and whether it has been so for long and not slept since.
static int64_t idle_since[CPUS];
static bool was_deep[CPUS];

static int64_t now(void) {
    struct timespec time = {0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * (int64_t)NS_PER_S + time.tv_nsec;
}

static void begin_idle(unsigned cpu, void *data) {
    if (cpu < CPUS) idle_since[cpu] = now();
}

static void end_idle(unsigned cpu, void *data) {
    if (cpu < CPUS) was_deep[cpu] = now() - idle_since[cpu] >= latency;
}

static void leave_idle(unsigned cpu, void *data) {
    if (cpu >= CPUS || !was_deep[cpu]) return;
    was_deep[cpu] = false;
    struct timespec rest = {latency / NS_PER_S, latency % NS_PER_S};
    nanosleep(&rest, NULL);
}

static void find_entries(struct tb *tb, void *data) {
    // Of a kernel with indirect branch tracking, the second is the first after `endbr64`.
    size_t number = qemu_plugin_tb_n_insns(tb);
    for (size_t i = 0; i < number && i < 2; i++) {
        struct insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint8_t code[3];
        if (qemu_plugin_insn_size(insn) != 3 || qemu_plugin_insn_data(insn, code, 3) != 3) continue;
        bool is_clac = code[0] == 0x0f && code[1] == 0x01 && code[2] == 0xca;
        if (is_clac) qemu_plugin_register_vcpu_insn_exec_cb(insn, leave_idle, NO_REGISTERS, NULL);
    }
}

EXPORTED int qemu_plugin_install(uint64_t id, const void *about, int count, char **arguments) {
    static const char name[] = "latency=";
    const char *at = count == 1 ? arguments[0] : "";
    for (const char *expected = name; *expected; expected++, at++) {
        if (*at != *expected) return -1;
    }
    for (; *at >= '0' && *at <= '9'; at++) latency = latency * 10 + (*at - '0');
    if (*at || latency <= 0 || latency > NS_PER_S) return -1;
    qemu_plugin_register_vcpu_idle_cb(id, begin_idle, NULL);
    qemu_plugin_register_vcpu_resume_cb(id, end_idle, NULL);
    qemu_plugin_register_vcpu_tb_trans_cb(id, find_entries, NULL);
    return 0;
}
