// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which vCPU has which cache line, and what moving it costs.
 *
 * Private caches without end, kept coherent as by MESI: a line has one owner that wrote it last, or
 * any number of holders that read it. Reading what another owns costs a dirty move, reading what
 * others hold a clean one, writing what others hold an upgrade, and what another owns a dirty move
 * again. What nobody else has is free. What a transfer costs depends on how near the other CPU is.
 */
#include <stdio.h>

#include "sim.h"

#define MAX_LEVELS 8
#define TABLE_BITS 20

struct line {
	uint64_t number;
	uint64_t holders;
	uint64_t written;	/* when the last store to it was made */
	bool owned;		/* by the only holder */
};

struct level {
	uint64_t cost[MOVES];
	uint64_t near[MAX_VCPUS];	/* for each vCPU, those that are no farther than this level */
};

static struct line table[1 << TABLE_BITS];
static uint64_t buffered[MAX_VCPUS];	/* when the last store will have been written */
static struct level levels[MAX_LEVELS];
static unsigned int level_count;
static unsigned int scale = 1000;

/* Levels from the nearest to the farthest, "CPUS:CLEAN:DIRTY:UPGRADE/..." in ns: so many
 * neighbouring CPUs of the machine are at that level. vCPU i is the machine's CPU i times stride.
 * Returns how many levels there are, 0 for a text that is none.
 */
int set_levels(const char *text, unsigned int vcpus, unsigned int stride)
{
	level_count = 0;
	while (level_count < MAX_LEVELS) {
		struct level *level = &levels[level_count];
		unsigned int cpus, i, j;
		double clean, dirty, upgrade;
		int used = 0;

		if (sscanf(text, "%u:%lf:%lf:%lf%n", &cpus, &clean, &dirty, &upgrade, &used) != 4 ||
		    !cpus)
			return 0;
		level->cost[CLEAN] = clean * NS;
		level->cost[DIRTY] = dirty * NS;
		level->cost[UPGRADE] = upgrade * NS;
		for (i = 0; i < vcpus; i++)
			for (j = 0; j < vcpus; j++)
				if (i * stride / cpus == j * stride / cpus)
					level->near[i] |= 1ULL << j;
		level_count++;
		if (!text[used])
			return level_count;
		if (text[used] != '/')
			return 0;
		text += used + 1;
	}
	return 0;
}

/* From now on every move costs so many thousandths of what its level says. */
void scale_costs(unsigned int thousandths)
{
	scale = thousandths;
}

/* What a move costs from the nearest of others, or to the farthest of them. */
static uint64_t cost(enum move move, unsigned int vcpu, uint64_t others)
{
	unsigned int i;

	for (i = 0; i < level_count - 1; i++) {
		uint64_t near = levels[i].near[vcpu] & others;

		if (move == UPGRADE ? near == others : near != 0)
			break;
	}
	return levels[i].cost[move] * scale / 1000;
}

/* Account for an access of a vCPU to an address; returns how long the vCPU waits for it.
 *
 * Loads wait for their line. Stores go to a store buffer, which writes them in order as their lines
 * come; a locked instruction waits for all of them. What a vCPU wrote nobody has before it was
 * written, so a line that several want goes from one to the next.
 */
uint64_t touch(uint64_t address, unsigned int vcpu, enum access access, enum move *move)
{
	uint64_t number = address >> LINE_BITS, self = 1ULL << vcpu, others, done = now;
	struct line *line = &table[spread(number) >> (64 - TABLE_BITS)];
	bool store = access != LOAD;

	*move = NO_MOVE;
	if (store && buffered[vcpu] > done)
		done = buffered[vcpu];
	if (line->number != number) {
		/* Never seen, or displaced by another: it comes from memory, which is free. */
		line_taken(line->number, line->holders);
		*line = (struct line){ .number = number };
	}
	others = line->holders & ~self;
	if (others && (store || !(line->holders & self))) {
		*move = line->owned ? DIRTY : store ? UPGRADE : CLEAN;
		if (line->written > done)
			done = line->written;
		done += cost(*move, vcpu, others);
		line->owned = false;
	}
	if (store) {
		if (others)
			line_taken(number, others);
		line->holders = 0;
		line->owned = true;
		line->written = done;
		buffered[vcpu] = done;
	}
	line->holders |= self;
	return access == STORE ? 0 : done - now;
}
