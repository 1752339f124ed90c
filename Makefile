# Everything from nothing: git, make and Python 3.11 are enough. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3.11
VENV ?= .venv
JOBS ?= 2# test processes
PYTEST_ARGS ?=
DEMO_ARGS ?=
SUITE ?=# of benchmarks; all when empty

BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest
# One thread per process: processes are the unit of parallel work, here and on a cluster.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help env demo test test-all lint coverage wheel bench lock clean distclean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: $(READY) ## create .venv with the locked packages and labelgrove itself

$(READY): requirements-dev.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11, or name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v == (3, 11) else f"the lock file is for Python 3.11, $(PYTHON) is {v[0]}.{v[1]}")'
	@echo "== environment in $(VENV) ($(PYTHON))"
	@$(PYTHON) -m venv $(VENV)
	@echo "== installing the locked packages, hashes checked (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --prefer-binary --no-deps --require-hashes -r requirements-dev.lock
	@echo "== installing labelgrove"
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m pip check
	@touch $@

demo: $(READY) ## the main job on images made on the spot: four systems compared, report written
	@echo "== labelgrove demo"
	@$(BIN)/labelgrove demo $(DEMO_ARGS)

test: $(READY) ## the tests, but for the slow ones
	@echo "== tests without the slow ones ($(JOBS) processes)"
	@$(PYTEST) -n $(JOBS) --dist loadfile -m "not slow" $(PYTEST_ARGS)

test-all: $(READY) ## all tests, also those of minutes
	@echo "== all tests ($(JOBS) processes)"
	@$(PYTEST) -n $(JOBS) --dist loadfile $(PYTEST_ARGS)

lint: $(READY) ## ruff and mypy
	@echo "== ruff, mypy"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

# Compiled kernels are invisible to coverage, so what tests kernels runs interpreted; the rest runs as users run it.
KERNEL_TESTS := tests/tasks tests/pipeline/test_demo_kernels.py
coverage: $(READY) ## lines covered, kernels counted with the JIT off; fails under 90 %
	@$(BIN)/coverage erase
	@echo "== kernels and mathematics, JIT off"
	@NUMBA_DISABLE_JIT=1 $(BIN)/coverage run -m pytest -m "not slow" $(KERNEL_TESTS)
	@echo "== everything else, JIT on"
	@$(BIN)/coverage run -m pytest -m "not slow" $(addprefix --ignore=,$(KERNEL_TESTS))
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --fail-under=90

wheel: $(READY) ## build dist/*.whl and try it outside the checkout
	@echo "== building the wheel"
	@rm -rf dist
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist . >/dev/null
	@echo "== installing it elsewhere and running it there"
	@LABELGROVE_WHEEL="$$(echo $(CURDIR)/dist/*.whl)" $(PYTEST) tests/test_package.py
	@ls -l dist

bench: $(READY) ## the measurements in tests/bench, or one suite: SUITE=pq (an idle machine, please)
	@echo "== benchmarks"
	@env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE $(PYTEST) $(if $(SUITE),tests/bench/bench_$(SUITE).py,tests/bench) \
		-o python_files='bench_*.py' -o python_functions='bench_*' -q -s --timeout=0 $(PYTEST_ARGS)
	@$(BIN)/python -m tests.bench.summary

# No local settings: the hashes of a mirror's files alone would lock everybody else out.
# Two files with the same versions: what runs (hosts, images), and that with what develops and tests it.
COMPILE = env -u UV_INDEX_URL -u UV_DEFAULT_INDEX -u UV_FIND_LINKS UV_CUSTOM_COMPILE_COMMAND="make lock" \
	build/lock/bin/uv pip compile --no-config --quiet --python-version 3.11 --generate-hashes --no-emit-index-url
lock: ## resolve pyproject.toml anew into the two requirement locks (asks the package index)
	@echo "== resolving into requirements.lock and requirements-dev.lock"
	@test -x build/lock/bin/uv || { $(PYTHON) -m venv build/lock && build/lock/bin/python -m pip install --quiet 'uv>=0.9'; }
	@$(COMPILE) --extra s3 --output-file requirements.lock pyproject.toml $(LOCK_ARGS)
	@$(COMPILE) --extra dev --constraint requirements.lock --output-file requirements-dev.lock pyproject.toml $(LOCK_ARGS)

clean: ## remove what can be made again, but for .venv, runs and data
	@rm -rf build dist htmlcov .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find pipeline tasks tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## clean, and remove .venv
	@rm -rf $(VENV)
