// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Who calls whom in the kernel, and what is executed on whose behalf.
 *
 * A function's return address stays where its call put it, so a frame is known by the stack pointer
 * that the function began with: it is gone as soon as the stack pointer is above. Every kernel stack
 * has frames of its own. Another stack is reached by a call, an interrupt's for one; or the same
 * function goes on there, as an entry does that leaves its small stack; or tasks are switched. System
 * calls, interrupts and threads begin a tree of their own.
 *
 * functions= names a file of the kernel's functions, ordered by address, numbers in hex:
 *
 *	START OWNER FLAGS	where it begins, and the function that it is a part of, itself else
 *
 * The output is text, for every phase in which instructions are counted:
 *
 *	phase NUMBER
 *	NODE PARENT FUNCTION INSTRUCTIONS CALLS	its own instructions, and how often it was entered from
 *						PARENT; a node comes after its parent, 0 is the root
 *	end
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim.h"

/* FLAGS: what only leads to another function, begins a tree, or switches to another task's stack. */
#define LEADS 1
#define BEGINS 2
#define SWITCHES 4

/* A task's stack has 16 KiB (THREAD_SIZE) and begins at a multiple of that. One that has more, or begins
 * elsewhere, is followed as several: each is reached by a call or within a function.
 */
#define STACK_BITS 14
/* Chosen: deeper than a kernel's calls are. */
#define DEEPEST 256
#define TABLE_BITS 14
#define NODE_BITS 20
#define ROOT 0
/* The base of a frame that another stack has. */
#define ELSEWHERE UINT64_MAX
#define RSP 4

struct function {
	uint64_t start;
	unsigned int owner, flags;
};

struct node {
	uint64_t instructions, calls;
	unsigned int parent, function;
};

struct frame {
	uint64_t base;	/* the stack pointer at the function's first instruction */
	unsigned int function, node;
};

struct stack {
	uint64_t number;
	unsigned int depth;
	struct frame frames[DEEPEST];
};

/* Where a vCPU is; no stack: in user space, or on its stack. */
struct place {
	struct stack *stack;
	unsigned int function, node;
	bool returned;
};

static FILE *out;
static struct function *functions;
static unsigned int function_count, node_count = 1;
static struct node nodes[1 << NODE_BITS];
static unsigned int node_table[2 << NODE_BITS];
static struct stack *stacks[1 << TABLE_BITS];
static struct place places[MAX_VCPUS];

