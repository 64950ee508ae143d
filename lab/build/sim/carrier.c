// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One thread of the host's that carries the vCPUs' threads.
 *
 * Handing the turn from thread to thread by the host's scheduler takes microseconds, and there are
 * a hundred turns in an I/O. So one thread executes them all: it goes from one's stack and
 * thread-local storage to another's, as a coroutine does. What executed a thread before sleeps.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <sys/auxv.h>

#include "sim.h"

#define HWCAP2_FSGSBASE 2 /* asm/hwcap2.h: a program may set its FS itself */
#define PARKING_SIZE 16384

/* What switch_to() leaves on a stack. */
struct frame {
	uint32_t mxcsr;
	uint32_t fcw;
	uint64_t saved[6];
	void (*resume)(void);
};

static char parking[MAX_VCPUS][PARKING_SIZE] __attribute__((aligned(64)));
static atomic_uint parked;
__attribute__((used)) static bool fsgsbase;

/* Leave one stack for another. thread is the other's pthread_t, which is its FS. */
void switch_to(void **saved, void *stack, uint64_t thread);
asm("switch_to:\n\t"
    "push %rbp\n\tpush %rbx\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n\t"
    "sub $8, %rsp\n\tstmxcsr (%rsp)\n\tfnstcw 4(%rsp)\n\t"
    "mov %rsp, (%rdi)\n\tmov %rsi, %rsp\n\t"
    "cmpb $0, fsgsbase(%rip)\n\tje 1f\n\t"
    "wrfsbase %rdx\n\tjmp 2f\n"
    "1:\tmov $158, %eax\n\tmov $0x1002, %edi\n\tmov %rdx, %rsi\n\tsyscall\n" /* ARCH_SET_FS */
    "2:\tldmxcsr (%rsp)\n\tfldcw 4(%rsp)\n\tadd $8, %rsp\n\t"
    "pop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbx\n\tpop %rbp\n\tret");

/* It is the carrier who runs on this thread's stack and storage from now on: touch neither. */
static void sleep_for_ever(void)
{
	parked++;
	for (;;) {
		long result = 34; /* pause(2) */

		asm volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
	}
}

/* Give a vCPU's thread to the carrier. Returns when that first goes on with it. */
void park(unsigned int vcpu, struct context *context)
{
	struct frame *frame = (void *)(parking[vcpu] + PARKING_SIZE - sizeof(*frame) - 8);

	*frame = (struct frame){ .mxcsr = 0x1f80, .fcw = 0x37f, .resume = sleep_for_ever };
	switch_to(&context->stack, frame, context->thread);
}

unsigned int count_parked(void)
{
	return parked;
}

/* The carrier goes from one vCPU's thread to another's. */
void carry_on(struct context *from, const struct context *to)
{
	switch_to(&from->stack, to->stack, to->thread);
}

__attribute__((constructor)) static void examine(void)
{
	fsgsbase = getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE;
}
