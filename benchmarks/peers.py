"""The same calls through what others use: vcrpy around a real client on loopback, and LangChain's caches."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import yaml
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_openai import ChatOpenAI
from measure import FULL, LONG, SHORT, Row, Scale, fake, microseconds

from agenttape_core import use_cassette

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from weather_agent.server import OpenAILoopback

INSTALLED = find_spec("vcr") is not None and find_spec("langchain_community") is not None


def caches(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure a hit of LangChain's own caches, in memory and in SQLite."""
    from langchain_community.cache import SQLiteCache

    for name, messages in (("short chat", SHORT), ("50 messages, 40 KB", LONG)):
        bare, cached = fake(), fake()
        for kind, cache in (
            ("in-memory cache", InMemoryCache()),
            ("SQLite cache", SQLiteCache(str(folder / f"{name.partition(' ')[0]}.sqlite"))),
        ):
            with ExitStack() as stack:
                set_llm_cache(cache)
                stack.callback(set_llm_cache, None)
                cached.invoke(messages)
                hit = microseconds(partial(cached.invoke, messages), scale.calls)
            base = microseconds(partial(bare.invoke, messages), scale.calls)
            yield Row(f"hit {name}, LangChain's {kind}", f"{hit / base:.2f}x")


def clients(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure a replayed call of `ChatOpenAI`: through vcrpy, and taped."""
    import vcr

    for name, messages in (("short chat", SHORT), ("50 messages, 40 KB", LONG)):
        bare = fake()
        stem = name.partition(" ")[0]
        tapes = vcr.VCR(record_mode="once")
        times = max(scale.calls // 10, 2)
        with OpenAILoopback() as server:
            model = ChatOpenAI(model="gpt-5-mini", base_url=server.base_url, api_key="sk-any")
            with tapes.use_cassette(str(folder / f"vcr-{stem}.yaml")):
                model.invoke(messages)
            with use_cassette(folder / f"ours-{stem}.yaml", mode="once"):
                model.invoke(messages)
        with tapes.use_cassette(str(folder / f"vcr-{stem}.yaml"), allow_playback_repeats=True):
            theirs = microseconds(partial(model.invoke, messages), times)
        with use_cassette(folder / f"ours-{stem}.yaml", on_repeat="last"):
            ours = microseconds(partial(model.invoke, messages), times)
        base = microseconds(partial(bare.invoke, messages), scale.calls)
        yield Row(f"replay {name}, `ChatOpenAI` under vcrpy", f"{theirs / base:.1f}x")
        yield Row(f"replay {name}, `ChatOpenAI` under AgentTape", f"{ours / base:.1f}x")


def openings(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure how long vcrpy takes to open a cassette."""
    import vcr

    for size in scale.sizes:
        path = folder / f"vcr{size}.yaml"
        interactions = [
            {
                "request": {
                    "method": "POST",
                    "uri": "http://127.0.0.1/v1/chat/completions",
                    "body": f'{{"messages":[{{"role":"user","content":"question {number}"}}]}}',
                    "headers": {"content-type": ["application/json"]},
                },
                "response": {
                    "status": {"code": 200, "message": "OK"},
                    "headers": {"content-type": ["application/json"]},
                    "body": {"string": '{"choices":[{"message":{"content":"The weather is fine today."}}]}'},
                },
            }
            for number in range(size)
        ]
        path.write_text(yaml.dump({"interactions": interactions, "version": 1}, Dumper=yaml.CSafeDumper))
        began = time.perf_counter()
        with vcr.use_cassette(str(path), record_mode="none"):
            opened = time.perf_counter() - began
        yield Row(f"open a cassette of {size} interactions, vcrpy", f"{opened * 1000:.0f} ms")
