// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A clock for deterministic guests, and a multiprocessor: QEMU's vCPU threads take turns in the guest's time.
 *
 * One shared object is loaded twice into one QEMU, by LD_PRELOAD and as a TCG plugin. Every vCPU
 * has a clock of its own, which instructions, waiting and moving cache lines advance. Of QEMU's
 * vCPU threads and its main loop one at a time runs: the vCPU whose clock is the earliest, until
 * it is the quantum ahead of the next. Whose turn it is depends on nothing but the guest, so a
 * guest does the same, bit by bit, in every run and on any host.
 *
 * turns.c	whose turn it is, and what time it is
 * carrier.c	one thread of the host's that executes all vCPUs
 * host.c	what QEMU calls to wait, to wake and to read clocks
 * lines.c	which vCPU has which cache line, and what moving it costs
 * spin.c	vCPUs that wait in a loop, which need not execute it
 * plugin.c	what the guest executes, what it costs, and which phase it is in
 * record.c	what is written down of it
 * calls.c	which calls of some functions there were, and with which arguments
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* Time is counted in 1/256 ns: half a nanosecond an instruction must not be lost. */
#define NS 256ULL
#define NEVER UINT64_MAX
/* A cache line has 64 bytes. */
#define LINE_BITS 6
/* A set of vCPUs is one word. */
#define MAX_VCPUS 64

/* Spreads the bits of a word over its upper ones (Fibonacci hashing). */
static inline uint64_t spread(uint64_t word)
{
	return word * 0x9e3779b97f4a7c15ULL;
}

/* --- turns.c */

/* The clock of the vCPU that has the turn, and how far it may go. */
extern uint64_t now, limit;
/* How far a vCPU may be ahead of the slowest other one. */
extern uint64_t quantum;

bool in_main(void);
bool is_seated(void);
bool has_turn(void);
bool turns_have_begun(void);
unsigned int vcpu_in_turn(void);
uint64_t read_clock(void);

void take_main_seat(void);
void take_vcpu_seat(unsigned int vcpu);
void begin_turns(unsigned int vcpus);
void end_turns(void);
void yield_turn(void);
uint64_t nap(uint64_t round_time);
void rouse(unsigned int vcpu);

bool waits_by_turns(void);
void sit_down(const void *condition);
void sit_until_woken(void);
void wake(const void *condition);

bool main_was_taken(void);
void main_waits(uint64_t nanoseconds);
bool main_has_nothing_to_do(void);
void main_has_work(void);

/* --- carrier.c */

struct context {
	void *stack;	/* where it stopped */
	uint64_t thread;
};

void park(unsigned int vcpu, struct context *context);
unsigned int count_parked(void);
void carry_on(struct context *from, const struct context *to);

/* --- lines.c */

enum access { LOAD, STORE, LOCKED };
enum move { NO_MOVE, CLEAN, DIRTY, UPGRADE, MOVES };

int set_levels(const char *levels, unsigned int vcpus, unsigned int stride);
void scale_costs(unsigned int thousandths);
uint64_t touch(uint64_t address, unsigned int vcpu, enum access access, enum move *move);

/* --- record.c */

/* The guest's kernel has the upper half of the addresses. */
#define KERNEL_HALF (1ULL << 63)

/* An instruction of the kernel that accesses memory. */
struct instruction {
	uint64_t address;
	bool locked;
	uint64_t time;
	uint64_t moves[MOVES];
	struct instruction *next;
};

/* One per translation; a block that is translated again gets another one. */
struct block {
	uint64_t address;
	uint64_t instructions;
	uint64_t cost;
	uint64_t executed;
	uint64_t slept;
	uint64_t target;	/* where it ends with going to a fixed address; else 0 */
	bool pauses, reads_clock;
	struct block *next;
};

bool open_record(const char *path);
void close_record(void);
void note_executed(struct block *block);
void note_instruction(struct instruction *instruction);
void note_move(uint64_t line, uint64_t instruction);
void end_counted_phase(bool in_detail, uint64_t marks);
void end_simulated_phase(bool measured);

/* --- calls.c */

bool set_called(const char *text);
bool open_calls(const char *path);
void close_calls(void);
bool is_called(uint64_t address);
void note_call(unsigned int phase, uint64_t function, uint64_t caller);

/* --- spin.c */

void spin_block(unsigned int vcpu, const void *block);
uint64_t spin_pause(unsigned int vcpu, const void *block);
void spin_access(unsigned int vcpu, uint64_t address, bool changed);
void line_taken(uint64_t number, uint64_t holders);

#endif
