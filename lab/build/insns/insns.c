// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A TCG plugin that counts executed guest instructions per translation block.
 *
 * Arguments: out=FILE, and marker=ADDRESS: each time the guest executes the block at that address
 * the counts so far are written as one phase and start again at zero. What is left at the end
 * is the last phase. The output is text:
 *
 *	phase NUMBER USER_INSTRUCTIONS
 *	ADDRESS INSTRUCTIONS		one line a kernel block, addresses in hex, in order
 *
 * Distributions ship QEMU without its plugin header, so what is needed of the interface is
 * declared here; QEMU's plugin interface is documented in its docs/devel/tcg-plugins.
 * Only execution callbacks are used: inline counters are not safe with several vCPUs.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define NO_REGISTERS 0
#define KERNEL_HALF (1ULL << 63)

typedef uint64_t plugin_id;
struct qemu_plugin_tb;

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
					   void (*cb)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
					  void (*cb)(unsigned int, void *), int flags, void *data);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*cb)(plugin_id, void *), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);

/* The interface version that this object claims; the build chooses one that QEMU accepts. */
EXPORT int qemu_plugin_version = PLUGIN_API;

/* One per translation; a block that is translated again gets another one. */
struct block {
	uint64_t address;
	uint64_t instructions;
	uint64_t executed;
	struct block *next;
};

static struct block *blocks;
static uint64_t marker;
static unsigned int phase;
static FILE *out;

static void on_execution(unsigned int vcpu, void *data)
{
	struct block *block = data;

	(void)vcpu;
	block->executed++;
}

static int by_address(const void *left, const void *right)
{
	const struct block *a = *(struct block *const *)left;
	const struct block *b = *(struct block *const *)right;

	return (a->address > b->address) - (a->address < b->address);
}

/* Print the executed kernel blocks, equal addresses added up, so that the output is the same
 * whenever the guest was, however often QEMU translated a block.
 */
static void print_kernel(struct block **sorted, size_t count)
{
	size_t i = 0;

	while (i < count) {
		uint64_t address = sorted[i]->address, sum = 0;

		for (; i < count && sorted[i]->address == address; i++)
			sum += sorted[i]->instructions * sorted[i]->executed;
		fprintf(out, "%" PRIx64 " %" PRIu64 "\n", address, sum);
	}
}

static void finish_phase(void)
{
	size_t total = 0, count = 0;
	uint64_t user = 0;
	struct block **sorted;
	struct block *block;

	for (block = blocks; block; block = block->next)
		total++;
	sorted = malloc((total + 1) * sizeof(*sorted));
	if (!sorted)
		abort();
	for (block = blocks; block; block = block->next) {
		if (!block->executed)
			continue;
		if (block->address & KERNEL_HALF)
			sorted[count++] = block;
		else
			user += block->instructions * block->executed;
	}
	qsort(sorted, count, sizeof(*sorted), by_address);
	fprintf(out, "phase %u %" PRIu64 "\n", phase++, user);
	print_kernel(sorted, count);
	free(sorted);
	for (block = blocks; block; block = block->next)
		block->executed = 0;
}

static void on_marker(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	finish_phase();
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *tb)
{
	struct block *block = calloc(1, sizeof(*block));

	(void)id;
	if (!block)
		abort();
	block->address = qemu_plugin_tb_vaddr(tb);
	block->instructions = qemu_plugin_tb_n_insns(tb);
	block->next = blocks;
	blocks = block;
	if (marker && block->address == marker)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_marker, NO_REGISTERS, NULL);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_execution, NO_REGISTERS, block);
}

static void at_exit(plugin_id id, void *data)
{
	(void)id;
	(void)data;
	finish_phase();
	fprintf(out, "end\n");
	fclose(out);
}

EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
	const char *path = NULL;
	int i;

	(void)info;
	for (i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4))
			path = argv[i] + 4;
		else if (!strncmp(argv[i], "marker=", 7))
			marker = strtoull(argv[i] + 7, NULL, 16);
	}
	out = path ? fopen(path, "w") : NULL;
	if (!out) {
		fprintf(stderr, "insns: cannot write the file of out=\n");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
