# `make demo` and `make test` are all a newcomer needs: both make .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
# Two processes of one thread: for tests, twice as quick as one process of two.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

.PHONY: help setup demo test test-all lint bench docs screenshots clean
help:
	@echo "make demo      train on the embedded corpus, compare, predict, look inside"
	@echo "make test      lint, types and the fast tests"
	@echo "make test-all  every test, the slow ones included"
	@echo "make bench     speed and memory against length, with the figures, into results/"
	@echo "make docs      the pages as HTML, into docs/_build"
	@echo "make screenshots   the pictures of docs/explorer.md, in a headless Chromium"
	@echo "make setup     make .venv (the others do it when it is missing or out of date)"

setup: $(STAMP)

# The stamp is newer than what decides the set-up, so an unchanged repository costs nothing here.
$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' 2> $(VENV)/pip.log || (cat $(VENV)/pip.log; exit 1)
	@touch $(STAMP)

demo: $(STAMP)
	@$(BIN)/mtsa demo

test: lint
	$(PYTEST) -m "not slow"

test-all: lint
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[real]'
	@command -v chromium chromium-browser google-chrome > /dev/null || apt-get install --yes --quiet chromium || echo "no Chromium could be installed: the tests of the page will be skipped"
	$(PYTEST)

lint: $(STAMP)
	@$(BIN)/ruff format --check src tests docs
	@$(BIN)/ruff check src tests docs
	@$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/mtsa bench layer --out results/bench

docs: $(STAMP)
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build
	@echo "written: docs/_build/index.html"

screenshots: $(STAMP)
	@$(BIN)/python docs/screenshots.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
