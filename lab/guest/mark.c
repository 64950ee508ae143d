// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What fio is given in a guest.
 *
 * A mark of one of fio's jobs, without a process. Fio runs the commands of exec_prerun and
 * exec_postrun by system(3), and the guest's fio finds this one before the C library's. The lab's
 * QEMU plugin watches sethostname(2).
 *
 * A process would cost more than what is measured, and its end disturbs other jobs: system()
 * blocks SIGCHLD in its own thread, so another one is woken for it. A fio of before May 2023 whose
 * io_getevents(2) is interrupted so, near a job's end, waits for more events than there will be, for
 * ever (https://github.com/axboe/fio/pull/1556).
 */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

/* The disk is watched while fio runs, as udev watches every block device: I/O pays for fsnotify. */
__attribute__((constructor)) static void watch(void)
{
	const char *disk = getenv("DISK");

	if (disk)
		inotify_add_watch(inotify_init1(IN_CLOEXEC), disk, IN_CLOSE_WRITE);
}

int system(const char *command)
{
	(void)command;
	return sethostname("lab", 3);
}
