// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a read costs the block layer, by I/O scheduler and by number of processes.
 *
 *	primitives disk SCHEDULER,... PROCESSES,... DEPTH READS REPETITIONS [CPU,...]
 *
 * The disk is a loop disk that is about to be removed: its driver fails every request at once, so
 * nothing but the block layer's own work is left. A process stays on its CPU, keeps DEPTH reads of
 * 512 bytes in flight, and polls for their end, so it never sleeps. It is measured after half of
 * READS, until the first process has done READS more. The output is that of the other benchmarks,
 * with disk-SCHEDULER as the name: NANOSECONDS is the time of a read of all processes together.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/loop.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "primitives.h"

#define BLOCK 512
#define DISK_BYTES (1UL << 30)
#define MAX_DEPTH 64
#define PRIVATE _Alignas(2 * LINE)

/* As the kernel lays it out at the address that a context's name is (fs/aio.c). */
struct completions {
	uint32_t id, size;
	volatile uint32_t head, tail;
	uint32_t magic, features[2], bytes;
	struct io_event events[];
};

/* What the processes share. */
struct run {
	PRIVATE volatile uint32_t ready;
	PRIVATE volatile bool begun;
	PRIVATE volatile uint32_t warm;
	PRIVATE volatile bool over;
	PRIVATE volatile uint64_t began, ended;	/* nanoseconds */
	struct {
		PRIVATE volatile uint64_t done;
		volatile uint64_t before, after;
	} reads[MAX_THREADS];
};

static struct run *run;
static int disk, number;
static unsigned int depth;
static uint64_t wanted;

static void fail(const char *what)
{
	perror(what);
	_exit(1); /* what a parent has not printed yet is not the child's to print */
}

static uint64_t nanoseconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

/* The last process that is warm begins the measurement, the first that has done all ends it. */
static void note(unsigned int self, unsigned int processes, uint64_t done)
{
	unsigned int i;

	run->reads[self].done = done;
	if (done == wanted / 2 && __sync_add_and_fetch(&run->warm, 1) == processes) {
		for (i = 0; i < processes; i++)
			run->reads[i].before = run->reads[i].done;
		run->began = nanoseconds();
	}
	if (run->began && done - run->reads[self].before >= wanted &&
	    !__sync_lock_test_and_set(&run->over, true)) {
		run->ended = nanoseconds();
		for (i = 0; i < processes; i++)
			run->reads[i].after = run->reads[i].done;
	}
}

static void read_blocks(unsigned int self, unsigned int processes)
{
	static char blocks[MAX_DEPTH][BLOCK] __attribute__((aligned(4096)));
	static struct iocb reads[MAX_DEPTH];
	unsigned int idle[MAX_DEPTH], idle_count = 0, i;
	uint64_t state = FIRST_RANDOM + self, done = 0;
	struct completions *completions;
	aio_context_t context = 0;

	if (!stay_on_cpu(self))
		fail("a CPU");
	if (syscall(SYS_io_setup, depth, &context))
		fail("io_setup");
	completions = (struct completions *)context;
	memset(blocks, 1, sizeof(blocks));
	for (i = 0; i < depth; i++) {
		reads[i] = (struct iocb){
			.aio_lio_opcode = IOCB_CMD_PREAD,
			.aio_fildes = disk,
			.aio_data = i,
			.aio_buf = (uintptr_t)blocks[i],
			.aio_nbytes = BLOCK,
		};
		idle[idle_count++] = i;
	}
	__sync_add_and_fetch(&run->ready, 1);
	while (!run->begun)
		relax();
	while (!run->over) {
		if (idle_count) {
			struct iocb *next = &reads[idle[--idle_count]];

			next->aio_offset = next_random(&state) % (DISK_BYTES / BLOCK) * BLOCK;
			if (syscall(SYS_io_submit, context, 1L, &next) != 1)
				fail("io_submit");
		}
		if (completions->head == completions->tail) {
			if (!idle_count)
				relax();
			continue;
		}
		while (completions->head != completions->tail) {
			idle[idle_count++] = completions->events[completions->head].data;
			completions->head = (completions->head + 1) % completions->size;
			note(self, processes, ++done);
		}
	}
}

static void start(unsigned int self, unsigned int processes)
{
	pid_t process = fork();

	if (process < 0)
		fail("fork");
	if (process)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* it goes on as long as others do */
	read_blocks(self, processes);
	_exit(0);
}

/* Returns the nanoseconds of a read. */
static double measure(unsigned int processes)
{
	uint64_t reads = 0;
	unsigned int i;
	int status;

	memset(run, 0, sizeof(*run));
	for (i = 0; i < processes; i++)
		start(i, processes);
	while (run->ready < processes) {
		if (waitpid(-1, &status, WNOHANG) > 0)
			exit(1);
		usleep(1000);
	}
	run->begun = true;
	while (wait(&status) > 0)
		if (status)
			exit(1);
	for (i = 0; i < processes; i++)
		reads += run->reads[i].after - run->reads[i].before;
	return (double)(run->ended - run->began) / reads;
}

/* A loop disk over new memory, which is removed when it is closed. */
static void make_disk(void)
{
	struct loop_config config = { .block_size = BLOCK };
	int control = open("/dev/loop-control", O_RDWR), memory = memfd_create("disk", 0);
	char path[32];

	if (control < 0)
		fail("/dev/loop-control");
	if (memory < 0 || ftruncate(memory, DISK_BYTES))
		fail("memory for a disk");
	number = ioctl(control, LOOP_CTL_GET_FREE);
	snprintf(path, sizeof(path), "/dev/loop%d", number);
	disk = open(path, O_RDWR | O_DIRECT);
	if (disk < 0)
		fail(path);
	config.fd = memory;
	if (ioctl(disk, LOOP_CONFIGURE, &config))
		fail("LOOP_CONFIGURE");
	/* The only one that has it open keeps it, but from now on requests fail (loop_clr_fd()). */
	if (ioctl(disk, LOOP_CLR_FD, 0))
		fail("LOOP_CLR_FD");
}

static void use_scheduler(const char *name)
{
	char path[64];
	int file;

	snprintf(path, sizeof(path), "/sys/block/loop%d/queue/scheduler", number);
	file = open(path, O_WRONLY);
	if (file < 0 || write(file, name, strlen(name)) < 0)
		fail(name);
	close(file);
}

int measure_disk(int argc, char **argv)
{
	unsigned int processes[MAX_THREADS], count, repetitions, i;
	char *scheduler;

	if (argc < 6) {
		fprintf(stderr, "primitives disk SCHEDULER,... PROCESSES,... DEPTH READS REPETITIONS "
				"[CPU,...]\n");
		return 2;
	}
	count = read_numbers(argv[2], processes);
	depth = strtoul(argv[3], NULL, 10);
	wanted = strtoull(argv[4], NULL, 10);
	choose_cpus(argv[6]);
	run = mmap(NULL, sizeof(*run), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (run == MAP_FAILED || depth > MAX_DEPTH)
		fail("memory");
	make_disk();
	marker();
	for (scheduler = strtok(argv[1], ","); scheduler; scheduler = strtok(NULL, ",")) {
		use_scheduler(scheduler);
		for (i = 0; i < count; i++)
			for (repetitions = strtoul(argv[5], NULL, 10); repetitions; repetitions--)
				printf("disk-%s\t0\t%u\t%.3f\t0\t0\n", scheduler, processes[i],
				       measure(processes[i]));
		fflush(stdout);
	}
	marker();
	use_scheduler("none");
	return 0;
}