static unsigned int function_at(uint64_t address)
{
	unsigned int low = 0, high = function_count;

	while (low < high) {
		unsigned int middle = (low + high) / 2;

		if (functions[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low; /* counted from 1; 0: none */
}

static bool read_functions(const char *path)
{
	FILE *in = fopen(path, "r");
	uint64_t start, owner;
	unsigned int flags, capacity = 0;

	if (!in)
		return false;
	while (fscanf(in, "%" SCNx64 " %" SCNx64 " %x\n", &start, &owner, &flags) == 3) {
		if (function_count == capacity) {
			capacity = 2 * capacity + 1024;
			functions = realloc(functions, capacity * sizeof(*functions));
			if (!functions)
				abort();
		}
		functions[function_count++] = (struct function){ start, 0, flags };
		functions[function_count - 1].owner = function_at(owner);
	}
	fclose(in);
	return function_count;
}

bool open_stacks(const char *path, const char *functions_path)
{
	if (!functions_path || !read_functions(functions_path))
		return false;
	out = fopen(path, "w");
	return out;
}

void close_stacks(void)
{
	if (!out)
		return;
	fprintf(out, "end\n");
	fclose(out);
}

/* What has to be known of a block that is translated. */
void find_function(struct block *block)
{
	unsigned int found = function_at(block->address);
	const struct function *function;

	if (!found)
		return;
	function = &functions[found - 1];
	block->function = function->owner ? function->owner : found;
	block->enters = block->function == found && function->start == block->address;
}

static struct stack *stack_of(uint64_t pointer)
{
	uint64_t number = pointer >> STACK_BITS;
	unsigned int i, place = spread(number) >> (64 - TABLE_BITS);

	if (!(pointer & KERNEL_HALF))
		return NULL;
	for (i = 0; i < 1 << TABLE_BITS; i++) {
		struct stack **found = &stacks[(place + i) % (1 << TABLE_BITS)];

		if (!*found) {
			*found = calloc(1, sizeof(**found));
			if (!*found)
				abort();
			(*found)->number = number;
		}
		if ((*found)->number == number)
			return *found;
	}
	abort();
}

static unsigned int child(unsigned int parent, unsigned int function)
{
	unsigned int mask = (2 << NODE_BITS) - 1;
	unsigned int i = spread((uint64_t)parent << 32 | function) >> (63 - NODE_BITS);

	for (;; i++) {
		unsigned int *found = &node_table[i & mask];

		if (!*found) {
			if (node_count == 1 << NODE_BITS)
				abort();
			nodes[node_count].parent = parent;
			nodes[node_count].function = function;
			*found = node_count++;
		}
		if (nodes[*found].parent == parent && nodes[*found].function == function)
			return *found;
	}
}

static void push(struct stack *stack, uint64_t base, unsigned int function, unsigned int node)
{
	if (stack->depth == DEEPEST)
		stack->depth = 0;
	stack->frames[stack->depth++] = (struct frame){ base, function, node };
}

/* Go back to a function that others of the same frame were jumped to from; whether there is one. */
static bool jump_back(struct stack *stack, uint64_t base, unsigned int function)
{
	unsigned int depth = stack->depth;

	for (; depth && stack->frames[depth - 1].base == base; depth--)
		if (stack->frames[depth - 1].function == function) {
			stack->depth = depth;
			return true;
		}
	return false;
}

static unsigned int top_node(const struct stack *stack)
{
	return stack->depth ? stack->frames[stack->depth - 1].node : ROOT;
}

/* A stack is reached from another one: frames that lie there go on, or it begins anew. */
static void come_to(struct stack *stack, const struct place *from, const struct block *block)
{
	unsigned int flags = functions[block->function - 1].flags;

	if (!from->function && !from->stack) {
		stack->depth = 0; /* from user space */
		return;
	}
	if (from->function)
		flags |= functions[from->function - 1].flags & SWITCHES;
	if (flags & (BEGINS | SWITCHES) || (stack->depth && top_node(stack) == from->node))
		return;
	if (block->enters || !from->stack || from->function == block->function) {
		stack->depth = 0;
		push(stack, ELSEWHERE, from->function, from->node);
	}
}

static void enter(struct stack *stack, uint64_t pointer, const struct block *block)
{
	bool begins = functions[block->function - 1].flags & BEGINS;
	unsigned int node;

	if (jump_back(stack, pointer, block->function))
		return;
	node = child(begins ? ROOT : top_node(stack), block->function);
	nodes[node].calls++;
	push(stack, pointer, block->function, node);
}

/* The function is in the middle: after a call or a jump, or nothing is known of its beginning. */
static void go_on(struct stack *stack, uint64_t pointer, const struct block *block)
{
	const struct frame *top = stack->depth ? &stack->frames[stack->depth - 1] : NULL;

	if (top && (top->function == block->function ||
		    jump_back(stack, top->base, block->function)))
		return;
	push(stack, pointer, block->function, child(top_node(stack), block->function));
}

static void leave_frames(struct stack *stack, uint64_t pointer)
{
	while (stack->depth && stack->frames[stack->depth - 1].base < pointer)
		stack->depth--;
}

static void find_place(struct place *place, const struct block *block)
{
	uint64_t pointer = register_value(RSP);
	struct stack *stack = stack_of(pointer);

	if (!stack) { /* an entry, before it has left the user's stack */
		place->stack = NULL;
		place->function = block->function;
		place->node = child(ROOT, block->function);
		nodes[place->node].calls += block->enters;
		return;
	}
	leave_frames(stack, pointer);
	if (stack != place->stack)
		come_to(stack, place, block);
	place->stack = stack;
	if (functions[block->function - 1].flags & LEADS) {
		place->node = top_node(stack);
		place->function = 0;
		return;
	}
	if (block->enters)
		enter(stack, pointer, block);
	else
		go_on(stack, pointer, block);
	place->node = top_node(stack);
	place->function = block->function;
}

/* A block of the kernel is about to be executed. */
void follow_stack(unsigned int vcpu, const struct block *block)
{
	struct place *place = &places[vcpu];

	if (!block->function)
		return;
	/* Within a function a frame stays as it is, but for a return from itself. */
	if (block->enters || place->returned || place->function != block->function)
		find_place(place, block);
	place->returned = block->returns;
	nodes[place->node].instructions += block->instructions;
}

/* A block of user space is: the kernel will be entered anew. */
void leave_kernel(unsigned int vcpu)
{
	places[vcpu] = (struct place){ .function = 0 };
}

/* Write the calls of a phase. The frames stay: functions that have begun return in the next one. */
void end_stacks(unsigned int phase)
{
	unsigned int i;

	if (!out)
		return;
	fprintf(out, "phase %u\n", phase);
	for (i = 1; i < node_count; i++) {
		struct node *node = &nodes[i];

		fprintf(out, "%u %u %" PRIx64 " %" PRIu64 " %" PRIu64 "\n", i, node->parent,
			functions[node->function - 1].start, node->instructions, node->calls);
		node->instructions = 0;
		node->calls = 0;
	}
}
