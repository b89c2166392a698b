// Plugin of QEMU (interface 7): no emulated CPU goes on with code of the host's kernel as it was before that was patched.
//
// QEMU drops the translations of bytes before it stores into them, and does not drop them at all while their page has none
// (accel/tcg/cputlb.c, notdirty_write; 10.0). Another CPU that translates these bytes in the meantime has read the old ones,
// and its translation stays. Linux's last step in patching an instruction (text_poke_bp_batch, arch/x86/kernel/alternative.c,
// 6.12) replaces an int3 by the first byte of the new instruction: the other CPU then traps at an int3 that nobody knows any
// more, and the kernel ends with "Oops: int3".
//
// After each step Linux has every CPU run sync_core, whose `iretq` this watches for, and goes on when all have done so. A CPU
// that is there has finished what it was translating. So it then has all bytes that were stored since it was there last
// dropped from what is translated, by storing them once more (qemu_plugin_write_memory_hwaddr stores first, and drops then).
// Until it has been there, Linux does not patch them again: nothing is lost.
//
// Such a store is recognised by what it is: one byte, by memcpy of the kernel that booted first (a guest's does not wait for
// the host's CPUs), into the lower half of the address space, without leave to access the memory of programs (EFLAGS.AC). That
// is the mapping that text_poke makes for itself.
#include "plugin.h"

static const uint64_t UPPER_HALF = UINT64_C(1) << 63;
static const uint32_t AC = 1 << 18;

// The bytes that were stored last. Linux patches 256 places at most before it waits for all CPUs (TP_VEC_MAX).
enum { STORED = 4096, CPUS = 64 };
static struct {
    uint64_t address;
    uint8_t byte;
} stored[STORED];
// How many there have been, and how many of them each CPU has dropped.
static uint64_t stores;
static uint64_t dropped[CPUS];

static void *eflags;
// Where memcpy of the first kernel stores a byte.
static uint64_t first_kernel;

static bool is(const char *text, const char *other) {
    while (*text && *text == *other) {
        text++;
        other++;
    }
    return *text == *other;
}

static void find_eflags(unsigned cpu, void *data) {
    struct array *all = qemu_plugin_get_registers();
    // Each has further members behind these.
    unsigned size = g_array_get_element_size(all);
    for (unsigned i = 0; i < all->len; i++) {
        struct qemu_register *one = (struct qemu_register *)(all->data + i * size);
        if (is(one->name, "eflags")) eflags = one->handle;
    }
}

// Reports whether the kernel may access the memory of programs: yes, if it cannot be told.
static bool may_access_programs(void) {
    if (!eflags) return true;
    struct bytes *flags = g_byte_array_new();
    qemu_plugin_read_register(eflags, flags);
    bool may = true;
    if (flags->len >= 4) may = (flags->data[0] | flags->data[1] << 8 | flags->data[2] << 16) & AC;
    g_byte_array_unref(flags);
    return may;
}

static void note_store(unsigned cpu, uint32_t info, uint64_t vaddr, void *at) {
    if (vaddr >= UPPER_HALF || qemu_plugin_mem_size_shift(info) != 0 || may_access_programs()) return;
    struct hwaddr *address = qemu_plugin_get_hwaddr(info, vaddr);
    if (!address || qemu_plugin_hwaddr_is_io(address)) return;
    uint64_t none = 0;
    __atomic_compare_exchange_n(&first_kernel, &none, (uint64_t)at, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    if (first_kernel != (uint64_t)at) return;
    // One CPU patches at a time (text_mutex).
    uint64_t number = __atomic_load_n(&stores, __ATOMIC_RELAXED);
    stored[number % STORED].address = qemu_plugin_hwaddr_phys_addr(address);
    stored[number % STORED].byte = qemu_plugin_mem_get_value(info).data.u8;
    __atomic_store_n(&stores, number + 1, __ATOMIC_RELEASE);
}

static void drop_stored(unsigned cpu, void *data) {
    uint64_t now = __atomic_load_n(&stores, __ATOMIC_ACQUIRE);
    if (cpu >= CPUS || dropped[cpu] == now) return;
    uint64_t number = dropped[cpu];
    if (now - number > STORED) number = now - STORED;
    struct bytes *there = g_byte_array_new();
    for (; number < now; number++) {
        uint64_t address = stored[number % STORED].address;
        struct bytes byte = {&stored[number % STORED].byte, 1};
        // A CPU that was off has not been waited for: another byte is there, which another entry has.
        if (qemu_plugin_read_memory_hwaddr(address, there, 1) == 0 && *there->data == *byte.data)
            qemu_plugin_write_memory_hwaddr(address, &byte);
    }
    g_byte_array_unref(there);
    dropped[cpu] = now;
}

static void look_at(struct tb *tb, void *data) {
    size_t number = qemu_plugin_tb_n_insns(tb);
    for (size_t i = 0; i < number; i++) {
        struct insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t at = qemu_plugin_insn_vaddr(insn);
        uint8_t code[2];
        if (at < UPPER_HALF || qemu_plugin_insn_size(insn) != 2 || qemu_plugin_insn_data(insn, code, 2) != 2) continue;
        bool is_iretq = code[0] == 0x48 && code[1] == 0xcf;
        // `mov %cl,(%rdi)` and `rep movsb` of memcpy (arch/x86/lib/memcpy_64.S).
        bool is_store = (code[0] == 0x88 && code[1] == 0x0f) || (code[0] == 0xf3 && code[1] == 0xa4);
        if (is_iretq) qemu_plugin_register_vcpu_insn_exec_cb(insn, drop_stored, NO_REGISTERS, NULL);
        if (is_store) qemu_plugin_register_vcpu_mem_cb(insn, note_store, READ_REGISTERS, STORES, (void *)at);
    }
}

EXPORTED int qemu_plugin_install(uint64_t id, const void *about, int count, char **arguments) {
    qemu_plugin_register_vcpu_init_cb(id, find_eflags, NULL);
    qemu_plugin_register_vcpu_tb_trans_cb(id, look_at, NULL);
    return 0;
}
