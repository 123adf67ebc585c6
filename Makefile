# Two commands are enough on a fresh machine: `make demo` and `make test`.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SOURCES := packages/core/src packages/langchain/src

.DEFAULT_GOAL := help
.PHONY: help demo test check lint types docs bench clean

help: ## Show this help.
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(READY): pyproject.toml constraints.txt $(wildcard packages/*/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "AgentTape needs Python >= 3.11; run: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade -c constraints.txt pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		$(patsubst %,-e %,$(wildcard packages/core packages/langchain)) --group dev
	@touch $(READY)

demo: $(READY) ## Record an agent, stop its server, replay it, break it: the product in ten seconds.
	@PYTHONPATH=examples $(BIN)/python -m weather_agent.demo

test: $(READY) ## Run the tests.
	$(BIN)/python -m pytest -q

check: lint types docs test ## All that gates a change: lint, types, import layers, docs, tests.

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
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache htmlcov .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
