// QEMU's interface for plugins, number 7, as far as it is used here: declarations of include/plugins/qemu-plugin.h, and of
// GLib's arrays. Nothing has to be installed to build the plugins.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

struct array {
    char *data;
    unsigned len;
};
struct bytes {
    uint8_t *data;
    unsigned len;
};
struct qemu_register {
    void *handle;
    const char *name;
};
struct value {
    int type;
    union {
        uint8_t u8;
        uint64_t both[2];
    } data;
};
struct tb;
struct insn;
struct hwaddr;

// Of callbacks: what they read, and which accesses they are called for.
enum { NO_REGISTERS = 0, READ_REGISTERS = 1, STORES = 2 };

size_t qemu_plugin_tb_n_insns(const struct tb *tb);
struct insn *qemu_plugin_tb_get_insn(const struct tb *tb, size_t index);
size_t qemu_plugin_insn_data(const struct insn *insn, void *to, size_t len);
size_t qemu_plugin_insn_size(const struct insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct insn *insn);
unsigned qemu_plugin_mem_size_shift(uint32_t info);
struct value qemu_plugin_mem_get_value(uint32_t info);
struct hwaddr *qemu_plugin_get_hwaddr(uint32_t info, uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const struct hwaddr *address);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct hwaddr *address);
int qemu_plugin_read_memory_hwaddr(uint64_t address, struct bytes *bytes, size_t len);
int qemu_plugin_write_memory_hwaddr(uint64_t address, struct bytes *bytes);
struct array *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(void *handle, struct bytes *to);
void qemu_plugin_register_vcpu_init_cb(uint64_t id, void (*called)(unsigned cpu, void *data), void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*called)(struct tb *tb, void *data), void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct insn *insn, void (*called)(unsigned cpu, void *data), int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct insn *insn, void (*called)(unsigned cpu, uint32_t info, uint64_t vaddr, void *data),
                                      int flags, int which, void *data);
void qemu_plugin_register_vcpu_idle_cb(uint64_t id, void (*called)(unsigned cpu, void *data), void *data);
void qemu_plugin_register_vcpu_resume_cb(uint64_t id, void (*called)(unsigned cpu, void *data), void *data);
unsigned g_array_get_element_size(struct array *array);
struct bytes *g_byte_array_new(void);
void g_byte_array_unref(struct bytes *array);

EXPORTED int qemu_plugin_version = 7;
