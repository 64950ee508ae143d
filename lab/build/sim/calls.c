// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Calls of some functions, in order, with who called and what the first two arguments were.
 *
 * The output is text, numbers in hex but for the first one:
 *
 *	PHASE FUNCTION CALLER FIRST SECOND
 *	end
 *
 * PHASE counts the phases that had ended before (record.c), FUNCTION is where the function begins,
 * and CALLER where the block begins that was executed before it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* Of glib, and what is needed of qemu_plugin_reg_descriptor. */
struct g_array {
	char *data;
	unsigned int length;
};
struct described_register {
	void *handle;
	const char *name, *feature;
};

/* QEMU has them since 9.0; an older one loads the plugin all the same. */
#define WEAK __attribute__((weak))
WEAK struct g_array *qemu_plugin_get_registers(void);
WEAK int qemu_plugin_read_register(void *handle, struct g_array *value);
WEAK struct g_array *g_byte_array_new(void);
WEAK struct g_array *g_byte_array_set_size(struct g_array *array, unsigned int length);

#define MAX_CALLED 32

static uint64_t called[MAX_CALLED];
static unsigned int called_count;
static void *arguments[2];
static struct g_array *value;
static FILE *out;

/* What calls= says, addresses in hex; false for too many. */
bool set_called(const char *text)
{
	char *end;

	for (; called_count < MAX_CALLED; text = end + 1) {
		called[called_count++] = strtoull(text, &end, 16);
		if (*end != '/')
			return !*end;
	}
	return false;
}

bool open_calls(const char *path)
{
	if (!qemu_plugin_get_registers || !qemu_plugin_read_register)
		return false;
	out = fopen(path, "w");
	return out;
}

void close_calls(void)
{
	if (!out)
		return;
	fprintf(out, "end\n");
	fclose(out);
}

bool is_called(uint64_t address)
{
	unsigned int i;

	for (i = 0; i < called_count; i++)
		if (called[i] == address)
			return true;
	return false;
}

/* The registers of a function's first arguments; QEMU tells them once there is a vCPU. */
static void find_arguments(void)
{
	struct g_array *all = qemu_plugin_get_registers();
	const struct described_register *registers = (const void *)all->data;
	unsigned int i;

	for (i = 0; i < all->length; i++) {
		if (!strcmp(registers[i].name, "rdi"))
			arguments[0] = registers[i].handle;
		else if (!strcmp(registers[i].name, "rsi"))
			arguments[1] = registers[i].handle;
	}
	if (!arguments[0] || !arguments[1])
		abort();
	value = g_byte_array_new();
}

static uint64_t argument(unsigned int number)
{
	uint64_t found = 0;

	g_byte_array_set_size(value, 0);
	if (qemu_plugin_read_register(arguments[number], value) != sizeof(found))
		abort();
	memcpy(&found, value->data, sizeof(found));
	return found;
}

void note_call(unsigned int phase, uint64_t function, uint64_t caller)
{
	if (!value)
		find_arguments();
	fprintf(out, "%u %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64 "\n", phase, function,
		caller, argument(0), argument(1));
}
