// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the guest executes, what it costs, and what is written down of it.
 *
 * Arguments: out=FILE, marker=ADDRESS (a block that the guest executes before and after a run of
 * fio), io=ADDRESS (one that it executes for each I/O), warm=N and ios=N (how many I/Os of a run
 * warm up and how many are measured, at least), shortest=NS (what each takes at least),
 * quantum=NS, insn=PS, pause=PS and clock=PS (what an instruction, PAUSE and RDTSC cost),
 * levels=... and stride=N (lines.c).
 *
 * What is measured comes after a warm-up, when all jobs have started, and before any has ended, for
 * fio runs longer than that. In all other phases, where a guest boots and programs start, no line
 * is looked at and waiting is made dear, so that they are soon over.
 *
 * The output is text, times in 1/256 ns. For every phase, and the rest for the one that is measured:
 *
 *	phase MEASURED TIME USER	when it ended, and the time of all vCPUs in user space
 *	ADDRESS TIME EXECUTIONS		of a kernel block, moved lines left out
 *	ADDRESS TIME CLEAN DIRTY UPGRADE	of a kernel instruction that moved lines
 *	line ADDRESS INSTRUCTION MOVES	which lines these were
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define NO_REGISTERS 0
#define READ_AND_WRITE 3
#define KERNEL_HALF (1ULL << 63)
#define WATCHED_BITS 16

typedef uint64_t plugin_id;
typedef uint32_t memory_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

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
void qemu_plugin_register_atexit_cb(plugin_id id, void (*cb)(plugin_id, void *), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *target, size_t size);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
bool qemu_plugin_mem_is_store(memory_info info);

EXPORT int qemu_plugin_version = PLUGIN_API;

/* How much longer a spinning vCPU waits, and reading a clock takes, outside of what is measured:
 * each leaves QEMU's fast path, and a guest that boots does it often. Fio runs for a fixed time,
 * and what is left of that when all is measured is soon over.
 */
#define BEFORE_MEASURED (1000 * NS)
#define AFTER_MEASURED (1000000 * NS)

struct instruction {
	uint64_t address;
	bool locked;
	uint64_t time;
	uint64_t moves[MOVES];
	struct instruction *next;
};

/* One per translation; a block that is translated again gets another one. */
struct block {
	uint64_t address;
	uint64_t cost;
	uint64_t executed;
	uint64_t slept;
	bool pauses, reads_clock;
	struct block *next;
};

/* How often an instruction moved a line; what the table has no room for is not told apart. */
struct watched {
	uint64_t line;
	uint64_t instruction;
	uint64_t moves;
};

static uint64_t insn_cost, pause_cost, clock_cost, marker, io, warm, ios, done;
static unsigned int vcpus;
static uint64_t since, shortest;
/* A guest boots, then each run of fio warms up, is measured and ends. */
static enum stage { BOOTS, WARMS, MEASURES, ENDS } stage;
static struct block *blocks;
static struct instruction *instructions;
static struct watched watched[1 << WATCHED_BITS];
/* The cost of the block that is being executed: time passes when it has been. */
static uint64_t executing;
static FILE *out;

static void watch(uint64_t line, uint64_t instruction)
{
	struct watched *place = &watched[spread(line ^ instruction << 1) >> (64 - WATCHED_BITS)];

	if (!place->moves)
		*place = (struct watched){ .line = line, .instruction = instruction };
	if (place->line == line && place->instruction == instruction)
		place->moves++;
}

