"""Each recording is handed out once, to the caller it belongs to."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.matching import (
    STRICT,
    WAYS,
    Asked,
    Candidate,
    CanonicalRequest,
    MatchOn,
    OnRepeat,
    RecordingIndex,
    Way,
)
from agenttape_core.schema import IndexRow, Interaction, Outcome


def row(
    number: int, fingerprint: str, address: str = "", *, parent: int | None = None, name: str = "t", kind: str = "tool"
) -> IndexRow:
    """Return the index row of a recording."""
    return IndexRow(number, kind, name, address, fingerprint, parent)


def request(fingerprint: str, name: str = "t", kind: str = "tool") -> CanonicalRequest:
    """Return a request of which only the fingerprint is known."""
    return CanonicalRequest(kind, name, fingerprint, (), {})


def take(
    index: RecordingIndex, asked: CanonicalRequest, address: str, on_repeat: OnRepeat = "fail"
) -> Candidate | None:
    """Find a recording and use it, as a session does whose policy serves it."""
    while (found := index.find(asked, address, on_repeat)) is not None:
        if index.use(found):
            return found
    return None


calls = st.lists(st.tuples(st.sampled_from("fgh"), st.sampled_from("abc"), st.sampled_from("mn")), max_size=12)
ways = st.lists(st.sampled_from(WAYS), min_size=1, max_size=4, unique=True).map(tuple)


@given(calls, calls, st.just(STRICT) | ways, st.sampled_from(["fail", "last", "cycle"]))
def test_as_the_model_says(
    recorded: list[tuple[str, str, str]],
    asked: list[tuple[str, str, str]],
    match_on: tuple[Way, ...],
    on_repeat: OnRepeat,
) -> None:
    """The ways are tried in turn, each in recorded order, then what `on_repeat` says; and what is left is left."""

    class Model:
        """The rule in its slowest form: look through the list."""

        def __init__(self, rows: list[IndexRow], ways: MatchOn) -> None:
            self.rows = rows
            self.free = list(rows)
            self.ways = ways
            self.repeats: dict[object, int] = {}

        def fits(self, way: object, row: IndexRow, fingerprint: str, address: str, name: str) -> bool:
            return {
                "exact": (row.fingerprint, row.address) == (fingerprint, address),
                "request": row.fingerprint == fingerprint,
                "address": row.address == address,
                "ordered": row.name == name,
            }[str(way)]

        def take(self, fingerprint: str, address: str, name: str, on_repeat: OnRepeat) -> tuple[int, str] | None:
            for way in self.ways:
                rows = [row for row in self.free if self.fits(way, row, fingerprint, address, name)]
                if rows:
                    self.free.remove(rows[0])
                    return rows[0].number, str(way)
            for way in self.ways if on_repeat != "fail" else ():
                recorded = [row.number for row in self.rows if self.fits(way, row, fingerprint, address, name)]
                if recorded and on_repeat == "last":
                    return recorded[-1], "repeated"
                if recorded:
                    nth = self.repeats[way, *recorded] = self.repeats.get((way, *recorded), -1) + 1
                    return recorded[nth % len(recorded)], "repeated"
            return None

    rows = [row(n, fingerprint, address, name=name) for n, (fingerprint, address, name) in enumerate(recorded, start=1)]
    recordings, model = RecordingIndex(rows, match_on), Model(rows, match_on)
    for fingerprint, address, name in asked:
        found = take(recordings, request(fingerprint, name), address, on_repeat)
        assert ((found.number, found.match_rule) if found else None) == model.take(
            fingerprint, address, name, on_repeat
        )
        assert found is None or found.same is (rows[found.number - 1].fingerprint == fingerprint)
    assert recordings.unused(row.number for row in rows) == [row.number for row in model.free]
    assert [recordings.left(f) for f in "fgh"] == [sum(r.fingerprint == f for r in model.free) for f in "fgh"]
    assert [len(recordings.numbers(f)) for f in "fgh"] == [sum(r.fingerprint == f for r in rows) for f in "fgh"]
    assert len(recordings) == len(rows)


def test_rungs() -> None:
    """A call finds its own recording although an equal one was recorded before it elsewhere."""
    recordings = RecordingIndex([row(1, "f", "a"), row(2, "f", "b")])
    assert take(recordings, request("f"), "b") == Candidate(2, "exact")
    assert take(recordings, request("f"), "b") == Candidate(1, "request")
    assert take(recordings, request("f"), "b") is None


def test_a_plain_answer_is_taken_in_one_step() -> None:
    """A recording of the same request is taken as it would be found and used: its own first, each once."""
    rows = [row(1, "f", "a"), row(2, "f", "b")]
    recordings = RecordingIndex(rows)
    assert recordings.take(request("f"), "b") == Candidate(2, "exact")
    assert recordings.take(request("f"), "b") == Candidate(1, "request")
    assert recordings.take(request("f"), "b") is None
    assert recordings.unused([1, 2]) == []


def test_more_to_decide_on_is_not_taken() -> None:
    """What is lossy, or has code to step into, stays for a decision; so does all where a matcher has a say."""
    rows = [row(1, "f", "a"), row(2, "g", "b")._replace(parent=1), row(3, "h", "c")]
    recordings = RecordingIndex(rows, fidelity_note=lambda number: "lossy" if number == 3 else "")
    assert [recordings.take(request(f), "a") for f in "fh"] == [None, None]
    assert recordings.unused([1, 2, 3]) == [1, 2, 3]
    recordings.also_match([lambda asked, recorded: False])
    assert recordings.take(request("g"), "b") is None


def test_other_requests_only_when_asked() -> None:
    """Another request at the same address, or the next in order, is replayed only to who asks for that, and says so."""
    rows = [row(1, "f", "a"), row(2, "g", "b")]
    assert take(RecordingIndex(rows), request("h"), "b") is None
    assert take(RecordingIndex(rows, ("exact", "address")), request("h"), "b") == Candidate(2, "address", same=False)
    assert take(RecordingIndex(rows, ("ordered",)), request("h"), "b") == Candidate(1, "ordered", same=False)


def test_kinds_are_never_mixed() -> None:
    """A recording of a tool never answers a model, whatever the match rule."""
    recordings = RecordingIndex([row(1, "f", "a")], ("address", "ordered", lambda asked, recorded: True), read)
    assert take(recordings, request("g", kind="chat"), "a") is None


def read(number: int) -> Interaction:
    """Read an interaction that asks for its number."""
    outcome = Outcome(status="returned")
    return Interaction(
        number=number, kind="tool", name="t", address="", fingerprint="f", request={"n": number}, outcome=outcome
    )


def test_a_matcher_decides() -> None:
    """The user's own function sees what is asked and what is recorded; each recording is still replayed once."""
    seen: list[tuple[Asked, int]] = []

    def even(asked: Asked, recorded: Interaction) -> bool:
        seen.append((asked, recorded.number))
        return recorded.request["n"] % 2 == 0

    recordings = RecordingIndex([row(n, "f", "a") for n in (1, 2, 3, 4)], (even,), read)
    assert take(recordings, request("g"), "here") == Candidate(2, "matcher", same=False)
    assert take(recordings, request("g"), "here") == Candidate(4, "matcher", same=False)
    assert take(recordings, request("g"), "here") is None
    assert seen[0] == (Asked("tool", "t", "here", {}), 1)


