// SPDX-License-Identifier: GPL-2.0-or-later
/* Instructions of one thread, words that several contend for, and lines that go from one to another. */
#include "primitives.h"

uint64_t samples[MAX_SAMPLES];
unsigned int sample_count;

/* Everything before is done, and nothing after has begun. A simulated locked instruction waits for
 * the stores before it; on a Zen 3 it does not, but MFENCE does.
 */
static inline void fence(void)
{
	__asm__ volatile("lock; addl $0, -64(%%rsp)\n\tmfence\n\tlfence" : : : "memory", "cc");
}

/* --- one thread */

static uint64_t cycle(unsigned int self)
{
	uint64_t round, value = 1;

	for each_round(self, round)
		value = work(value, 100);
	return end_rounds(self, 100 * round);
}

static uint64_t spin_wait(unsigned int self)
{
	uint64_t round;

	for each_round(self, round)
		relax();
	return end_rounds(self, round);
}

static uint64_t read_clock(unsigned int self)
{
	uint64_t round;

	for each_round(self, round)
		read_tsc();
	return end_rounds(self, round);
}

static uint64_t add_to(unsigned int self, struct line *line)
{
	uint64_t round;

	for each_round(self, round)
		fetch_add(word_of(line), 1);
	return end_rounds(self, round);
}

static uint64_t own_add(unsigned int self)
{
	return add_to(self, own_line(self));
}

/* --- a word that all contend for */

static uint64_t add(unsigned int self)
{
	return add_to(self, shared_line());
}

/* How often the word was another's before: adding to it says what it was. */
static uint64_t owners(unsigned int self)
{
	volatile uint32_t *word = word_of(shared_line());
	uint32_t last = -2;
	uint64_t round, changes = 0;

	for each_round(self, round) {
		uint32_t found = fetch_add(word, 1);

		changes += found != last + 1;
		last = found;
	}
	return end_rounds(self, changes);
}

static inline __attribute__((always_inline)) uint64_t add_if_unchanged(unsigned int self, bool failed)
{
	volatile uint32_t *word = word_of(shared_line());
	uint64_t round, failures = 0;

	for each_round(self, round) {
		uint32_t expected = *word, found;

		while ((found = compare_exchange(word, expected, expected + 1)) != expected) {
			expected = found;
			failures++;
		}
	}
	return end_rounds(self, failed ? failures : round);
}

static uint64_t exchanges(unsigned int self)
{
	return add_if_unchanged(self, false);
}

static uint64_t failed_exchanges(unsigned int self)
{
	return add_if_unchanged(self, true);
}

/* --- lines that go from one thread to another */

/* Two threads take turns on a word; returns when it is this one's turn. */
static volatile uint64_t *await_turn(unsigned int self, uint64_t round)
{
	volatile uint64_t *word = &list(round / TURNS)[0]->value;
	uint64_t lap = round / TURNS / LISTS, turn = 2 * (lap * TURNS + round % TURNS) + self;

	while (*word != turn)
		relax();
	return word;
}

uint64_t ping_pong(unsigned int self)
{
	uint64_t round;

	for (round = 0; round < rounds; round++)
		++*await_turn(self, round);
	return self ? 0 : 2 * rounds;
}

enum state { MODIFIED, READ, SHARED, CLEAN };

static void flush(struct line **list)
{
	unsigned int i;

	for (i = 0; i < line_count; i++)
		__asm__ volatile("clflush %0" : : "m"(list[i]->value));
}

/* Wait until the steps of a round before this one are done. */
static void await_step(uint64_t step)
{
	while (shared_line()->value != step)
		relax();
}

static void end_step(uint64_t step)
{
	fence();
	shared_line()->value = step + 1;
}

/* The second thread writes or reads lines, and the first one is timed when it uses them then. */
static inline __attribute__((always_inline)) uint64_t
transfer(unsigned int self, enum state state, enum operation operation)
{
	uint64_t round, step = 0, sum = 0;

	for (round = 0; round < rounds; round++, step += 4) {
		struct line **those = list(round);
		uint64_t began;

		if (self) {
			await_step(step + 1);
			operate(state == CLEAN ? LOADS : STORES, those);
			end_step(step + 1);
			await_step(step + 3);
			if (state == SHARED)
				sum += operate(LOADS, those);
			end_step(step + 3);
			continue;
		}
		await_step(step);
		if (state == CLEAN)
			flush(those);
		end_step(step);
		await_step(step + 2);
		if (state == READ || state == SHARED)
			sum += operate(LOADS, those);
		end_step(step + 2);
		await_step(step + 4);
		work(1, 50);
		fence();
		began = read_tsc();
		__asm__ volatile("lfence" : : : "memory");
		sum += operate(operation, those);
		fence();
		if (round >= LISTS && sample_count < MAX_SAMPLES)
			samples[sample_count++] = read_tsc() - began;
	}
	return sum | 1;
}

