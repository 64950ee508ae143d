// SPDX-License-Identifier: GPL-2.0-or-later
/* Spin locks: by tickets, by a queue (Mellor-Crummey and Scott), as Linux has them, and simple ones. */
#include "primitives.h"

/* --- tickets: the next one in the upper half of a word, the one served in the lower */

static inline void take_ticket(volatile uint32_t *lock)
{
	uint32_t found = fetch_add(lock, 0x10000);
	uint16_t own = found >> 16;

	while (*(volatile uint16_t *)lock != own)
		relax();
}

static inline void serve_next(volatile uint32_t *lock)
{
	volatile uint16_t *served = (volatile uint16_t *)lock;

	*served = *served + 1;
}

/* --- a queue of the waiting: the line of each points to the next, and says when it is its turn */

static inline void join_queue(volatile uint32_t *lock, unsigned int self)
{
	struct line *own = own_line(self);
	uint32_t before = self + 1;

	own->next = 0;
	own->value = 0;
	__asm__ volatile("xchgl %0, %1" : "+r"(before), "+m"(*lock) : : "memory");
	if (!before)
		return;
	own_line(before - 1)->next = own;
	while (!own->value)
		relax();
}

static inline void leave_queue(volatile uint32_t *lock, unsigned int self)
{
	struct line *own = own_line(self);

	if (!own->next) {
		if (compare_exchange(lock, self + 1, 0) == self + 1)
			return;
		while (!own->next)
			relax();
	}
	own->next->value = 1;
}

/* --- as Linux has them: a byte says that it is locked, another that one waits, the rest is the
 * queue's end. The first who waits spins on the word, the second at the head of the queue, all others on
 * lines of their own (kernel/locking/qspinlock.c).
 */
#define LOCKED 1U
#define PENDING 0x100U
#define TAIL 0xffff0000U

static __attribute__((noinline)) void wait_in_queue(volatile uint32_t *lock, unsigned int self)
{
	struct line *own = own_line(self), *next;
	uint16_t before = self + 1;
	uint32_t found;

	own->next = 0;
	own->value = 0;
	if (!*lock && !compare_exchange(lock, 0, LOCKED))
		return;
	__asm__ volatile("xchgw %0, %1"
			 : "+r"(before), "+m"(((volatile uint16_t *)lock)[1])
			 :
			 : "memory");
	if (before) {
		own_line(before - 1)->next = own;
		while (!own->value)
			relax();
	}
	while ((found = *lock) & ~TAIL)
		relax();
	if (found >> 16 == self + 1 && compare_exchange(lock, found, LOCKED) == found)
		return;
	*(volatile uint8_t *)lock = LOCKED;
	while (!(next = own->next))
		relax();
	next->value = 1;
}

static __attribute__((noinline)) void wait_for_lock(volatile uint32_t *lock, unsigned int self,
						     uint32_t found)
{
	bool first;

	if (found == PENDING) { /* it is being handed over */
		relax();
		found = *lock;
	}
	if (found & ~LOCKED) {
		wait_in_queue(lock, self);
		return;
	}
	__asm__ volatile("lock; btsl $8, %1; setnc %0"
			 : "=r"(first), "+m"(*lock)
			 :
			 : "memory", "cc");
	found = *lock & ~PENDING;
	if (!first || found & TAIL) {
		if (first)
			((volatile uint8_t *)lock)[1] = 0;
		wait_in_queue(lock, self);
		return;
	}
	while (*(volatile uint8_t *)lock)
		relax();
	*(volatile uint16_t *)lock = LOCKED;
}

static inline void take_qspin(volatile uint32_t *lock, unsigned int self)
{
	uint32_t found = compare_exchange(lock, 0, LOCKED);

	if (found)
		wait_for_lock(lock, self, found);
}

static inline void release_qspin(volatile uint32_t *lock)
{
	*(volatile uint8_t *)lock = 0;
}

/* --- simple ones: all who wait read one word until the lock is free, and those by test-and-set take
 * it in no order
 */

static inline __attribute__((always_inline)) void test_and_set(volatile uint32_t *lock, bool pause)
{
	uint32_t taken;

	do {
		while (*lock)
			if (pause)
				relax();
		taken = 1;
		__asm__ volatile("xchgl %0, %1" : "+r"(taken), "+m"(*lock) : : "memory");
	} while (taken);
}

static inline void take_ticket_busily(volatile uint32_t *lock)
{
	uint32_t own = fetch_add(&lock[0], 1);

	while (lock[1] != own)
		;
}

/* --- what is done with them */

enum kind { TICKET, QUEUE, QSPIN, TEST_AND_SET, TEST_AND_SET_PAUSE, TICKET_BUSY };

/* Nothing but a counter on another line is protected, and nothing is done between two turns. Whoever has
 * done its rounds first ends it, for others may never have a turn until then.
 */
static inline __attribute__((always_inline)) uint64_t count_up(enum kind kind)
{
	volatile uint32_t *lock = word_of(shared_line());
	volatile uint64_t *counter = &list(0)[0]->value;
	uint64_t round;

	for (round = 0; !stopped && round < rounds; round++) {
		if (kind == TICKET_BUSY)
			take_ticket_busily(lock);
		else
			test_and_set(lock, kind == TEST_AND_SET_PAUSE);
		++*counter;
		if (kind == TICKET_BUSY)
			lock[1] = lock[1] + 1;
		else
			*lock = 0;
	}
	stopped = true;
	return round;
}

static inline __attribute__((always_inline)) uint64_t
take_turns(unsigned int self, enum kind kind, enum operation operation)
{
	volatile uint32_t *lock = word_of(shared_line());
	uint64_t round, value = 1;

	for each_round(self, round) {
		if (kind == TICKET)
			take_ticket(lock);
		else if (kind == QUEUE)
			join_queue(lock, self);
		else
			take_qspin(lock, self);
		operate(operation, list(0));
		value = work(value, inside);
		if (kind == TICKET)
			serve_next(lock);
		else if (kind == QUEUE)
			leave_queue(lock, self);
		else
			release_qspin(lock);
		value = work(value, outside);
	}
	return end_rounds(self, round);
}

#define LOCK(name, kind, operation)				\
	uint64_t name(unsigned int self)			\
	{							\
		return take_turns(self, kind, operation);	\
	}

#define COUNTER(name, kind)					\
	uint64_t name(unsigned int self)			\
	{							\
		(void)self;					\
		return count_up(kind);				\
	}

LOCK(lock_ticket, TICKET, NOTHING)
LOCK(lock_mcs, QUEUE, NOTHING)
LOCK(lock_qspin, QSPIN, NOTHING)
LOCK(lock_qspin_stores, QSPIN, STORES)
LOCK(lock_qspin_updates, QSPIN, UPDATES)
COUNTER(count_test_and_set, TEST_AND_SET)
COUNTER(count_test_and_set_pause, TEST_AND_SET_PAUSE)
COUNTER(count_ticket, TICKET_BUSY)
