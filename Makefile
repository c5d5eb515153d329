# From a fresh clone: `make demo` or `make test`. Needs Python 3.11+ (with venv), make, and nothing else;
# with a C compiler it is faster.
# Two locks, two stamps: the demo waits for the core only; tests and lint add the rest to the same .venv.

PYTHON ?= python3
UV_VERSION := 0.13.7

VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
# Compiled at once: where Python may not write bytecode itself, every start would compile everything anew.
INSTALL := $(UV) pip install --quiet --compile-bytecode --python $(BIN)/python
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) --group build
DEV_EXTRAS := figures frames gymnasium learners minari docs

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test lint format bench docs wheel lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/.dev ## Install everything that tests and lint need into .venv

demo: $(VENV)/.core ## Evaluate a simulated log and write report.html
	$(BIN)/deadweight demo

# One BLAS thread for each worker: otherwise they fight over the cores.
test: export OMP_NUM_THREADS := 1
test: export OPENBLAS_NUM_THREADS := 1
test: $(VENV)/.dev ## Run the tests (ARGS="-k lift" selects some)
	$(BIN)/python -m pytest -n auto --maxprocesses 8 $(ARGS)

lint: $(VENV)/.dev ## Check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev ## Rewrite the sources in the house format
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(VENV)/.dev ## Time against plain references, as ratios
	$(BIN)/deadweight benchmark

docs: $(VENV)/.dev ## Build the pages into site/ (offline)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# One wheel for all of CPython from 3.11 on. Without a C compiler it would lack the kernel, so that is an error.
wheel: $(VENV)/.core ## Build dist/deadweight-*.whl, with the compiled kernel
	$(UV) build --quiet --wheel --no-build-isolation --python $(BIN)/python --out-dir dist
	@$(BIN)/python -m zipfile -l dist/deadweight-*-abi3-*.whl | grep -q '_kernel.*\.\(so\|pyd\)' || { \
		echo "The wheel has no kernel: install a C compiler and Python's headers."; exit 1; } >&2
	@ls dist/*.whl

lock: $(VENV)/.uv-$(UV_VERSION) ## Write the locks anew (UPGRADE=1 takes the latest versions)
	$(COMPILE) pyproject.toml --output-file requirements.lock
	$(COMPILE) pyproject.toml --group dev $(DEV_EXTRAS:%=--extra %) \
		--constraints requirements.lock --output-file requirements-dev.lock
	$(COMPILE) pyproject.toml --extra ray --constraints requirements-dev.lock \
		--output-file requirements-ray.lock
	echo "icu-sepsis>=2.0" | $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
		--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) --no-deps --output-file requirements-sepsis.lock -
	echo "obp==0.4.1" | $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
		--custom-compile-command "make lock" --no-deps --output-file requirements-fashion.lock -
	@! grep -n '://' requirements*.lock || { echo "A lock names a host."; exit 1; }

clean: ## Remove caches and built files (.venv stays)
	rm -rf build dist site report.html .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src studies tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.uv-$(UV_VERSION):
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "deadweight needs Python 3.11 or newer with the venv module; '$(PYTHON)' is not that."; \
		echo "  Install it (Debian, Ubuntu: apt install python3-venv), or name one: make PYTHON=python3.12"; \
		exit 1; } >&2
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

# Also compiles the C files, in place, if there is a C compiler; all works without, only slower.
$(VENV)/.core: $(VENV)/.uv-$(UV_VERSION) requirements.lock pyproject.toml setup.py \
		$(wildcard src/deadweight/sums/*.[ch]) src/deadweight/_version.py studies/pyproject.toml Makefile
	$(INSTALL) --require-hashes -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation -e . -e studies
	$(BIN)/python -m compileall -q src/deadweight studies/src
	@touch $@

$(VENV)/.dev: $(VENV)/.core requirements-dev.lock
	$(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@
