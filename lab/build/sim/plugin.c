// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the guest executes, what it costs, and which phase it is in.
 *
 * With the address io= a run of fio is simulated: so many I/Os warm up, and so many are measured, at
 * least, for so long at least; that is done again in the same run, with fewer, at other costs of
 * transfers. With programs= all is that the guest executes between two markers, its programs' memory
 * included. Else instructions are counted, from when the first of jobs= jobs of a run begins its I/O
 * until the last one ends: the guest executes the marker when a run begins, when each job begins and
 * ends its I/O, and when the run ends. While something is measured, calls of some functions are
 * written down.
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

#include "qemu.h"
#include "sim.h"

EXPORT int qemu_plugin_version = PLUGIN_API;

/* How much longer a spinning vCPU waits, and reading a clock takes, outside of what is measured:
 * each leaves QEMU's fast path, and a guest that boots does it often. Fio runs for a fixed time,
 * and what is left of that when all is measured is soon over.
 */
#define BEFORE_MEASURED (1000 * NS)
#define AFTER_MEASURED (1000000 * NS)

/* Chosen: a variant begins with everything warm but for what its costs change, and tells only to
 * which side a change goes.
 */
#define WARMS_FASTER 4
#define MEASURES_LESS 2

static unsigned int vcpus, ended, variant;
static uint64_t marks, done, since;
enum stage stage;
uint64_t executing;
static uint64_t last;	/* where the block begins that is being executed */

static bool simulates(void)
{
	return order.io || order.programs;
}

static void end_phase(void)
{
	if (simulates())
		end_simulated_phase(stage == MEASURES);
	else
		end_counted_phase(stage == COUNTS, marks);
	if (stage == COUNTS)
		end_stacks(ended);
}

static void next_stage(enum stage next)
{
	end_phase();
	empty_cores();
	ended++;
	stage = next;
	done = 0;
}

static void warm_up(unsigned int next)
{
	next_stage(WARMS);
	variant = next;
	scale_transfers(order.variants[variant].transfers);
	core_model.insn = order.insn * order.variants[variant].insns / 1000;
}

static void count_mark(void)
{
	uint64_t in_run = marks++ % (2 * order.jobs + 2);

	if (in_run <= 1 || in_run >= 2 * order.jobs)
		next_stage(in_run == 1 ? COUNTS : BOOTS);
}

static void on_marker(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	if (order.programs) {
		next_stage(stage == MEASURES ? ENDS : MEASURES);
		return;
	}
	if (stage == MEASURES)
		stage = ENDS; /* the run was over too soon */
	if (order.io)
		warm_up(0);
	else
		count_mark();
}

static void on_io(unsigned int vcpu, void *data)
{
	uint64_t enough = stage == WARMS ? order.warm : order.ios;

	(void)vcpu;
	(void)data;
	if (variant)
		enough /= stage == WARMS ? WARMS_FASTER : MEASURES_LESS;
	if (!done++)
		since = now;
	if (done < enough || now - since < order.shortest)
		return;
	if (stage == WARMS)
		next_stage(MEASURES);
	else if (stage == MEASURES && variant + 1 < order.variant_count)
		warm_up(variant + 1);
	else if (stage == MEASURES)
		next_stage(ENDS);
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
	bool follows = follows_cores();

	executing = 0;
	if (follows)
		core_ends(vcpu_in_turn(), block);
	if (follows && block->pauses)
		core_drains(vcpu_in_turn());
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
	if (follows && block->pauses)
		core_drains(vcpu_in_turn());
	if (follows)
		core_begins(vcpu_in_turn(), block);
}

static void on_execution(unsigned int vcpu, void *data)
{
	struct block *block = data;

	(void)vcpu;
	now += executing;
	executing = follows_cores() ? 0 : block_cost(block);
	if (now >= limit || stage == MEASURES || block->pauses || block->reads_clock)
		attend(block);
	if (!block->executed++)
		note_executed(block);
	last = block->address;
}

