// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vCPUs that wait in a loop, which need not execute it.
 *
 * A loop with PAUSE in it that went round twice in the same way, changed nothing and read only
 * lines that its vCPU has, will go round so until another vCPU takes one of these lines, or an
 * interrupt comes. Until then its rounds take their time, but no work of the host.
 */
#include <stddef.h>

#include "sim.h"

/* Longer loops, or with more lines, are executed. */
#define MAX_BLOCKS 16
#define MAX_LINES 4

struct spin {
	const void *at;		/* the block with the PAUSE */
	uint64_t began;
	uint64_t path, last_path;
	unsigned int blocks;
	bool still;		/* nothing changed in this round */
	uint64_t lines[MAX_LINES];
	unsigned int line_count;
};

static struct spin spins[MAX_VCPUS];
static uint64_t napping;

static void follow(struct spin *spin, uint64_t step)
{
	spin->path = spread(spin->path ^ step);
}

/* A vCPU executes a block without PAUSE. */
void spin_block(unsigned int vcpu, const void *block)
{
	struct spin *spin = &spins[vcpu];

	if (!spin->at)
		return;
	follow(spin, (uintptr_t)block);
	if (++spin->blocks > MAX_BLOCKS)
		spin->at = NULL;
}

/* A vCPU is about to execute a block with PAUSE; returns for how long it slept instead. */
uint64_t spin_pause(unsigned int vcpu, const void *block)
{
	struct spin *spin = &spins[vcpu];
	uint64_t slept = 0;

	if (spin->at == block && spin->still && spin->path == spin->last_path) {
		napping |= 1ULL << vcpu;
		slept = nap(now - spin->began);
		napping &= ~(1ULL << vcpu);
		spin->path = 0;
	}
	spin->last_path = spin->at == block ? spin->path : 0;
	spin->at = block;
	spin->began = now;
	spin->path = 1;
	spin->blocks = 0;
	spin->still = true;
	spin->line_count = 0;
	return slept;
}

/* A vCPU accessed memory; changed says that this changed something, or was a change. */
void spin_access(unsigned int vcpu, uint64_t address, bool changed)
{
	struct spin *spin = &spins[vcpu];
	uint64_t number = address >> LINE_BITS;
	unsigned int i;

	if (!spin->at)
		return;
	for (i = 0; i < spin->line_count; i++)
		if (spin->lines[i] == number)
			break;
	if (changed || i == MAX_LINES) {
		spin->still = false;
	} else if (i == spin->line_count) {
		spin->lines[spin->line_count++] = number;
	}
	follow(spin, address);
}

/* Who held a line has it no more. One that read it in this round, and does not nap yet, must read it again
 * before it may: nobody tells when the line changes once more.
 */
void line_taken(uint64_t number, uint64_t holders)
{
	unsigned int vcpu, i;

	for (; holders; holders &= holders - 1) {
		vcpu = __builtin_ctzll(holders);
		for (i = 0; i < spins[vcpu].line_count; i++) {
			if (spins[vcpu].lines[i] != number)
				continue;
			spins[vcpu].still = false;
			if (napping & 1ULL << vcpu)
				rouse(vcpu);
		}
	}
}
