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

struct g_array *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(void *handle, struct g_array *value);
struct g_array *g_byte_array_new(void);
struct g_array *g_byte_array_set_size(struct g_array *array, unsigned int length);

#define GENERAL_REGISTERS 16
/* A function's first two arguments. */
#define RDI 7
#define RSI 6

static void *registers[GENERAL_REGISTERS];
static struct g_array *value;
static FILE *out;

bool open_calls(const char *path)
{
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

	for (i = 0; i < order.called_count; i++)
		if (order.called[i] == address)
			return true;
	return false;
}

/* The handles of the registers, as encoded; QEMU tells them once there is a vCPU. */
static void find_registers(void)
{
	static const char *const names[GENERAL_REGISTERS] = {
		"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
		"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
	};
	struct g_array *all = qemu_plugin_get_registers();
	const struct described_register *described = (const void *)all->data;
	unsigned int i, number;

	for (i = 0; i < all->length; i++)
		for (number = 0; number < GENERAL_REGISTERS; number++)
			if (!strcmp(described[i].name, names[number]))
				registers[number] = described[i].handle;
	value = g_byte_array_new();
}

/* What a general register holds, by its number in instructions. */
uint64_t register_value(unsigned int number)
{
	uint64_t found = 0;

	if (!value)
		find_registers();
	g_byte_array_set_size(value, 0);
	if (!registers[number] ||
	    qemu_plugin_read_register(registers[number], value) != sizeof(found))
		abort();
	memcpy(&found, value->data, sizeof(found));
	return found;
}

void note_call(unsigned int phase, uint64_t function, uint64_t caller)
{
	fprintf(out, "%u %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64 "\n", phase, function,
		caller, register_value(RDI), register_value(RSI));
}
