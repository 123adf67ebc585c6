"""One thing of a recorded run is changed, and the account says what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import (
    Change,
    Variation,
    always,
    awhat_if,
    boundary,
    cut,
    edits,
    late,
    once,
    open_cassette,
    raises,
    returns,
    use_cassette,
    what_if,
)
from agenttape_core.errors import (
    CassetteError,
    CassetteMissError,
    ChangeNotReachedError,
    ConfigurationError,
    UnusedInteractionsError,
)
from agenttape_core.experiments import faults
from agenttape_core.results import WhatIf
from agenttape_core.session import pacing

SENT: list[str] = []
"""What was really done."""


@boundary("tool")
def search(query: str) -> str:
    """Find a fact."""
    SENT.append(query)
    return f"fact about {query}"


@boundary("tool")
def mail(text: str) -> str:
    """Send a mail."""
    SENT.append(text)
    return "sent"


@boundary("chat")
def model(prompt: str) -> str:
    """Answer a prompt."""
    SENT.append(prompt)
    return prompt.upper()


class RateLimitError(Exception):
    """A provider refuses, and says for how long."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.response = object()  # no cassette can hold it


def attempted(call: Callable[[], str], attempts: int) -> str:
    """Make a call, and make it again if it fails."""
    for _ in range(attempts - 1):
        try:
            return call()
        except (RateLimitError, ConnectionError):
            continue
    return call()


def agent(attempts: int = 1) -> str:
    """Search twice, conclude, and send a mail."""
    facts = [attempted(lambda name=name: search(name), attempts) for name in ("ann", "bob")]  # type: ignore[misc]
    text = attempted(lambda: model(", ".join(facts)), attempts)
    mail(text)
    return text


