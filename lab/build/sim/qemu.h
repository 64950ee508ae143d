/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is used of QEMU's interface to plugins, which no package installs (include/qemu/qemu-plugin.h). */
#ifndef QEMU_H
#define QEMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NO_REGISTERS 0
#define READ_REGISTERS 1
#define READ_AND_WRITE 3

typedef uint64_t plugin_id;
typedef uint32_t memory_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;

/* What is needed of qemu_info_t, which QEMU keeps at the beginning of it. */
struct qemu_info {
	const char *target;
	struct {
		int minimum, current;
	} version;
	bool system_emulation;
	struct {
		int vcpus, max_vcpus;
	} system;
};

void qemu_plugin_register_vcpu_init_cb(plugin_id id, void (*cb)(plugin_id, unsigned int));
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
					   void (*cb)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
					  void (*cb)(unsigned int, void *), int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
				      void (*cb)(unsigned int, memory_info, uint64_t, void *),
				      int flags, int accesses, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    void (*cb)(unsigned int, void *), int flags, void *data);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*cb)(plugin_id, void *), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
bool qemu_plugin_mem_is_store(memory_info info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(memory_info info, uint64_t address);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *address);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *target, size_t size);

#endif
