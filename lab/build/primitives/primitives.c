// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What cache lines, atomic operations and locks cost, by number of threads.
 *
 *	primitives THREADS,... REPETITIONS ROUNDS [CPU,... [LONGER]]
 *
 * (And what disk.c says.)
 *
 * The same program runs on a machine and in a simulated guest. A line of output is one repetition,
 * with tabs:
 *
 *	NAME LINES THREADS NANOSECONDS BEFORE AFTER
 *
 * NANOSECONDS is the time of one operation: of all threads together for what they contend for, of
 * one thread for what it does alone, of one way for a ping-pong, and of all LINES for a transfer.
 * BEFORE and AFTER are ping-pongs around a repetition with two threads, which tell how far their
 * CPUs were from each other; else 0. Every repetition uses other cache lines, for what a line costs
 * depends on where its home is.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "primitives.h"

struct line arena[ARENA] __attribute__((aligned(4096)));
struct line *lines[ARENA];
unsigned int threads, line_count, inside, outside;
uint64_t rounds;
unsigned int cpus[MAX_THREADS];
volatile bool stopped;

static _Alignas(2 * LINE) volatile uint32_t arrived;
static _Alignas(2 * LINE) volatile uint32_t generation;
static struct {
	_Alignas(2 * LINE) uint64_t began, ended, done;
} results[MAX_THREADS];
static unsigned int repetitions;
/* How many times as many instructions a critical section has, in thousandths. A simulated instruction
 * takes less than a cycle even if it waits for the one before.
 */
static unsigned int longer = 1000;
static double tick;	/* nanoseconds of a tick of the TSC */
static body *running;

/* The simulation looks at memory between two calls of it. */
__attribute__((noinline, used)) void marker(void)
{
	__asm__ volatile("");
}

/* The same order in every run: where lines lie is no source of chance. */
static void shuffle_lines(void)
{
	static uint64_t state = FIRST_RANDOM;
	unsigned int i;

	for (i = ARENA / 2 - 1; i > 0; i--) {
		unsigned int other = next_random(&state) % (i + 1);
		struct line *line = lines[i];

		lines[i] = lines[other];
		lines[other] = line;
	}
}

/* New lines, as zeros; the first line_count of each list are linked. */
static void prepare_lines(void)
{
	unsigned int i, first;

	shuffle_lines();
	for (i = 0; i < USED_LINES; i++)
		memset(lines[i], 0, sizeof(*lines[i]));
	for (first = 0; first < LISTS * LIST_LINES; first += LIST_LINES)
		for (i = first; i + 1 < first + line_count; i++)
			lines[i]->next = lines[i + 1];
}

static void wait_for_all(void)
{
	uint32_t now = generation;

	if (__sync_add_and_fetch(&arrived, 1) == threads) {
		arrived = 0;
		__atomic_store_n(&generation, now + 1, __ATOMIC_SEQ_CST);
	}
	while (generation == now)
		relax();
}

bool stay_on_cpu(unsigned int self)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpus[self], &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

static void *take_part(void *number)
{
	unsigned int self = (uintptr_t)number;

	stay_on_cpu(self);
	wait_for_all();
	wait_for_all(); /* the first time all came from afar */
	results[self].began = read_tsc();
	results[self].done = running(self);
	results[self].ended = read_tsc();
	return NULL;
}

/* Let so many threads execute it; returns the nanoseconds that the first one took. */
static double execute(body *what, unsigned int count)
{
	pthread_t others[MAX_THREADS];
	pthread_attr_t small;
	unsigned int i;

	threads = count;
	running = what;
	stopped = false;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK); /* all memory is locked */
	for (i = 1; i < count; i++)
		if (pthread_create(&others[i], &small, take_part, (void *)(uintptr_t)i))
			exit(1);
	take_part(NULL);
	for (i = 1; i < count; i++)
		pthread_join(others[i], NULL);
	return (results[0].ended - results[0].began) * tick;
}

static double one_way(void)
{
	uint64_t wanted = rounds;
	double took;

	if (threads != 2)
		return 0;
	rounds = 200;
	prepare_lines();
	took = execute(ping_pong, 2) / rounds / 2;
	rounds = wanted;
	return took;
}

