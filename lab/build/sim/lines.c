// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which vCPU has which cache line, and what moving it costs.
 *
 * Private caches without end, kept coherent as by MESI: a line has one owner that wrote it last, or
 * any number of holders that read it. Reading what another owns costs a dirty move, reading what
 * others hold a clean one, writing what others hold an upgrade, and what another owns a dirty move
 * again. What nobody else has is free. What a transfer costs depends on how near the other CPU is.
 *
 * Half of a transfer is the request, half the line. A line that a CPU got to write it stays there for
 * a while, so its owner can use it several times before it goes to the next. So does one that it got to
 * read it on some machines; on others the next may have it before the reader writes what it made of the
 * value. Who waits for a line that is contended for is first served who asked first.
 */
#include <stdio.h>

#include "sim.h"

#define MAX_LEVELS 8
#define TABLE_BITS 20
/* By up to so many thousandths; chosen: single transfers on two machines were up to 25 % off. */
#define VARIATION 150

struct line {
	uint64_t number;
	uint64_t holders;
	uint64_t written;	/* when the last store to it was made */
	uint64_t left;		/* when it left who had it before: nobody asks for it earlier */
	uint64_t kept;		/* until when it stays with who has it */
	bool owned;		/* by the only holder */
	bool unwritten;		/* its owner got it by a read */
};

struct level {
	uint64_t cost[MOVES];
	uint64_t near[MAX_VCPUS];	/* for each vCPU, those that are no farther than this level */
};

struct memory_model memory;

static struct line table[1 << TABLE_BITS];
static uint64_t buffered[MAX_VCPUS];	/* when the last store will have been written */
/* From when on a vCPU can ask for another line to read or to write it: a load does not wait for the request
 * of a store before it, which may begin much later.
 */
static uint64_t may_read[MAX_VCPUS], may_write[MAX_VCPUS];
static struct level levels[MAX_LEVELS];
static unsigned int level_count;
static unsigned int scale = 1000;
/* The line that a vCPU waits for, since when, and when it left its owner; and whether the time of its
 * locked instruction has passed.
 */
static struct {
	uint64_t number, since, left;
	bool locked;
} waits[MAX_VCPUS];

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
void scale_transfers(unsigned int thousandths)
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

