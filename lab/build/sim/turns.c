// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Whose turn it is, and what time it is.
 *
 * Who may take turns has a seat: every vCPU and the main loop. One thread executes all vCPUs
 * (carrier.c), the main loop has its own. All that is here is changed only by who has the turn, so
 * it needs no lock; two things are told from outside: that a condition is signalled by a thread
 * without a seat (RCU's), and that the game begins.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim.h"

/* Chosen: long against the rounds of a loop, short against a tick. */
#define NAP (10000 * NS)

struct seat {
	atomic_uint turn;	/* a futex: the turn is given to this seat */
	struct context context;
	atomic_bool waiting;	/* on a condition, or the main loop for work */
	atomic_bool woken;
	const void *condition;	/* the last that it waited on; an idle vCPU's is its own */
	uint64_t clock;
	uint64_t asleep;	/* since when it naps */
	uint64_t round;		/* how long a round of its loop takes; 0 when it does not nap */
};

static struct seat seats[MAX_VCPUS + 1];
#define MAIN (&seats[MAX_VCPUS])

static __thread struct seat *own;
static struct seat *current;
static struct seat *carrier;	/* whose thread executes all vCPUs */
static unsigned int vcpus;
static atomic_uint arrived;
static enum { BEFORE, TURNS, AFTER } scheduling;

/* The main loop: not waiting, waiting as it would without us, or waiting for its turn. */
enum { AWAY, POLLING, TAKEN };
static atomic_int main_state;
static bool main_polls, main_told;
static uint64_t main_deadline = NEVER;

uint64_t now, limit, quantum = 1000 * NS;
static uint64_t floor_clock;	/* the earliest clock of those that run */
static uint64_t last_read;

bool in_main(void)
{
	return own == MAIN;
}

bool is_seated(void)
{
	return own && scheduling != AFTER;
}

bool has_turn(void)
{
	return scheduling == TURNS && own && own == current;
}

bool turns_have_begun(void)
{
	return scheduling != BEFORE;
}

unsigned int vcpu_in_turn(void)
{
	return current - seats;
}

/* The guest's time. It is the reader's own clock, but never earlier than what was read before:
 * a vCPU that is a little behind must not see time go backwards.
 */
uint64_t read_clock(void)
{
	uint64_t time = has_turn() && own != MAIN ? now : floor_clock;

	if (time > last_read)
		last_read = time;
	return last_read;
}

static void sleep_until_turn(struct seat *seat)
{
	while (!seat->turn)
		syscall(SYS_futex, &seat->turn, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	seat->turn = 0;
	if (carrier && seat != carrier && seat != MAIN)
		park(seat - seats, &seat->context);
}

static void give_turn(struct seat *seat)
{
	seat->turn = 1;
	syscall(SYS_futex, &seat->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void take_main_seat(void)
{
	own = MAIN;
}

void take_vcpu_seat(unsigned int vcpu)
{
	own = &seats[vcpu];
	own->context.thread = pthread_self();
	arrived++;
}

static bool runs(struct seat *seat)
{
	return !seat->waiting || seat->woken;
}

/* From now on this vCPU's thread executes all vCPUs; those of the others sit by now. */
static void carry_all(void)
{
	unsigned int i;

	carrier = own;
	for (i = 0; i < vcpus; i++)
		if (&seats[i] != own)
			give_turn(&seats[i]);
	while (count_parked() < vcpus - 1)
		usleep(100);
}

/* Begin, called by the vCPU that executes the guest's first block: all others sit by then, or
 * will soon, for only this one was started.
 */
void begin_turns(unsigned int count)
{
	unsigned int i;
	int polling = POLLING;

	vcpus = count;
	while (!atomic_compare_exchange_weak(&main_state, &polling, TAKEN)) {
		polling = POLLING;
		usleep(100);
	}
	MAIN->waiting = true;
	main_polls = true;
	while (arrived < vcpus)
		usleep(100);
	for (i = 0; i < vcpus; i++)
		while (&seats[i] != own && runs(&seats[i]))
			usleep(100);
	current = own;
	carry_all();
	scheduling = TURNS;
}

void end_turns(void)
{
	scheduling = AFTER;
}

/* The next, and how far it may go. The main loop comes first when there is something to do. */
static struct seat *choose(void)
{
	struct seat *first = NULL;
	uint64_t earliest = NEVER, second = NEVER;
	unsigned int i;

	for (i = 0; i < vcpus; i++) {
		struct seat *seat = &seats[i];

		if (!runs(seat))
			continue;
		if (seat->clock < earliest) {
			second = earliest;
			earliest = seat->clock;
			first = seat;
		} else if (seat->clock < second) {
			second = seat->clock;
		}
	}
	if (first && earliest > floor_clock)
		floor_clock = earliest;
	if (runs(MAIN) || (main_polls && (main_told || main_deadline <= floor_clock)))
		return MAIN;
	if (!first) {
		if (main_polls && main_deadline != NEVER)
			floor_clock = main_deadline;
		return MAIN;
	}
	limit = second == NEVER ? NEVER : second + quantum;
	if (main_polls && main_deadline < limit)
		limit = main_deadline > earliest ? main_deadline : earliest + 1;
	return first;
}

/* Who has the turn goes no further than to a time: somebody else may be earlier from now on. */
static void stop_by(uint64_t time)
{
	if (own != MAIN && limit > time)
		limit = time;
}

/* Let the next one run, and come back when it is this one's turn again. */
static void pass(void)
{
	struct seat *mine = own, *next;

	if (mine != MAIN)
		mine->clock = now;
	next = choose();
	if (next != MAIN)
		now = next->clock;
	if (next == mine)
		return;
	current = next;
	if (next == MAIN || mine == MAIN) {
		give_turn(next == MAIN ? MAIN : carrier);
		sleep_until_turn(mine == MAIN ? MAIN : carrier);
		next = current;
	}
	if (mine != MAIN && next != mine)
		carry_on(&mine->context, &next->context);
}

void yield_turn(void)
{
	if (has_turn())
		pass();
}

/* Let those run first whose clocks are earlier, if only by less than the quantum; returns whether
 * there were any.
 */
bool let_earlier_run(void)
{
	unsigned int i;

	if (!has_turn() || own == MAIN)
		return false;
	for (i = 0; i < vcpus; i++)
		if (&seats[i] != own && runs(&seats[i]) && seats[i].clock < now) {
			pass();
			return true;
		}
	return false;
}

/* The vCPU waits in a loop whose rounds take so long: it has no turn until something happens, or
 * for NAP at most, for not all is seen that could end the loop. Returns how long it slept.
 */
uint64_t nap(uint64_t round_time)
{
	struct seat *mine = own;

	if (!has_turn() || mine == MAIN)
		return 0;
	mine->asleep = now;
	mine->round = round_time;
	now += (NAP / round_time + 1) * round_time;
	pass();
	mine->round = 0;
	return now - mine->asleep;
}

/* Something happened that may end a vCPU's nap: it goes on with the first round that begins from
 * now on.
 */
void rouse(unsigned int vcpu)
{
	struct seat *seat = &seats[vcpu];
	uint64_t time, rounds;

	if (!has_turn() || !seat->round)
		return;
	time = read_clock();
	rounds = time > seat->asleep ? (time - seat->asleep + seat->round - 1) / seat->round : 0;
	if (seat->asleep + rounds * seat->round >= seat->clock)
		return;
	seat->clock = seat->asleep + rounds * seat->round;
	stop_by(seat->clock + quantum);
}

bool waits_by_turns(void)
{
	return is_seated() && (scheduling == TURNS || own != MAIN);
}

void sit_down(const void *condition)
{
	own->condition = condition;
	own->woken = false;
	own->waiting = true;
}

void sit_until_woken(void)
{
	if (has_turn())
		pass();
	else
		sleep_until_turn(own);
	own->waiting = false;
	own->woken = false;
}

/* How long a vCPU takes to wake up: it was in the deepest state that its time was worth. */
static uint64_t idle_exit(uint64_t idle)
{
	uint64_t time = 0;
	unsigned int i;

	for (i = 0; i < order.idle_state_count && order.idle_states[i].residency <= idle; i++)
		time = order.idle_states[i].exit;
	return time;
}

/* Whoever waits on a condition may run again, from now on by the clock of who wakes it. A thread
 * without a turn has no time of its own, and nothing that the guest sees depends on its calls.
 */
void wake(const void *condition)
{
	unsigned int i;

	for (i = 0; i <= MAX_VCPUS; i++) {
		struct seat *seat = &seats[i];

		if (seat->condition != condition)
			continue;
		if (!seat->waiting) {
			rouse(i);
			continue;
		}
		if (has_turn()) {
			uint64_t time = read_clock();

			if (seat->clock < time)
				seat->clock = time + (seat == MAIN ? 0 : idle_exit(time - seat->clock));
			stop_by(now + quantum);
		}
		if (!seat->woken) {
			seat->woken = true;
			if (scheduling != TURNS)
				give_turn(seat);
		}
	}
}

/* Before the turns begin: whether they began while the main loop waited as it always did. If so
 * it has its first turn when this returns.
 */
bool main_was_taken(void)
{
	int polling = POLLING;

	if (atomic_compare_exchange_strong(&main_state, &polling, AWAY))
		return false;
	sleep_until_turn(MAIN);
	main_polls = false;
	MAIN->waiting = false;
	return true;
}

/* The main loop waits for work, or for so many nanoseconds of the guest's time. */
void main_waits(uint64_t nanoseconds)
{
	main_deadline = nanoseconds == NEVER ? NEVER : read_clock() + nanoseconds * NS;
	if (scheduling == BEFORE) {
		main_state = POLLING;
		return;
	}
	main_polls = true;
	MAIN->waiting = true;
	pass();
	main_polls = false;
	MAIN->waiting = false;
}

/* Whether the main loop has its turn only because nobody else has anything to do. */
bool main_has_nothing_to_do(void)
{
	bool nothing = !main_told && main_deadline == NEVER;

	main_told = false;
	return nothing;
}

void main_has_work(void)
{
	if (!has_turn())
		return;
	main_told = true;
	stop_by(now); /* this vCPU's turn ends at its next block */
}
