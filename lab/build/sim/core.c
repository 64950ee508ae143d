// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A core that executes out of order, and retires in order.
 *
 * A vCPU's clock, now, is the time at which its last instruction retired: what others see of it, its
 * stores, happens then. Behind it runs the time of dispatch. A load begins when it is dispatched and
 * its address is known, which may be long before what precedes it has retired; so loads that do not
 * depend on one another overlap. While now is ahead of dispatch, in the shadow of a miss, it is
 * followed when each register is ready, instruction by instruction; else nothing is. Dispatch is held
 * back by the size of the window, by a branch that was predicted wrong, and by instructions that
 * serialise.
 */
#include <string.h>

#include "sim.h"

#define MAX_WINDOW 4096
#define LINES 16	/* that come at once, or came last */
#define WORDS 64	/* that were stored last */
#define PREDICTOR_BITS 12
#define PREDICTIONS (1 << PREDICTOR_BITS)

struct core {
	uint64_t dispatch;
	uint64_t ready[REGISTERS];
	uint64_t loaded;		/* when what the current instruction loads is there */
	uint64_t sequence;		/* instructions in this shadow */
	uint64_t retired[MAX_WINDOW];
	struct {
		uint64_t number, comes;
	} lines[LINES];
	unsigned int next_line;
	uint64_t last_line;		/* when the last line comes */
	struct {
		uint64_t address, ready;
	} stored[WORDS];
	struct block *block;
	unsigned int position;
	unsigned int epoch;
	bool shadow;
	bool spun;			/* a PAUSE was executed, and no branch since */
	uint64_t began, waited;		/* when the block did, and what its accesses added to now */
	uint32_t history;
	uint8_t local[PREDICTIONS], global[PREDICTIONS], chooser[PREDICTIONS];
};

struct core_model core_model;

static struct core cores[MAX_VCPUS];
static unsigned int epoch = 1;

/* Something else is measured from now on: all cores are empty. */
void empty_cores(void)
{
	epoch++;
}

static uint64_t ready_at(const struct core *core, uint32_t registers)
{
	uint64_t time = 0;

	for (; registers; registers &= registers - 1)
		later(&time, core->ready[__builtin_ctz(registers)]);
	return time;
}

/* The window is full until the instruction that was dispatched that long ago has retired. */
static void wait_for_window(struct core *core)
{
	if (core->sequence >= core_model.window)
		later(&core->dispatch, core->retired[(core->sequence - core_model.window) % MAX_WINDOW]);
}

/* The instruction at the position has been executed: what it wrote is ready, and it retires. */
static void retire(struct core *core)
{
	const struct operation *operation = &core->block->operations[core->position];
	uint64_t done, sources;
	uint32_t writes;

	wait_for_window(core);
	sources = ready_at(core, operation->reads);
	later(&sources, core->loaded);
	done = core->dispatch;
	if (sources > core->dispatch)
		done = sources + operation->latency * core_model.cycle;
	for (writes = operation->writes; writes; writes &= writes - 1)
		core->ready[__builtin_ctz(writes)] = done;
	now += core_model.cycle / core_model.width;
	later(&now, done);
	if (operation->serialises)
		core->dispatch = now;
	core->retired[core->sequence++ % MAX_WINDOW] = now;
	core->dispatch += core_model.insn;
	core->loaded = 0;
	core->position++;
	if (core->dispatch >= now)
		core->shadow = false;
	if (!core->shadow)
		later(&now, core->dispatch);
}

/* Go on to the instruction at a position of the block. */
static void go_on(struct core *core, unsigned int position)
{
	while (core->shadow && core->position < position)
		retire(core);
	if (core->position < position) {
		core->dispatch += (position - core->position) * core_model.insn;
		core->position = position;
		core->loaded = 0;
		later(&now, core->dispatch);
	}
	if (core->shadow)
		wait_for_window(core);
}