/* The same numbers in every run. */
static uint64_t next_random(void)
{
	static uint64_t state = 88172645463325252ULL;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* What of a transfer is the request: of a machine of which no more is known, nothing. */
static uint64_t request(uint64_t price)
{
	return memory.awaits ? price / 2 : 0;
}

/* A transfer takes more or less, by where the home of its line is: else CPUs keep in step. */
static uint64_t vary(uint64_t price)
{
	if (!memory.awaits)
		return price;
	return price * (1000 - VARIATION + next_random() % (2 * VARIATION + 1)) / 1000;
}

/* For how long a line that took so long to come stays with who has it: now shorter, now longer, for
 * the state of the interconnect is not known, and CPUs that take turns at fixed intervals may do so
 * for ever.
 */
static uint64_t stay(uint64_t price, bool written)
{
	uint64_t most = 2 * price * (written ? memory.stay : memory.read_stay) / 1000;

	return most ? next_random() % most : 0;
}

static struct line *find(uint64_t number)
{
	return &table[spread(number) >> (64 - TABLE_BITS)];
}

static enum move needed(const struct line *line, uint64_t number, unsigned int vcpu, bool store)
{
	uint64_t self = 1ULL << vcpu;

	if (line->number != number || !(line->holders & ~self) || (!store && line->holders & self))
		return NO_MOVE;
	return line->owned ? DIRTY : store ? UPGRADE : CLEAN;
}

/* When a line that is asked for then leaves who has it. */
static uint64_t leaves(const struct line *line, uint64_t asked, uint64_t price, enum move move)
{
	if (memory.awaits)
		later(&asked, line->left);
	asked += request(price);
	later(&asked, line->written);
	if (memory.awaits && move != CLEAN)
		later(&asked, line->kept);
	return asked;
}

/* How many wait for a line and asked for it before. */
static unsigned int count_before(unsigned int vcpu)
{
	unsigned int i, count = 0;

	for (i = 0; i < MAX_VCPUS; i++)
		count += i != vcpu && waits[i].number == waits[vcpu].number &&
			 (waits[i].since < waits[vcpu].since ||
			  (waits[i].since == waits[vcpu].since && i < vcpu));
	return count;
}

/* Others go first who are earlier and wait for a line. */
static void let_waiting_run(uint64_t number, unsigned int vcpu)
{
	unsigned int i;

	for (i = 0; i < MAX_VCPUS; i++)
		if (i != vcpu && waits[i].number == number) {
			let_earlier_run();
			return;
		}
}

/* A locked instruction is executed when all is written that its vCPU stored before. */
static void await_stores(unsigned int vcpu)
{
	if (buffered[vcpu] <= now)
		return;
	now = buffered[vcpu];
	yield_turn();
}

/* A locked instruction begins when all before it has retired. One that has its line takes its time
 * before its access, so the line may leave between a load and the exchange of what was loaded; one that
 * waits for its line, after it.
 */
static void begin_locked(uint64_t number, unsigned int vcpu)
{
	await_stores(vcpu);
	waits[vcpu].locked = needed(find(number), number, vcpu, true) == NO_MOVE;
	if (waits[vcpu].locked)
		now += memory.locked;
}

/* What a locked instruction still takes when it has accessed its line. */
uint64_t locked_time(unsigned int vcpu)
{
	uint64_t time = waits[vcpu].locked ? 0 : memory.locked;

	waits[vcpu].locked = false;
	return time;
}

/* How long after a line the next may be asked for. */
static uint64_t gap(enum access access, enum move move)
{
	return access == LOCKED && move == UPGRADE ? memory.upgrade_gap : memory.gap[access];
}

/* Delay a request for a line until the vCPU can ask for it. */
static void await_request(unsigned int vcpu, enum access access, uint64_t *begins)
{
	if (access != STORE)
		later(begins, may_read[vcpu]);
	if (access != LOAD)
		later(begins, may_write[vcpu]);
}

/* A vCPU asked for a line; it can ask for the next so long after. */
static void note_request(unsigned int vcpu, enum access access, enum move move, uint64_t began)
{
	uint64_t next = began + gap(access, move);

	if (access != STORE)
		later(&may_read[vcpu], next);
	if (access != LOAD)
		later(&may_write[vcpu], next);
}

/* A vCPU is about to access an address, which it could begin with then. Wait until the line leaves
 * who has it, who may go on using it until then; what is accessed is what it left there. Stores go to
 * the store buffer and do not wait, but to those who asked before the line goes first.
 */
void await_line(uint64_t address, unsigned int vcpu, enum access access, uint64_t begins)
{
	uint64_t number = address >> LINE_BITS, time;
	enum move move;

	if (access == LOCKED)
		begin_locked(number, vcpu);
	let_waiting_run(number, vcpu);
	if (access == STORE)
		return;
	await_request(vcpu, access, &begins);
	waits[vcpu].number = number;
	waits[vcpu].since = begins;
	waits[vcpu].left = 0;
	while ((move = needed(find(number), number, vcpu, access != LOAD)) != NO_MOVE) {
		const struct line *line = find(number);
		uint64_t price = cost(move, vcpu, line->holders & ~(1ULL << vcpu));

		time = leaves(line, begins, price, move) + count_before(vcpu) * request(price);
		if (time > now) {
			now = time;
			yield_turn();
		} else if (!let_earlier_run()) {
			waits[vcpu].left = time;
			break;
		}
	}
	waits[vcpu].number = 0;
}

/* Account for an access of a vCPU to an address that begins then; returns when it is done: for a
 * store, when it is written.
 *
 * Stores go to a store buffer, which writes them in order as their lines come; a locked instruction
 * waits for all of them. What a vCPU wrote nobody has before it was written, so a line that several
 * want goes from one to the next.
 */
uint64_t touch(uint64_t address, unsigned int vcpu, enum access access, uint64_t begins,
	       enum move *move)
{
	uint64_t number = address >> LINE_BITS, self = 1ULL << vcpu, others, done = begins;
	uint64_t left = waits[vcpu].left;
	struct line *line = find(number);
	bool store = access != LOAD;

	waits[vcpu].left = 0;
	if (store && !memory.gap[access])
		later(&done, buffered[vcpu]);
	if (line->number != number) {
		/* Never seen, or displaced by another: it comes from memory, which is free. */
		line_taken(line->number, line->holders);
		*line = (struct line){ .number = number };
	}
	others = line->holders & ~self;
	*move = needed(line, number, vcpu, store);
	if (*move != NO_MOVE) {
		uint64_t price = vary(cost(*move, vcpu, others));

		if (memory.gap[access]) {
			await_request(vcpu, access, &done);
			note_request(vcpu, access, *move, done);
		}
		if (!left)
			left = leaves(line, done, price, *move);
		later(&done, left + price - request(price));
		if (*move != CLEAN) {
			line->left = left;
			line->kept = done + stay(price, store);
		}
		if (*move == DIRTY && !store && memory.reads_take_ownership && !line->unwritten) {
			line_taken(number, others);
			line->holders = 0;
			line->unwritten = true;
		} else {
			line->owned = false;
		}
	}
	if (store) {
		later(&done, buffered[vcpu]);
		if (others)
			line_taken(number, others);
		line->holders = 0;
		line->owned = true;
		line->unwritten = false;
		line->written = done;
		buffered[vcpu] = done;
	}
	line->holders |= self;
	return done;
}
