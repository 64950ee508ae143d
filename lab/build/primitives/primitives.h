/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the parts of the benchmark share: primitives.c runs them; the others are them. */
#ifndef PRIMITIVES_H
#define PRIMITIVES_H

#include <stdbool.h>
#include <stdint.h>

#define LINE 64
#define MAX_THREADS 64
#define ARENA 8192
/* Each repetition uses so many lines: those of some lists, one after the other, then those of locks. */
#define LIST_LINES 16
#define LISTS 64
#define LOCK_LINES (1 + MAX_THREADS)
#define USED_LINES (LISTS * LIST_LINES + LOCK_LINES)
/* So many turns are taken on a line before the next one. */
#define TURNS 64
#define MAX_SAMPLES 4096
#define STACK 65536

struct line {
	struct line *volatile next;
	volatile uint64_t value;
	uint64_t rest[6];
};

/* A thread executes it; returns how often it did what is measured. */
typedef uint64_t body(unsigned int self);

struct primitive {
	const char *name;
	body *body;
	unsigned int least, most;	/* threads */
	unsigned int inside, outside;	/* instructions in a critical section, and after it */
	bool with_lines;
};

extern const struct primitive primitives[];
extern struct line *lines[];
extern unsigned int threads, line_count, inside, outside;
extern uint64_t rounds;
extern volatile bool stopped;
extern uint64_t samples[];
extern unsigned int sample_count;

body ping_pong;
body lock_ticket, lock_mcs, lock_qspin, lock_qspin_stores, lock_qspin_updates;
body count_test_and_set, count_test_and_set_pause, count_ticket;

extern unsigned int cpus[];

void marker(void);
unsigned int read_numbers(const char *text, unsigned int *numbers);
int measure_disk(int argc, char **argv);
/* Those of a list, or of none; the rest are numbered as threads are. */
void choose_cpus(const char *text);
/* Whether the caller is on the CPU of a thread from now on. */
bool stay_on_cpu(unsigned int self);

#define FIRST_RANDOM 88172645463325252ULL

/* The same numbers in every run, from the same state. */
static inline uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* The first thread does all its rounds; the others go on until it has. */
#define each_round(self, round) (round = 0; (self) ? !stopped : round < rounds; round++)

static inline uint64_t end_rounds(unsigned int self, uint64_t done)
{
	if (!self)
		stopped = true;
	return done;
}

/* The lines of a round. */
static inline struct line **list(uint64_t round)
{
	return &lines[round % LISTS * LIST_LINES];
}

/* A line that all contend for, and one of each thread. */
static inline struct line *shared_line(void)
{
	return lines[LISTS * LIST_LINES];
}

static inline struct line *own_line(unsigned int self)
{
	return lines[LISTS * LIST_LINES + 1 + self];
}

static inline volatile uint32_t *word_of(struct line *line)
{
	return (volatile uint32_t *)&line->value;
}

static inline uint64_t read_tsc(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return low | (uint64_t)high << 32;
}

static inline void relax(void)
{
	__asm__ volatile("pause" : : : "memory");
}

#define TEN(text) text text text text text text text text text text
#define FIFTY(text) TEN(text) TEN(text) TEN(text) TEN(text) TEN(text)

/*
 * Instructions that wait for one another, and for the value, which goes on from round to round, else
 * a core executes several rounds at once: one cycle each. By 3, for to rotate by 1 is two operations
 * on some processors, which what runs on the core's other thread delays.
 */
static inline uint64_t work(uint64_t value, unsigned int instructions)
{
	for (; instructions >= 50; instructions -= 50)
		__asm__ volatile(FIFTY("ror $3, %0\n\t") : "+r"(value) : : "cc");
	for (; instructions >= 10; instructions -= 10)
		__asm__ volatile(TEN("ror $3, %0\n\t") : "+r"(value) : : "cc");
	return value;
}

static inline uint32_t fetch_add(volatile uint32_t *word, uint32_t value)
{
	__asm__ volatile("lock; xaddl %0, %1" : "+r"(value), "+m"(*word) : : "memory", "cc");
	return value;
}

/* What the word was: it is changed if that is what was expected. */
static inline uint32_t compare_exchange(volatile uint32_t *word, uint32_t expected, uint32_t value)
{
	__asm__ volatile("lock; cmpxchgl %2, %1"
			 : "+a"(expected), "+m"(*word)
			 : "r"(value)
			 : "memory", "cc");
	return expected;
}

/* What is done with the lines of a list. */
enum operation { NOTHING, CHAIN, LOADS, STORES, UPDATES, ADDS, READ_BACKS };

static inline __attribute__((always_inline)) uint64_t
operate(enum operation operation, struct line **list)
{
	uint64_t sum = 0;
	unsigned int i;

	if (operation == CHAIN) {
		struct line *line = line_count ? list[0] : 0;

		for (; line; line = line->next)
			sum++;
		return sum;
	}
	for (i = 0; i < line_count; i++)
		switch (operation) {
		case LOADS:
			sum += list[i]->value;
			break;
		case STORES:
			list[i]->value = i;
			break;
		case UPDATES:
			list[i]->value++;
			break;
		case ADDS:
			fetch_add(word_of(list[i]), 1);
			break;
		case READ_BACKS: /* a store, and a load of another word of its line */
			list[i]->value = i;
			sum += !list[i]->next;
			break;
		default:
			break;
		}
	return sum;
}

#endif