def record(path: Path, run: Callable[[], object]) -> Path:
    """Record what a function does, and forget what was really done; return the cassette."""
    with use_cassette(path, mode="once"):
        run()
    SENT.clear()
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The recorded run: two searches, a model call, a mail."""
    return record(tmp_path / "desk.yaml", agent)


@pytest.fixture(autouse=True)
def _nothing_is_done() -> Iterator[None]:
    SENT.clear()
    yield
    assert SENT == []


def ends(found: WhatIf) -> tuple[Any, ...]:
    """Return the account in numbers, and the end of the run."""
    numbers = [
        [one.number for one in part] for part in (found.reached, found.retried, found.changed, found.new, found.unused)
    ]
    return (*numbers, type(found.raised) if found.raised else found.result)


TEXT = "FACT ABOUT ANN, FACT ABOUT BOB"
MISS = CassetteMissError


@pytest.mark.parametrize(
    ("changes", "options", "attempts", "expected"),
    [
        ({2: raises(ConnectionError)}, {}, 1, ([2], [], [], [], [3, 4], ConnectionError)),
        ({2: raises(ConnectionError("reset"))}, {}, 2, ([2], [2], [], [], [], TEXT)),
        ({2: always(raises(ConnectionError))}, {}, 3, ([2, 2, 2], [2, 2], [], [], [3, 4], ConnectionError)),
        ({2: once(always(raises(ConnectionError)))}, {}, 2, ([2], [2], [], [], [], TEXT)),
        ({"search": raises(ConnectionError)}, {}, 2, ([1, 2], [1, 2], [], [], [], TEXT)),
        ({"tool": raises(ConnectionError)}, {}, 1, ([1], [], [], [], [2, 3, 4], ConnectionError)),
        ({"search": returns("-"), 2: returns("+")}, {"on_new_call": "address"}, 1, ([1, 2], [], [3], [], [], TEXT)),
        ({"**/search#2": returns("nothing")}, {}, 1, ([2], [], [], [3], [3, 4], MISS)),
        ({"search#2": returns("nothing")}, {"on_new_call": "address"}, 1, ([2], [], [3], [], [], TEXT)),
        ({3: edits(str.lower)}, {"on_new_call": "address"}, 1, ([3], [], [4], [], [], TEXT.lower())),
        ({3: returns("hi")}, {"on_miss": "return"}, 1, ([3], [], [], [4], [4], None)),
        ({1: edits(lambda answer: answer)}, {}, 1, ([1], [], [], [], [], TEXT)),
    ],
)
def test_account(
    path: Path, changes: dict[Any, Change], options: dict[str, Any], attempts: int, expected: tuple[Any, ...]
) -> None:
    """It lists reached changes, retries, changed, new and unused calls, and the result; nothing is executed."""
    before = path.read_bytes()
    found = what_if(path, lambda: agent(attempts), changes, **options)
    if expected[-1] is None:
        expected = (*expected[:-1], type(found.raised) if found.raised else found.result)
    assert ends(found) == expected
    assert found.unreached == tuple(number for number in found.changes if number not in expected[0])
    assert (path.read_bytes(), [file.name for file in path.parent.iterdir()]) == (before, ["desk.yaml"])
    plain = found.to_dict()
    assert [one["number"] for one in plain["reached"]] == expected[0]
    assert (plain["raised"] is None) == (found.raised is None)


def test_without_a_change_it_is_the_strict_replay(path: Path) -> None:
    """The same calls are replayed by the same match_rules, and a derived cassette has the records of the cassette."""
    with use_cassette(path) as strict:
        agent()
    found = what_if(path, agent, {}, on_new_call="address", to=path.with_name("same.yaml"))
    assert found.report.replayed == strict.report.replayed
    assert (found.is_same, found.first_divergence, found.result) == (True, None, TEXT)
    ours, derived = (file.read_text("utf-8").partition("\n---\n")[2] for file in (path, path.with_name("same.yaml")))
    assert ours == derived
    unrecorded = what_if(path, lambda: search("eve"), {}, on_new_call="address")
    assert type(unrecorded.raised) is CassetteMissError  # nothing was changed, so nothing is replayed by its place
    assert type(what_if(path, lambda: search("ann"), {}).raised) is UnusedInteractionsError


def test_readable(path: Path) -> None:
    """As a text it names the changes that were reached, and the parts of requests that differ for it."""
    found = what_if(path, agent, {"search#2": returns("fact about eve")}, on_new_call="address")
    moved = "fact about ann, fact about [-bob-] → fact about ann, fact about {+eve+}"
    assert str(found).splitlines()[1:] == [
        "  reached       2  tool search at search#2: returns 'fact about eve'",
        f"  changed       3  chat model at model: arguments.prompt: {moved}",
        f"  returned   {TEXT!r}",
    ]
    first = found.first_divergence
    assert first is not None
    assert (first.what, first.number, [part[0] for part in first.differences]) == ("changed", 3, ["arguments.prompt"])


def test_the_error_is_the_programs_own(path: Path) -> None:
    """An error has its class, its arguments and its attributes, those too that no cassette can hold."""
    error = RateLimitError("429", retry_after=7)
    raised = what_if(path, agent, {1: raises(error)}).raised
    assert isinstance(raised, RateLimitError)
    assert raised is not error  # each attempt gets one of its own
    assert (raised.args, raised.retry_after, raised.response) == (("429",), 7, error.response)


def test_only_what_is_named_is_executed(path: Path) -> None:
    """After a change a named call is executed, and a tool that is not named never is; before it nothing is."""
    found = what_if(path, agent, {2: returns("nothing")}, on_new_call={"chat"})
    assert SENT == ["fact about ann, nothing"]
    SENT.clear()
    assert [(one.what, one.name) for one in found.new] == [("executed", "model"), ("missed", "mail")]
    unrecorded = what_if(path, lambda: (model("new"), search("ann")), {1: returns("x")}, on_new_call={"chat"})
    assert type(unrecorded.raised) is CassetteMissError
    both = what_if(path, agent, {2: returns("nothing")}, on_new_call={"chat", "mail"}, to=path.with_name("both.yaml"))
    assert (SENT, both.raised) == (["fact about ann, nothing", "FACT ABOUT ANN, NOTHING"], None)
    SENT.clear()
    derived = open_cassette(path.with_name("both.yaml"))
    assert [item.tags for item in derived.interactions()] == [[], ["edited"], [], []]
    assert derived.preface.origin == {"changes": {"2": "returns 'nothing'"}}
    with use_cassette(path.with_name("both.yaml")):
        assert agent() == "FACT ABOUT ANN, NOTHING"


def test_a_program_that_never_gives_up_is_stopped(path: Path) -> None:
    """A change of each attempt ends in a miss after many of them."""
    found = what_if(path, lambda: agent(attempts=1000), {2: always(raises(ConnectionError))})
    assert type(found.raised) is CassetteMissError
    assert len(found.reached) == 33


def test_calls_around_a_retry_are_answered_again(path: Path) -> None:
    """What is tried again makes its other calls again: they get their recordings, though not for ever."""

    def retrying() -> str:
        return attempted(agent, 2)

    found = what_if(path, retrying, {3: raises(ConnectionError)}, on_new_call="address")
    assert ends(found) == ([3], [1, 2, 3], [], [], [], TEXT)
    assert [one.match_rule for one in found.report.replayed if one.number == 1] == ["exact", "repeated"]
    endless = what_if(path, lambda: [search("ann") for _ in range(1000)], {1: edits(str)})
    assert (type(endless.raised), len(endless.reached)) == (CassetteMissError, 1)
    assert len(endless.report.replayed) < 100
    assert type(what_if(path, lambda: agent() + agent(), {}).raised) is CassetteMissError


def test_streams(tmp_path: Path) -> None:
    """A stream breaks after so many chunks; one whose answer is chosen brings it; both are as when it was recorded."""
    got: list[str] = []

    @boundary("chat")
    def stream(prompt: str) -> Iterator[str]:
        """Answer in chunks."""
        SENT.append(prompt)
        yield from prompt.split()

    def reading() -> list[str]:
        got.clear()
        for chunk in stream("one two three"):
            got.append(chunk)  # noqa: PERF402 - until it breaks
        return got

    path = record(tmp_path / "s.yaml", reading)
    for after, chunks in ((0, []), (2, ["one", "two"]), (3, ["one", "two", "three"])):
        found = what_if(path, reading, {"chat": cut(after=after)})
        assert (str(found.raised), got) == (f"the stream was cut after {after} chunk{'s' * (after != 1)}", chunks)
    assert isinstance(what_if(path, reading, {1: cut(1, TimeoutError)}).raised, TimeoutError)
    assert what_if(path, reading, {1: edits(lambda answer: [*answer, "four"])}).result[-1] == "four"
    with pytest.raises(ConfigurationError, match="it has only 3 chunks"):
        what_if(path, reading, {1: cut(after=4)})


@pytest.mark.parametrize("options", [{}, {"pace": "recorded"}])
def test_late(path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    """The recorded answer comes later by so much, whatever the pace."""

    class Clock(pacing.Waiter):
        """Takes no time, and adds up what it would have waited."""

        def __init__(self) -> None:
            self.time = 0.0

        def now(self) -> float:
            """Return the time."""
            return self.time

        def sleep(self, seconds: float) -> None:
            """Let time pass."""
            self.time += seconds

    clock = Clock()
    monkeypatch.setattr(pacing, "waiter", clock)
    what_if(path, agent, {}, **options)
    before, clock.time = clock.time, 0.0
    assert what_if(path, agent, {2: late(30), 3: late(0)}, **options).result == TEXT
    assert clock.time == pytest.approx(before + 30)


async def test_asynchronous(path: Path) -> None:
    """A coroutine function is changed likewise."""

    async def run() -> str:
        return agent(2)

    assert ends(await awhat_if(path, run, {2: raises(ConnectionError)})) == ([2], [2], [], [], [], TEXT)


def test_as_an_option(path: Path) -> None:
    """`use_cassette` takes the same changes; a change that isn't reached fails the block, a recording left does not."""
    with use_cassette(
        path, vary=Variation(changes={"search": raises(ConnectionError)}, on_new_call="address")
    ) as session:
        with pytest.raises(ConnectionError):
            search("ann")
        assert search("ann") == "fact about ann"
    assert [one.number for one in session.report.reached] == [1]
    message = "1 change wasn't reached: the run didn't make the call"
    with (
        pytest.raises(ChangeNotReachedError, match=message),
        use_cassette(path, vary=Variation(changes={"mail": returns("x")})),
    ):
        search("ann")
    with (
        pytest.raises(UnusedInteractionsError),
        use_cassette(path, vary=Variation(changes={1: returns("x")}), on_unused="fail"),
    ):
        search("ann")

    @use_cassette(path, vary=Variation(changes={"mail": returns("x"), 1: returns("fact about ann")}))
    def decorated() -> str:
        return agent()

    assert [decorated(), decorated()] == [TEXT, TEXT]


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"serch": returns(1)}, {}, "there are search"),
        ({"**/node/search": returns(1)}, {}, "no recorded call of .* is selected; there are search"),
        ({7: returns(1)}, {}, "holds 4 interactions, and none has this number"),
        ({"embeddings": returns(1)}, {}, "no recorded call of .* is selected"),
        ({"": returns(1)}, {}, "expected a number, a kind"),
        ({1: "nothing"}, {}, "expected a change, found 'nothing'"),
        ([1], {}, "expected a mapping of calls to changes"),
        (
            {1: cut(after=1)},
            {},
            "cannot be made of interaction 1, tool search at search: it has no chunks: it ",
        ),
        ({1: returns(object())}, {}, "the change of interaction 1, tool at search: "),
        ({1: returns(1)}, {"on_new_call": "live"}, "on_new_call='live': expected 'stop', 'address', or kinds"),
        ({1: returns(1)}, {"on_new_call": set()}, "expected 'stop'"),
        ({1: returns(1)}, {"mode": "all"}, "vary=... is for a replay, and mode='all' records"),
        ({1: returns(1)}, {"live": {"search"}}, "cannot be changed: it is live, so it is not replayed"),
        ({1: returns(1)}, {"step_into": {"tool"}}, "cannot be changed: its code is stepped into"),
    ],
)
def test_refused(path: Path, changes: Any, options: dict[str, Any], message: str) -> None:
    """A change that selects no call, or cannot be made, is refused with what is nearest to it."""
    with pytest.raises(ConfigurationError, match=message):
        what_if(path, agent, changes, **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: raises(KeyboardInterrupt), "expected an exception that a call may raise"),  # type: ignore[arg-type]
        (lambda: raises(RateLimitError), r"cannot be made without arguments\n  pass an error: raises\(RateLimitError"),
        (lambda: raises("429"), "expected an exception"),  # type: ignore[arg-type]
        (lambda: cut(after=-1), "expected a number of chunks"),
        (lambda: cut(after=True), "expected a number of chunks"),
        (lambda: late(float("nan")), "expected a number of seconds"),
        (lambda: late(-1), "expected a number of seconds"),
        (lambda: edits("x"), "expected a function"),  # type: ignore[arg-type]
        (lambda: edits(test_asynchronous), "that is not awaited"),
        (lambda: always(5), "always: expected a change, found 5"),  # type: ignore[arg-type]
    ],
)
def test_bad_changes(make: Callable[[], Change], message: str) -> None:
    """A change that makes no sense is refused where it is made."""
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_no_answer_to_edit(tmp_path: Path) -> None:
    """A recorded error has no answer that could be edited; another outcome can be given for it."""

    @boundary("tool")
    def broken() -> str:
        SENT.append("broken")
        raise ValueError("no")

    def run() -> str:
        try:
            return broken()
        except ValueError:
            return "handled"

    path = record(tmp_path / "e.yaml", run)
    with pytest.raises(ConfigurationError, match="it has no recorded answer to edit: it raised"):
        what_if(path, run, {1: edits(str)})
    assert what_if(path, run, {1: returns("works")}).result == "works"


