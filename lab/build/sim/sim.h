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
 * order.c	what is asked for
 * turns.c	whose turn it is, and what time it is
 * carrier.c	one thread of the host's that executes all vCPUs
 * host.c	what QEMU calls to wait, to wake and to read clocks
 * lines.c	which vCPU has which cache line, and what moving it costs
 * core.c	how a core executes instructions out of order
 * decode.c	what an instruction is and depends on
 * spin.c	vCPUs that wait in a loop, which need not execute it
 * plugin.c	what the guest executes, what it costs, and which phase it is in
 * access.c	which accesses to memory may move a cache line, and how long the vCPU waits for it
 * record.c	what is written down of it
 * calls.c	which calls of some functions there were, and with which arguments
 * stacks.c	who calls whom
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
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

/* Move a time to another one, if that is later. */
static inline void later(uint64_t *time, uint64_t other)
{
	if (other > *time)
		*time = other;
}

/* --- order.c */

#define MAX_VARIANTS 8
#define MAX_ENTRIES 64
#define MAX_IDLE_STATES 8
#define MAX_CALLED 32

/* What is measured, and what things cost; times in this header's unit. */
struct order {
	const char *record, *calls_log, *levels, *stacks, *functions;
	uint64_t marker, io, programs, jobs, warm, ios, shortest, stride;
	uint64_t insn, pause, clock, interrupt, syscall;
	/* Where system calls enter the kernel, and then interrupts. */
	uint64_t entries[MAX_ENTRIES];
	unsigned int entry_count;
	/* From how long an idle vCPU is in a state, and how long it then takes to wake up. */
	struct idle_state {
		uint64_t residency, exit;
	} idle_states[MAX_IDLE_STATES];
	unsigned int idle_state_count;
	/* Functions whose calls are written down. */
	uint64_t called[MAX_CALLED];
	unsigned int called_count;
	/* Costs, in thousandths of the model's, each time that a run is measured. */
	struct costs {
		unsigned int transfers, insns;
	} variants[1 + MAX_VARIANTS];
	unsigned int variant_count;
};

extern struct order order;

const char *read_order(int argc, char **argv);

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
bool let_earlier_run(void);
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

enum access { LOAD, STORE, LOCKED, ACCESSES };
enum move { NO_MOVE, CLEAN, DIRTY, UPGRADE, MOVES };

/* What a machine does with lines, beside what a transfer takes. */
struct memory_model {
	uint64_t locked;		/* what a locked instruction takes when it has its line */
	uint64_t stay;			/* thousandths of its transfer that a line stays, on average */
	uint64_t read_stay;		/* the same of one that was read with ownership */
	uint64_t gap[ACCESSES];		/* the least time until a vCPU asks for another line */
	uint64_t upgrade_gap;		/* the same of a locked instruction whose line others hold, too */
	uint64_t reads_take_ownership;	/* of a line that another wrote */
	uint64_t awaits;		/* what is contended for is executed when its line comes */
};

extern struct memory_model memory;

int set_levels(const char *levels, unsigned int vcpus, unsigned int stride);
void scale_transfers(unsigned int thousandths);
void await_line(uint64_t address, unsigned int vcpu, enum access access, uint64_t begins);
uint64_t locked_time(unsigned int vcpu);
uint64_t touch(uint64_t address, unsigned int vcpu, enum access access, uint64_t begins,
	       enum move *move);

/* --- record.c */

/* The guest's kernel has the upper half of the addresses. */
#define KERNEL_HALF (1ULL << 63)

/* An instruction of the kernel that accesses memory. */
struct instruction {
	uint64_t address;
	bool locked;
	unsigned int index;		/* in its block */
	struct block *block;
	bool only_stores;		/* to its operand */
	bool accessed;			/* anything while something was measured */
	bool accesses_device;		/* what it accessed first was a device's register */
	bool has_operand;		/* in memory, at base + index * factor + displacement */
	signed char base, index_register;	/* -1 for none */
	unsigned char factor;
	int64_t displacement;
	uint64_t time;
	uint64_t moves[MOVES];
	struct instruction *next;
};

/* One per translation; a block that is translated again gets another one. */
struct block {
	uint64_t address;
	uint64_t instructions;
	uint64_t extra;		/* what it costs beside its instructions */
	uint64_t executed;
	uint64_t slept;
	uint64_t target;	/* where it ends with going to a fixed address; else 0 */
	uint64_t end;		/* where the next begins if it goes nowhere else */
	struct operation *operations;	/* of each instruction, where a core out of order executes it */
	bool pauses, reads_clock;
	unsigned int function;	/* that it is a part of (stacks.c) */
	bool enters, returns;	/* that function's first block; one that ends with its return */
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

bool open_calls(const char *path);
void close_calls(void);
bool is_called(uint64_t address);
uint64_t register_value(unsigned int number);
void note_call(unsigned int phase, uint64_t function, uint64_t caller);

/* --- stacks.c */

bool open_stacks(const char *path, const char *functions);
void close_stacks(void);
void find_function(struct block *block);
void follow_stack(unsigned int vcpu, const struct block *block);
void leave_kernel(unsigned int vcpu);
void end_stacks(unsigned int phase);

/* --- decode.c */

#define FLAGS 16
#define REGISTERS 17
#define ALL_REGISTERS ((1U << REGISTERS) - 1)

/* What an instruction depends on, as sets of registers; and its latency in cycles. */
struct operation {
	uint32_t reads, address, writes;
	uint8_t latency;
	bool serialises, branches;
};

void decode(const unsigned char *code, size_t size, uint64_t address, struct operation *operation);
bool is_locked(const unsigned char *code, size_t size);
bool is_return(const unsigned char *code, size_t size);
uint64_t direct_target(const unsigned char *code, size_t size, uint64_t address);
void decode_operand(const unsigned char *code, size_t size, struct instruction *insn);

/* --- core.c */

struct core_model {
	uint64_t window;	/* instructions that are executed at once; 0: in order */
	uint64_t cycle, insn;
	uint64_t width;		/* instructions that retire in a cycle */
	uint64_t load, refill;	/* cycles of a load, and after a wrong prediction */
};

extern struct core_model core_model;

static inline uint64_t block_cost(const struct block *block)
{
	return block->extra + block->instructions * core_model.insn;
}

void empty_cores(void);
void core_ends(unsigned int vcpu, const struct block *next);
void core_drains(unsigned int vcpu);
void core_begins(unsigned int vcpu, struct block *block);
uint64_t core_reaches(unsigned int vcpu, const struct instruction *insn);
void core_waited(unsigned int vcpu, uint64_t time);
uint64_t core_accesses(unsigned int vcpu, const struct instruction *insn, uint64_t address,
		       enum access access, bool writes, enum move *move);

/* --- spin.c */

void spin_block(unsigned int vcpu, const void *block);
uint64_t spin_pause(unsigned int vcpu, const void *block);
void spin_access(unsigned int vcpu, uint64_t address, bool changed);
void line_taken(uint64_t number, uint64_t holders);

/* --- plugin.c */

/* A guest boots, and starts programs; then its instructions are counted, or each run of fio warms
 * up, is measured and ends.
 */
enum stage { BOOTS, COUNTS, WARMS, MEASURES, ENDS };

extern enum stage stage;
/* The cost of the block that is being executed: time passes when it has been. */
extern uint64_t executing;

static inline bool follows_cores(void)
{
	return stage == MEASURES && core_model.window;
}

/* --- access.c */

bool is_simulated(uint64_t address);
void on_contended(unsigned int vcpu, void *insn);
void on_access(unsigned int vcpu, uint32_t info, uint64_t address, void *insn);

#endif
