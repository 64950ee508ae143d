# SPDX-License-Identifier: GPL-2.0-or-later
# The lab's commands. Each does its own set-up.

PYTHON  ?= python3
PROFILE ?= quick
SERIES  ?=
ENGINE  ?=
SECONDS ?= 600
LAB      = .venv/bin/lab

# Containers often set it: every start of the lab and of a test worker would compile all anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup lab-run matrix check-series doctor test fuzz kernels bench check faults lock map man \
	reference release format clean

help: ## show this text
	@echo 'A performance lab for the kernel block layer. Commands:'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo 'Variables: PROFILE=quick|standard|paper  ENGINE=tcg|kvm|exact|sim  PYTHON=python3  SECONDS=600'
	@echo 'The lab itself: .venv/bin/lab --help'

setup: ## install what the lab needs (system packages, .venv)
	@command -v $(PYTHON) >/dev/null || { \
		echo 'Python 3.11 or newer is needed: install python3, or set PYTHON='; exit 2; }
	@$(PYTHON) -m lab.setup

lab-run: setup ## from a fresh clone to the verdicts on all series (SERIES=)
	@$(LAB) run --profile $(PROFILE) $(SERIES)

matrix: setup ## schedulers x topologies x workloads on one kernel (ENGINE=)
	@$(LAB) matrix --profile $(PROFILE) $(if $(ENGINE),--engine $(ENGINE))

check-series: setup ## every patch of every series: checkpatch, build, boot (SERIES=)
	@$(LAB) check-series $(SERIES)

doctor: setup ## what this machine has and which engines work on it
	@$(LAB) doctor

test: setup ## all tests, real guests included
	@.venv/bin/pytest -m 'not claim and not kernels and not fuzz'

fuzz: setup ## all parsers of what a guest, a patch or a stranger writes (SECONDS=)
	@LAB_FUZZ_SECONDS=$(SECONDS) .venv/bin/pytest -q -m fuzz tests/fuzz

kernels: setup ## configure every kernel version that can be had with every fragment
	@.venv/bin/pytest -m kernels tests/test_versions.py

bench: setup ## measure the lab itself: exactness, and speed as ratios (BENCH=--builds)
	@.venv/bin/python -m tools.bench $(BENCH)
	@.venv/bin/python -m tools.planted

check: setup ## format, lint, types and the tests that need no guest
	@.venv/bin/ruff format --check --quiet . || { echo 'run: make format'; exit 1; }
	@.venv/bin/ruff check --quiet .
	@folder=$$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
		trap 'exit 130' INT TERM; \
		.venv/bin/mypy & types=$$!; \
		.venv/bin/pytest -q -n auto --dist worksteal --hypothesis-profile few \
			--basetemp="$$folder/tests" -o tmp_path_retention_policy=failed \
			-m 'not vm and not slow and not claim and not kernels and not fuzz'; tests=$$?; \
		wait $$types && exit $$tests

faults: setup ## faults at random moments of real commands (SEED= COUNT= ONLY= REAL=)
	@PYTHONPATH=.:tests:tests/faults .venv/bin/python tests/faults/campaign.py \
		--seed $(or $(SEED),1) --count $(or $(COUNT),100) \
		$(if $(ONLY),--only $(ONLY)) $(if $(REAL),--real)

lock: ## write requirements.lock anew: the versions that setup installs
	@PYTHON=$(PYTHON) .ci/lock

map: ## the packages: modules, lines, and who imports whom
	@$(PYTHON) tests/package_map.py

man: setup ## manual pages of all commands into build/man
	@.venv/bin/python -m tools.man build/man && echo 'man -l build/man/lab.1'

release: setup ## wheel, source distribution, Debian package and image of the tag vVERSION
	@.venv/bin/python -m tools.release

reference: setup ## docs/reference.md anew, from the code
	@.venv/bin/python -m tools.reference

format: setup ## format the Python code
	@.venv/bin/ruff format --quiet .
	@.venv/bin/ruff check --quiet --fix .

clean: ## remove the Python environment; results and the cache stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache build *.egg-info
