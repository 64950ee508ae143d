// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What is written down of a guest, phase by phase.
 *
 * The output is text, addresses in hex, times in 1/256 ns. Instructions, for every phase:
 *
 *	phase NUMBER USER END MARKS	instructions in user space, when it ended, and how often the
 *					guest had executed the marker by then
 *	ADDRESS INSTRUCTIONS EXECUTIONS TARGET	of a kernel block, in order, and where it ends
 *					with a direct call or jump to, else 0
 *	0 INSTRUCTIONS 0 0		of the whole kernel where it is not told apart
 *
 * A simulated run, for every phase, and the rest for the one that is measured:
 *
 *	phase MEASURED END USER		when it ended, and the time of all vCPUs in user space
 *	ADDRESS TIME EXECUTIONS		of a kernel block, moved lines skipped
 *	ADDRESS TIME CLEAN DIRTY UPGRADE	of a kernel instruction that moved lines
 *	line ADDRESS INSTRUCTION MOVES	which lines these were
 *
 * And at the end of either, of all phases together:
 *
 *	executed ELSEWHERE UNITS	whether code outside of the kernel's image was executed, 1 or 0,
 *					and a hex digit for each four units of 16 bytes from the image's
 *					beginning: a bit, the lowest first, for each executed one
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define WATCHED_BITS 16

/* Where the image of the kernel begins (CONFIG_PHYSICAL_START), and more than its code has. Functions
 * begin at multiples of 16 bytes.
 */
#define IMAGE 0xffffffff81000000ULL
#define IMAGE_SIZE (1ULL << 26)
#define UNIT 16

/* How often an instruction moved a line; what the table has no room for is not told apart. */
struct watched {
	uint64_t line;
	uint64_t instruction;
	uint64_t moves;
};

/* Those that were executed in this phase: few of all that were translated since the guest began. */
static struct block *blocks;
static struct instruction *instructions;
static struct watched watched[1 << WATCHED_BITS];
static unsigned int phase;
static FILE *out;
/* Each byte has as many units as a hex digit, four. */
static unsigned char executed_units[IMAGE_SIZE / UNIT / 4];
static bool executed_elsewhere;

bool open_record(const char *path)
{
	out = fopen(path, "w");
	return out;
}

static void print_executed(void)
{
	size_t count = sizeof(executed_units), i;

	while (count && !executed_units[count - 1])
		count--;
	fprintf(out, "executed %d ", executed_elsewhere);
	for (i = 0; i < count; i++)
		fputc("0123456789abcdef"[executed_units[i]], out);
	fputc('\n', out);
}

void close_record(void)
{
	print_executed();
	fprintf(out, "end\n");
	fclose(out);
}

static void note_units(const struct block *block)
{
	uint64_t unit = (block->address - IMAGE) / UNIT, last = (block->end - 1 - IMAGE) / UNIT;

	if (block->address < IMAGE || last >= IMAGE_SIZE / UNIT) {
		executed_elsewhere = true;
		return;
	}
	for (; unit <= last; unit++)
		executed_units[unit / 4] |= 1 << unit % 4;
}

/* A block is executed for the first time in a phase. */
void note_executed(struct block *block)
{
	block->next = blocks;
	blocks = block;
	if (block->address & KERNEL_HALF)
		note_units(block);
}

void note_instruction(struct instruction *instruction)
{
	instruction->next = instructions;
	instructions = instruction;
}

void note_move(uint64_t line, uint64_t instruction)
{
	struct watched *place = &watched[spread(line ^ instruction << 1) >> (64 - WATCHED_BITS)];

	if (!place->moves)
		*place = (struct watched){ .line = line, .instruction = instruction };
	if (place->line == line && place->instruction == instruction)
		place->moves++;
}

static int by_address(const void *left, const void *right)
{
	const struct block *a = *(struct block *const *)left;
	const struct block *b = *(struct block *const *)right;

	if (a->address != b->address)
		return a->address > b->address ? 1 : -1;
	return (a->target > b->target) - (a->target < b->target);
}

static bool same_block(const struct block *a, const struct block *b)
{
	return a->address == b->address && a->target == b->target;
}

/* The blocks of the kernel, equal ones added up: how often QEMU translated one is not seen. */
static void print_instructions(size_t count)
{
	struct block **sorted = malloc((count + 1) * sizeof(*sorted)), *block;
	size_t i = 0;

	if (!sorted)
		abort();
	for (block = blocks; block; block = block->next)
		if (block->address & KERNEL_HALF)
			sorted[i++] = block;
	qsort(sorted, count, sizeof(*sorted), by_address);
	for (i = 0; i < count;) {
		const struct block *first = sorted[i];
		uint64_t instructions = 0, executed = 0;

		for (; i < count && same_block(first, sorted[i]); i++) {
			instructions += sorted[i]->instructions * sorted[i]->executed;
			executed += sorted[i]->executed;
		}
		fprintf(out, "%" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIx64 "\n", first->address,
			instructions, executed, first->target);
	}
	free(sorted);
}

static void print_times(void)
{
	struct instruction *insn;
	struct block *block;
	unsigned int i;

	for (block = blocks; block; block = block->next)
		if (block->address & KERNEL_HALF)
			fprintf(out, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", block->address,
				block_cost(block) * block->executed + block->slept, block->executed);
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

static void forget_blocks(void)
{
	for (; blocks; blocks = blocks->next) {
		blocks->executed = 0;
		blocks->slept = 0;
	}
}

/* Write the instructions of a phase, of the kernel in detail or in all. */
void end_counted_phase(bool in_detail, uint64_t marks)
{
	uint64_t user = 0, kernel = 0;
	size_t in_kernel = 0;
	struct block *block;

	for (block = blocks; block; block = block->next) {
		uint64_t sum = block->instructions * block->executed;

		if (block->address & KERNEL_HALF) {
			kernel += sum;
			in_kernel++;
		} else {
			user += sum;
		}
	}
	fprintf(out, "phase %u %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", phase++, user, now, marks);
	if (in_detail)
		print_instructions(in_kernel);
	else
		fprintf(out, "0 %" PRIu64 " 0 0\n", kernel);
	forget_blocks();
}

/* Write the end of a phase of a simulated run; of the one that is measured all there is. */
void end_simulated_phase(bool measured)
{
	struct instruction *insn;
	struct block *block;
	uint64_t user = 0;

	for (block = blocks; block; block = block->next)
		if (!(block->address & KERNEL_HALF))
			user += block_cost(block) * block->executed;
	fprintf(out, "phase %d %" PRIu64 " %" PRIu64 "\n", measured, now, user);
	if (measured) {
		print_times();
		for (insn = instructions; insn; insn = insn->next) {
			insn->time = 0;
			memset(insn->moves, 0, sizeof(insn->moves));
		}
		memset(watched, 0, sizeof(watched));
	}
	forget_blocks();
}
