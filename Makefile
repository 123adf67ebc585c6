# Two commands are enough on a fresh machine: `make demo` and `make test`.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# LlamaIndex's OpenAI and Anthropic packages, which require older clients than LangChain's.
OPENAI := .venv-llamaindex-openai
# The packages that are imported within sessions.
IMPORTS := .venv-imports
# LangGraph's server.
SERVERS := .venv-servers
STORES := .venv-stores
# Other people's tests.
SUITES := .venv-suites
# Where it is set, each run of pytest would compile pytest and its plugins, which takes two seconds.
unexport PYTHONDONTWRITEBYTECODE
NAMES := core langchain langgraph llamaindex
SOURCES := $(patsubst %,packages/%/src,$(NAMES))
# The integrations whose frameworks' oldest versions are tested, each in a separate environment.
ENDS := langchain langgraph llamaindex
# What else of ours each of them is built on, or its tests are.
BELOW_langchain := -e packages/langgraph
BELOW_langgraph := -e packages/langchain
BELOW_llamaindex := -e packages/langchain
TESTS_langchain := tests/langchain tests/conformance/test_langchain_objects.py
TESTS_langgraph := tests/langgraph
TESTS_llamaindex := tests/llamaindex tests/conformance/test_llamaindex_objects.py
# The oldest and the newest MCP that core supports; the adapters in the tested set ask for version 1.
MCP_OLDEST := 1.24.0
MCP_NEWEST := 2.3.0
# The oldest pytest that our tests of the plugin run on: pytest-asyncio asks for it.
PYTEST_OLDEST := 8.2.2
# Tests that need no framework, in processes of their own: each session that they open would connect the frameworks that
# other tests have imported, which costs more than most of them do.
ALONE := tests/core tests/conformance/test_broken.py
# One worker more than there are processors, as tests wait for processes and for the disk: with two, a seventh less time.
PARALLEL = -n $$(expr 1 + $$(nproc 2> /dev/null || getconf _NPROCESSORS_ONLN)) --dist worksteal
# Every cell of each sweep, and more random draws, where time doesn't matter.
AT_NIGHT := -o faulthandler_timeout=1800 --night
# What `make quick` runs.
OF := tests/core
# What is developed and tested.
TESTED := -c constraints.txt $(patsubst %,agenttape-%,$(NAMES)) --group dev
# A pip that knows dependency groups, working in another environment.
INSTALL_IN := $(BIN)/python -m pip --quiet --disable-pip-version-check --python
# Modules are compiled when they are first imported: of what is installed, most never is.
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
# Pip and what builds our packages, and then these in place: for each of them pip would make an environment to build it in.
TOOLS := --upgrade -c constraints.txt pip hatchling editables
IN_PLACE := --no-deps --no-build-isolation

.DEFAULT_GOAL := help
.PHONY: help demo test again quick coverage night matrix ahead upgrade oldest newest openai identical orders drawn imports servers stores suites frameworks check lint types docs site bench ceilings compatible build reproducible wheels viewer clean