def test_circles_of_parents_end() -> None:
    """A file edited by hand whose recordings lie inside each other is looked through once."""
    recordings = RecordingIndex([row(1, "f", parent=2), row(2, "g", parent=1), row(3, "h")])
    assert recordings.unused([1, 2, 3]) == [1, 2, 3]


@pytest.mark.parametrize("addresses", [["same"] * 200, [f"a{n}" for n in range(200)]])
def test_threads_take_each_once(addresses: list[str]) -> None:
    """However many threads ask, each recording is taken exactly once."""
    recordings = RecordingIndex(row(n, "f", address) for n, address in enumerate(addresses))
    start = threading.Barrier(8)

    def run(_: int) -> list[int]:
        start.wait()
        mine = []
        while (found := take(recordings, request("f"), "elsewhere")) is not None:
            mine.append(found.number)
        return mine

    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(run, range(8)))
    assert sorted(n for mine in taken for n in mine) == list(range(200))
    assert all(mine == sorted(mine) for mine in taken)


def test_what_is_inside_a_replayed_one() -> None:
    """What lies inside a recording that was replayed, at any depth, is not unused; its neighbours are."""
    rows = [row(1, "t"), row(2, "m", parent=1), row(3, "n", parent=2), row(4, "m"), row(5, "x", parent=4)]
    recordings = RecordingIndex(rows)
    assert recordings.unused([1, 2, 3, 4, 5]) == [1, 2, 3, 4, 5]
    take(recordings, request("t"), "")
    assert recordings.unused([1, 2, 3, 4, 5]) == [4, 5]


@given(calls, calls, st.just(STRICT) | ways, st.sampled_from(["fail", "last", "cycle"]))
def test_finding_changes_nothing(
    recorded: list[tuple[str, str, str]],
    asked: list[tuple[str, str, str]],
    match_on: tuple[Way, ...],
    on_repeat: OnRepeat,
) -> None:
    """A recording that is found and not used is found again, and what else is found does not depend on it."""
    rows = [row(n, fingerprint, address, name=name) for n, (fingerprint, address, name) in enumerate(recorded, start=1)]
    looked, other = RecordingIndex(rows, match_on), RecordingIndex(rows, match_on)
    for fingerprint, address, name in asked:
        for again, at, called in asked:
            looked.find(request(again, called), at, on_repeat)
        found = looked.find(request(fingerprint, name), address, on_repeat)
        assert found == take(looked, request(fingerprint, name), address, on_repeat)
        assert found == take(other, request(fingerprint, name), address, on_repeat)


def test_a_lossy_candidate() -> None:
    """A candidate says why it is not exactly what came back."""
    index = RecordingIndex([row(1, "f"), row(2, "g")], fidelity_note=lambda number: "cut off" if number == 2 else "")
    assert index.find(request("f"), "a") == Candidate(1, "request")
    assert index.find(request("g"), "a") == Candidate(2, "request", lossy="cut off")


def test_only_one_call_uses_what_two_have_found() -> None:
    """Of two calls that find the same recording, or the same turn of a cycle, the second one has to look again."""
    index = RecordingIndex([row(1, "f"), row(2, "f")])
    for number, match_rule in [(1, "request"), (2, "request"), (1, "repeated"), (2, "repeated"), (1, "repeated")]:
        one, other = (index.find(request("f"), "a", "cycle") for _ in range(2))
        assert one is not None
        assert other is not None
        assert (one.number, one.match_rule) == (number, match_rule)
        assert index.use(one)
        assert not index.use(other)


def test_a_matcher_that_makes_a_call_itself() -> None:
    """What a matcher uses up while it decides is not replayed to the call it decides for."""
    index: RecordingIndex

    def uses(asked: Asked, recorded: Interaction) -> bool:
        index.use(Candidate(1, "exact"))
        return True

    index = RecordingIndex([row(1, "f"), row(2, "f")], (uses,), read)
    assert index.find(request("g"), "a") == Candidate(2, "matcher", same=False)