static void finish_phase(void)
{
	struct instruction *insn;
	struct block *block;
	uint64_t user = 0;
	unsigned int i;

	for (block = blocks; block; block = block->next)
		if (!(block->address & KERNEL_HALF))
			user += block->cost * block->executed;
	fprintf(out, "phase %d %" PRIu64 " %" PRIu64 "\n", stage == MEASURES, now, user);
	if (stage != MEASURES)
		return;
	for (block = blocks; block; block = block->next) {
		if (!block->executed || !(block->address & KERNEL_HALF))
			continue;
		fprintf(out, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", block->address,
			block->cost * block->executed + block->slept, block->executed);
	}
	for (insn = instructions; insn; insn = insn->next) {
		if (!insn->moves[CLEAN] && !insn->moves[DIRTY] && !insn->moves[UPGRADE])
			continue;
		fprintf(out, "%" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
			insn->address, insn->time, insn->moves[CLEAN], insn->moves[DIRTY],
			insn->moves[UPGRADE]);
	}
	for (i = 0; i < 1 << WATCHED_BITS; i++)
		if (watched[i].moves)
			fprintf(out, "line %" PRIx64 " %" PRIx64 " %" PRIu64 "\n",
				watched[i].line << LINE_BITS, watched[i].instruction,
				watched[i].moves);
}

static void begin_phase(void)
{
	struct instruction *insn;
	struct block *block;

	for (block = blocks; block; block = block->next) {
		block->executed = 0;
		block->slept = 0;
	}
	for (insn = instructions; insn; insn = insn->next) {
		insn->time = 0;
		memset(insn->moves, 0, sizeof(insn->moves));
	}
	memset(watched, 0, sizeof(watched));
}

static void next_stage(enum stage next)
{
	finish_phase();
	begin_phase();
	stage = next;
	done = 0;
}

static void on_marker(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	next_stage(WARMS);
}

static void on_io(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	if (!done++)
		since = now;
	if (now - since < shortest)
		return;
	if (stage == WARMS && done >= warm)
		next_stage(MEASURES);
	else if (stage == MEASURES && done >= ios)
		next_stage(ENDS);
}

static void on_execution(unsigned int vcpu, void *data)
{
	struct block *block = data;

	(void)vcpu;
	if (!turns_have_begun())
		begin_turns(vcpus);
	now += executing;
	executing = 0;
	if (now >= limit)
		yield_turn();
	if (stage == MEASURES && block->pauses)
		block->slept += spin_pause(vcpu_in_turn(), block);
	else if (stage == MEASURES)
		spin_block(vcpu_in_turn(), block);
	if (block->reads_clock)
		spin_access(vcpu_in_turn(), 0, true);
	block->executed++;
	executing = block->cost;
	if (stage != MEASURES && (block->pauses || block->reads_clock))
		executing += stage == ENDS ? AFTER_MEASURED : BEFORE_MEASURED;
}

static void on_access(unsigned int vcpu, memory_info info, uint64_t address, void *data)
{
	struct instruction *insn = data;
	enum move move;
	enum access access = LOAD;
	uint64_t cost;

	(void)vcpu;
	if (stage != MEASURES)
		return;
	if (!(address & KERNEL_HALF)) {
		spin_access(vcpu_in_turn(), address, true); /* nobody tells when it changes */
		return;
	}
	/* A locked instruction reads the line for itself alone from the beginning. */
	if (insn->locked)
		access = LOCKED;
	else if (qemu_plugin_mem_is_store(info))
		access = STORE;
	cost = touch(address, vcpu_in_turn(), access, &move);
	spin_access(vcpu_in_turn(), address, access != LOAD || move != NO_MOVE);
	now += cost;
	insn->time += cost;
	if (move == NO_MOVE)
		return;
	insn->moves[move]++;
	watch(address >> LINE_BITS, insn->address);
}

/* Whether an instruction is locked: by its prefix, or as XCHG with memory is. */
static bool is_locked(const unsigned char *code, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++) {
		switch (code[i]) {
		case 0xf0:
			return true;
		case 0x26: case 0x2e: case 0x36: case 0x3e: case 0x64: case 0x65:
		case 0x66: case 0x67: case 0xf2: case 0xf3:
		case 0x40 ... 0x4f: /* REX */
			continue;
		default:
			return code[i] == 0x86 || code[i] == 0x87;
		}
	}
	return false;
}

