# Two commands are enough on a fresh machine: `make demo` and `make test`.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
NAMES := core langchain langgraph llamaindex
SOURCES := $(patsubst %,packages/%/src,$(NAMES))
PACKAGES := $(patsubst %,-e %,packages/core packages/langchain)
LANGCHAIN_TESTS := tests/langchain tests/conformance/test_langchain_objects.py
# A pip that knows dependency groups, working in another environment.
INSTALL_IN := $(BIN)/python -m pip --quiet --disable-pip-version-check --python

.DEFAULT_GOAL := help
.PHONY: help demo test oldest newest check lint types docs bench clean

help: ## Show this help.
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(READY): pyproject.toml constraints.txt $(wildcard packages/*/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "AgentTape needs Python >= 3.11; run: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade -c constraints.txt pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		$(patsubst %,-e packages/%,$(NAMES)) --group dev
	@touch $(READY)

demo: $(READY) ## Record an agent, stop its server, replay it, break it: the product in ten seconds.
	@PYTHONPATH=examples $(BIN)/python -m weather_agent.demo

test: $(READY) ## Run the tests, the snippets of the docs among them.
	$(BIN)/python -m pytest -q -n auto --dist worksteal

oldest: $(READY) ## Run LangChain's tests with the oldest versions that are supported.
	$(PYTHON) -m venv .venv-oldest
	$(INSTALL_IN) .venv-oldest/bin/python install $(PACKAGES) --group packages/langchain/pyproject.toml:oldest
	.venv-oldest/bin/python -m pytest -q $(LANGCHAIN_TESTS)

newest: $(READY) ## Run LangChain's tests with the newest versions that are supported.
	$(PYTHON) -m venv .venv-newest
	$(INSTALL_IN) .venv-newest/bin/python install -c constraints.txt $(PACKAGES) --group dev
	# Not by the resolver: they ask for a certifi that not every registry has.
	$(INSTALL_IN) .venv-newest/bin/python install --no-deps --group packages/langchain/pyproject.toml:newest
	.venv-newest/bin/python -m pytest -q $(LANGCHAIN_TESTS)

check: lint types test ## All that gates a change: lint, types, import layers, docs, tests.

lint: $(READY) ## Check style, formatting and import layers.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(READY) ## Check types, strictly.
	$(BIN)/mypy $(SOURCES)
	MYPYPATH=examples $(BIN)/mypy examples/weather_agent

docs: $(READY) ## Execute every snippet of the README and the docs.
	$(BIN)/python -m pytest -q tests/docs

bench: $(READY) ## Measure the budgets as ratios, beside what others do.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group bench
	$(BIN)/python benchmarks/run.py $(BENCH)

clean: ## Remove what the other verbs made.
	rm -rf $(VENV) .venv-oldest .venv-newest .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache htmlcov .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
