"""Small cassettes that hold a bit of everything, to be damaged."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import ipaddress
import pathlib
import re
import uuid
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from pydantic import AnyUrl, BaseModel, SecretStr

from agenttape_core.schema import (
    PYTHON_VALUES,
    Header,
    Interaction,
    Outcome,
    RecordedError,
    Step,
    StepTiming,
    Timing,
    Usage,
    Volatile,
)

Sample = tuple[Header, list[Interaction | Step]]


class Model(BaseModel):
    name: str
    tags: list[str] = []


@dataclasses.dataclass
class Data:
    count: int


class Colour(enum.Enum):
    RED = 1


Pair = collections.namedtuple("Pair", "left right")  # noqa: PYI024 - one without types is another class

VALUES: list[Any] = [
    (1, "two", None),
    {3},
    frozenset({"x"}),
    b"\x00\xff",
    bytearray(b"bytes"),
    collections.deque([1, 2], 5),
    collections.OrderedDict(a=1),
    collections.Counter("abca"),
    collections.defaultdict(list, {"k": [1]}),
    {1: "one", None: "none"},
    dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
    dt.datetime(2026, 7, 1, tzinfo=ZoneInfo("Europe/Paris")),
    dt.date(2026, 1, 2),
    dt.time(3, 4),
    dt.timedelta(days=1, microseconds=5),
    uuid.UUID(int=7),
    decimal.Decimal("1.50"),
    fractions.Fraction(1, 3),
    1 + 2j,
    range(1, 9, 2),
    re.compile("a+", re.IGNORECASE),
    ipaddress.ip_network("10.0.0.0/8"),
    array.array("d", [1.0, 2.5]),
    np.arange(6).reshape(2, 3),
    np.zeros(100),
    pathlib.PurePosixPath("some/where"),
    Model(name="m", tags=["t"]),
    Data(4),
    Colour.RED,
    Pair("l", "r"),
    AnyUrl("https://example.com/"),
    SecretStr("hidden"),
    "lone \ud800 surrogate",
    float("inf"),
    {"$user": "a dict that looks like a tag"},
]


def _interaction(number: int, outcome: Outcome, **changes: Any) -> Interaction:
    fields: dict[str, Any] = {
        "number": number,
        "kind": "chat",
        "name": "Model",
        "address": f"agent/model#{number}",
        "fingerprint": f"{number:032x}",
        "request": {"messages": [{"role": "human", "content": f"question {number}"}]},
    }
    return Interaction(**{**fields, **changes}, outcome=outcome)


def _rich() -> Sample:
    """Every way to end, text of every sort, parents, ids, tags, every field of the header."""
    broken = RecordedError(type="builtins:ValueError", message="broke", args=["broke", 1], bases=["builtins:Exception"])
    unknown = RecordedError(type="nowhere.at.all:Odd", message="odd", attributes={"code": 429, "__notes__": ["n"]})
    text = "prose\n  of lines\n\nZażółć 🙂 \u2028 \x07 \x85 ---\n...\n"
    interactions: list[Interaction | Step] = [
        _interaction(1, Outcome(status="returned", value=text, usage=Usage(input_tokens=3, output_tokens=5))),
        _interaction(2, Outcome(status="streamed", chunks=["a", {"b": [1.5, -2e-7]}, None], ended="exhausted")),
        _interaction(3, Outcome(status="streamed", chunks=["half"], ended="closed"), parent=2, tags=["t"]),
        _interaction(5, Outcome(status="streamed", chunks=[], ended="raised", error=broken), kind="tool", name=text),
        _interaction(6, Outcome(status="raised", error=unknown), ids=[str(uuid.UUID(int=n)) for n in (5, 6)], parent=5),
        _interaction(9, Outcome(status="returned"), kind="own", request={}, address="", fingerprint="yes"),
    ]
    header = Header.model_validate(
        {
            "name": "rich",
            "derived_from": "live.yaml",
            "tags": ["nightly"],
            "input": {"question": text},
            "freeze": {"kinds": ["clock", "uuid"], "seed": "7", "environment": {"HOME": None, "LANG": "C"}},
            "redaction": {"key": "00ff", "rules": ["customer"]},
            "ignore": ["**.created_at"],
            "volatile": Volatile(
                created="2026-01-02T03:04:05Z",
                clock=1767323045.5,
                python="3.11.9",
                packages={"agenttape-core": "0.1.0"},
                timings={1: Timing(duration_ms=12.5), 2: Timing(duration_ms=100.0, offsets_ms=[10.1, 20.2])},
            ),
        }
    )
    return header, interactions


def _agent() -> Sample:
    """Continuations, with all, with some and with none of the messages kept."""
    tools = [{"name": "look", "description": "Looks it up. " * 50}]
    messages: list[Any] = [{"role": "human", "content": "Do it."}]
    interactions: list[Interaction | Step] = []
    for number in range(1, 6):
        request: dict[str, Any] = {"model": "m", "tools": tools, "messages": list(messages)}
        if number == 4:
            request = {"tools": tools, "messages": [*messages[:2], {"role": "human", "content": "Again."}]}
        if number == 5:
            request = {"tools": tools, "messages": [{"role": "human", "content": "Anew."}], "stop": ["x"]}
        answer = {"role": "ai", "content": f"step {number}"}
        interactions.append(_interaction(number, Outcome(status="returned", value=answer), request=request))
        messages += [answer, {"role": "tool", "content": f"result {number}"}]
    return Header(name="agent"), interactions


def _typed() -> Sample:
    """A value of each family that has a codec."""
    encoded = [PYTHON_VALUES.encode(value) for value in VALUES]
    half = len(encoded) // 2
    outcomes = [
        Outcome(status="returned", value=encoded[:half]),
        Outcome(status="streamed", chunks=encoded[half:], ended="exhausted"),
    ]
    return Header(name="typed"), [_interaction(n, outcome) for n, outcome in enumerate(outcomes, start=1)]


def _steps() -> Sample:
    """Steps between interactions, what was said of both, and how well they are kept."""
    error = RecordedError(type="builtins:KeyError", message="'k'", args=["k"])
    records: list[Interaction | Step] = [
        Step(number=1, kind="chain", name="agent", address="agent", input={"q": ["x", {"$tuple": [1]}]}, tags=["a"]),
        _interaction(1, Outcome(status="returned", value="v"), metadata={"by": {"whom": "me"}}),
        Step(number=2, kind="node", name="n\nn", address="agent/n", status="failed", error=error, metadata={"k": None}),
        Step(number=4, kind="event", name="e", address="agent", data=[1.5, "text\n of lines\n"], status="open"),
        _interaction(2, Outcome(status="returned"), fidelity="lossy", fidelity_note="the chunks are lost"),
        Step(number=5, kind="tool", name="t", address="", fidelity="missing", fidelity_note="no codec", output="o"),
    ]
    steps = {1: StepTiming(start_ms=0.0, duration_ms=9.5), 2: StepTiming(start_ms=1.5, duration_ms=0.1)}
    timings = {2: Timing(start_ms=3.5, duration_ms=1.0)}
    return Header(name="steps", volatile=Volatile(steps=steps, timings=timings)), records


def _picture() -> Sample:
    """A binary part that is large enough for a file of its own."""
    value = PYTHON_VALUES.encode({"png": b"\x89PNG\r\n\x1a\n" + bytes(n % 251 for n in range(17_000))})
    return Header(name="picture"), [_interaction(1, Outcome(status="returned", value=value))]


SAMPLES: list[Sample] = [_rich(), _agent(), _typed(), _steps(), _picture()]
