// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What QEMU calls to wait, to wake and to read clocks: LD_PRELOAD puts these functions before
 * those of the C library.
 *
 * QEMU's virtual clock is CLOCK_MONOTONIC, and its TSC the host's, read by an instruction:
 * get_clock() in include/qemu/timer.h, cpu_get_host_ticks() beside it. The instruction is made to
 * fault (prctl(2), PR_SET_TSC) and answered here. A fault takes microseconds, so the function that
 * the guest's own reading of its TSC calls is led here as well, where the host lets it be.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "sim.h"

#define SECOND 1000000000ULL
/* More than the vDSO of any kernel so far. */
#define VDSO_SIZE 16384

typedef int poll_function(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);

static int (*libc_wait)(pthread_cond_t *, pthread_mutex_t *);
static int (*libc_signal)(pthread_cond_t *);
static int (*libc_broadcast)(pthread_cond_t *);
static poll_function *libc_ppoll;
static uintptr_t vdso;

EXPORT int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	if (!waits_by_turns())
		return libc_wait(condition, mutex);
	sit_down(condition);
	pthread_mutex_unlock(mutex);
	sit_until_woken();
	pthread_mutex_lock(mutex);
	return 0;
}

EXPORT int pthread_cond_signal(pthread_cond_t *condition)
{
	wake(condition);
	return libc_signal(condition);
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *condition)
{
	wake(condition);
	return libc_broadcast(condition);
}

/* QEMU tells its main loop of work by a write of eight bytes to an eventfd. */
EXPORT ssize_t write(int fd, const void *data, size_t size)
{
	if (size == sizeof(uint64_t))
		main_has_work();
	return syscall(SYS_write, fd, data, size);
}

static int wait_before_turns(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
			     const sigset_t *mask)
{
	static const struct timespec at_once, shortly = { .tv_nsec = 1000000 };
	uint64_t nanoseconds =
		timeout ? timeout->tv_sec * SECOND + timeout->tv_nsec : NEVER;

	for (;;) {
		int ready;

		main_waits(nanoseconds);
		ready = libc_ppoll(fds, count, &shortly, mask);
		if (main_was_taken()) {
			main_has_nothing_to_do();
			return libc_ppoll(fds, count, &at_once, mask);
		}
		if (ready || timeout)
			return ready;
	}
}

EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		 const sigset_t *mask)
{
	static const struct timespec at_once;
	bool whole = !timeout || timeout->tv_sec || timeout->tv_nsec;

	if (!in_main() || !is_seated() || !whole)
		return libc_ppoll(fds, count, timeout, mask);
	if (!turns_have_begun())
		return wait_before_turns(fds, count, timeout, mask);
	main_waits(timeout ? timeout->tv_sec * SECOND + timeout->tv_nsec : NEVER);
	/* A guest that will never do anything again can still be ended from outside. */
	return libc_ppoll(fds, count, main_has_nothing_to_do() ? timeout : &at_once, mask);
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		       const sigset_t *mask, size_t size)
{
	(void)size;
	return ppoll(fds, count, timeout, mask);
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *time)
{
	uint64_t nanoseconds;

	if (clock != CLOCK_MONOTONIC || !is_seated())
		return syscall(SYS_clock_gettime, clock, time);
	/* Not from zero, which some code takes for "never". */
	nanoseconds = SECOND + read_clock() / NS;
	time->tv_sec = nanoseconds / SECOND;
	time->tv_nsec = nanoseconds % SECOND;
	return 0;
}

/* The length of the instruction that reads the TSC, 0 for any other. */
static unsigned int tsc_instruction(const unsigned char *code)
{
	if (code[0] != 0x0f)
		return 0;
	if (code[1] == 0x31)
		return 2; /* RDTSC */
	return code[1] == 0x01 && code[2] == 0xf9 ? 3 : 0; /* RDTSCP */
}

static uint64_t host_tsc(void)
{
	uint64_t ticks;

	prctl(PR_SET_TSC, PR_TSC_ENABLE);
	ticks = __builtin_ia32_rdtsc();
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	return ticks;
}

/* A thread read the TSC. It is the guest's time in nanoseconds, but the C library's own clocks
 * (the vDSO) are the host's.
 */
static void on_fault(int number, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	uintptr_t at = registers[REG_RIP];
	unsigned int length = info->si_code == SI_KERNEL ? tsc_instruction((void *)at) : 0;
	uint64_t ticks;

	if (!length) {
		signal(number, SIG_DFL); /* the access is made again, and ends QEMU */
		return;
	}
	ticks = at - vdso < VDSO_SIZE || !is_seated() ? host_tsc() : read_clock() / NS;
	registers[REG_RAX] = (uint32_t)ticks;
	registers[REG_RDX] = ticks >> 32;
	if (length == 3)
		registers[REG_RCX] = 0;
	registers[REG_RIP] += length;
}

/* What QEMU's cpu_get_ticks() (system/cpu-timers.c) returns with a TSC that began at zero. */
static uint64_t guest_ticks(void)
{
	return read_clock() / NS;
}

/* Lead all calls of a function of QEMU's own to another one: it begins with a jump from now on.
 * Without the function, or on a host that lets no program change its code, it stays as it is.
 */
static void lead(const char *name, uint64_t (*to)(void))
{
	unsigned char jump[] = { 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0 }; /* by way of RAX */
	unsigned char *from = dlsym(RTLD_DEFAULT, name);
	uintptr_t page_size = sysconf(_SC_PAGESIZE);
	void *page = (void *)((uintptr_t)from & -page_size);

	if (!from || mprotect(page, 2 * page_size, PROT_READ | PROT_WRITE | PROT_EXEC))
		return;
	memcpy(jump + 2, &to, sizeof(to));
	memcpy(from, jump, sizeof(jump));
	mprotect(page, 2 * page_size, PROT_READ | PROT_EXEC);
}

__attribute__((constructor)) static void preload(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };

	/* The C library has two versions of these; QEMU is linked to the newer. */
	libc_wait = dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.3.2");
	libc_signal = dlvsym(RTLD_NEXT, "pthread_cond_signal", "GLIBC_2.3.2");
	libc_broadcast = dlvsym(RTLD_NEXT, "pthread_cond_broadcast", "GLIBC_2.3.2");
	libc_ppoll = (poll_function *)dlsym(RTLD_NEXT, "ppoll");
	if (strncmp(program_invocation_short_name, "qemu-system-", 12))
		return; /* what starts QEMU */
	take_main_seat();
	vdso = getauxval(AT_SYSINFO_EHDR);
	sigaction(SIGSEGV, &action, NULL);
	/* A guest that shuffles its memory touches a little of every huge page, and the host clears
	 * all of it.
	 */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	lead("cpu_get_ticks", guest_ticks);
}
