"""One call, replayed and recorded, against the same call of LangChain's fake model."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from measure import FULL, LONG, ROUNDS, SHORT, Row, Scale, fake, microseconds
from redaction import prose

from agenttape_core import boundary, use_cassette
from agenttape_core.redaction import Redactor
from agenttape_langchain import ReplayChatModel, tape


def replay_and_record(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure a replayed and a recorded call of a short and of a long conversation."""
    for name, messages, taped, replaying in (("short chat", SHORT, 1.8, 1.5), ("50 messages, 40 KB", LONG, 2.0, 2.0)):
        for suffix in ("yaml", "jsonl"):
            path = folder / f"{name.partition(' ')[0]}.{suffix}"
            model = tape(fake())
            base = microseconds(partial(fake().invoke, messages), scale.calls)
            with use_cassette(path, mode="record"):
                recorded = microseconds(partial(model.invoke, messages), scale.calls)
            with use_cassette(path):
                replayed = microseconds(partial(model.invoke, messages), scale.calls)
            alone = microseconds(partial(ReplayChatModel(path).invoke, messages), scale.calls)
            again = microseconds(partial(fake().invoke, messages), scale.calls)
            base = min(base, again)
            of = f"of {base:.0f} us"
            yield Row(f"replay {name} ({suffix}), `tape(model)`", f"{replayed / base:.2f}x", f"<= {taped}x {of}")
            yield Row(f"replay {name} ({suffix}), `ReplayChatModel`", f"{alone / base:.2f}x", f"<= {replaying}x {of}")
            yield Row(f"record {name} ({suffix}), overhead", f"{(recorded - base) / 1000:.2f} ms", "<= 0.5 ms")


def new_text(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure a call of fifty messages of which none was seen before."""
    times = max(2, scale.calls // 10)
    sessions: dict[str, dict[str, Any]] = {"record": {"mode": "record"}, "replay": {}}
    for name, action in sessions.items():
        path, model, chats = folder / "new.yaml", tape(fake()), [_conversation(seed) for seed in range(times)]
        base = microseconds(partial(fake().invoke, chats[0]), scale.calls)
        took = []
        with use_cassette(path, **action):
            for chat in chats:
                began = time.perf_counter()
                model.invoke(chat)
                took.append((time.perf_counter() - began) * 1e6)
        _forget_texts()
        yield Row(f"{name} 50 new messages, 40 KB of prose", f"{min(took) / base:.1f}x", f"<= 10x of {base:.0f} us")


def _forget_texts() -> None:
    """Fill the memory of texts without secrets, which the sessions of a process share, with others."""
    redactor = Redactor("0" * 64)
    for number in range(6_000):
        redactor.text(f"{number} " * 120)


def _conversation(seed: int) -> list[AnyMessage]:
    """Return a conversation of our own pages' words."""
    text = prose(40_000, seed)
    parts = [text[at : at + 800] for at in range(0, len(text), 800)]
    return [(AIMessage if number % 2 else HumanMessage)(part) for number, part in enumerate(parts)]


@boundary("tool")
def _look_up(city: str) -> str:
    return city


def events(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure what it takes to tell of a call in a file of events."""
    path = folder / "told.yaml"
    with use_cassette(path, mode="record"):
        _look_up("Paris")
    took: dict[Path | None, list[float]] = {None: [], folder / "events.jsonl": []}
    for _ in range(ROUNDS):  # interleaved: what else the machine does slows both
        for sink, rounds in took.items():
            with use_cassette(path, on_repeat="last", events=sink):
                rounds.append(microseconds(partial(_look_up, "Paris"), scale.calls))
    without, told = (min(rounds) for rounds in took.values())
    yield Row(
        "tell of a replayed call in a file of events", f"+{told - without:.0f} us", f"<= 20 us beside {without:.0f}"
    )


def growth(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure whether a call costs the same in a large cassette: equal requests, and each its own.

    Each round has as many calls at every size, as the first calls after a collection of garbage take longer.
    """
    times = min(scale.calls, min(scale.sizes) // ROUNDS)
    for size in scale.sizes:
        for name, words in (("equal", "the same"), ("unique", "question {}")):
            path, model = folder / f"{name}{size}.jsonl", tape(fake())
            questions = [words.format(number) for number in range(size)]
            with use_cassette(path, mode="record"):
                for question in questions:
                    model.invoke(question)
            base = microseconds(partial(fake().invoke, "the same"), times)
            waiting = iter(questions)
            with use_cassette(path, on_unused="ignore"):
                replayed = microseconds(lambda: model.invoke(next(waiting)), times)  # noqa: B023
            yield Row(f"replay one of {size} {name} calls", f"{replayed / base:.2f}x", "the same at every size")
            waiting, stand_in = iter(questions), ReplayChatModel(path)
            alone = microseconds(lambda: stand_in.invoke(next(waiting)), times)  # noqa: B023
            yield Row(f"the same by `ReplayChatModel`, {size} {name}", f"{alone / base:.2f}x", "the same at every size")
