"""The measurements, and the rows of the table."""

from __future__ import annotations

import gc
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

ROUNDS = 7


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    what: str
    found: str
    budget: str = ""


@dataclass(frozen=True)
class Scale:
    """The amount that is measured: all of it, or just enough to see that the benchmark works."""

    calls: int = 200
    """Calls in each round."""
    sizes: tuple[int, ...] = (100, 1_000, 10_000)
    """Interactions in a cassette."""
    turns: tuple[int, ...] = (25, 50, 100, 200, 400)
    """Turns of an agent."""


FULL = Scale()
QUICK = Scale(calls=5, sizes=(20,), turns=(3,))

SHORT: list[AnyMessage] = [HumanMessage("What is the weather in Paris?")]
LONG: list[AnyMessage] = [
    message
    for turn in range(25)
    for message in (
        HumanMessage(f"question {turn} " + "lorem ipsum " * 66),
        AIMessage(f"answer {turn} " + "sit amet " * 88),
    )
]
REPLY = "The weather is fine today."


def fake() -> GenericFakeChatModel:
    """Return a model that always answers the same."""

    def forever() -> Iterator[AIMessage | str]:
        while True:
            yield AIMessage(REPLY)

    return GenericFakeChatModel(messages=forever())


def microseconds(call: Callable[[], object], times: int) -> float:
    """Return the time of one call in µs: the least of several rounds.

    The least is what the code costs; everything above it is what else the machine did.
    """
    rounds = []
    for _ in range(ROUNDS):
        gc.collect()
        began = time.perf_counter()
        for _ in range(times):
            call()
        rounds.append((time.perf_counter() - began) / times * 1e6)
    return min(rounds)


def milliseconds(work: Callable[[], object]) -> float:
    """Return the median time of some work in ms."""
    rounds = []
    for _ in range(ROUNDS):
        gc.collect()
        began = time.perf_counter()
        work()
        rounds.append((time.perf_counter() - began) * 1000)
    return statistics.median(rounds)


def machine() -> str:
    """Return what the table was measured with; nothing that names the machine's owner."""
    cpu = next(
        (line.partition(": ")[2] for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor() or platform.machine(),
    )
    packages = ("agenttape-core", "langchain-core", "pydantic", "pyyaml", "vcrpy", "langchain-community")
    return f"{cpu}, Python {platform.python_version()}, " + ", ".join(f"{name} {_version(name)}" for name in packages)


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []


def _version(name: str) -> str:
    try:
        return version(name)
    except ModuleNotFoundError:
        return "not installed"