def test_with_a_candidate(path: Path) -> None:
    """Another model and a changed answer are two questions: both at once are refused, before anything runs."""
    changed = {"mail": returns("lost")}
    with (
        pytest.raises(ConfigurationError, match="two questions"),
        use_cassette(path, candidate="x:y", vary=Variation(changes=changed)),
    ):
        agent()


def test_without_a_cassette(tmp_path: Path) -> None:
    """There is nothing to change without a recording."""
    with pytest.raises(CassetteError, match="No cassette yet"):
        what_if(tmp_path / "none.yaml", agent, {1: returns(1)})


@pytest.mark.slow
def test_many_calls_have_representatives(tmp_path: Path) -> None:
    """Of many calls that can fail, the first and the last of each class do, and the table says for how many others."""

    def run() -> list[str]:
        return [search(str(number)) for number in range(23)] + [model("so"), model("what")]

    path = record(tmp_path / "many.yaml", run)
    found = faults(run, path, ["timeout"])
    assert [cell.target.number for cell in found.cells] == [1, 23, 24, 25]
    assert str(found).splitlines()[-2:] == ["  21 of 25 calls not tried: others cover them", "4 faults: 4 raised"]
    assert len(faults(run, path, ["timeout"], most=25).cells) == 25


@pytest.mark.parametrize("is_inside", [True, False])
def test_a_coroutine_is_replayed_as_it_was_recorded(tmp_path: Path, is_inside: bool) -> None:
    """The session is opened in the event loop or around it, as when the run was recorded: calls have their places."""

    @boundary("tool")
    async def find(what: str) -> str:
        return f"{what}!"

    async def program() -> str:
        return await find(" ".join(await asyncio.gather(find("a"), find("b"))))

    path = tmp_path / "run.yaml"
    if is_inside:
        asyncio.run(use_cassette(path, mode="all")(program)())
    else:
        with use_cassette(path, mode="all"):
            asyncio.run(program())
    found = what_if(path, program, {1: returns("x")}, on_new_call="address")
    assert (found.result, [one.number for one in found.changed], found.new) == ("a! b!!", [3], ())