static int by_size(const void *one, const void *other)
{
	uint64_t first = *(const uint64_t *)one, second = *(const uint64_t *)other;

	return first < second ? -1 : first > second;
}

/* The mean of the middle half of what was sampled, in nanoseconds. */
static double middle_of_samples(void)
{
	uint64_t sum = 0;
	unsigned int i, first = sample_count / 4, last = sample_count - first;

	qsort(samples, sample_count, sizeof(samples[0]), by_size);
	for (i = first; i < last; i++)
		sum += samples[i];
	return sum * tick / (last - first);
}

static void measure(const struct primitive *primitive, unsigned int count, unsigned int of_lines)
{
	unsigned int repetition, i;

	line_count = of_lines;
	inside = primitive->inside * longer / 1000;
	outside = primitive->outside * longer / 1000;
	for (repetition = 0; repetition < repetitions; repetition++) {
		double before, took;
		uint64_t done = 0;

		threads = count;
		before = one_way();
		prepare_lines();
		sample_count = 0;
		took = execute(primitive->body, count);
		for (i = 0; i < count; i++)
			done += results[i].done; /* or nothing, of what fails */
		took = sample_count ? middle_of_samples() : took / (done ? done : 1);
		printf("%s\t%u\t%u\t%.3f\t%.1f\t%.1f\n", primitive->name, of_lines, count, took, before,
		       one_way());
	}
	fflush(stdout);
}

static void measure_all(const struct primitive *primitive, unsigned int count)
{
	static const unsigned int several[] = { 0, 1, 4, 16 };
	unsigned int i;

	if (!primitive->with_lines) {
		measure(primitive, count, 0);
		return;
	}
	for (i = 0; i < sizeof(several) / sizeof(several[0]); i++)
		measure(primitive, count, several[i]);
}

static void measure_with(unsigned int count)
{
	const struct primitive *primitive;

	for (primitive = primitives; primitive->name; primitive++)
		if (primitive->least <= count && count <= primitive->most)
			measure_all(primitive, count);
}

static void find_tick(void)
{
	struct timespec first, last;
	uint64_t began, ended;

	clock_gettime(CLOCK_MONOTONIC, &first);
	began = read_tsc();
	usleep(50000);
	ended = read_tsc();
	clock_gettime(CLOCK_MONOTONIC, &last);
	tick = ((last.tv_sec - first.tv_sec) * 1e9 + last.tv_nsec - first.tv_nsec) / (ended - began);
}

unsigned int read_numbers(const char *text, unsigned int *numbers)
{
	unsigned int count = 0;
	char *end;

	while (count < MAX_THREADS) {
		numbers[count++] = strtoul(text, &end, 10);
		if (*end != ',')
			break;
		text = end + 1;
	}
	return count;
}

void choose_cpus(const char *text)
{
	unsigned int i = text ? read_numbers(text, cpus) : 0;

	for (; i < MAX_THREADS; i++)
		cpus[i] = i;
}

static void begin(void)
{
	unsigned int i;

	for (i = 0; i < ARENA / 2; i++)
		lines[i] = &arena[2 * i]; /* no two that are fetched as a pair */
	memset(arena, 1, sizeof(arena));
}

int main(int argc, char **argv)
{
	unsigned int wanted[MAX_THREADS], count, i;

	if (argc > 1 && !strcmp(argv[1], "disk"))
		return measure_disk(argc - 1, argv + 1);
	if (argc < 4) {
		fprintf(stderr, "primitives THREADS,... REPETITIONS ROUNDS [CPU,... [LONGER]]\n");
		return 2;
	}
	count = read_numbers(argv[1], wanted);
	repetitions = strtoul(argv[2], NULL, 10);
	rounds = strtoul(argv[3], NULL, 10);
	choose_cpus(argv[4]);
	if (argc > 5)
		longer = strtoul(argv[5], NULL, 10);
	mlockall(MCL_CURRENT | MCL_FUTURE);
	find_tick();
	begin();
	marker();
	for (i = 0; i < count; i++)
		measure_with(wanted[i]);
	marker();
	return 0;
}
