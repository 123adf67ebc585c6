"""One call, replayed and recorded, against the same call of LangChain's fake model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from measure import FULL, LONG, ROUNDS, SHORT, Row, Scale, fake, microseconds

from agenttape_core import use_cassette
from agenttape_langchain import ReplayChatModel, tape


def replay_and_record(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure a replayed and a recorded call of a short and of a long conversation."""
    for name, messages, budget in (("short chat", SHORT, 1.3), ("50 messages, 40 KB", LONG, 2.0)):
        for suffix in ("yaml", "jsonl"):
            path = folder / f"{name.partition(' ')[0]}.{suffix}"
            model = tape(fake())
            base = microseconds(partial(fake().invoke, messages), scale.calls)
            with use_cassette(path, mode="all"):
                recorded = microseconds(partial(model.invoke, messages), scale.calls)
            with use_cassette(path):
                replayed = microseconds(partial(model.invoke, messages), scale.calls)
            alone = microseconds(partial(ReplayChatModel(path).invoke, messages), scale.calls)
            again = microseconds(partial(fake().invoke, messages), scale.calls)
            base = min(base, again)
            of = f"<= {budget}x of {base:.0f} us"
            yield Row(f"replay {name} ({suffix}), `tape(model)`", f"{replayed / base:.2f}x", of)
            yield Row(f"replay {name} ({suffix}), `ReplayChatModel`", f"{alone / base:.2f}x", of)
            yield Row(f"record {name} ({suffix}), overhead", f"{(recorded - base) / 1000:.2f} ms", "<= 0.5 ms")


def growth(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure whether a call costs the same in a large cassette: equal requests, and each its own."""
    for size in scale.sizes:
        for name, words in (("equal", "the same"), ("unique", "question {}")):
            path, model = folder / f"{name}{size}.jsonl", tape(fake())
            questions = [words.format(number) for number in range(size)]
            with use_cassette(path, mode="all"):
                for question in questions:
                    model.invoke(question)
            base = microseconds(partial(fake().invoke, "the same"), scale.calls)
            waiting = iter(questions)
            with use_cassette(path, unused="ignore"):
                replayed = microseconds(lambda: model.invoke(next(waiting)), min(scale.calls, size // ROUNDS))  # noqa: B023
            yield Row(f"replay one of {size} {name} calls", f"{replayed / base:.2f}x", "the same at every size")