static void begin_shadow(struct core *core)
{
	if (core->shadow || now <= core->dispatch)
		return;
	core->shadow = true;
	core->sequence = 0;
}

/* A counter of two bits: from 2 on it expects that a branch is taken. */
static bool expects(uint8_t counter)
{
	return counter >= 2;
}

static void learn(uint8_t *counter, bool taken)
{
	if (taken)
		*counter += *counter < 3;
	else
		*counter -= *counter > 0;
}

/* Whether a branch went as expected: by its own past or by that of all, whichever was right more often
 * (S. McFarling, "Combining Branch Predictors", 1993).
 */
static bool predict(struct core *core, uint64_t address, bool taken)
{
	unsigned int at = spread(address) >> (64 - PREDICTOR_BITS);
	uint8_t *local = &core->local[at], *chooser = &core->chooser[at];
	uint8_t *global = &core->global[(at ^ core->history) % PREDICTIONS];
	bool locally = expects(*local) == taken, globally = expects(*global) == taken;
	bool right = expects(*chooser) ? globally : locally;

	if (locally != globally)
		learn(chooser, globally);
	learn(local, taken);
	learn(global, taken);
	core->history = core->history << 1 | taken;
	return right;
}

static void end_branch(struct core *core, const struct block *next)
{
	bool taken = next->address != core->block->end;
	bool right = predict(core, core->block->end, taken);
	uint64_t known;

	/* That which leaves a loop with PAUSE is the first after it. */
	if (core->spun)
		right = false;
	core->spun = false;
	if (right || !core->shadow)
		return;
	known = core->ready[FLAGS] + core_model.refill * core_model.cycle;
	if (known > core->dispatch) {
		core->dispatch = known;
		later(&now, known);
	}
}

static void empty(struct core *core)
{
	core->epoch = epoch;
	core->block = NULL;
	core->shadow = core->spun = false;
	core->last_line = 0;
	memset(core->lines, 0, sizeof(core->lines));
	memset(core->stored, 0, sizeof(core->stored));
}

/* The block that a vCPU executed has been, the next is about to be. */
void core_ends(unsigned int vcpu, const struct block *next)
{
	struct core *core = &cores[vcpu];
	struct block *block = core->block;

	if (core->epoch != epoch || !block) {
		empty(core);
		return;
	}
	if (block->operations) {
		go_on(core, block->instructions);
		if (block->operations[block->instructions - 1].branches)
			end_branch(core, next);
	} else {
		core->dispatch += block->instructions * core_model.insn;
	}
	core->dispatch += block->extra;
	later(&now, core->dispatch);
	if (core->dispatch >= now)
		core->shadow = false;
	if (!core->shadow)
		core->dispatch = now;
	/* Less than nothing where instructions passed in the shadow of a miss. */
	block->slept += now - core->began - block_cost(block) - core->waited;
	core->block = NULL;
}

/* All is done that a vCPU began: it is about to sleep, or slept. */
void core_drains(unsigned int vcpu)
{
	cores[vcpu].dispatch = now;
	cores[vcpu].shadow = false;
}

void core_begins(unsigned int vcpu, struct block *block)
{
	struct core *core = &cores[vcpu];

	core->block = block;
	core->spun |= block->pauses;
	core->position = 0;
	core->loaded = 0;
	core->waited = 0;
	core->began = now;
	if (!core->shadow || !block->operations)
		core_drains(vcpu);
}

static void note_line(struct core *core, uint64_t number, uint64_t comes)
{
	later(&core->last_line, comes);
	core->lines[core->next_line].number = number;
	core->lines[core->next_line].comes = comes;
	core->next_line = (core->next_line + 1) % LINES;
}

static uint64_t still_comes(const struct core *core, uint64_t number)
{
	uint64_t time = 0;
	unsigned int i;

	for (i = 0; i < LINES; i++)
		if (core->lines[i].number == number)
			later(&time, core->lines[i].comes);
	return time;
}

