"""Recordings that wait for review: beside the cassette, compared call by call, decided with their dependents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import CassetteError, CassetteMissError, CassetteNotFoundError, ConfigurationError
from agenttape_core.storage import convert, pending_path
from agenttape_core.tools.review import Decided, Pending, accept, pending_in, pending_of, reject
from agenttape_core.tools.review.pending import sort_of

from ...session.world import call

pytestmark = pytest.mark.usefixtures("project")

CASSETTE = Path("cassettes/c.yaml")
WAITING = Path("cassettes/c.pending.yaml")

Run = Callable[[], object]


def record(run: Run, mode: str = "all", *, pending: bool = True) -> None:
    """Record a run, beside the cassette if there is one."""
    with use_cassette("c", mode=mode, review=pending):
        run()


def replays(run: Run) -> bool:
    """Return whether a run replays strictly."""
    try:
        with use_cassette("c"):
            run()
    except (CassetteMissError, AssertionError):
        return False
    return True


def waiting(old: Run, new: Run, mode: str = "all") -> Pending:
    """Record a run, then another one that waits."""
    record(old)
    record(new, mode)
    return pending_of(CASSETTE)


def separate(**answers: str) -> Run:
    """Return a run of calls that know nothing of each other, by their names and answers."""

    def run() -> None:
        for name, answer in answers.items():
            call(name, lambda answer=answer: answer)

    return run


def outcomes() -> Mapping[str, str]:
    """Return what the cassette holds."""
    return {item.name: item.outcome.value for item in open_cassette(CASSETTE).interactions()}


def test_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second recording waits, and nothing replays it; a first one, and a run that failed, do not."""
    record(separate(a="1"))
    assert (CASSETTE.exists(), WAITING.exists(), pending_in()) == (True, False, [])
    before = CASSETTE.read_bytes()
    with pytest.raises(ZeroDivisionError), use_cassette("c", mode="all", review=True):
        raise ZeroDivisionError
    assert not WAITING.exists()
    monkeypatch.setenv("AGENTTAPE_REVIEW", "true")  # a project, or a command, can let all new recordings wait
    with use_cassette("c", mode="all"):
        separate(a="2")()
    assert (CASSETTE.read_bytes(), pending_in()) == (before, [CASSETTE])
    with use_cassette("c"):
        assert call("a", lambda: "3") == "1"


def test_a_recording_that_takes_its_place_supersedes_what_waits() -> None:
    """What waits is older than a recording that was made without waiting, and goes."""
    waiting(separate(a="1"), separate(a="2"))
    record(separate(a="3"), pending=False)
    assert (outcomes(), WAITING.exists()) == ({"a": "3"}, False)


def test_accepting_all_is_recording_without_waiting() -> None:
    """What is accepted as a whole is the file that would have been written at once, byte for byte."""
    pending = waiting(separate(a="1", b="2"), separate(a="3", c="4"))
    new = WAITING.read_bytes()
    decided = accept(pending)
    assert (CASSETTE.read_bytes(), WAITING.exists(), decided.left) == (new, False, 0)


def test_one_of_three() -> None:
    """A call whose answer alone has changed is accepted alone; all other records stay byte for byte, and it replays."""

    def keys(pending: Pending) -> list[str]:
        """Return the keys of what waits, without the cassette."""
        return [call.key.partition("::")[2] for call in pending.calls]

    def records() -> dict[str, bytes]:
        """Return the records of the cassette as they are written, by name."""
        cassette = open_cassette(CASSETTE)
        return {row.name: cassette.written(row.number) for row in cassette.entries}

    old, new = separate(a="1", b="2", c="3"), separate(a="4", b="5", c="6")
    pending = waiting(old, new)
    before = records()
    decided = accept(pending, [pending.calls[1].key])
    assert decided == Decided("cassettes/c.yaml", accepted=("cassettes/c.yaml::b",), left=2)
    assert outcomes() == {"a": "1", "b": "5", "c": "3"}
    assert {name for name, text in records().items() if text != before[name]} == {"b"}
    assert replays(new)
    assert keys(pending_of(CASSETTE)) == ["a", "c"]


def test_what_depends_on_it_comes_along() -> None:
    """A call that was asked with another answer is taken together with that one, from either end."""

    def chain(first: str, *, prompt: str = "go", other: str = "same") -> Run:
        """Return a run in which a call is asked with the answer of the one before, and another one stands alone."""

        def run() -> None:
            said = call("first", lambda: f"it is {first} there", question=prompt)
            call("alone", lambda: other)
            call("second", lambda: f"so {first}", question=f"Sum up: {said}!")

        return run

    for chosen in ("first", "second"):
        CASSETTE.unlink(missing_ok=True)
        pending = waiting(chain("warm"), chain("cold", other="new"))
        decided = accept(pending, [f"cassettes/c.yaml::{chosen}"])
        assert decided.accepted == ("cassettes/c.yaml::first", "cassettes/c.yaml::second")
        assert len(decided.along) == 1
        assert (outcomes()["alone"], decided.needs, decided.left) == ("same", (), 1)
        assert replays(chain("cold"))
        reject(pending_of(CASSETTE))


