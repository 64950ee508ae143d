# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel source whose make understands what the lab asks of it, and compiles nothing."""

# Words in a C file that make the fake kernel's build go wrong.
#   SYNTAX_ERROR  a compiler error          HANG  half an object file, then nothing more
#   DISK_FULL     a linker without space
MAKEFILE = r"""
VERSION = 0
PATCHLEVEL = 1
O ?= .

.PHONY: allnoconfig vmlinux
allnoconfig:
	@echo "  CONF    .config"
	@mkdir -p $(O)
	@sed -n 's/^config /CONFIG_/p' Kconfig block/Kconfig | grep -v NEEDS_MISSING > $(O)/known
	@grep -wFf $(O)/known $(KCONFIG_ALLCONFIG) > $(O)/.config || true

vmlinux:
	@echo "  CC      block/bfq.o"
	@if grep -q SYNTAX_ERROR block/bfq.c; then \
		echo "block/bfq.c:1:1: error: expected ';'" >&2; exit 1; fi
	@mkdir -p $(O)/block $(O)/include/config
	@cp block/bfq.c $(O)/block/bfq.o
	@if grep -q HANG block/bfq.c; then sleep 1000; fi
	@echo "  LD      vmlinux"
	@if grep -q DISK_FULL block/bfq.c; then cp Makefile /dev/full; fi
	@cat block/bfq.c init/main.c $(O)/.config > $(O)/vmlinux
	@echo "flags $(KCFLAGS) $(PROFILE)" >> $(O)/vmlinux
	@echo "ffffffff81000000 T _text" > $(O)/System.map
	@echo "0.1.0$(LOCALVERSION)" > $(O)/include/config/kernel.release
"""
KCONFIG = "config SMP\n\tbool\n\nconfig NEEDS_MISSING\n\tbool\n\tdepends on MISSING\n"
