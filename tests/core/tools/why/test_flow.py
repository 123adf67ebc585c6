"""Which recorded answer moves which later call: exactly what the program does with them, whatever it does."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteNotFoundError, ConfigurationError, VerificationError
from agenttape_core.experiments import why
from agenttape_core.experiments.strategies.outcome_trees import holds, longer, perturbed, turned
from agenttape_core.experiments.strategies.why import RESULT
from agenttape_core.results import Edge, Flow
from agenttape_core.schema import IndexRow, Outcome

USES: dict[str, Callable[[Any], str]] = {
    "as it is": lambda answer: str(answer["said"]),
    "in capitals": lambda answer: str(answer["said"]).upper(),
    "its length": lambda answer: str(len(answer["said"])),
    "its first letter": lambda answer: str(answer["said"])[0],
    "a number in it": lambda answer: str(sum(int(char) for char in str(answer["said"]) if char.isdigit())),
    "the number beside it": lambda answer: str(answer["count"] // 2 + answer["count"] % 2),
    "the JSON in it": lambda answer: str(json.loads(answer["data"])["order"]),
    "its last row": lambda answer: str(answer["rows"][-1]),
}


class Call(NamedTuple):
    """A call of a generated program.

    Args:
        uses: What it is asked with: a use of the answer of an earlier call.
    """

    uses: dict[int, str]


@st.composite
def programs(draw: Any) -> list[Call]:
    """A program of a few calls, each of which uses some earlier answers somehow."""
    count = draw(st.integers(2, 6))
    return [
        Call({before: draw(st.sampled_from(sorted(USES))) for before in range(number) if draw(st.booleans())})
        for number in range(count)
    ]


@boundary("chat")
def ask(number: int, *words: str) -> dict[str, Any]:
    """Answer with data that says nothing of the question."""
    order = {"order": f"order {9000 + number}", "open": True}
    return {"said": f"answer {number}", "count": 2 * number, "data": json.dumps(order), "rows": [f"row {number}", "x"]}


_files = itertools.count()


@pytest.mark.slow
@given(programs())
@settings(max_examples=settings().max_examples // 4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_edges_are_the_flow(tmp_path: Path, calls: list[Call]) -> None:
    """The edges between the calls of any program are those of its code, no more and no less."""

    def run() -> None:
        answers: list[Any] = []
        for number, call in enumerate(calls):
            answers.append(ask(number, *(USES[how](answers[before]) for before, how in call.uses.items())))

    cassette = tmp_path / f"{next(_files)}.yaml"
    with use_cassette(cassette, mode="all"):
        run()
    found = {(edge.source, edge.target) for edge in why(run, cassette).flow.edges}
    assert found == {(before + 1, number + 1) for number, call in enumerate(calls) for before in call.uses}


@boundary("tool")
def look_up(order: str) -> str:
    """Return an order."""
    return f"order {order} is on its way to Nice"


@boundary("tool")
def weather(town: str) -> str:
    """Return the weather."""
    return f"it rains in {town}"


def desk() -> str:
    """Answer a question with two tools and two calls of a model."""
    plan = ask(9981)
    order, rain = look_up(json.loads(plan["data"])["order"]), weather("Nice")
    said = ask(2, order)
    return f"{said['said']}: {order}" if rain else ""


@pytest.fixture
def recorded(project: Path) -> Path:
    """The recording of the desk."""
    with use_cassette("desk", mode="all"):
        desk()
    return Path("cassettes/desk.yaml")


def test_the_links_behind_an_answer(recorded: Path) -> None:
    """The chain goes from the answer to where it comes from; what does not matter is not on it."""
    found = why(desk, "desk")
    assert found.call.number == 4
    assert [(edge.source, edge.target, edge.way) for edge in found.links] == [(2, 4, "data"), (1, 2, "data")]
    assert found.sources == [1]
    assert "← 2 tool look_up at look_up: in arguments.words[0]\n    ← 1 chat ask at ask: in arguments.order" in str(
        found
    )
    assert "it is likely, and not shown" in str(found)
    assert {edge.source for edge in found.flow.into(RESULT)} == {2, 4}
    assert found.to_dict()["links"][0] == {"from": 2, "to": 4, "way": "data", "at": ["arguments.words[0]"]}


def test_a_text(recorded: Path) -> None:
    """Of a text, only its occurrences are changed, and the last answer that holds it is in question."""
    found = why(desk, "desk", text="order 18981")
    assert (found.call.number, found.sources, found.replays) == (2, [1], 4)
    assert why(desk, "desk", text="Nice").links == []
    assert "it comes from this call itself" in str(why(desk, "desk", text="it rains"))


def test_another_way(project: Path) -> None:
    """A call that is not made with another answer is reached through a route, and is no link of data."""

    def run() -> None:
        if ask(1)["rows"][0] == "row 1":
            weather("Nice")

    with use_cassette("c", mode="all"):
        run()
    found = why(run, "c", call=2)
    assert [(edge.source, edge.target, edge.way) for edge in found.links] == [(1, 2, "route")]
    assert "through a route: with another answer the call is not made" in str(found)


def test_what_can_be_no_other(project: Path) -> None:
    """An answer without a value that could be another moves nothing, and is named."""

    @boundary("tool")
    def nothing() -> None:
        return None

    def run() -> None:
        nothing()
        weather("Nice")

    with use_cassette("c", mode="all"):
        run()
    found = why(run, "c")
    assert found.flow.fixed == [1]
    assert "that follows from the program and its input alone" in str(found)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"call": 9}, "holds 4 calls, and none is number 9: 1 chat ask"),
        ({"text": "8 o'clock"}, 'no recorded answer of cassettes/desk.yaml holds "8 o\'clock"'),
        ({"text": ""}, "expected a text"),
        ({"runs": 3}, "that takes 10 replays, and 3 are allowed"),
    ],
)
def test_wrong_questions(recorded: Path, options: Any, problem: str) -> None:
    """Each is refused before anything runs."""
    with pytest.raises(ConfigurationError) as error:
        why(desk, "desk", **options)
    assert problem in str(error.value)


def test_what_does_not_replay(recorded: Path) -> None:
    """A program that is another one is named first, and so is a cassette that is not there."""
    with pytest.raises(VerificationError, match="to begin with"):
        why(lambda: weather("Paris"), "desk")
    with pytest.raises(CassetteNotFoundError):
        why(desk, "nowhere")


@pytest.mark.parametrize(
    ("change", "text", "number"),
    [(turned, "Psefs :983 jt po jut xbz", "D-28"), (longer, "Order 9872 is on its way zzz", "C-17 zzz")],
)
def test_streams_are_changed_as_a_whole(change: Any, text: str, number: str) -> None:
    """The texts of a stream are cut anywhere, and are changed as if they were not; keys and ids stay."""
    pieces = [
        {"$chunk": "Order 9"},
        {"$chunk": "872 is on its way"},
        {"$chunk": {"tool_call_chunks": [{"name": "look", "args": '{"num', "id": "call_1", "index": 0}]}},
        {"$chunk": {"tool_call_chunks": [{"args": 'ber": "C-17"}', "index": 0}]}},
    ]
    recorded = Outcome(status="streamed", ended="exhausted", chunks=pieces)
    other = perturbed(recorded, change)
    assert other is not None
    assert other.chunks is not None
    assert "".join(chunk["$chunk"] for chunk in other.chunks[:2]) == text.replace(":983", "0983")
    calls = [chunk["$chunk"]["tool_call_chunks"][0] for chunk in other.chunks[2:]]
    assert json.loads("".join(call["args"] for call in calls)) == {"number": number}
    assert (calls[0]["name"], calls[0]["id"], calls[0]["index"]) == ("look", "call_1", 0)
    assert holds(recorded, "9872")
    assert holds(recorded, "number")
    assert not holds(recorded, "9873")


def test_paths_of_a_flow() -> None:
    """What is behind a call is found once each, also where the edges go in a circle."""
    calls = {n: IndexRow(number=n, kind="chat", name="x", address=f"x#{n}", fingerprint="0" * 32) for n in range(1, 5)}
    edges = [Edge(1, 2, "data"), Edge(2, 3, "route"), Edge(1, 3, "data"), Edge(3, 2, "data"), Edge(4, 1, "data")]
    behind = Flow(calls, edges).behind(3)
    assert {(edge.source, edge.target) for edge in behind} == {(1, 3), (2, 3), (4, 1), (1, 2), (3, 2)}
    assert len(behind) == 5
