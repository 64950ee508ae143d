// SPDX-License-Identifier: GPL-2.0-or-later
/* What the plugin is asked for, by its arguments NAME=VALUE. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

struct order order = { .levels = "1:0:0:0", .stride = 1, .variants = { { 1000, 1000 } }, .variant_count = 1 };

enum unit { COUNT, ADDRESS, NANOSECONDS, PICOSECONDS };

static const struct {
	const char *name;
	enum unit unit;
	uint64_t *target;
} numbers[] = {
	{ "marker", ADDRESS, &order.marker },	/* a block that the guest executes to end a phase */
	{ "io", ADDRESS, &order.io },		/* one that it executes for each I/O */
	{ "programs", COUNT, &order.programs },
	{ "jobs", COUNT, &order.jobs },
	{ "warm", COUNT, &order.warm },		/* I/Os before what is measured */
	{ "ios", COUNT, &order.ios },		/* I/Os that are measured, at least */
	{ "shortest", NANOSECONDS, &order.shortest },	/* and for how long */
	{ "quantum", NANOSECONDS, &quantum },
	{ "insn", PICOSECONDS, &order.insn },
	{ "pause", PICOSECONDS, &order.pause },
	{ "clock", PICOSECONDS, &order.clock },
	{ "interrupt", PICOSECONDS, &order.interrupt },
	{ "syscall", PICOSECONDS, &order.syscall },
	{ "stride", COUNT, &order.stride },	/* vCPU i is the machine's CPU i times that */
	{ "awaits", COUNT, &memory.awaits },
	{ "locked", PICOSECONDS, &memory.locked },
	{ "upgrade_gap", PICOSECONDS, &memory.upgrade_gap },
	{ "stay", COUNT, &memory.stay },
	{ "read_stay", COUNT, &memory.read_stay },
	{ "ownership", COUNT, &memory.reads_take_ownership },
	{ "window", COUNT, &core_model.window },
	{ "cycle", PICOSECONDS, &core_model.cycle },
	{ "width", COUNT, &core_model.width },
	{ "load", COUNT, &core_model.load },
	{ "refill", COUNT, &core_model.refill },
};

static const struct {
	const char *name;
	const char **target;
} texts[] = {
	{ "out", &order.record },
	{ "called", &order.calls_log },
	{ "stacks", &order.stacks },
	{ "functions", &order.functions },
	{ "levels", &order.levels },
};

static bool is_named(const char *argument, const char *name)
{
	size_t length = strlen(name);

	return !strncmp(argument, name, length) && argument[length] == '=';
}

/* Numbers with a slash between each two; returns how many there are, 0 for too many or none. */
static unsigned int read_list(const char *text, int base, uint64_t *found, unsigned int most)
{
	unsigned int count = 0;
	char *end;

	for (; count < most; text = end + 1) {
		found[count++] = strtoull(text, &end, base);
		if (*end != '/')
			return *end ? 0 : count;
	}
	return 0;
}

/* Pairs with a slash between each two. */
static bool read_variants(const char *text)
{
	struct costs *costs;
	int size;

	for (; order.variant_count <= MAX_VARIANTS; text += size + 1) {
		costs = &order.variants[order.variant_count++];
		if (sscanf(text, "%u:%u%n", &costs->transfers, &costs->insns, &size) != 2)
			return false;
		if (text[size] != '/')
			return !text[size];
	}
	return false;
}

/* The same, in nanoseconds. */
static bool read_idle_states(const char *text)
{
	struct idle_state *state;
	int size;

	for (; order.idle_state_count < MAX_IDLE_STATES; text += size + 1) {
		state = &order.idle_states[order.idle_state_count++];
		if (sscanf(text, "%" SCNu64 ":%" SCNu64 "%n", &state->residency, &state->exit, &size) != 2)
			return false;
		state->residency *= NS;
		state->exit *= NS;
		if (text[size] != '/')
			return !text[size];
	}
	return false;
}

static const char *read_lists(const char *argument, const char *value)
{
	unsigned int access, count;

	if (is_named(argument, "calls")) {
		order.called_count = read_list(value, 16, order.called, MAX_CALLED);
		return order.called_count ? NULL : "calls that are no addresses, or too many";
	}
	if (is_named(argument, "variants")) {
		return read_variants(value) ? NULL : "variants that are no pairs of numbers, or too many";
	}
	if (is_named(argument, "idle"))
		return read_idle_states(value) ? NULL : "idle states that are no pairs of numbers, or too many";
	if (is_named(argument, "gaps")) {
		count = read_list(value, 10, memory.gap, ACCESSES);
		for (access = 0; access < ACCESSES; access++)
			memory.gap[access] = memory.gap[access] * NS / 1000;
		return count == ACCESSES ? NULL : "gaps that are not one for each kind of access";
	}
	if (is_named(argument, "entries")) {
		order.entry_count = read_list(value, 16, order.entries, MAX_ENTRIES);
		return order.entry_count ? NULL : "entries that are no addresses, or too many";
	}
	return "an argument that it does not know";
}

static uint64_t read_number(const char *value, enum unit unit)
{
	uint64_t number = strtoull(value, NULL, unit == ADDRESS ? 16 : 10);

	if (unit == NANOSECONDS)
		return number * NS;
	return unit == PICOSECONDS ? number * NS / 1000 : number;
}

static const char *read_argument(const char *argument, const char *value)
{
	size_t i;

	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (is_named(argument, numbers[i].name)) {
			*numbers[i].target = read_number(value, numbers[i].unit);
			return NULL;
		}
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (is_named(argument, texts[i].name)) {
			*texts[i].target = value;
			return NULL;
		}
	return read_lists(argument, value);
}

/* Returns why it is refused, or NULL. */
const char *read_order(int argc, char **argv)
{
	int i;

	for (i = 0; i < argc; i++) {
		const char *value = strchr(argv[i], '=');
		const char *refusal = value ? read_argument(argv[i], value + 1) :
					      "an argument without a value";

		if (refusal)
			return refusal;
	}
	core_model.insn = order.insn;
	return NULL;
}
