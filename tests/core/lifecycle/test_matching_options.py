"""How a call finds its recording, and what it gets when it finds none: `match_on`, `ignore`, `on_miss`, `accept`."""

from __future__ import annotations

import contextvars
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agenttape_core import Interaction, open_cassette, use_cassette
from agenttape_core.checks import before, check
from agenttape_core.errors import (
    CassetteMissError,
    ConfigurationError,
    UnmatchedNameWarning,
    UnrecordableValueError,
    UnrecordedCallError,
    UnusedInteractionsError,
)
from agenttape_core.integration import Boundary, SessionCall

from ..session.world import CASSETTE, World, call, stream

pytestmark = pytest.mark.usefixtures("project")


def match_rules(session: Any) -> list[str]:
    """Return how each replayed call found its recording."""
    return [call_record.match_rule for call_record in session.report.replayed]


# -- match_on --------------------------------------------------------------------------------------------------


def test_only_at_its_place(world: World) -> None:
    """With `exact` alone, a call that has moved elsewhere in the run is a miss."""
    with use_cassette("c", mode="once"):
        world.tool("t", q="a")
        world.tool("t", q="b")
    with pytest.raises(CassetteMissError), use_cassette("c", match_on="exact"):
        world.tool("t", q="b")  # recorded as the second one


def test_sequential_calls_may_change_places(world: World) -> None:
    """Calls with different requests each find their own recording; a check finds that their order has changed."""
    with use_cassette("c", mode="once"):
        recorded = [world.tool("backup", q="a"), world.tool("delete", q="a")]
    with use_cassette("c") as session:
        assert [world.tool("delete", q="a"), world.tool("backup", q="a")] == recorded[::-1]
        with pytest.raises(AssertionError, match="delete was called"):
            check(session, before("backup", "delete"))
    assert session.report.nondeterminism == ()


def test_same_address(world: World) -> None:
    """With `address`, a changed request gets the answer recorded in its place."""
    with use_cassette("c", mode="once"):
        recorded = [world.tool("t", q=q) for q in "ab"]
    with use_cassette("c", match_on=("exact", "address")) as session:
        assert [world.tool("t", q=q) for q in "xb"] == recorded
    assert match_rules(session) == ["address", "exact"]


def test_ordered(world: World) -> None:
    """With `ordered`, calls get the recordings of their name one after the other, whatever they ask."""
    with use_cassette("c", mode="once"):
        recorded = [world.tool(name, q=q) for name, q in ("ta", "ub", "tc")]
    with use_cassette("c", match_on="ordered") as session:
        assert [world.tool(name, q="new") for name in "utt"] == [recorded[1], recorded[0], recorded[2]]
    assert match_rules(session) == ["ordered"] * 3


def test_a_matcher(world: World) -> None:
    """A function of the user's decides; it sees redacted requests, and a whole interaction."""

    def ignoring_case(asked: Any, recorded: Interaction) -> bool:
        return bool(asked.request["q"].lower() == recorded.request["q"].lower())

    with use_cassette("c", mode="once"):
        recorded = [world.tool("t", q=q) for q in ("Alpha", "Beta")]
    with use_cassette("c", match_on=("exact", "request", ignoring_case)) as session:
        assert [world.tool("t", q=q) for q in ("BETA", "Alpha")] == [recorded[1], recorded[0]]
    assert match_rules(session) == ["matcher", "request"]
    with pytest.raises(CassetteMissError), use_cassette("c", match_on=ignoring_case):
        world.tool("t", q="gamma")


def test_a_matcher_that_raises(world: World) -> None:
    """An error of the user's matcher reaches the user as it is."""
    with use_cassette("c", mode="once"):
        world.tool("t", q="a")
    with pytest.raises(KeyError, match="nope"), use_cassette("c", match_on=lambda asked, _: asked.request["nope"]):
        world.tool("t", q="a")


