# Two commands do everything: `make demo` and `make test`. Both set up .venv first, from Python 3.11+ and pip alone.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test check lint types docs bench bench-full clean

demo: .venv/core
	$(BIN)/rewardmix describe shop

test: .venv/dev
	$(BIN)/python -m pytest -n 2 tests

check: lint types test docs

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev
	$(BIN)/mypy

docs: .venv/docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

bench: .venv/dev
	$(BIN)/python -m benchmarks.simulation.run --quick
	$(BIN)/python -m benchmarks.planning.run --quick

bench-full: .venv/dev
	$(BIN)/python -m benchmarks.simulation.run
	$(BIN)/python -m benchmarks.planning.run

clean:
	rm -rf .venv docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "rewardmix needs Python 3.11 or newer; set PYTHON=python3.x"; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/core: .venv/python pyproject.toml constraints.txt
	$(PIP) -e .
	@touch $@

.venv/dev: .venv/python pyproject.toml constraints.txt
	$(PIP) -e '.[dev]'
	@touch $@ .venv/core

.venv/docs: .venv/python pyproject.toml constraints.txt
	$(PIP) -e '.[docs]'
	@touch $@
