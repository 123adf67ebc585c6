"""Run other people's suites plainly, recorded and replayed, and compare what passes: `make suites`.

The tests are those in the source distributions of packages around LangChain and LlamaIndex, in given versions. pip
downloads them into the environment of the command; they are never committed. Each test gets a cassette around it by a
plugin. A test that passes plainly has to pass while it is recorded, and when that is replayed. Tests that fail
plainly, as the packages that they were written for have moved on, are left out.

    .venv-suites/bin/python tests/upstream/run.py [part of a suite's name]
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(sys.prefix) / "suites"
PATIENCE = 900.0
"""Seconds for one run of a suite."""


@dataclass(frozen=True)
class Suite:
    """A suite of tests in a source distribution.

    Args:
        package: The distribution.
        version: Its version.
        left_out: Paths below its root of tests that are left out, with the reason.
        known: Tests that cannot be equal, by parts of their ids, with the reason.
        tests: The paths below its root that are run.
        without: Parts of the names of tests that need a server.
    """

    package: str
    version: str
    left_out: Mapping[str, str]
    known: Mapping[str, str]
    tests: Sequence[str] = ("tests",)
    without: Sequence[str] = ()

    def folder(self) -> Path:
        """Return the folder of its source, downloaded if it is not there."""
        stem = f"{self.package.replace('-', '_')}-{self.version}"
        folder = SOURCES / stem
        if not folder.is_dir():
            SOURCES.mkdir(parents=True, exist_ok=True)
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
            subprocess.run(
                [*pip, "--dest", str(SOURCES), f"{self.package}=={self.version}"], check=True, timeout=PATIENCE
            )
            with tarfile.open(SOURCES / f"{stem}.tar.gz") as archive:
                archive.extractall(SOURCES, filter="data")
        return folder


OF_THE_CLIENT = "looks for a span of OpenAI's own client, which is not called in a replay"
MOVED_ON = "of a package that is no longer part of the distribution"
COUNTS = "counts, or keeps for itself, what its own models and tools get; a replay serves them"
BY_TYPE = "looks at the objects that its fake model gave away, which a plain run changes"
OF_TIME = "measures how long something took; the clock of a session passes only while the program waits"
POSTS = "looks at what is posted to LangSmith; a replay posts nothing"
HANDLERS = "counts the callback handlers, among which a session has its own"
TOUCHES = "looks at the files that a command or a tool has changed; a replay serves their outcome"
IDENTICAL = "asks for the very exception that its own stub has raised; a replay makes an equal one"
UNKNOWN = "has a tool return an object of a class that no codec knows; a recording refuses it, and says what to do"
MOCKED = "has a model answer with a mock; a recording refuses it"
DOWNLOADS = "is expected to fail, as it may not download a file; a replay reports the attempt, too"
MANY = "makes six thousand calls at once, each of which is recorded on its own, and takes too long"
RESTS = "counts what was collected after three empty steps; a session closes what a program left once its loop rests"
SECONDS = "passes from some moments of a second on only, even plainly: SQLite's clock counts whole ones"
OF_REPLAYS = frozenset({OF_THE_CLIENT, COUNTS, BY_TYPE, POSTS, TOUCHES, IDENTICAL, DOWNLOADS})
"""The reasons for which a test fails in a replay alone."""
SUITES = (
    Suite("langgraph-swarm", "0.1.0", left_out={}, known={}),
    Suite("langgraph-supervisor", "0.0.31", left_out={}, known={"test_supervisor_basic_workflow": BY_TYPE}),
    Suite(
        "langgraph",
        "1.2.22",
        left_out={
            "tests/test_prune_postgres.py": "needs a server",
            **dict.fromkeys(("tests/test_remote_graph.py", "tests/test_remote_graph_v3.py"), "needs a server"),
        },
        known={
            **dict.fromkeys(
                (
                    "test_arun_with_retry_observer_emits_finish_before_retry_backoff",
                    "test_stream_subgraphs_during_execution",
                    "test_stream_buffering_single_node",
                    "test_sync_streaming_with_functional_api",
                ),
                OF_TIME,
            ),
            "test_runnable_callable_tracing_nested": POSTS,
        },
        without=("postgres", "redis"),
    ),
    Suite(
        "langgraph-prebuilt",
        "1.1.2",
        left_out={},
        known=dict.fromkeys(
            (
                "test_react_agent_parallel_tool_calls",
                "test_tool_runtime_forwards_execution_info_server_info_and_tools",
                "override_unregistered_tool_with_custom_impl",
            ),
            COUNTS,
        ),
        without=("postgres", "redis"),
    ),
    Suite(
        "langgraph-checkpoint-sqlite",
        "3.1.2",
        left_out={"tests/test_conformance_delta.py": "needs a package that is not distributed"},
        known={
            "test_large_batches_async": MANY,
            **dict.fromkeys(("test_ttl_refresh", "test_async_asearch_refresh_ttl"), SECONDS),
        },
    ),
    Suite(
        "langchain-openai",
        "1.7.3",
        left_out={},
        known=dict.fromkeys(
            (
                *("test_openai_stream", "test_openai_invoke", "test_openai_ainvoke", "test_openai_invoke_name"),
                *("test_function_calls_with_tool_calls", "test_codex.py", "test_auto_mode.py"),
                *("test_embed_documents_with_custom_chunk_size_no_check_ctx_length", "test_embed_with_kwargs"),
                *("decisions/test_base.py", "test_model_router.py"),
            ),
            COUNTS,
        )
        | {"test_openai_get_num_tokens": DOWNLOADS},
        tests=("tests/unit_tests",),
    ),
    Suite(
        "langchain-anthropic",
        "1.7.7",
        left_out={},
        known={
            "test_rename_via_tool_dispatch": TOUCHES,
            "test_mcp_tracing": MOCKED,
            **dict.fromkeys(("test_missing_credentials_error", "test_unrelated_type_error"), IDENTICAL),
        },
        tests=("tests/unit_tests",),
    ),
    Suite(
        "langchain",
        "1.4.7",
        left_out={},
        known={
            **dict.fromkeys(
                (
                    "test_framework.py::test_create_agent_invoke",
                    "test_framework.py::test_create_agent_async_invoke",
                    "test_wrap_model_call.py",
                    "test_human_in_the_loop.py",
                    "test_model_retry.py",
                    "test_tool_retry.py::test_tool_retry_custom_exception_filter",
                    "test_structured_output_retry.py",
                    "test_summarization.py",
                    "test_injected_runtime_create_agent.py",
                    "test_invalid_tool_calls.py",
                    "test_kwargs_tool_runtime_injection.py",
                    "test_response_format_integration.py::test_strict_mode",
                    "test_state_schema.py",
                ),
                COUNTS,
            ),
            "test_startup_and_shutdown_commands": TOUCHES,
        },
        tests=("tests/unit_tests/agents",),
    ),
    Suite(
        "langchain-core",
        "1.7.2",
        left_out={},
        known={
            "test_merge_config_callbacks": HANDLERS,
            "test_rate_limiting.py": OF_TIME,
            **dict.fromkeys(
                ("test_tracing_interops.py", "test_address.py", "test_traceable_to_tracing", "test_langchain.py"), POSTS
            ),
            **dict.fromkeys(
                (
                    "streaming_options_use_sanitized_invocation_params",
                    "TestRunnableBindingForwarding",
                    "TestStructuredOutputKwargStripping",
                    "test_tools.py",
                ),
                COUNTS,
            ),
            **dict.fromkeys(
                (
                    "test_tool_class_callable_uses_constructor_annotations",
                    "test_tool_class_callable_attribute_annotation_is_not_injected",
                    "test_tool_return_output_mixin",
                ),
                UNKNOWN,
            ),
        },
        tests=tuple(
            f"tests/unit_tests/{each}"
            for each in (
                *("runnables", "language_models", "callbacks", "tracers", "output_parsers", "embeddings", "stores"),
                *("chat_history", "vectorstores", "indexing", "caches", "prompts", "documents"),
                *("test_tools.py", "test_retrievers.py"),
            )
        ),
    ),
    Suite(
        "llama-index-workflows",
        "2.10.3",
        left_out=dict.fromkeys(
            (
                "tests/server",
                "tests/client",
                "tests/runtime",
                "tests/protocol",
                "tests/test_scripts.py",
                "packages",
            ),
            MOVED_ON,
        ),
        known={"test_workflow_instances_garbage_collected_after_completion": RESTS},
    ),
    Suite("llama-index-instrumentation", "0.6.0", left_out={}, known={}),
    Suite(
        "openinference-instrumentation-llama-index",
        "4.6.1",
        left_out={},
        known={"test_openai_chat_span_shares_trace_with_llama_index_llm": OF_THE_CLIENT},
    ),
    Suite(
        "opentelemetry-instrumentation-llamaindex",
        "0.62.4",
        left_out={},
        known=dict.fromkeys(
            ("test_structured_llm_model_attributes", "test_structured_llm_achat_model_attributes"),
            OF_THE_CLIENT,
        ),
    ),
)


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def outcomes(suite: Suite, mode: str | None) -> dict[str, str]:
    """Run a suite, and return the outcomes of its tests by their ids.

    Args:
        suite: The suite.
        mode: The mode of the cassettes; `None` for a plain run.
    """
    folder = suite.folder()
    found = folder / "outcomes.json"
    found.unlink(missing_ok=True)
    options = [] if mode is None else [f"--cassette-mode={mode}"]
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "taped_suites"),
            *(
                "--continue-on-collection-errors",
                "--timeout=60",
                *("-o", "addopts="),  # those of their own ask for coverage, or for workers
                "-c",
                str(folder / "pyproject.toml"),
            ),
            *(f"--ignore={folder / each}" for each in suite.left_out),
            *(("-k", " and ".join(f"not {each}" for each in suite.without)) if suite.without else ()),
            *options,
            *(str(folder / each) for each in suite.tests),
        ],
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith(("AGENTTAPE_", "PYTEST_"))},
            "PYTHONPATH": str(Path(__file__).parent),
            "SUITES_OUTCOMES": str(found),
            "SUITES_TAPED": "1" if mode else "",
            "NO_DOCKER": "true",
        },
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
    (folder / f"{mode or 'plain'}.log").write_text(ended.stdout + ended.stderr, encoding="utf-8")
    if not found.is_file():
        raise SystemExit(f"{suite.package} could not be run:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    counted: dict[str, str] = json.loads(found.read_text(encoding="utf-8"))
    return counted


def compared(suite: Suite) -> list[str]:
    """Print the row of a suite, and return the tests that pass plainly and not with cassettes, with the run."""
    shutil.rmtree(suite.folder() / "cassettes", ignore_errors=True)
    plain, recorded, replayed = (outcomes(suite, mode) for mode in (None, "all", "none"))
    lost = [
        f"{suite.package}: {test} passes plainly; {run}: {seen.get(test, 'not run')}"
        for run, seen, fewer in (("recorded", recorded, OF_REPLAYS), ("replayed", replayed, frozenset[str]()))
        for test, outcome in plain.items()
        if outcome in {"passed", "xfailed"}
        and seen.get(test) != outcome
        and not any(known in test and reason not in fewer for known, reason in suite.known.items())
    ]
    counts = [Counter(seen.values()) for seen in (plain, recorded, replayed)]
    cells = [f"{count['passed']} + {count['xfailed']} xfailed, {count['failed']} failed" for count in counts]
    say(f"| {suite.package} {suite.version} | {' | '.join(cells)} |")
    return lost


def main(chosen: str) -> int:
    """Compare the suites whose names have a text in them; return 1 if a test is lost."""
    say("| suite | plain | recorded | replayed |\n|---|---|---|---|")
    lost = [each for suite in SUITES if chosen in suite.package for each in compared(suite)]
    say("\n".join(lost))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