def test_edits_that_know_nothing_of_each_other() -> None:
    """Of three edited prompts one can be accepted; the others are named, since the edited program asks for them too."""

    def asking(*topics: str) -> Run:
        def run() -> None:
            for number, topic in enumerate(topics):
                call(f"ask{number}", lambda topic=topic: f"{topic} is fine", prompt=f"One word about {topic}")

        return run

    old, new = asking("rain", "snow", "wind"), asking("hail", "sleet", "storm")
    pending = waiting(old, new, "update")
    decided = accept(pending, ["cassettes/c.yaml::ask1"])
    assert decided.accepted == ("cassettes/c.yaml::ask1",)
    assert decided.needs == ("cassettes/c.yaml::ask0", "cassettes/c.yaml::ask2")
    assert replays(asking("rain", "sleet", "wind"))
    assert not replays(new)
    accept(pending_of(CASSETTE), decided.needs)
    assert replays(new)
    assert not WAITING.exists()


def test_new_and_gone_calls_go_with_what_caused_them() -> None:
    """Another answer that makes the program take another way is taken with the calls of that way."""

    def routed(answer: str) -> Run:
        def run() -> None:
            way = call("route", lambda: answer)
            call("free", lambda: answer)
            name = "left" if way == "l" else "right"
            call(name, lambda: "x", side=name)

        return run

    pending = waiting(routed("l"), routed("r"))
    assert [(one.state, one.sort) for one in pending.calls] == [
        ("changed", "words"),
        ("changed", "words"),
        ("gone", "path"),
        ("new", "path"),
    ]
    decided = accept(pending, ["cassettes/c.yaml::right"])
    assert {"cassettes/c.yaml::route", "cassettes/c.yaml::left"} <= set(decided.along)
    assert "left" not in outcomes()
    assert replays(routed("r"))


def test_rejecting_keeps_the_recorded_calls() -> None:
    """What is rejected does not wait any more; what is left can be accepted without it, or leaves nothing."""
    pending = waiting(separate(a="1", b="2"), separate(a="3", b="4"))
    before = CASSETTE.read_bytes()
    decided = reject(pending, ["cassettes/c.yaml::a"])
    assert (decided.rejected, decided.left, CASSETTE.read_bytes()) == (("cassettes/c.yaml::a",), 1, before)
    accept(pending_of(CASSETTE))
    assert (outcomes(), WAITING.exists()) == ({"a": "1", "b": "4"}, False)
    record(separate(a="3"))
    reject(pending_of(CASSETTE))
    assert [path.name for path in Path("cassettes").iterdir()] == ["c.yaml"]
    with pytest.raises(CassetteNotFoundError, match="agenttape review list"):
        pending_of(CASSETTE)


def test_a_run_that_has_not_changed() -> None:
    """A recording in which nothing has changed is accepted for the day on which it was made."""
    pending = waiting(separate(a="1"), separate(a="1"))
    assert pending.is_same
    accept(pending)
    assert not WAITING.exists()
    assert pending.now.header.volatile.created == open_cassette(CASSETTE).header.volatile.created


def test_a_file_that_changed_meanwhile() -> None:
    """What was not looked at is not accepted: a change of either file since it was read is refused."""
    pending = waiting(separate(a="1"), separate(a="2"))
    record(separate(a="3"))
    before = CASSETTE.read_bytes(), WAITING.read_bytes()
    with pytest.raises(CassetteError, match="has changed since it was read"):
        accept(pending)
    assert (CASSETTE.read_bytes(), WAITING.read_bytes()) == before


def test_a_cassette_that_is_gone() -> None:
    """What waits for a cassette that was removed is new as a whole."""
    waiting(separate(a="1"), separate(a="2", b="3"))
    CASSETTE.unlink()
    pending = pending_of(CASSETTE)
    assert [one.state for one in pending.calls] == ["new", "new"]
    accept(pending)
    assert outcomes() == {"a": "2", "b": "3"}


def test_a_cassette_elsewhere() -> None:
    """A cassette at a URL has no place beside it, and says so before anything is executed."""
    record(separate(a="1"))
    convert(CASSETTE, "memory://box/c.yaml")
    with (
        pytest.raises(ConfigurationError, match="a local file"),
        use_cassette("memory://box/c.yaml", mode="all", review=True),
    ):
        pass


def test_names() -> None:
    """The name of what waits keeps the suffixes of its cassette."""
    assert pending_path(Path("a/b.jsonl.gz")) == Path("a/b.pending.jsonl.gz")


@pytest.mark.parametrize(
    ("path", "sort"),
    [
        ("outcome.chunks", "tokens"),
        ("outcome.chunks[2].$chunk.content", "tokens"),
        ("outcome.chunks[*].$chunk.content", "words"),
        ("outcome.chunks[*].$chunk.usage_metadata.input_tokens", "tokens"),
        ("outcome.value.chunks", "words"),
    ],
)
def test_where_a_stream_was_cut_are_no_words(path: str, sort: str) -> None:
    """A provider that cuts the same words at other places says nothing else."""
    assert sort_of(path) == sort
