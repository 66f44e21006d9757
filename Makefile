# Two commands do everything: `make demo` and `make test`. Both set up .venv first, from Python 3.11+ and pip alone.
PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS)

.PHONY: demo test quick busy documents browser postgres machines another lowest mutants fuzz check lint types docs figures bench bench-full clean

demo: $(VENV)/core
	rm -rf runs/demo
	$(BIN)/rewardmix learn shop --num-episodes 5000 --out runs/demo

# The library's tests. Those of the report page drive Debian's chromium (make browser), those of the service start Debian's
# PostgreSQL (make postgres); where one is missing they are skipped, but not where CI is set: there they fail.
test: $(VENV)/dev
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  echo "NO BROWSER: the tests of the report page will be skipped; make browser installs chromium, as root"
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
	  echo "NO POSTGRESQL: the tests of several servers will be skipped; make postgres installs it, as root"
	$(BIN)/python -m pytest -n 2 tests --ignore=tests/documents

# Fast tests of single modules, in less than two minutes of CPU once kernels are compiled. tests/conftest.py sets the markers.
quick: $(VENV)/dev
	$(BIN)/python -m pytest -q -n 2 -m unit tests --ignore=tests/documents

# The tests of the service beside one busy process a core: none of them may need an idle machine.
busy: $(VENV)/dev
	$(BIN)/python tools/busy.py $(BIN)/python -m pytest -q -n 2 tests/service

# What is written: code blocks of the pages, examples, tables against results, links, names.
documents: $(VENV)/dev
	$(BIN)/python -m pytest -n 2 tests/documents

# Do the tests notice small errors? tests/mutations.toml, each in a copy of the source; about a quarter of an hour.
mutants: $(VENV)/dev
	$(BIN)/python tests/mutants.py

# Damaged files, arbitrary values, odd logs and command lines, many of each; the tests run the same with a small budget.
FUZZED := files:20000 constructors:5000 logs:5000 commands:2000

fuzz: $(VENV)/dev
	for one in $(FUZZED); do echo "== $${one%:*}"; $(BIN)/python tests/fuzz/$${one%:*}.py --tries $${one#*:} || exit 1; done

# Chromium for the tests of the report page, by apt.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
	  echo "installing chromium"; \
	  apt-get install -y -qq chromium >/dev/null 2>&1 || \
	  { apt-get update -qq >/dev/null 2>&1 && apt-get install -y -qq chromium >/dev/null; }; }

# PostgreSQL for the tests of the service, by apt. They start one of their own, which only they can reach.
postgres:
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { \
	  echo "installing postgresql"; \
	  apt-get install -y -qq postgresql >/dev/null 2>&1 || \
	  { apt-get update -qq >/dev/null 2>&1 && apt-get install -y -qq postgresql >/dev/null; }; }

# The tests that compare bits, on this machine as it is and on others that it can play (benchmarks/machines/emulated.py).
machines: $(VENV)/dev
	$(BIN)/python -m benchmarks.machines.emulated $(BIN)/python -m pytest -q -n 2 -m machines tests

# The library's tests with another Python (make another PYTHON=python3.13), and with the lowest versions that pyproject.toml allows.
another:
	$(MAKE) test VENV=.venv-$(notdir $(PYTHON)) PYTHON=$(PYTHON)

lowest:
	mkdir -p .venv-lowest
	$(PYTHON) tools/lowest.py > .venv-lowest/constraints.txt
	$(MAKE) test VENV=.venv-lowest CONSTRAINTS=.venv-lowest/constraints.txt

check: lint types test docs documents

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev
	$(BIN)/mypy

docs: $(VENV)/docs
	rm -rf docs/_build
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

# The pictures of the pages, from committed results; docs draws what is missing or old.
figures: $(VENV)/docs
	$(BIN)/python -m docs.pictures.make

# Every study, quickly and with its tables printed; bench-full takes hours and writes what is committed.
# RecurrentPPO (benchmarks/learning/recurrent.py) needs the whole extra as well: pip install -e '.[bench]'.
STUDIES := simulation planning exploration recovery learning online pac scaling hardness coverage coupons logs resume path \
	machines checks checkup safety types serve ab_test startup order

bench: $(VENV)/bench
	for study in $(STUDIES); do echo "== $$study"; $(BIN)/python -m benchmarks.$$study.run --quick || exit 1; done

bench-full: $(VENV)/bench
	for study in $(STUDIES); do echo "== $$study"; $(BIN)/python -m benchmarks.$$study.run || exit 1; done

clean:
	rm -rf .venv .venv-* docs/_build docs/_figures docs/_sample docs/reference/api .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "rewardmix needs Python 3.11 or newer; set PYTHON=python3.x"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/core: $(VENV)/python pyproject.toml $(CONSTRAINTS)
	$(PIP) -e .
	@touch $@

$(VENV)/dev: $(VENV)/python pyproject.toml $(CONSTRAINTS)
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/core

$(VENV)/bench: $(VENV)/dev
	$(PIP) stepmix polars duckdb
	@touch $@

$(VENV)/docs: $(VENV)/python pyproject.toml $(CONSTRAINTS)
	$(PIP) -e '.[docs]'
	@touch $@
