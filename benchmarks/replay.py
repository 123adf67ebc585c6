"""The budgets of the design as ratios, measured in one process: `make bench`.

Each figure is the median of several rounds. Compare ratios, not microseconds: they hold on a slow or busy machine.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agenttape_core import open_cassette, use_cassette
from agenttape_langchain import ReplayChatModel, tape

ROUNDS, CALLS = 7, 200
SHORT: list[AnyMessage] = [HumanMessage("What is the weather in Paris?")]
LONG: list[AnyMessage] = [
    message
    for turn in range(25)
    for message in (
        HumanMessage(f"question {turn} " + "lorem ipsum " * 66),
        AIMessage(f"answer {turn} " + "sit amet " * 88),
    )
]


def fake() -> GenericFakeChatModel:
    """Return a model that always answers the same."""

    def forever() -> Iterator[AIMessage | str]:
        while True:
            yield AIMessage("The weather is fine today.")

    return GenericFakeChatModel(messages=forever())


def microseconds(call: Callable[[], object]) -> float:
    """Return the median time of a call in µs."""
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(CALLS):
            call()
        rounds.append((time.perf_counter() - began) / CALLS * 1e6)
    return statistics.median(rounds)


def row(what: str, found: str, budget: str) -> None:
    """Print a line of the table."""
    print(f"{what:<58} {found:>16}   {budget}")


def replay_and_record(folder: Path) -> None:
    """Measure a replayed and a recorded call against the same call of the bare fake model."""
    for name, messages, budget in (("short chat", SHORT, 1.3), ("50 messages, 40 KB", LONG, 2.0)):
        for suffix in ("yaml", "jsonl"):
            path = folder / f"{name.partition(' ')[0]}.{suffix}"
            bare, model = fake(), tape(fake())
            base = microseconds(lambda bare=bare, messages=messages: bare.invoke(messages))
            with use_cassette(path, mode="all"):
                recorded = microseconds(lambda model=model, messages=messages: model.invoke(messages))
            with use_cassette(path):
                replayed = microseconds(lambda model=model, messages=messages: model.invoke(messages))
            stand_in = ReplayChatModel(path)
            alone = microseconds(lambda stand_in=stand_in, messages=messages: stand_in.invoke(messages))
            row(f"replay {name} ({suffix}), tape(model)", f"{replayed / base:.2f}x", f"<= {budget}x of {base:.0f} us")
            row(f"replay {name} ({suffix}), ReplayChatModel", f"{alone / base:.2f}x", f"<= {budget}x")
            row(f"record {name} ({suffix}), overhead", f"{(recorded - base) / 1000:.2f} ms", "<= 0.5 ms")


def files(folder: Path) -> None:
    """Measure the opening of a large cassette and the size of a long conversation."""
    many = folder / "many.yaml"
    model = tape(fake())
    with use_cassette(many, mode="all"):
        for number in range(10_000):
            model.invoke(f"question {number}")
    began = time.perf_counter()
    open_cassette(many)
    row("open a cassette of 10 000 interactions", f"{(time.perf_counter() - began) * 1000:.0f} ms", "<= 50 ms")
    tracemalloc.start()
    cassette = open_cassette(many)
    row(
        f"  its memory ({len(cassette.entries)} rows)", f"{tracemalloc.get_traced_memory()[0] / 1e6:.1f} MB", "<= 20 MB"
    )
    tracemalloc.stop()
    for turns in (25, 100, 200, 400):
        path = folder / f"turns{turns}.yaml"
        history: list[AnyMessage] = [HumanMessage("Plan my trip.")]
        with use_cassette(path, mode="all"):
            for turn in range(turns):
                model.invoke(history)
                call = {"name": "search", "args": {"query": f"hotel {turn}"}, "id": f"call_{turn}"}
                history += [AIMessage("", tool_calls=[call]), ToolMessage("found " * 170, tool_call_id=f"call_{turn}")]
        row(f"file of a {turns}-turn agent", f"{path.stat().st_size / 1e6:.2f} MB", "200 turns: <= 0.6 MB")


def imports() -> None:
    """Measure what importing us costs over importing LangChain."""

    def milliseconds(code: str) -> float:
        timed = f"import time; t = time.perf_counter(); {code}; print((time.perf_counter() - t) * 1000)"
        runs = [
            subprocess.run(  # noqa: S603 - our own words
                [sys.executable, "-c", timed], check=True, capture_output=True
            )
            for _ in range(ROUNDS)
        ]
        return statistics.median(float(run.stdout) for run in runs)

    framework = "import langchain_core.language_models.chat_models, langchain_core.tools, langchain_core.output_parsers"
    base = milliseconds(framework)
    row(
        "import agenttape_langchain, over langchain_core",
        f"{milliseconds(f'{framework}; import agenttape_langchain') - base:.0f} ms",
        "<= 40 ms",
    )


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        replay_and_record(Path(folder))
        files(Path(folder))
    imports()


if __name__ == "__main__":
    main()
