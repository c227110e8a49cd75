# `make help` lists the targets. Each sets itself up; they need nothing but Python 3.11 to 3.14 and a package index.
PYTHON ?= $(shell for p in python3.12 python3.11 python3.13 python3.14 python3; do \
  $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && { echo $$p; break; }; done)
VENV ?= .venv
BIN = $(VENV)/bin
# Parts of the tests to leave out where a system package is missing and may not be installed: terminal, browser, compiler
LEAVE_OUT ?=
PYTEST_ARGS ?=
# Markers of tests that have a target of their own
ELSEWHERE = slow or vllm or deepspeed or ray or slurm or lm or interop
COMMA = ,
PIP = pip install --quiet --disable-pip-version-check -c constraints.txt
export HF_HUB_OFFLINE = 1
export TOKENIZERS_PARALLELISM = false
.PHONY: help demo demo-plain demo-reflect demo-seeds demo-objectives five tables bench peers test test-more test-long lint
.PHONY: docs versions vllm lm deepspeed ray slurm interop clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{ printf "%-16s %s\n", $$1, $$2 }'
demo: $(VENV)/.runtime  ## train a tiny model to adapt, in some minutes
demo-plain: $(VENV)/.runtime  ## the demo with another advantage
demo-reflect: $(VENV)/.runtime  ## the demo with reflections
demo demo-plain demo-reflect:
	$(BIN)/mage demo $(patsubst demo-%,--%,$(filter demo-%,$@))
demo-seeds: $(VENV)/.runtime  ## the demo with several seeds
demo-objectives: $(VENV)/.runtime  ## objectives of training beside each other
five: $(VENV)/.runtime  ## the five environments with a small model each, as one table; some CPU hour
bench: $(VENV)/.runtime  ## measure speed
peers: $(VENV)/.runtime  ## compare speed with other suites
versions: $(VENV)/.develop  ## a wheel beside the oldest and newest core packages; VERSIONS="--python python3.13" adds more
demo-seeds demo-objectives five bench peers versions:
	$(BIN)/python -m $(or $($@_module),dev.$@) $(if $(filter versions,$@),$(VERSIONS))
demo-seeds_module = dev.demo_seeds
demo-objectives_module = examples.objectives
five_module = examples.five
bench_module = dev.speed
# Every suite with scripted rows, as a trial, and the demo's model (runs/demo, from `make demo`) under all controls.
tables: $(VENV)/.runtime  ## every suite with scripted agents, as a trial
	for suite in paper-table1 paper-ood paper-ablations heldout; do $(BIN)/mage eval benchmarks/results/quick.yaml \
	  --suite $$suite --resume --quick --out runs/quick/$$suite || exit 1; done
	$(BIN)/mage eval benchmarks/results/demo.yaml --suite demo --resume --game-option protocol=adaptive --episodes 3 \
	  --out runs/demo-suite
# Two workers on two cores, as each loads torch and collects all tests. mypy runs beside them.
test: $(VENV)/.develop  ## linters, types, and the tests that are the first to fail, in some minutes
	tests/system_packages.sh "$(LEAVE_OUT)"
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "$(BIN)/mypy, beside the tests"; $(BIN)/mypy & types=$$!; \
	LEAVE_OUT="$(LEAVE_OUT)" $(BIN)/python -m pytest -n 2 --dist worksteal \
	  -m "not (more or $(ELSEWHERE))" $(PYTEST_ARGS); \
	tests=$$?; wait $$types && exit $$tests
	@test -z "$(LEAVE_OUT)" || echo "Left out by LEAVE_OUT: $(LEAVE_OUT)"
test-more: $(VENV)/.develop  ## the costly tests that `make test` leaves out, in some more minutes
	tests/system_packages.sh "$(LEAVE_OUT)"
	LEAVE_OUT="$(LEAVE_OUT)" $(BIN)/python -m pytest -n 2 --dist worksteal -m "more and not ($(ELSEWHERE))" $(PYTEST_ARGS)
	@test -z "$(LEAVE_OUT)" || echo "Left out by LEAVE_OUT: $(LEAVE_OUT)"
test-long: $(VENV)/.develop  ## checks that take hours
	$(BIN)/python -m pytest -m slow --timeout 3600 $(PYTEST_ARGS)
lint: $(VENV)/.develop  ## ruff and mypy
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
docs: $(VENV)/.develop  ## the documentation as a site in build/site
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/site && echo "wrote build/site/index.html"
vllm:  ## the real vLLM on CPUs, some 2 GB
lm:  ## a pretrained model of 135 million weights, and llama.cpp
deepspeed:  ## DeepSpeed's ZeRO-2 and ZeRO-3 in two processes
ray:  ## real Ray clusters on this machine
slurm:  ## a real Slurm of four nodes on this machine, from system packages
interop:  ## other frameworks, each in an environment
vllm lm deepspeed ray slurm interop: $(VENV)/.nox
	$(if $(filter slurm,$@),tests/system_packages.sh --slurm)
	$(BIN)/nox -t $@ -- $(PYTEST_ARGS)
clean:  ## remove the environments and caches
	rm -rf $(VENV) .nox .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist

$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "mage-envs needs Python 3.11 to 3.14; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || tests/system_packages.sh --venv $(PYTHON)
	$(PYTHON) -m venv $(VENV) && touch $@
$(VENV)/.nox: $(VENV)/.python constraints.txt
	$(BIN)/$(PIP) nox && touch $@
# torch comes first, by its exact version: then no other package's wish for it can pull another build.
$(VENV)/.runtime: $(VENV)/.python pyproject.toml constraints.txt
	$(BIN)/$(PIP) torch && $(BIN)/$(PIP) -e ".[all]" && touch $@
# The planner behind ALFWorld is built here; its build calls a bare `python`.
$(VENV)/.develop: $(VENV)/.runtime
	$(if $(filter compiler,$(LEAVE_OUT)),,tests/system_packages.sh --compiler $(BIN)/python)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/$(PIP) \
	  -e ".[all,dev,gym-sokoban$(if $(filter compiler,$(LEAVE_OUT)),,$(COMMA)alfworld)]" && touch $@
