"""Opening large cassettes, and the files of long conversations."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage, messages_to_dict
from measure import FULL, Row, Scale, fake, milliseconds

from agenttape_core import open_cassette, use_cassette
from agenttape_langchain import tape

_LINES = "\n".join(f"{n}. Hotel Number {n}, 4 stars, 120 EUR a night" for n in range(20))


def openings(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure opening a cassette, and what it holds in memory."""
    for suffix in ("yaml", "jsonl"):
        for size in scale.sizes:
            path, model = folder / f"open{size}.{suffix}", tape(fake())
            with use_cassette(path, mode="record"):
                for number in range(size):
                    model.invoke(f"question {number}")
            budget = "<= 50 ms, <= 20 MB" if size == max(FULL.sizes) else ""
            took = milliseconds(lambda path=path: open_cassette(path))
            tracemalloc.start()
            cassette = open_cassette(path)
            held = tracemalloc.get_traced_memory()[0] / 1e6
            tracemalloc.stop()
            what = f"open a cassette of {len(cassette.entries)} interactions ({suffix})"
            yield Row(what, f"{took:.1f} ms, {held:.1f} MB", budget)


def agents(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure the file of an agent that sends its whole history again on every turn, and its replay."""
    for name, result in (("1 KB of words", "found " * 170), ("1 KB in 20 lines", _LINES)):
        for turns in scale.turns:
            path, plain = folder / f"turns{turns}{len(result)}.yaml", 0
            history: list[AnyMessage] = [HumanMessage("Plan my trip.")]
            model = tape(fake())
            asked = []
            with use_cassette(path, mode="record"):
                for turn in range(turns):
                    asked.append(list(history))
                    model.invoke(history)
                    plain += len(json.dumps(messages_to_dict(history)))
                    call = {"name": "search", "args": {"query": f"hotel {turn}"}, "id": f"call_{turn}"}
                    history += [AIMessage("", tool_calls=[call]), ToolMessage(result, tool_call_id=f"call_{turn}")]
            began = time.perf_counter()
            with use_cassette(path):
                for messages in asked:
                    model.invoke(messages)
            took = (time.perf_counter() - began) * 1000
            size = path.stat().st_size / 1e6
            yield Row(
                f"file of a {turns}-turn agent, tool results of {name}",
                f"{size:.2f} MB; as plain JSON {plain / 1e6:.2f} MB; replayed in {took:.0f} ms",
                "<= 0.6 MB" if turns == 200 else "",  # noqa: PLR2004 - the turns that the budget is for
            )
