# Two commands do everything: `make demo` and `make test`. Both set up .venv first, from Python 3.11+ and pip alone.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test browser check lint types docs bench bench-full clean

demo: .venv/core
	rm -rf runs/demo
	$(BIN)/rewardmix learn shop --episodes 5000 --out runs/demo

test: .venv/dev browser
	$(BIN)/python -m pytest -n 2 tests

# The tests of the report page drive Debian's chromium. Root can install it; where it is missing those tests are skipped, but
# not where CI is set: there they fail.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "installing chromium" && \
	  { apt-get install -y -qq chromium >/dev/null 2>&1 || \
	    { apt-get update -qq >/dev/null 2>&1 && apt-get install -y -qq chromium >/dev/null 2>&1; }; }; } || \
	  echo "NO BROWSER: the tests of the report page will be skipped; install chromium to run them (apt-get install chromium)"

check: lint types test docs

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev
	$(BIN)/mypy

docs: .venv/docs
	rm -rf docs/_build
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

# Every study, quickly and with its tables printed; bench-full takes hours and writes what is committed.
# RecurrentPPO (benchmarks/learning/recurrent.py) needs the whole extra as well: pip install -e '.[bench]'.
STUDIES := simulation planning exploration recovery learning pac scaling hardness coverage coupons logs resume path

bench: .venv/bench
	for study in $(STUDIES); do echo "== $$study"; $(BIN)/python -m benchmarks.$$study.run --quick || exit 1; done

bench-full: .venv/bench
	for study in $(STUDIES); do echo "== $$study"; $(BIN)/python -m benchmarks.$$study.run || exit 1; done

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

.venv/bench: .venv/dev
	$(PIP) stepmix polars duckdb
	@touch $@

.venv/docs: .venv/python pyproject.toml constraints.txt
	$(PIP) -e '.[docs]'
	@touch $@