def test_a_matcher_serves_each_once(world: World) -> None:
    """However many threads ask through a matcher, each recording is replayed once."""
    with use_cassette("c", mode="once"):
        recorded = {world.tool("t", q=n) for n in range(40)}
    got: list[str] = []
    with use_cassette("c", match_on=lambda _asked, _recorded: True):
        threads = [
            threading.Thread(target=lambda: got.extend(world.tool("t", q="x") for _ in range(10))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(got) == sorted(recorded)


def test_a_matcher_that_waits_for_another_thread(world: World) -> None:
    """A matcher may wait for a thread that makes a call of the session, as with embeddings in a thread pool."""
    compared: list[str] = []

    def similar(_asked: Any, recorded: Interaction) -> bool:
        if recorded.name != "t":
            return False
        run = contextvars.copy_context().run
        helper = threading.Thread(target=run, args=(lambda: compared.append(world.tool("h", q="x")),), daemon=True)
        helper.start()
        helper.join(10)
        return True

    with use_cassette("c", mode="once"):
        expected = [world.tool("h", q="x"), world.tool("t", q="a")]
    with use_cassette("c", match_on=("exact", similar)) as session:
        assert world.tool("t", q="b") == expected[1]
    assert compared == expected[:1]
    assert match_rules(session) == ["exact", "matcher"]


def test_ids_of_the_call_in_another_request(world: World) -> None:
    """Replayed for another request, an answer gets this call's own ids, and none of the request's by their number."""

    def tool(session: Any, call_id: str, *told: str) -> Any:
        session_call = session.cross(Boundary("tool"), "t", {"told": list(told)}, ids=(call_id,))
        return (
            session_call.replay() if session_call.is_replayed else session_call.returned(f"for {call_id}, told {told}")
        )

    one, two, first, second = (str(uuid4()) for _ in range(4))
    with use_cassette("c", mode="once") as session:
        tool(session, first, one)
    with use_cassette("c", match_on="ordered") as session:
        assert tool(session, second, two, one) == f"for {second}, told ('{one}',)"


# -- ignore ----------------------------------------------------------------------------------------------------


def test_ignored_while_recording(world: World) -> None:
    """What is ignored stands in the file, does not count, and need not be named again on replay."""
    with use_cassette("c", mode="once", ignore=["arguments.now"]):
        recorded = world.tool("t", arguments={"now": 1, "q": "a"})
    with use_cassette("c") as session:
        assert world.tool("t", arguments={"now": 2, "q": "a"}) == recorded
    assert match_rules(session) == ["exact"]
    cassette = open_cassette(CASSETTE)
    assert cassette.header.ignore == ["arguments.now"]
    assert next(iter(cassette.interactions())).request == {"arguments": {"now": 1, "q": "a"}}


def test_ignored_afterwards(world: World) -> None:
    """A cassette that was recorded with everything can be replayed with less: its fingerprints are made anew."""
    with use_cassette("c", mode="once"):
        recorded = [world.tool("t", arguments={"now": n, "q": "a"}) for n in (1, 2)]
    before = CASSETTE.read_bytes()
    with use_cassette("c", ignore=["**.now"]) as session:
        assert [world.tool("t", arguments={"now": n, "q": "a"}) for n in (8, 9)] == recorded
    assert match_rules(session) == ["exact", "exact"]
    assert CASSETTE.read_bytes() == before


def test_less_ignored_afterwards(world: World) -> None:
    """The call's own choice wins over that of the recording, also when it ignores nothing."""
    with use_cassette("c", mode="once", ignore=["now"]):
        world.tool("t", now=1)
    with pytest.raises(CassetteMissError, match="; now differs:"), use_cassette("c", ignore=[]):
        world.tool("t", now=2)


def test_ids_beside_what_is_ignored(world: World) -> None:
    """Ids that are ignored take no part in giving the answer the ids of this run."""

    def echo(trace: str, user: str) -> Any:
        return call("t", lambda: f"hello {user}", trace=trace, user=user)

    ids = [str(uuid4()) for _ in range(4)]
    with use_cassette("c", mode="once"):
        echo(ids[0], ids[1])
    with use_cassette("c", ignore=["trace"]):
        assert echo(ids[2], ids[3]) == f"hello {ids[3]}"
    with use_cassette("c", ignore=["trace"]):
        assert echo("none", ids[3]) == f"hello {ids[3]}"


def test_explained_without_what_is_ignored(world: World) -> None:
    """A miss shows only differences that count."""
    with use_cassette("c", mode="once", ignore=["now"]):
        world.tool("t", now=1, q="a")
    with pytest.raises(CassetteMissError) as caught, use_cassette("c"):
        world.tool("t", now=2, q="b")
    assert "; q differs:" in str(caught.value)
    assert "now" not in str(caught.value)


def test_added_under_other_paths(world: World) -> None:
    """When recordings are added under other ignored paths, the old ones are fingerprinted like the new."""
    with use_cassette("c", mode="once"):
        world.tool("t", now=1, q="a")
    with use_cassette("c", mode="new_episodes", ignore=["now"]):
        world.tool("t", now=2, q="a")
        world.tool("t", now=3, q="b")
    with use_cassette("c") as session:
        assert [world.tool("t", now=4, q=q) for q in "ab"] == ["t 1", "t 2"]
    assert match_rules(session) == ["exact", "exact"]


# -- on_miss ---------------------------------------------------------------------------------------------------


def test_the_run_lives_on(world: World) -> None:
    """With `return` a call without a recording gets an ordinary error, which is counted and fails nothing."""
    with use_cassette("c", mode="once"):
        world.tool("t", q="a")
    with use_cassette("c", on_miss="return") as session:
        with pytest.raises(UnrecordedCallError) as caught:
            world.tool("t", q="b")
        assert str(caught.value) == "The tool is not available."  # a model may read it
        assert "t was called with a request " in str(caught.value.__cause__)
        with pytest.raises(UnrecordedCallError, match="m was called with a request"):
            list(stream("m", lambda: iter(["x"]), q="b"))
    assert [line.partition(":")[0] for line in session.report.unrecorded] == [
        "t was called with a request that isn't in the cassette",
        "m was called with a request that isn't in the cassette",
    ]
    assert str(session.report) == "0 replayed, 0 recorded, 1 unused, 2 unrecorded"
    assert world.reached == ["t"]


def test_drift_as_a_value(world: World) -> None:
    """A boundary can say what its callers take for an error result, whole and streamed."""

    def missed(session_call: SessionCall, unrecorded: UnrecordedCallError) -> str:
        return f"error {session_call.request.name}"

    boundary = Boundary("tool", missed=missed, split=lambda text: text.split(" "))
    with use_cassette("c", mode="once"):
        pass
    with use_cassette("c", on_miss="return"):
        assert call("t", lambda: 1, boundary) == "error t"
        assert list(stream("t", lambda: iter(["x"]), boundary)) == ["error", "t"]


def test_unused_after_drift(world: World) -> None:
    """A run that may unrecorded may leave recordings unused, unless the call says otherwise."""
    with use_cassette("c", mode="once"):
        world.tool("t", q="a")
    with pytest.raises(UnusedInteractionsError), use_cassette("c", on_miss="return", on_unused="fail"):
        pass


def test_a_closed_stream_drifts(world: World) -> None:
    """Reading further than the recorded reader did is unrecorded as well."""
    with use_cassette("c", mode="once"):
        chunks = stream("m", lambda: iter(["a", "b"]))
        next(chunks)
        chunks.close()  # type: ignore[attr-defined]
    with (
        use_cassette("c", on_miss="return") as session,
        pytest.raises(UnrecordedCallError, match="closed by its reader"),
    ):
        list(stream("m", lambda: iter(["a", "b"])))
    assert len(session.report.unrecorded) == 1


# -- opaque ----------------------------------------------------------------------------------------------------


class Handle:
    def __init__(self, path: str) -> None:
        self.path = path


def test_opaque_is_refused(world: World) -> None:
    """By default a value without a codec is refused while recording, and the message names every way out."""
    with (
        pytest.raises(UnrecordableValueError, match=r"(?s)return plain data.*register a codec.*accept={\"opaque\"}"),
        use_cassette("c", mode="once"),
    ):
        call("open", lambda: Handle("x"))


def test_opaque_is_kept(world: World) -> None:
    """A stand-in comes back on replay, and matches where the real value was passed on."""
    with use_cassette("c", mode="once", accept={"opaque"}):
        handle = call("open", lambda: Handle("x"))
        assert handle.path == "x"
        call("read", lambda: "text", handle=handle)
        assert list(stream("rows", lambda: iter([handle]), Boundary("call"))) == [handle]
    with use_cassette("c", accept={"opaque"}):
        stand_in = call("open", lambda: Handle("x"))
        assert repr(stand_in).startswith(f"<recorded {__name__}.Handle: ")
        assert call("read", lambda: "other", handle=stand_in) == "text"
        assert list(stream("rows", lambda: iter(["?"]), Boundary("call"))) == [stand_in]


# -- what was written, what was not met ------------------------------------------------------------------------


def test_what_was_written(world: World) -> None:
    """A session says which file it has written: the cassette, a derived one, or none."""
    with use_cassette("c", mode="once") as recording:
        world.tool("t")
        assert recording.written is None
    with use_cassette("c") as replay:
        world.tool("t")
    with use_cassette("c", live={"t"}) as derived:
        world.tool("t")
    assert (recording.written, replay.written) == (CASSETTE.resolve(), None)
    assert derived.written == Path("cassettes/c.derived.yaml").resolve()


@pytest.mark.parametrize("option", ["live", "replay_only"])
def test_a_name_that_nothing_has(world: World, option: str) -> None:
    """A name that no boundary of the run has is warned of: it may be misspelled. Kinds and recorded names are not."""
    with use_cassette("c", mode="once"):
        world.tool("t")
    with (
        pytest.warns(UnmatchedNameWarning, match="names send_emial, but the run"),
        use_cassette("c", mode="new_episodes", **{option: {"send_emial", "t", "memory"}}),  # type: ignore[arg-type]
    ):
        world.tool("t")


@pytest.mark.parametrize("key", ["inner", "outer/*", "**/inner", 2, "2"])
def test_selecting_calls(world: World, key: int | str) -> None:
    """A call is selected by its node or name, by a pattern of places, and by its number; the others are replayed."""

    def program() -> list[str]:
        return [call("outer", lambda: world.tool("inner"), "call"), world.tool("last")]

    with use_cassette("c", mode="once"):
        program()
    with use_cassette("c", live={key}, step_into={"outer"}) as replay:
        program()
    assert [call_record.name for call_record in replay.report.recorded] == ["inner"]
    assert [call_record.name for call_record in replay.report.replayed] == ["last"]


@pytest.mark.parametrize("option", ["live", "replay_only", "step_into"])
@pytest.mark.parametrize("key", ["lsat", "**/lsat", 3])
def test_nothing_selected(world: World, option: str, key: int | str) -> None:
    """A selector that selects no recorded call is refused before the run, with the nearest; one of a project isn't."""
    with use_cassette("c", mode="once"):
        world.tool("last")
    near = "holds 1 interaction" if key == 3 else "there are last"
    with pytest.raises(ConfigurationError, match=f"{option}=.*{near}"), use_cassette("c", **{option: {key}}):  # type: ignore[arg-type]
        world.tool("last")
    assert len(world.reached) == 1
