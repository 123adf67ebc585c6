"""A replay diverges from its cassette, and what comes of it is a cassette of its own."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import compare_cassettes, open_cassette, raises, returns, use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError, SessionStateError
from agenttape_core.integration import Boundary, StepEvent, current_session, intercept, record_step
from agenttape_core.lifecycle.derived import deriving

SECRET = "anna.schmidt" + "@" + "acme-mail.com"
asked: list[str] = []


@pytest.fixture(autouse=True)
def _empty() -> None:
    asked.clear()


def ask(question: str, kind: str = "tool") -> Any:
    """Ask an oracle that counts how often it is really asked."""

    def really() -> str:
        asked.append(question)
        return f"answer {len(asked)} to {question}"

    return intercept(current_session().cross(Boundary(kind), "oracle", {"question": question}), really)


def note(name: str, **facts: Any) -> None:
    """Record a step."""
    session = current_session()
    record_step(session, StepEvent("node", name, name, session.root.moment(), session.began, **facts))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A recorded run of three questions."""
    path = tmp_path / "run.yaml"
    with use_cassette(path, mode="once"):
        for question in ("a", "b", "c"):
            ask(question)
        note("n", input="x")
    asked.clear()
    return path


def test_nothing_is_executed_before_the_divergence(path: Path) -> None:
    """Before the divergence a call without a recording is a miss, and nothing is written."""
    with pytest.raises(CassetteMissError, match="a call before the first change needs a recording"), deriving(path):
        ask("a")
        ask("z")
    assert asked == []
    assert [file.name for file in path.parent.iterdir()] == ["run.yaml"]


def test_what_is_not_recorded_is_executed_after_it(path: Path) -> None:
    """After it only what is not recorded is executed; the derived cassette holds this run and nothing else."""
    before = path.read_bytes()
    origin = {"why": f"for {SECRET}"}
    derivation = deriving(path, to=path.with_name("other.yaml"), origin=origin, live={"tool"})
    with derivation as session:
        ask("a")
        derivation.allow_execution()
        assert ask("z") == "answer 1 to z"
        assert ask("c") == "answer 3 to c"
        note("m")
    assert asked == ["z"]
    derived = open_cassette(path.with_name("other.yaml"))
    assert [item.request["question"] for item in derived.interactions()] == ["a", "z", "c"]
    assert [step.name for step in derived.steps()] == ["m"]
    assert derived.preface.derived_from == "run.yaml"
    assert derived.preface.origin["why"].startswith("for redacted-email-")
    assert session.written == path.with_name("other.yaml")
    assert path.read_bytes() == before
    with use_cassette(path.with_name("other.yaml")) as replayed:
        assert [ask(question) for question in ("a", "z", "c")] == ["answer 1 to a", "answer 1 to z", "answer 3 to c"]
    assert len(replayed.report.replayed) == 3


@pytest.mark.parametrize(
    ("live", "executed"), [({"chat"}, ["m"]), ({"oracle"}, ["m", "t"]), (False, []), (True, ["m"])]
)
def test_only_what_may_be_is_executed(path: Path, live: Any, executed: list[str]) -> None:
    """After the divergence only the kinds and names that are given are executed; by default tools are not."""
    divergence = deriving(path, live=live)
    refused = pytest.raises(CassetteMissError, match=r"live=\{\.\.\.\} with its kind or name")
    with refused if len(executed) < 2 else nullcontext(), divergence:
        divergence.allow_execution()
        ask("m", "chat")
        ask("t", "tool")
    assert asked == executed


