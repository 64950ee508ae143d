// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the guest executes, what it costs, and which phase it is in.
 *
 * Arguments: out=FILE, marker=ADDRESS (a block that the guest executes to end a phase), quantum=NS,
 * insn=PS, pause=PS and clock=PS (what an instruction, PAUSE and RDTSC cost), levels=... and
 * stride=N (lines.c). With io=ADDRESS, a block that the guest executes for each I/O, a run of fio is
 * simulated: warm=N and ios=N say how many I/Os warm up and how many are measured, at least, and
 * shortest=NS what each takes at least; that is done again in the same run, with fewer, with moves of
 * lines at the transfer costs that variants=N/... say, in thousandths. Without it instructions are
 * counted: with jobs=N from when the first job of a fio run begins its I/O until the last one ends,
 * for the guest executes the marker when a run begins, when each of N jobs begins and ends its I/O,
 * and when the run ends; with up=ADDRESS from when that block is executed on. While something is
 * measured, calls of the functions calls=ADDRESS/... are written to called=FILE.
 *
 * What is simulated comes after a warm-up, when all jobs have started, and before any has ended, for
 * fio runs longer than that. In all other phases, where a guest boots and programs start, no line
 * is looked at and waiting is made dear, so that they are soon over. So it is before and between
 * what is counted.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define NO_REGISTERS 0
#define READ_REGISTERS 1
#define READ_AND_WRITE 3

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
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
bool qemu_plugin_mem_is_store(memory_info info);
/* It copies since QEMU 9.1 (include/qemu/qemu-plugin.h). */
#if PLUGIN_API < 3
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
#else
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *target, size_t size);
#endif

EXPORT int qemu_plugin_version = PLUGIN_API;

/* How much longer a spinning vCPU waits, and reading a clock takes, outside of what is measured:
 * each leaves QEMU's fast path, and a guest that boots does it often. Fio runs for a fixed time,
 * and what is left of that when all is measured is soon over.
 */
#define BEFORE_MEASURED (1000 * NS)
#define AFTER_MEASURED (1000000 * NS)

#define MAX_VARIANTS 8

/* Chosen: a variant begins with everything warm but for what its costs change, and tells only to
 * which side a change goes.
 */
#define WARMS_FASTER 4
#define MEASURES_LESS 2

static unsigned int jobs, ended;
static uint64_t marks;
/* The cost of cache-line transfers, in thousandths of the model's, each time that something is measured in a run. */
static unsigned int variants[1 + MAX_VARIANTS] = { 1000 }, variant_count = 1, variant;
static uint64_t insn_cost, pause_cost, clock_cost, marker, up, io, warm, ios, done;
static unsigned int vcpus;
static uint64_t since, shortest;
/* A guest boots, and starts programs; then its instructions are counted, or each run of fio warms
 * up, is measured and ends.
 */
static enum stage { BOOTS, COUNTS, WARMS, MEASURES, ENDS } stage;
/* The cost of the block that is being executed: time passes when it has been. And where it begins. */
static uint64_t executing, last;

static void end_phase(void)
{
	if (io)
		end_simulated_phase(stage == MEASURES);
	else
		end_counted_phase(stage == COUNTS, marks);
}

static void next_stage(enum stage next)
{
	end_phase();
	ended++;
	stage = next;
	done = 0;
}

static void warm_up(unsigned int next)
{
	variant = next;
	scale_costs(variants[variant]);
	next_stage(WARMS);
}

static void count_mark(void)
{
	uint64_t in_run = marks++ % (2 * jobs + 2);

	if (in_run <= 1 || in_run >= 2 * jobs)
		next_stage(in_run == 1 ? COUNTS : BOOTS);
}

static void on_marker(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	if (stage == MEASURES)
		stage = ENDS; /* the run was over too soon */
	if (io)
		warm_up(0);
	else
		count_mark();
}

static void on_io(unsigned int vcpu, void *data)
{
	uint64_t enough = stage == WARMS ? warm : ios;

	(void)vcpu;
	(void)data;
	if (variant)
		enough /= stage == WARMS ? WARMS_FASTER : MEASURES_LESS;
	if (!done++)
		since = now;
	if (done < enough || now - since < shortest)
		return;
	if (stage == WARMS)
		next_stage(MEASURES);
	else if (stage == MEASURES && variant + 1 < variant_count)
		warm_up(variant + 1);
	else if (stage == MEASURES)
		next_stage(ENDS);
}

static void on_up(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	next_stage(COUNTS);
}

static void on_call(unsigned int vcpu, void *data)
{
	const struct block *block = data;

	(void)vcpu;
	if (stage == MEASURES || stage == COUNTS)
		note_call(ended, block->address, last);
}

/* How much longer waiting and reading a clock take. */
static uint64_t hurry(void)
{
	if (stage == MEASURES || stage == COUNTS)
		return 0;
	return stage == ENDS ? AFTER_MEASURED : BEFORE_MEASURED;
}

/* What happens seldom when a block is about to be executed; time has passed till here. */
static void __attribute__((noinline)) attend(struct block *block)
{
	uint64_t cost = executing;

	executing = 0;
	if (!turns_have_begun())
		begin_turns(vcpus);
	if (now >= limit)
		yield_turn();
	if (stage == MEASURES && block->pauses)
		block->slept += spin_pause(vcpu_in_turn(), block);
	else if (stage == MEASURES)
		spin_block(vcpu_in_turn(), block);
	if (block->reads_clock)
		spin_access(vcpu_in_turn(), 0, true);
	executing = cost;
	if (block->pauses || block->reads_clock)
		executing += hurry();
}

