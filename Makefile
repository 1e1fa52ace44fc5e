# The verbs of this project. `make demo` and `make test` are the two that matter; both need root on a Debian-like machine.
.PHONY: help setup docs lint check test soak test-cuda gpu-pack test-gpu-dry bench bench-build bench-download
.PHONY: bench-truth bench-memory demo demo-down update-pins
.DEFAULT_GOAL := help

BIN := .venv/bin
# The tests start Python some hundred times: compiled once, they take a fifth less. An empty value is the default.
export PYTHONDONTWRITEBYTECODE :=
# What does not hold for the bodies of functions that run under set -eu: a shebang, cd's own check, words to be split,
# variables that the caller sets.
NOT_HERE := SC2148,SC2164,SC2086,SC2016,SC2154

help:
	@echo "make setup      the virtual environment"
	@echo "make demo       the main job on a throwaway host of this machine"
	@echo "make demo-down  takes that host away"
	@echo "make docs       the pages that are made from the code"
	@echo "make lint       ruff, mypy, shellcheck"
	@echo "make check      lint, types, unit and plan tests; less than a minute"
	@echo "make update-pins INVENTORY=inventory/mine.py [DRY=1]    resolves refs and files anew, shows old -> new"
	@echo "make soak       the property tests, with 10,000 examples each; downloads, killed 10 times each; the cap;"
	@echo "                50 deploys, updates and removals, killed"
	@echo "make bench      what a run costs on a host that is as wanted"
	@echo "make bench-build  what a one-line update costs the compiler"
	@echo "make bench-download  what a download costs beside curl and sha256sum"
	@echo "make bench-truth  the benchmark's figures beside llama-bench's"
	@echo "make bench-memory  one card planned by Paddock, by llama-mdl and by llama.cpp's --fit"
	@echo "make test-cuda  CUDA compiled whole by the role, an hour of CPU"
	@echo "make gpu-pack   what a machine with a GPU and without network needs for tests/gpu/run.sh"
	@echo "make test-gpu-dry  the same here, with a stand-in for the GPU"
	@echo "make test       all tests, on throwaway hosts of this machine"

setup: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	@python3 -c 'import ensurepip, venv' 2>/dev/null || sh -c 'test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	    apt-get update -q && apt-get install -q -y python3-venv' || { \
	    echo "python3 has no venv module: install python3-venv (as root), then run make again" >&2; exit 1; }
	python3 -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt '.[dev]'
	@touch $@

docs: setup
	$(BIN)/python -m roles.settings.page

lint: setup
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/shellcheck --shell=sh --exclude=$(NOT_HERE) roles/*.sh roles/*/*.sh tests/gpu/*.sh

# The whole runs of pyinfra first: each file stays with one worker, and theirs are the longest.
check: lint
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder tests/plan tests/unit

test: lint
	$(BIN)/pytest

# The Python of the machine with the GPU.
PYTHON := 3.12

gpu-pack: setup
	$(BIN)/python -m tests.gpu.pack --python $(PYTHON)

# With a stand-in for the GPU, and this machine's own Python; an own folder, so that a pack for another machine stays.
test-gpu-dry: setup
	$(BIN)/python -m tests.gpu.pack --python $$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])') build/gpu-dry
	PADDOCK_GPU_BACKEND=rpc sh build/gpu-dry/tests/gpu/run.sh

soak: setup
	PADDOCK_SOAK=1 $(BIN)/pytest --timeout 1800 tests/unit/test_settings_fuzz.py tests/unit/test_gpu_properties.py
	PADDOCK_SOAK=1 $(BIN)/pytest --timeout 3000 tests/lab/test_model_resumed.py -k killed
	PADDOCK_SOAK=1 $(BIN)/pytest --timeout 3000 tests/lab/test_benchmark_history.py -k turns
	PADDOCK_SOAK=1 $(BIN)/pytest -s --timeout 12000 tests/lab/test_removal.py
	$(BIN)/pytest tests/lab/test_memory_cap.py

test-cuda: setup
	PADDOCK_CUDA=1 $(BIN)/pytest -s --timeout 7200 tests/lab/test_cuda.py

bench: setup
	$(BIN)/python -m benchmarks.converged

bench-download: setup
	$(BIN)/python -m benchmarks.download

bench-truth: setup
	$(BIN)/python -m benchmarks.truth

bench-memory: setup
	$(BIN)/python -m benchmarks.compared

bench-build: setup
	$(BIN)/python -m benchmarks.build

update-pins: setup
	$(BIN)/pyinfra -y $(if $(DRY),--dry) $(or $(INVENTORY),inventory/laptop.py) roles.overview.update_pins

demo: setup
	@$(BIN)/python -m tests.lab.demo

demo-down: setup
	@$(BIN)/python -m tests.lab down demo