def test_edited_answer_is_the_divergence(path: Path) -> None:
    """A call gets the answer that was chosen for it, redacted in the file, whole in the run; then all may happen."""
    changes = {2: returns(f"ask {SECRET}")}
    with deriving(path, changes=changes, live={"tool"}):
        assert ask("a") == "answer 1 to a"
        assert ask("b") == f"ask {SECRET}"
        assert ask("d") == "answer 1 to d"
    assert asked == ["d"]
    derived = path.with_name("run.derived.yaml")
    assert SECRET not in derived.read_text("utf-8")
    edited = open_cassette(derived).interaction(2)
    assert edited.tags == ["edited"]
    first = compare_cassettes(path, derived, steps=False).first_divergence
    assert first is not None
    assert (first.first, [found.path for found in first.differences]) == (2, ["outcome.value", "tags[0]"])


@pytest.mark.parametrize("live", [True, False])
def test_a_retry_after_an_edited_answer_is_replayed(path: Path, live: bool) -> None:
    """What was recorded is there for the next attempt, and is written beside the edited one; no tool is executed."""
    with deriving(path, changes={2: raises(ConnectionError("429"))}, live=live) as session:
        ask("a")
        with pytest.raises(ConnectionError, match="429"):
            ask("b")
        assert ask("b") == "answer 2 to b"
        assert ask("c") == "answer 3 to c"
    assert (asked, session.report.unused) == ([], ())
    derived = list(open_cassette(path.with_name("run.derived.yaml")).interactions())
    assert [(item.request["question"], item.outcome.status) for item in derived] == [
        ("a", "returned"),
        ("b", "raised"),
        ("b", "returned"),
        ("c", "returned"),
    ]
    with use_cassette(path.with_name("run.derived.yaml")):
        ask("a")
        with pytest.raises(ConnectionError):
            ask("b")
        assert [ask("b"), ask("c")] == ["answer 2 to b", "answer 3 to c"]


def test_an_edited_call_without_a_retry_leaves_nothing_unused(tmp_path: Path) -> None:
    """The recorded attempt, and the calls inside of it, are needed by a retry alone."""
    path = tmp_path / "nested.yaml"
    with use_cassette(path, mode="once") as session:
        outer = session.cross(Boundary("tool"), "agent", {})
        intercept(outer, lambda: ask("inner", "chat"))
    edited = {1: returns("made up")}
    with deriving(path, changes=edited) as session:
        assert intercept(session.cross(Boundary("tool"), "agent", {}), lambda: "executed") == "made up"
    assert session.report.unused == ()
    assert [item.name for item in open_cassette(tmp_path / "nested.derived.yaml").interactions()] == ["agent"]


def test_going_back(path: Path) -> None:
    """What was replayed can be replayed once more, and counts as used whether or not it is asked for again."""
    divergence = deriving(path, live={"tool"})
    with divergence as session:
        assert [ask(question) for question in ("a", "b")] == ["answer 1 to a", "answer 2 to b"]
        session.recordings.index.give_back([1, 2])
        divergence.allow_execution()
        assert ask("a") == "answer 1 to a"
        assert asked == []
        ask("a")
    assert asked == ["a"]
    derived = open_cassette(path.with_name("run.derived.yaml"))
    assert [item.request["question"] for item in derived.interactions()] == ["a", "b", "a"]


def test_steps_are_revised(path: Path) -> None:
    """Steps are kept as they are revised, or not at all."""

    def revise(step: Any) -> Any:
        return None if step.name == "gone" else step.model_copy(update={"input": "seen"})

    with deriving(path, revise=revise):
        note("gone")
        note("kept", input="raw")
    assert [(step.name, step.input) for step in open_cassette(path.with_name("run.derived.yaml")).steps()] == [
        ("kept", "seen")
    ]


def test_misuse(path: Path) -> None:
    """A cassette is not derived from itself, and there is no divergence outside the block."""
    with pytest.raises(ConfigurationError, match="cannot be derived from itself"):
        deriving(path, to=path)
    with pytest.raises(SessionStateError):
        deriving(path).allow_execution()


async def test_asynchronous(path: Path) -> None:
    """It is an asynchronous context manager, too."""
    divergence = deriving(path, live={"tool"})
    async with divergence:
        ask("a")
        divergence.allow_execution()
        ask("z")
    assert asked == ["z"]
