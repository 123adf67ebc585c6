"""Tracers and telemetry: the hosts that they report to, as integrations register them, and the code that they are.

A replay is not traced unless asked. But tracers send, from their own threads, the spans of other work in this process,
before or next to the replay, and a refused send loses them. So a tracer's host is open to threads outside the program.

Any other attempt of code that only reports on the program is refused like all others, but the run doesn't fail: its
timing doesn't depend on the program. It is refused in the words of a network that is down, which such code is made for.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from collections.abc import Callable, Collection

from agenttape_core.guard.caller import is_library, is_own, is_standard

_providers: list[Callable[[], Collection[str]]] = []

TRACERS = (
    *("ddtrace", "elasticapm", "langfuse", "llama_index.observability", "logfire", "newrelic", "openinference"),
    *("openlit", "opentelemetry", "phoenix.otel", "posthog", "sentry_sdk", "traceloop"),
)
"""Packages and modules that report when something happened, under ids that occur once: a replay is its own run.
LangSmith's are not among them: LangChain hands their runs to the program, so a replay has equal ones."""

_REPORTERS = (
    *TRACERS,
    *("langsmith", "wandb", "mixpanel", "segment", "scarf", "chromadb.telemetry"),
    *("langgraph_cli.analytics", "langgraph_api.cli"),
)
"""Packages and modules whose threads only report on the program that they are part of, or, as the last two do, on the
command line that has started it: use of it, newer versions of it, the page that shows it."""

REPORTING = (
    *("opentelemetry.exporter", "opentelemetry.sdk", "posthog.consumer", "sentry_sdk.transport", "sentry_sdk.worker"),
    *("langfuse._task_manager", "ddtrace.internal", "newrelic.core", "logfire._internal", "langgraph_cli.analytics"),
    *("langgraph_api.metadata", "chromadb.telemetry", "huggingface_hub.utils._telemetry", "mlflow.telemetry"),
    *("mem0.memory.telemetry", "deepeval.telemetry", "ragas._analytics", "crewai.telemetry", "gradio.analytics"),
    *("haystack.telemetry", "phoenix.otel", "agents.tracing", "tqdm._monitor"),
)
"""Modules that only report on the program, on whichever thread it calls them."""


def register_tracer(hosts: Callable[[], Collection[str]]) -> None:
    """Name the hosts that a tracer reports to; asked whenever a replay begins.

    Args:
        hosts: Gives entries as `allow_hosts` takes them.
    """
    _providers.append(hosts)


def tracer_hosts() -> frozenset[str]:
    """Return all of them."""
    return frozenset([host for hosts in _providers for host in hosts()])


def in_telemetry() -> bool:
    """Return True if the caller is code of a tracer or of telemetry, and the program doesn't wait for an answer.

    Either all code on the thread's stack belongs to them and to libraries, or the program called an installed module
    that only reports. Code of the program on the stack of their threads, such as the target of an evaluation, is the
    program's; so is a module of the program that has the name of a tracer.
    """
    outermost: types.FrameType | None = None
    is_near = True
    frame: types.FrameType | None = sys._getframe()  # noqa: SLF001 - gives the stack without building a list
    while frame is not None:
        filename = frame.f_code.co_filename
        if not is_standard(filename) and not is_own(frame):
            outermost = frame
            is_near = is_near and is_library(filename)
            if is_near and _is_of(frame, REPORTING):
                return True
        frame = frame.f_back
    return outermost is not None and is_near and _is_of(outermost, _REPORTERS)


def is_tracer(frame: types.FrameType) -> bool:
    """Return True if the code of a frame belongs to a tracer that is installed."""
    return _is_of(frame, TRACERS)


def _is_of(frame: types.FrameType, names: tuple[str, ...]) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    # Its file is asked for last: to read the code of a frame is an audit event.
    return _is_within(module, names) and is_installed_as(module, frame.f_code.co_filename)


@functools.lru_cache(4096)
def _is_within(module: str, names: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)


_DISTRIBUTIONS = {
    "agents": "openai-agents",
    "elasticapm": "elastic-apm",
    "haystack": "haystack-ai",
    "mem0": "mem0ai",
    "phoenix": "arize-phoenix",
    "scarf": "scarf-sdk",
    "segment": "segment-analytics",
}
"""The distributions of the packages above that have another name. Those of a name and a dash count too."""


@functools.lru_cache(4096)
def is_installed_as(module: str, filename: str) -> bool:
    """Return True if a file belongs to a module, and to the installed distribution with this name.

    A program may have its own module `segment`: attempts by that one must not be taken for telemetry. `filename` is the
    file of its code.
    """
    package = module.partition(".")[0]
    parts = filename.replace(os.sep, "/").split("/")
    begin = next((n for n, part in enumerate(parts) if part in _FOLDERS and n + 1 < len(parts)), None)
    if begin is None or parts[begin + 1].partition(".")[0] != package:
        return False
    from importlib.metadata import distributions  # needed where something was refused, and for spans

    wanted = _DISTRIBUTIONS.get(package, package.replace("_", "-"))
    inside = "/".join(parts[begin + 1 :])
    for distribution in distributions(path=["/".join(parts[: begin + 1])]):
        name = str(distribution.name).lower().replace("_", "-").replace(".", "-")
        if name == wanted or name.startswith(f"{wanted}-"):
            files = distribution.files  # `None` where the installer has kept no list
            if files is None or any(file.as_posix() == inside for file in files):
                return True
    return False


_FOLDERS = frozenset({"site-packages", "dist-packages"})