static void add_instruction(struct block *block, struct qemu_plugin_insn *insn)
{
	uint64_t address = qemu_plugin_insn_vaddr(insn);
	unsigned char code[15] = { 0 };
	size_t size = qemu_plugin_insn_size(insn);
	struct instruction *own;

	block->cost += insn_cost;
	qemu_plugin_insn_data(insn, code, size < sizeof(code) ? size : sizeof(code));
	if (size == 2 && code[0] == 0xf3 && code[1] == 0x90) { /* PAUSE */
		block->cost += pause_cost;
		block->pauses = true;
	} else if (code[0] == 0x0f && (code[1] == 0x31 || (code[1] == 0x01 && code[2] == 0xf9))) {
		block->cost += clock_cost; /* RDTSC, RDTSCP */
		block->reads_clock = true;
	}
	if (!(address & KERNEL_HALF))
		return;
	own = calloc(1, sizeof(*own));
	if (!own)
		abort();
	own->address = address;
	own->locked = is_locked(code, sizeof(code));
	own->next = instructions;
	instructions = own;
	qemu_plugin_register_vcpu_mem_cb(insn, on_access, NO_REGISTERS, READ_AND_WRITE, own);
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *tb)
{
	struct block *block = calloc(1, sizeof(*block));
	size_t i;

	(void)id;
	if (!block)
		abort();
	block->address = qemu_plugin_tb_vaddr(tb);
	block->next = blocks;
	blocks = block;
	for (i = 0; i < qemu_plugin_tb_n_insns(tb); i++)
		add_instruction(block, qemu_plugin_tb_get_insn(tb, i));
	if (marker && block->address == marker)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_marker, NO_REGISTERS, NULL);
	if (io && block->address == io)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_io, NO_REGISTERS, NULL);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_execution, NO_REGISTERS, block);
}

static void on_vcpu(plugin_id id, unsigned int vcpu)
{
	(void)id;
	take_vcpu_seat(vcpu);
}

static void at_exit(plugin_id id, void *data)
{
	(void)id;
	(void)data;
	finish_phase();
	end_turns();
	fprintf(out, "end\n");
	fclose(out);
}

static int refuse(const char *why)
{
	fprintf(stderr, "sim: %s\n", why);
	return -1;
}

EXPORT int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv)
{
	const char *path = NULL, *levels = "1:0:0:0";
	unsigned int stride = 1;
	int i;

	for (i = 0; i < argc; i++) {
		const char *value = strchr(argv[i], '=');
		uint64_t number;

		if (!value++)
			return refuse("an argument without a value");
		number = strtoull(value, NULL, 10);
		if (!strncmp(argv[i], "out=", 4))
			path = value;
		else if (!strncmp(argv[i], "marker=", 7))
			marker = strtoull(value, NULL, 16);
		else if (!strncmp(argv[i], "io=", 3))
			io = strtoull(value, NULL, 16);
		else if (!strncmp(argv[i], "warm=", 5))
			warm = number;
		else if (!strncmp(argv[i], "shortest=", 9))
			shortest = number * NS;
		else if (!strncmp(argv[i], "ios=", 4))
			ios = number;
		else if (!strncmp(argv[i], "quantum=", 8))
			quantum = number * NS;
		else if (!strncmp(argv[i], "insn=", 5))
			insn_cost = number * NS / 1000;
		else if (!strncmp(argv[i], "pause=", 6))
			pause_cost = number * NS / 1000;
		else if (!strncmp(argv[i], "clock=", 6))
			clock_cost = number * NS / 1000;
		else if (!strncmp(argv[i], "levels=", 7))
			levels = value;
		else if (!strncmp(argv[i], "stride=", 7))
			stride = number;
		else
			return refuse("an argument that it does not know");
	}
	if (!info->system_emulation)
		return refuse("only whole machines are simulated");
	vcpus = info->system.vcpus;
	if (vcpus > MAX_VCPUS)
		return refuse("more vCPUs than it has room for");
	if (!set_levels(levels, vcpus, stride))
		return refuse("no levels of transfers");
	out = path ? fopen(path, "w") : NULL;
	if (!out)
		return refuse("cannot write the file of out=");
	qemu_plugin_register_vcpu_init_cb(id, on_vcpu);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
