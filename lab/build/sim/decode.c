// SPDX-License-Identifier: GPL-2.0-or-later
/* What an instruction is; what it depends on, and where its operand in memory is, by Capstone. */
#include <capstone/capstone.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define RSP 4
/* In cycles, on the processors of the machine models; all others take one (Agner Fog's tables). */
#define MULTIPLICATION 3
#define DIVISION 26

static const cs_insn *decoded(const unsigned char *code, size_t size, uint64_t address)
{
	static csh handle;
	static cs_insn *instruction;

	if (!instruction) {
		if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle) != CS_ERR_OK)
			abort();
		cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON);
		instruction = cs_malloc(handle);
	}
	return cs_disasm_iter(handle, &code, &size, &address, instruction) ? instruction : NULL;
}

/* A register's number, that of a general one as instructions have it; -1 for any that is not followed. */
static int number_of(x86_reg reg)
{
	switch (reg) {
	case X86_REG_RAX: case X86_REG_EAX: case X86_REG_AX: case X86_REG_AL: case X86_REG_AH: return 0;
	case X86_REG_RCX: case X86_REG_ECX: case X86_REG_CX: case X86_REG_CL: case X86_REG_CH: return 1;
	case X86_REG_RDX: case X86_REG_EDX: case X86_REG_DX: case X86_REG_DL: case X86_REG_DH: return 2;
	case X86_REG_RBX: case X86_REG_EBX: case X86_REG_BX: case X86_REG_BL: case X86_REG_BH: return 3;
	case X86_REG_RSP: case X86_REG_ESP: case X86_REG_SP: case X86_REG_SPL: return RSP;
	case X86_REG_RBP: case X86_REG_EBP: case X86_REG_BP: case X86_REG_BPL: return 5;
	case X86_REG_RSI: case X86_REG_ESI: case X86_REG_SI: case X86_REG_SIL: return 6;
	case X86_REG_RDI: case X86_REG_EDI: case X86_REG_DI: case X86_REG_DIL: return 7;
	case X86_REG_R8: case X86_REG_R8D: case X86_REG_R8W: case X86_REG_R8B: return 8;
	case X86_REG_R9: case X86_REG_R9D: case X86_REG_R9W: case X86_REG_R9B: return 9;
	case X86_REG_R10: case X86_REG_R10D: case X86_REG_R10W: case X86_REG_R10B: return 10;
	case X86_REG_R11: case X86_REG_R11D: case X86_REG_R11W: case X86_REG_R11B: return 11;
	case X86_REG_R12: case X86_REG_R12D: case X86_REG_R12W: case X86_REG_R12B: return 12;
	case X86_REG_R13: case X86_REG_R13D: case X86_REG_R13W: case X86_REG_R13B: return 13;
	case X86_REG_R14: case X86_REG_R14D: case X86_REG_R14W: case X86_REG_R14B: return 14;
	case X86_REG_R15: case X86_REG_R15D: case X86_REG_R15W: case X86_REG_R15B: return 15;
	case X86_REG_EFLAGS: return FLAGS;
	default: return -1;
	}
}

static uint32_t bit(x86_reg reg)
{
	int number = number_of(reg);

	return number < 0 ? 0 : 1U << number;
}

static bool serialises(unsigned int id)
{
	switch (id) {
	case X86_INS_CPUID: case X86_INS_HLT: case X86_INS_IN: case X86_INS_INVLPG:
	case X86_INS_IRET: case X86_INS_IRETD: case X86_INS_IRETQ: case X86_INS_LFENCE:
	case X86_INS_LGDT: case X86_INS_LIDT: case X86_INS_LTR: case X86_INS_MFENCE:
	case X86_INS_MWAIT: case X86_INS_OUT: case X86_INS_PAUSE: case X86_INS_RDMSR:
	case X86_INS_RDTSC: case X86_INS_RDTSCP: case X86_INS_SYSCALL: case X86_INS_SYSRET:
	case X86_INS_WBINVD: case X86_INS_WRMSR:
		return true;
	default:
		return false;
	}
}

/* Whether it addresses memory by RSP, which no other instruction has to wait for (the stack engine). */
static bool uses_stack(unsigned int id)
{
	switch (id) {
	case X86_INS_CALL: case X86_INS_POP: case X86_INS_POPFQ: case X86_INS_PUSH:
	case X86_INS_PUSHFQ: case X86_INS_RET:
		return true;
	default:
		return false;
	}
}

static unsigned int latency(unsigned int id)
{
	switch (id) {
	case X86_INS_IMUL: case X86_INS_MUL:
		return MULTIPLICATION;
	case X86_INS_DIV: case X86_INS_IDIV:
		return DIVISION;
	default:
		return 1;
	}
}

/* XOR and SUB of a register with itself depend on nothing. */
static bool clears(const cs_insn *insn)
{
	const cs_x86_op *operands = insn->detail->x86.operands;

	return (insn->id == X86_INS_XOR || insn->id == X86_INS_SUB) &&
	       operands[0].type == X86_OP_REG && operands[1].type == X86_OP_REG &&
	       operands[0].reg == operands[1].reg;
}