help: ## Show this help.
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(READY): pyproject.toml constraints.txt $(wildcard packages/*/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "AgentTape needs Python >= 3.11; run: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) $(TOOLS)
	$(BIN)/python $(INSTALL) $(IN_PLACE) $(patsubst %,-e packages/%,$(NAMES))
	$(BIN)/python $(INSTALL) $(TESTED) --group parts || \
		{ echo "The servers of other makers could not be installed; their tests will be skipped." >&2; $(BIN)/python $(INSTALL) $(TESTED); }
	@touch $(READY)

demo: $(READY) ## Record an agent, stop its server, replay it, break it: the product in ten seconds.
	@PYTHONPATH=examples $(BIN)/python -m weather_agent.demo

test: $(READY) ## Run the tests, the snippets of the docs among them.
	@status=0; set -x; \
	$(BIN)/python -m pytest -q $(PARALLEL) $(ALONE) || status=1; \
	$(BIN)/python -m pytest -q $(PARALLEL) $(ALONE:%=--ignore=%) tests || status=1; \
	exit $$status

again: $(READY) ## Run the tests that failed last once more, one after another: what passes here is flaky.
	$(BIN)/python -m pytest -v --exitfirst --last-failed --last-failed-no-failures=none tests

quick: $(READY) ## Run the short tests of core that start no processes: the inner loop. OF=tests/langgraph runs others.
	$(BIN)/python -m pytest -q $(PARALLEL) -m "not process and not slow" $(OF)

# On Python 3.11, threads that begin together may fail to install the tracer: what fails has a second look without it.
coverage: $(READY) ## Measure which lines of core the tests of the packages run, also in processes that they start; fail below 95 %.
	$(BIN)/coverage erase
	@status=0; set -x; \
	for part in tests/core "tests/conformance tests/langchain tests/langgraph tests/llamaindex tests/servers"; do \
		$(BIN)/coverage run -m pytest -q $(PARALLEL) -o faulthandler_timeout=1800 $$part || \
			$(BIN)/python -m pytest -q --last-failed --last-failed-no-failures=none $$part || status=1; \
	done; \
	$(BIN)/coverage combine --quiet && $(BIN)/coverage report || status=1; \
	exit $$status

matrix: $(READY) ## Run the tests on each Python that is found, and write the table of docs/pythons.md. OF="3.14 langgraph" chooses.
	$(BIN)/python tests/matrix/run.py $(filter-out tests/core,$(OF))

ahead: $(READY) ## Run the quick tests of sessions on Python 3.14, unless it can't be had.
	$(BIN)/python tests/matrix/run.py ahead

upgrade: $(READY) ## Move constraints.txt to the newest versions that fit and pass the tests. OF="openai" chooses.
	$(BIN)/python -m tests.matrix.upgrade $(filter-out tests/%,$(OF))

oldest: $(READY) $(ENDS:%=.oldest-%) .mcp-$(MCP_OLDEST) .pytest-$(PYTEST_OLDEST) ## Run the tests of the integrations, of MCP and of the pytest plugin with the oldest versions that are supported.

.oldest-%: $(READY)
	$(PYTHON) -m venv .venv-oldest-$*
	$(INSTALL_IN) .venv-oldest-$*/bin/python install -e 'packages/core[checks,cli,oracle,otel]' $(BELOW_$*) -e packages/$* \
		--group packages/$*/pyproject.toml:oldest
	.venv-oldest-$*/bin/python -m pytest -q $(AT_NIGHT) $(TESTS_$*)

.pytest-%: $(READY)
	$(PYTHON) -m venv .venv-pytest-$*
	$(INSTALL_IN) .venv-pytest-$*/bin/python install pytest==$* anyio fsspec genai-prices httpx hypothesis pytest-asyncio \
		pytest-xdist -e 'packages/core[checks,cli]'
	.venv-pytest-$*/bin/python -m pytest -q -n auto -c tests/matrix/oldest_pytest.ini --rootdir=. -m "not process and not slow" \
		tests/core/pytest_plugin

newest: $(READY) .mcp-$(MCP_NEWEST) ## Run the tests of the integrations and of MCP with the newest versions that are supported.
	$(BIN)/python -m pytest -q $(AT_NIGHT) $(foreach end,$(ENDS),$(TESTS_$(end)))

.mcp-%: $(READY)
	$(PYTHON) -m venv .venv-mcp-$*
	grep -v '^mcp==' constraints.txt > .venv-mcp-$*/constraints.txt
	$(INSTALL_IN) .venv-mcp-$*/bin/python install -c .venv-mcp-$*/constraints.txt mcp==$* -e 'packages/core[checks,cli]' \
		-e packages/langchain -e packages/langgraph hypothesis langchain pytest pytest-asyncio uvicorn websockets
	.venv-mcp-$*/bin/python -m pytest -q tests/servers/test_mcp.py tests/servers/test_tool_server.py

openai: $(OPENAI)/.ready ## Run LlamaIndex's OpenAI and Anthropic packages, recorded and replayed; they require an older openai and anthropic.
	$(OPENAI)/bin/python -m pytest -q tests/llamaindex/openai_packages tests/servers/test_anthropic.py

$(OPENAI)/.ready: pyproject.toml constraints.txt $(wildcard packages/*/pyproject.toml)
	$(PYTHON) -m venv $(OPENAI)
	$(OPENAI)/bin/python $(INSTALL) $(TOOLS)
	$(OPENAI)/bin/python $(INSTALL) $(IN_PLACE) -e packages/core -e packages/llamaindex
	grep -v -e '^openai==' -e '^anthropic==' constraints.txt > $(OPENAI)/constraints.txt
	$(OPENAI)/bin/python $(INSTALL) -c $(OPENAI)/constraints.txt \
		agenttape-core agenttape-llamaindex --group packages/llamaindex/pyproject.toml:openai
	$(OPENAI)/bin/python $(INSTALL) --no-deps llama-index-llms-anthropic==0.12.3 # it asks for all of Amazon's and Google's clouds
	@touch $@

identical: $(READY) ## Replay the programs of docs/identical.md as often as it says, and put old defects back.
	$(BIN)/python -m pytest -q $(PARALLEL) --night --replays=20 \
		tests/conformance/identical tests/conformance/defects

night: $(READY) ## Run all tests with every cell of each sweep, more replays and more random draws.
	$(BIN)/python -m pytest -q $(PARALLEL) $(AT_NIGHT) --every-check --replays=20 \
		--orders=100 --programs=20 --fuzz-files=3000 --kills=100 tests

orders: $(READY) ## Answer the calls of programs without a race in a thousand orders each: no alarm.
	$(BIN)/python -m pytest -q $(PARALLEL) -o faulthandler_timeout=1800 --orders=1000 \
		tests/conformance/test_orders.py

drawn: $(READY) ## Draw 200 programs of LangGraph and 200 of LlamaIndex at random: each replays equal, and reports nothing. OF=1000 draws more, FROM=200 others.
	$(BIN)/python -m pytest -q $(PARALLEL) -o faulthandler_timeout=600 -rx \
		--programs=$(or $(filter-out tests/%,$(OF)),200) --first-program=$(or $(FROM),0) tests/conformance/drawn

imports: $(IMPORTS)/.ready ## Import widely used packages within sessions, record and replay. OF="pandas polars" chooses.
	$(IMPORTS)/bin/python tests/first_use/run.py $(filter-out tests/%,$(OF))

$(IMPORTS)/.ready: pyproject.toml packages/core/pyproject.toml
	$(PYTHON) -m venv $(IMPORTS)
	$(IMPORTS)/bin/python $(INSTALL) --upgrade -c constraints.txt pip
	$(IMPORTS)/bin/python $(INSTALL) -e packages/core --group imports
	@touch $@

servers: $(SERVERS)/.ready ## Record `langgraph dev` as it stands, and replay it, in an environment of its own.
	$(SERVERS)/bin/python tests/servers/run.py

$(SERVERS)/.ready: pyproject.toml $(wildcard packages/*/pyproject.toml)
	$(PYTHON) -m venv $(SERVERS)
	$(SERVERS)/bin/python $(INSTALL) --upgrade -c constraints.txt pip
	$(SERVERS)/bin/python $(INSTALL) \
		-e 'packages/core[cli]' -e packages/langchain -e packages/langgraph --group servers
	@touch $@

stores: $(STORES)/.ready ## Check, redact and erase recordings in S3, as moto's server speaks it. OF=2000 takes more of them.
	$(STORES)/bin/python tests/stores/run.py $(filter-out tests/%,$(OF))

$(STORES)/.ready: pyproject.toml packages/core/pyproject.toml
	$(PYTHON) -m venv $(STORES)
	$(STORES)/bin/python $(INSTALL) --upgrade -c constraints.txt pip
	$(STORES)/bin/python $(INSTALL) -e 'packages/core[cli,fsspec]' --group stores
	@touch $@

suites: $(SUITES)/.ready ## Run other people's tests plainly, recorded and replayed. OF=workflows chooses.
	$(SUITES)/bin/python tests/upstream/run.py $(filter-out tests/%,$(OF))

$(SUITES)/.ready: pyproject.toml constraints.txt tests/upstream/constraints.txt packages/core/pyproject.toml packages/langchain/pyproject.toml \
		packages/langgraph/pyproject.toml packages/llamaindex/pyproject.toml
	$(PYTHON) -m venv $(SUITES)
	$(SUITES)/bin/python $(INSTALL) --upgrade -c constraints.txt pip
	$(SUITES)/bin/python $(INSTALL) -c tests/upstream/constraints.txt \
		-e packages/core -e packages/langchain -e packages/langgraph -e packages/llamaindex --group suites
	$(SUITES)/bin/python $(INSTALL) --no-deps langchain-tests==1.1.9 # it asks for an older vcrpy than the tracers of LlamaIndex
	@touch $@

frameworks: .venv-frameworks/.ready .venv-crewai/.ready ## Record, replay and update agents of eight other frameworks, and write the table of docs/other-frameworks.md. OF="dspy ag2" chooses.
	.venv-frameworks/bin/python tests/frameworks/run.py $(filter-out tests/%,$(OF))

# CrewAI requires an older openai than the others.
.venv-frameworks/.ready .venv-crewai/.ready: .venv-%/.ready: tests/frameworks/%.txt pyproject.toml packages/core/pyproject.toml
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python $(INSTALL) --upgrade -c constraints.txt pip
	.venv-$*/bin/python $(INSTALL) -r tests/frameworks/$*.txt -e packages/core
	@touch $@

check: lint types test ## All that gates a change: lint, types, import layers, docs, tests.

lint: $(READY) ## Check style, formatting, import layers and English.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python docs/english.py

types: $(READY) ## Check types, strictly.
	MYPYPATH=examples:docs $(BIN)/mypy $(SOURCES) examples/weather_agent examples/library_agent examples/trip_desk \
		docs/hooks.py docs/signatures.py docs/english.py docs/words.py

docs: $(READY) ## Execute every snippet of the README and the docs.
	$(BIN)/python -m pytest -q tests/docs

site: $(READY) ## Build the documentation into site/, strictly; the tests do so, too.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(READY) ## Measure the budgets as ratios, beside what others do.
	$(BIN)/python $(INSTALL) --no-deps --upgrade --target .venv-bench --group bench
	PYTHONPATH=$(CURDIR)/.venv-bench $(BIN)/python benchmarks/run.py $(BENCH)

words: $(READY) ## Count what a native engineer would write another way, and lower the budgets to that.
	$(BIN)/python docs/words.py

ceilings: $(READY) ## Lower the ceilings of tests/workspace/ceilings.toml to what the code has and costs now.
	$(BIN)/python -m tests.workspace.ceilings

compatible: $(READY) ## Find what breaks programs written for the last release. AGAINST=main compares with another revision.
	@against=$(AGAINST); against=$${against:-$$(git describe --tags --abbrev=0 2> /dev/null)} || \
		{ echo "No release has a tag yet: nothing to compare with. AGAINST=REVISION names one."; exit 0; }; \
	status=0; for name in $(NAMES); do \
		$(BIN)/griffe check agenttape_$$name -s packages/$$name/src -a "$$against" -f oneline || status=1; \
	done; exit $$status

# The time of the last commit is that of the files in the distributions; without git, hatchling has a fixed one.
BUILD = epoch=$$(git log -1 --format=%ct 2> /dev/null) && export SOURCE_DATE_EPOCH=$$epoch PIP_CONSTRAINT=constraints.txt; for name in $(NAMES); do \
	$(BIN)/python -m build --outdir $(1) packages/$$name > /dev/null || exit 1; done

build: $(READY) ## Build the wheels and source distributions into dist/, and check them.
	$(BIN)/python $(INSTALL) -c constraints.txt --group build
	rm -rf dist
	$(call BUILD,dist)
	$(BIN)/twine check --strict dist/*

reproducible: build ## Build again, as on another machine: the distributions have the same bytes.
	rm -rf .venv-again
	umask 077 && export TZ=Asia/Tokyo LC_ALL=C; $(call BUILD,.venv-again)
	diff -r dist .venv-again

wheels: build ## Install the wheels in an empty environment of each Python, and run the README's commands. OF="3.14" chooses.
	$(BIN)/python -m tests.matrix.wheels $(filter-out tests/%,$(OF))

viewer: ## Build the page of `agenttape show --html` anew; needs Node.js 20 or later, and npm.
	cd packages/core/viewer && npm install --no-package-lock --ignore-scripts --no-audit --no-fund && npm run build

clean: ## Remove what the other targets made.
	rm -rf $(VENV) .venv-* site packages/core/viewer/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache htmlcov .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