#define TRANSFER(name, state, operation)			\
	static uint64_t name(unsigned int self)			\
	{							\
		return transfer(self, state, operation);	\
	}

TRANSFER(modified_chain, MODIFIED, CHAIN)
TRANSFER(modified_loads, MODIFIED, LOADS)
TRANSFER(modified_stores, MODIFIED, STORES)
TRANSFER(modified_updates, MODIFIED, UPDATES)
TRANSFER(modified_adds, MODIFIED, ADDS)
TRANSFER(read_stores, READ, STORES)
TRANSFER(read_adds, READ, ADDS)
TRANSFER(shared_stores, SHARED, STORES)
TRANSFER(shared_adds, SHARED, ADDS)
TRANSFER(shared_read_backs, SHARED, READ_BACKS)
TRANSFER(clean_chain, CLEAN, CHAIN)

const struct primitive primitives[] = {
	{ "cycle", cycle, 1, 1, 0, 0, false },
	{ "pause", spin_wait, 1, 1, 0, 0, false },
	{ "clock", read_clock, 1, 1, 0, 0, false },
	{ "own-add", own_add, 1, 1, 0, 0, false },
	{ "add", add, 2, MAX_THREADS, 0, 0, false },
	{ "add-owners", owners, 2, MAX_THREADS, 0, 0, false },
	{ "compare-exchange", exchanges, 1, MAX_THREADS, 0, 0, false },
	{ "ping-pong", ping_pong, 2, 2, 0, 0, false },
	{ "modified-chain", modified_chain, 2, 2, 0, 0, true },
	{ "modified-loads", modified_loads, 2, 2, 0, 0, true },
	{ "modified-stores", modified_stores, 2, 2, 0, 0, true },
	{ "modified-updates", modified_updates, 2, 2, 0, 0, true },
	{ "modified-adds", modified_adds, 2, 2, 0, 0, true },
	{ "read-stores", read_stores, 2, 2, 0, 0, true },
	{ "read-adds", read_adds, 2, 2, 0, 0, true },
	{ "shared-stores", shared_stores, 2, 2, 0, 0, true },
	{ "shared-adds", shared_adds, 2, 2, 0, 0, true },
	{ "clean-chain", clean_chain, 2, 2, 0, 0, true },
	{ "ticket-50-50", lock_ticket, 1, MAX_THREADS, 50, 50, false },
	{ "ticket-200-500", lock_ticket, 1, MAX_THREADS, 200, 500, false },
	{ "mcs-50-50", lock_mcs, 1, MAX_THREADS, 50, 50, false },
	{ "mcs-200-500", lock_mcs, 1, MAX_THREADS, 200, 500, false },
	{ "qspin-50-50", lock_qspin, 1, MAX_THREADS, 50, 50, false },
	{ "qspin-200-200", lock_qspin, 1, MAX_THREADS, 200, 200, false },
	{ "qspin-200-1000", lock_qspin, 1, MAX_THREADS, 200, 1000, false },
	{ "qspin-500-500", lock_qspin, 1, MAX_THREADS, 500, 500, false },
	{ "qspin-stores", lock_qspin_stores, 1, MAX_THREADS, 50, 200, true },
	{ "qspin-updates", lock_qspin_updates, 1, MAX_THREADS, 50, 200, true },
	{ "test-and-set", count_test_and_set, 1, MAX_THREADS, 0, 0, false },
	{ "test-and-set-pause", count_test_and_set_pause, 1, MAX_THREADS, 0, 0, false },
	{ "ticket-busy", count_ticket, 1, MAX_THREADS, 0, 0, false },
	{ "compare-exchange-fails", failed_exchanges, 2, 2, 0, 0, false },
	{ "shared-read-backs", shared_read_backs, 2, 2, 0, 0, true },
	{ 0 },
};