static void on_execution(unsigned int vcpu, void *data)
{
	struct block *block = data;

	(void)vcpu;
	now += executing;
	executing = block->cost;
	if (now >= limit || stage == MEASURES || block->pauses || block->reads_clock)
		attend(block);
	if (!block->executed++)
		note_executed(block);
	last = block->address;
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
	note_move(address >> LINE_BITS, insn->address);
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

static void copy_code(unsigned char *target, const struct qemu_plugin_insn *insn, size_t size)
{
#if PLUGIN_API < 3
	memcpy(target, qemu_plugin_insn_data(insn), size);
#else
	qemu_plugin_insn_data(insn, target, size);
#endif
}

/* Where a direct CALL or JMP goes, a displacement of 32 bits from its end; 0 for anything else. */
static uint64_t direct_target(const unsigned char *code, size_t size, uint64_t address)
{
	int32_t displacement;

	if (size != 5 || (code[0] != 0xe8 && code[0] != 0xe9))
		return 0;
	memcpy(&displacement, code + 1, sizeof(displacement));
	return address + size + displacement;
}

static void add_instruction(struct block *block, struct qemu_plugin_insn *insn)
{
	uint64_t address = qemu_plugin_insn_vaddr(insn);
	unsigned char code[15] = { 0 };
	size_t size = qemu_plugin_insn_size(insn);
	struct instruction *own;

	block->cost += insn_cost;
	copy_code(code, insn, size < sizeof(code) ? size : sizeof(code));
	if (size == 2 && code[0] == 0xf3 && code[1] == 0x90) { /* PAUSE */
		block->cost += pause_cost;
		block->pauses = true;
	} else if (code[0] == 0x0f && (code[1] == 0x31 || (code[1] == 0x01 && code[2] == 0xf9))) {
		block->cost += clock_cost; /* RDTSC, RDTSCP */
		block->reads_clock = true;
	}
	block->target = direct_target(code, size, address);
	if (!io || !(address & KERNEL_HALF))
		return;
	own = calloc(1, sizeof(*own));
	if (!own)
		abort();
	own->address = address;
	own->locked = is_locked(code, sizeof(code));
	note_instruction(own);
	qemu_plugin_register_vcpu_mem_cb(insn, on_access, NO_REGISTERS, READ_AND_WRITE, own);
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *tb)
{
	struct block *block = calloc(1, sizeof(*block));
	uint64_t i;

	(void)id;
	if (!block)
		abort();
	block->address = qemu_plugin_tb_vaddr(tb);
	block->instructions = qemu_plugin_tb_n_insns(tb);
	for (i = 0; i < block->instructions; i++)
		add_instruction(block, qemu_plugin_tb_get_insn(tb, i));
	if (marker && block->address == marker)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_marker, NO_REGISTERS, NULL);
	if (up && block->address == up)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_up, NO_REGISTERS, NULL);
	if (io && block->address == io)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_io, NO_REGISTERS, NULL);
	if (is_called(block->address))
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_call, READ_REGISTERS, block);
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
	end_phase();
	end_turns();
	close_record();
	close_calls();
}

/* What variants= says; false for too many. */
static bool set_variants(const char *text)
{
	char *end;

	for (; variant_count <= MAX_VARIANTS; text = end + 1) {
		variants[variant_count++] = strtoul(text, &end, 10);
		if (*end != '/')
			return !*end;
	}
	return false;
}

static int refuse(const char *why)
{
	fprintf(stderr, "sim: %s\n", why);
	return -1;
}

EXPORT int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv)
{
	const char *path = NULL, *log = NULL, *levels = "1:0:0:0";
	bool variants_are_clear = true, calls_are_clear = true;
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
		else if (!strncmp(argv[i], "up=", 3))
			up = strtoull(value, NULL, 16);
		else if (!strncmp(argv[i], "io=", 3))
			io = strtoull(value, NULL, 16);
		else if (!strncmp(argv[i], "warm=", 5))
			warm = number;
		else if (!strncmp(argv[i], "shortest=", 9))
			shortest = number * NS;
		else if (!strncmp(argv[i], "ios=", 4))
			ios = number;
		else if (!strncmp(argv[i], "jobs=", 5))
			jobs = number;
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
		else if (!strncmp(argv[i], "variants=", 9))
			variants_are_clear = set_variants(value);
		else if (!strncmp(argv[i], "called=", 7))
			log = value;
		else if (!strncmp(argv[i], "calls=", 6))
			calls_are_clear = set_called(value);
		else
			return refuse("an argument that it does not know");
	}
	if (!info->system_emulation)
		return refuse("only whole machines are simulated");
	vcpus = info->system.vcpus;
	if (vcpus > MAX_VCPUS)
		return refuse("more vCPUs than it has room for");
	if (!variants_are_clear)
		return refuse("variants that are no numbers, or too many");
	if (!calls_are_clear)
		return refuse("more functions than it has room for");
	if (log && !open_calls(log))
		return refuse("cannot write the file of called=, or this QEMU tells no arguments");
	if (!set_levels(levels, vcpus, stride))
		return refuse("no levels of transfers");
	if (!path || !open_record(path))
		return refuse("cannot write the file of out=");
	qemu_plugin_register_vcpu_init_cb(id, on_vcpu);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
