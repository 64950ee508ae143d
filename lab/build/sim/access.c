// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Accesses to memory while something is measured: which of them may move a cache line, and how long the
 * vCPU waits for it.
 */
#include "qemu.h"
#include "sim.h"

bool is_simulated(uint64_t address)
{
	return order.programs || address & KERNEL_HALF;
}

static uint64_t operand_address(const struct instruction *insn)
{
	uint64_t address = insn->displacement;

	if (insn->base >= 0)
		address += register_value(insn->base);
	if (insn->index_register >= 0)
		address += register_value(insn->index_register) * insn->factor;
	return address;
}

/* An instruction is about to be executed that is locked, or accesses what others write: when it is, it
 * finds what those left there who had the line before, and those who come first find what was there.
 */
void on_contended(unsigned int vcpu, void *data)
{
	struct instruction *insn = data;
	enum access access = insn->locked ? LOCKED : insn->only_stores ? STORE : LOAD;
	uint64_t address, reached, began, cost = executing;

	(void)vcpu;
	if (stage != MEASURES ||
	    !(insn->locked || insn->moves[DIRTY] || (insn->only_stores && insn->moves[UPGRADE])))
		return;
	address = operand_address(insn);
	if (!is_simulated(address))
		return;
	executing = 0; /* others will execute */
	reached = follows_cores() ? core_reaches(vcpu_in_turn(), insn) : now;
	began = now;
	await_line(address, vcpu_in_turn(), access, reached);
	core_waited(vcpu_in_turn(), now - began);
	executing = cost;
	insn->time += now - began;
}

/* Returns how long the vCPU waits for an access: loads wait for their line, and what is locked is
 * read first, and written then.
 */
static uint64_t access_in_order(uint64_t address, enum access access, bool writes, enum move *move)
{
	uint64_t before = now, done;

	if (access == LOCKED && writes)
		now += locked_time(vcpu_in_turn());
	done = touch(address, vcpu_in_turn(), access, now, move);
	if (access != STORE)
		now = done;
	return now - before;
}

/* Whether an instruction accesses a device's registers, such as those of each CPU's interrupt controller,
 * which have one address: no cache has them. To ask takes long, and what an instruction accesses first
 * it accesses always.
 */
static bool accesses_device(struct instruction *insn, memory_info info, uint64_t address)
{
	const struct qemu_plugin_hwaddr *place;

	if (!insn->accessed) {
		place = qemu_plugin_get_hwaddr(info, address);
		insn->accesses_device = place && qemu_plugin_hwaddr_is_io(place);
		insn->accessed = true;
	}
	return insn->accesses_device;
}

void on_access(unsigned int vcpu, memory_info info, uint64_t address, void *data)
{
	struct instruction *insn = data;
	enum move move;
	enum access access = LOAD;
	bool writes = qemu_plugin_mem_is_store(info);
	uint64_t cost;

	(void)vcpu;
	if (stage != MEASURES)
		return;
	if (!is_simulated(address) || accesses_device(insn, info, address)) {
		spin_access(vcpu_in_turn(), address, true); /* nobody tells when it changes */
		return;
	}
	/* A locked instruction reads the line for itself alone from the beginning. */
	if (insn->locked)
		access = LOCKED;
	else if (writes)
		access = STORE;
	cost = follows_cores() ? core_accesses(vcpu_in_turn(), insn, address, access, writes, &move) :
				 access_in_order(address, access, writes, &move);
	spin_access(vcpu_in_turn(), address, access != LOAD || move != NO_MOVE);
	insn->time += cost;
	if (move == NO_MOVE)
		return;
	insn->moves[move]++;
	note_move(address >> LINE_BITS, insn->address);
}