/* Behind on_execution(): attend() may have given other vCPUs their turn. */
static void on_function(unsigned int vcpu, void *data)
{
	const struct block *block = data;

	(void)vcpu;
	if (stage != COUNTS)
		return;
	if (block->address & KERNEL_HALF)
		follow_stack(vcpu_in_turn(), block);
	else
		leave_kernel(vcpu_in_turn());
}

static void add_instruction(struct block *block, struct qemu_plugin_insn *insn, unsigned int index)
{
	uint64_t address = qemu_plugin_insn_vaddr(insn);
	unsigned char code[15] = { 0 };
	size_t size = qemu_plugin_insn_size(insn);
	struct instruction *own;

	qemu_plugin_insn_data(insn, code, size < sizeof(code) ? size : sizeof(code));
	if (size == 2 && code[0] == 0xf3 && code[1] == 0x90) { /* PAUSE */
		block->extra += order.pause;
		block->pauses = true;
	} else if (code[0] == 0x0f && (code[1] == 0x31 || (code[1] == 0x01 && code[2] == 0xf9))) {
		block->extra += order.clock; /* RDTSC, RDTSCP */
		block->reads_clock = true;
	}
	block->target = direct_target(code, size, address);
	block->end = address + size;
	block->returns = is_return(code, size);
	if (!simulates() || !is_simulated(address))
		return;
	if (block->operations)
		decode(code, size, address, &block->operations[index]);
	own = calloc(1, sizeof(*own));
	if (!own)
		abort();
	own->address = address;
	own->block = block;
	own->index = index;
	own->locked = is_locked(code, sizeof(code));
	if (memory.awaits)
		decode_operand(code, size, own);
	if (own->has_operand)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_contended, READ_REGISTERS, own);
	note_instruction(own);
	qemu_plugin_register_vcpu_mem_cb(insn, on_access, NO_REGISTERS, READ_AND_WRITE, own);
}

/* What entering the kernel costs in a block, if it begins with that. */
static uint64_t entry_cost(uint64_t address)
{
	unsigned int i;

	for (i = 0; i < order.entry_count; i++)
		if (order.entries[i] == address)
			return i ? order.interrupt : order.syscall;
	return 0;
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
	block->extra = entry_cost(block->address);
	if (simulates() && core_model.window && is_simulated(block->address)) {
		block->operations = calloc(block->instructions, sizeof(*block->operations));
		if (!block->operations)
			abort();
	}
	for (i = 0; i < block->instructions; i++)
		add_instruction(block, qemu_plugin_tb_get_insn(tb, i), i);
	if (order.marker && block->address == order.marker)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_marker, NO_REGISTERS, NULL);
	if (order.io && block->address == order.io)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_io, NO_REGISTERS, NULL);
	if (is_called(block->address))
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_call, READ_REGISTERS, block);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_execution, NO_REGISTERS, block);
	if (order.stacks) {
		find_function(block);
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_function, READ_REGISTERS, block);
	}
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
	close_stacks();
}

static int refuse(const char *why)
{
	fprintf(stderr, "sim: %s\n", why);
	return -1;
}

EXPORT int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv)
{
	const char *refusal = read_order(argc, argv);

	if (refusal)
		return refuse(refusal);
	if (!info->system_emulation)
		return refuse("only whole machines are simulated");
	vcpus = info->system.vcpus;
	if (vcpus > MAX_VCPUS)
		return refuse("more vCPUs than it has room for");
	if (order.calls_log && !open_calls(order.calls_log))
		return refuse("cannot write the file of called=, or this QEMU tells no arguments");
	if (order.stacks && !open_stacks(order.stacks, order.functions))
		return refuse("cannot read functions= or write stacks=, or this QEMU tells no registers");
	if (!set_levels(order.levels, vcpus, order.stride))
		return refuse("no levels of transfers");
	if (!order.record || !open_record(order.record))
		return refuse("cannot write the file of out=");
	qemu_plugin_register_vcpu_init_cb(id, on_vcpu);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