static void add_operand(const cs_insn *insn, unsigned int index, struct operation *operation)
{
	const cs_x86_op *operand = &insn->detail->x86.operands[index];
	unsigned int access = operand->access;

	if (operand->type == X86_OP_MEM) {
		uint32_t registers = bit(operand->mem.base) | bit(operand->mem.index);

		if (insn->id == X86_INS_LEA || insn->id == X86_INS_NOP)
			operation->reads |= registers;
		else
			operation->address |= registers;
	} else if (operand->type == X86_OP_REG) {
		if (!access) /* Capstone does not tell it of all */
			access = index ? CS_AC_READ : CS_AC_READ | CS_AC_WRITE;
		if (access & CS_AC_READ || operand->size < 4)
			operation->reads |= bit(operand->reg);
		if (access & CS_AC_WRITE)
			operation->writes |= bit(operand->reg);
	}
}

/* What an instruction depends on; what is not decoded depends on all, and nothing passes it. */
void decode(const unsigned char *code, size_t size, uint64_t address, struct operation *operation)
{
	const cs_insn *insn = decoded(code, size, address);
	const cs_detail *detail;
	unsigned int i;

	*operation = (struct operation){ .latency = 1 };
	if (!insn) {
		operation->reads = operation->writes = ALL_REGISTERS;
		operation->serialises = true;
		return;
	}
	detail = insn->detail;
	for (i = 0; i < detail->x86.op_count; i++)
		add_operand(insn, i, operation);
	if (clears(insn))
		operation->reads = 0;
	for (i = 0; i < detail->regs_read_count; i++)
		operation->reads |= bit(detail->regs_read[i]);
	for (i = 0; i < detail->regs_write_count; i++)
		operation->writes |= bit(detail->regs_write[i]);
	if (uses_stack(insn->id)) {
		operation->address |= (operation->reads | operation->writes) & 1U << RSP;
		operation->reads &= ~(1U << RSP);
		operation->writes &= ~(1U << RSP);
	}
	operation->latency = latency(insn->id);
	operation->serialises = serialises(insn->id);
	for (i = 0; i < detail->groups_count; i++)
		operation->branches |= detail->groups[i] == X86_GRP_JUMP;
	operation->branches &= insn->id != X86_INS_JMP && insn->id != X86_INS_LJMP;
}

static bool is_followed(x86_reg reg)
{
	return reg == X86_REG_INVALID || number_of(reg) >= 0;
}

/* Whether it is known where an operand in memory is: in a segment that begins at zero. */
static bool is_found(const cs_x86_op *operand)
{
	const x86_op_mem *memory = &operand->mem;

	return operand->type == X86_OP_MEM && memory->segment != X86_REG_FS &&
	       memory->segment != X86_REG_GS && is_followed(memory->index) &&
	       (memory->base == X86_REG_RIP || is_followed(memory->base));
}

/* The operand in memory that an instruction reads, or else the one that it stores to. */
static const cs_x86_op *find_operand(const cs_insn *insn, bool locked)
{
	const cs_x86_op *stored = NULL;
	unsigned int i;

	for (i = 0; i < insn->detail->x86.op_count; i++) {
		const cs_x86_op *operand = &insn->detail->x86.operands[i];

		if (!is_found(operand))
			continue;
		if (locked || operand->access & CS_AC_READ)
			return operand;
		if (operand->access & CS_AC_WRITE)
			stored = operand;
	}
	return stored;
}

/* Fill in where an instruction's operand in memory is, if there is one. */
void decode_operand(const unsigned char *code, size_t size, struct instruction *insn)
{
	const cs_insn *found = decoded(code, size, insn->address);
	const cs_x86_op *operand;
	bool relative;

	if (!found || found->id == X86_INS_LEA || found->id == X86_INS_NOP)
		return;
	operand = find_operand(found, insn->locked);
	if (!operand)
		return;
	relative = operand->mem.base == X86_REG_RIP;
	insn->has_operand = true;
	insn->only_stores = !insn->locked && !(operand->access & CS_AC_READ);
	insn->base = relative ? -1 : number_of(operand->mem.base);
	insn->index_register = number_of(operand->mem.index);
	insn->factor = operand->mem.scale;
	insn->displacement = operand->mem.disp + (relative ? insn->address + found->size : 0);
}

/* Whether an instruction is locked: by its prefix, or as XCHG with memory is. */
bool is_locked(const unsigned char *code, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++) {
		switch (code[i]) {
		case 0xf0:
			return true;
		case 0x26: case 0x2e: case 0x36: case 0x3e: case 0x64: case 0x65:
		case 0x66: case 0x67: case 0xf2: case 0xf3:
		case 0x40 ... 0x4f: /* REX */
			continue;
		default:
			return code[i] == 0x86 || code[i] == 0x87;
		}
	}
	return false;
}

/* Where a direct CALL or JMP goes, a displacement of 32 bits from its end; 0 for anything else. */
uint64_t direct_target(const unsigned char *code, size_t size, uint64_t address)
{
	int32_t displacement;

	if (size != 5 || (code[0] != 0xe8 && code[0] != 0xe9))
		return 0;
	memcpy(&displacement, code + 1, sizeof(displacement));
	return address + size + displacement;
}

/* RET, with or without the prefix that old processors predict better. */
bool is_return(const unsigned char *code, size_t size)
{
	return code[size - 1] == 0xc3 && (size == 1 || (size == 2 && code[0] == 0xf3));
}