/* When the current instruction can ask for its line: its address must be known. */
static uint64_t begins(const struct core *core, const struct operation *operation)
{
	uint64_t time = core->dispatch;

	if (core->shadow)
		later(&time, ready_at(core, operation->address));
	return time;
}

static void load(unsigned int vcpu, struct core *core, const struct operation *operation,
		 uint64_t address, enum move *move)
{
	uint64_t number = address >> LINE_BITS, word = address >> 3;
	uint64_t began = begins(core, operation), done;

	done = touch(address, vcpu, LOAD, began, move);
	if (*move != NO_MOVE)
		note_line(core, number, done);
	else if (core->last_line > began && core->stored[word % WORDS].address != word)
		later(&done, still_comes(core, number));
	if (core->stored[word % WORDS].address == word)
		later(&done, core->stored[word % WORDS].ready);
	if (done > core->dispatch)
		done += core_model.load * core_model.cycle;
	later(&core->loaded, done);
	later(&now, done);
	begin_shadow(core);
}

static void store(unsigned int vcpu, struct core *core, const struct operation *operation,
		  uint64_t address, enum move *move)
{
	uint64_t word = address >> 3, time = core->dispatch, came;

	core->stored[word % WORDS].address = word;
	core->stored[word % WORDS].ready = 0;
	if (core->shadow) {
		later(&time, ready_at(core, operation->reads | operation->address));
		later(&time, core->loaded);
		core->stored[word % WORDS].ready = time;
		later(&time, now);
	}
	now = time;
	came = touch(address, vcpu, STORE, now, move);
	/* What others hold, too, can be read while it is upgraded. */
	if (*move == CLEAN || *move == DIRTY)
		note_line(core, address >> LINE_BITS, came);
}

/* The part of a locked instruction that reads, and then the part that writes. */
static void lock(unsigned int vcpu, struct core *core, const struct operation *operation,
		 uint64_t address, bool writes, enum move *move)
{
	uint64_t done;

	if (writes) {
		now += locked_time(vcpu);
		done = touch(address, vcpu, LOCKED, now, move);
	} else {
		if (core->shadow)
			later(&now, ready_at(core, operation->reads));
		done = touch(address, vcpu, LOCKED, begins(core, operation), move);
		if (*move != NO_MOVE)
			note_line(core, address >> LINE_BITS, done);
	}
	later(&now, done);
	later(&core->loaded, now);
	begin_shadow(core);
}

/* When the access of an instruction that is about to be executed could begin. */
uint64_t core_reaches(unsigned int vcpu, const struct instruction *insn)
{
	struct core *core = &cores[vcpu];

	if (core->block != insn->block)
		return now;
	go_on(core, insn->index);
	return begins(core, &insn->block->operations[insn->index]);
}

/* It had to wait so long for the line of such an access. */
void core_waited(unsigned int vcpu, uint64_t time)
{
	struct core *core = &cores[vcpu];

	if (!core->block || !time)
		return;
	core->waited += time;
	begin_shadow(core);
}

/* An instruction accesses memory; returns by how much that made the vCPU's clock advance. */
uint64_t core_accesses(unsigned int vcpu, const struct instruction *insn, uint64_t address,
		       enum access access, bool writes, enum move *move)
{
	struct core *core = &cores[vcpu];
	const struct operation *operation;
	uint64_t before;

	if (core->block != insn->block) { /* of a block that QEMU cut short */
		before = now;
		later(&now, touch(address, vcpu, access, now, move));
		core->dispatch = now;
		return now - before;
	}
	operation = &insn->block->operations[insn->index];
	go_on(core, insn->index);
	before = now;
	if (access == LOCKED)
		lock(vcpu, core, operation, address, writes, move);
	else if (access == LOAD)
		load(vcpu, core, operation, address, move);
	else
		store(vcpu, core, operation, address, move);
	core->waited += now - before;
	return now - before;
}
