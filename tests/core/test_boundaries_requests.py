"""What a call of a boundary asks: its arguments by name, and nothing that does not count."""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from agenttape_core import boundary, open_cassette, record_call, use_cassette
from agenttape_core.boundaries.callee import Parameters
from agenttape_core.errors import ConfigurationError, UnrecordableValueError

from .test_schema_values import same, values

pytestmark = pytest.mark.usefixtures("project")


def arguments(*calls: Callable[[], Any]) -> list[Any]:
    """Record calls, and return the arguments of each as its recording holds them."""
    with use_cassette("c", mode="all"):
        for call in calls:
            call()
    return [interaction.request["arguments"] for interaction in open_cassette("cassettes/c.yaml").interactions()]


# -- arguments by name -----------------------------------------------------------------------------------------


@boundary
def search(query: str, /, k: int = 3, *more: str, strict: bool = False, **options: Any) -> int:
    """Find something."""
    return k


@boundary
def len_of(value: Any) -> int:
    """Return the length of a value."""
    return len(value)


def test_arguments_have_names() -> None:
    """Defaults are filled in, `*args` is a list, `**kwargs` a dict, and how an argument was passed does not count."""
    plain = {"query": "a", "k": 3, "more": [], "strict": False, "options": {}}
    assert arguments(
        lambda: search("a"),
        lambda: search("a", k=3, strict=False),
        lambda: search("a", 4, "b", "c", strict=True, lang="en", area="x"),
        lambda: search("a", area="x", lang="en"),
        lambda: search("a", options=1),
    ) == [
        plain,
        plain,
        {"query": "a", "k": 4, "more": ["b", "c"], "strict": True, "options": {"lang": "en", "area": "x"}},
        {**plain, "options": {"lang": "en", "area": "x"}},
        {**plain, "options": {"options": 1}},
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (search, "search() missing a required argument: 'query'"),
        (lambda: len_of(1, 2), "len_of() too many positional arguments"),  # type: ignore[call-arg]
        (lambda: len_of(1, n=2), "len_of() got an unexpected keyword argument 'n'"),  # type: ignore[call-arg]
    ],
)
def test_wrong_arguments(call: Callable[[], Any], message: str) -> None:
    """Arguments that do not fit are a `TypeError`, as without a session, and no outcome of the boundary."""
    with pytest.raises(TypeError):
        call()
    with use_cassette("c", mode="all") as session:
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == message
        assert session.interactions == []


def test_without_a_signature() -> None:
    """What does not tell its parameters is recorded by position, and by the names that were used."""
    assert arguments(lambda: record_call("call", max, 1, 2), lambda: record_call("call", max, [], default=0)) == [
        {"args": [1, 2], "kwargs": {}},
        {"args": [[]], "kwargs": {"default": 0}},
    ]


def test_decorator_that_adds_arguments() -> None:
    """A decorator below the boundary may call the function with arguments of its own, which its signature shows."""

    def with_session(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function("session", *args, **kwargs)

        return call

    @boundary
    @with_session
    def find(session: str, query: str) -> str:
        return f"{session} {query}"

    for mode in ("once", "none"):
        with use_cassette("c", mode=mode):
            assert find("q") == "session q"
    assert open_cassette("cassettes/c.yaml").interaction(1).request["arguments"] == {"args": ["q"], "kwargs": {}}


def test_partial_arguments_count() -> None:
    """What a partial has fixed is part of what is asked, and can be overruled by name."""
    partial = functools.partial(search, "Paris", k=5)
    of_partial: Any = boundary(functools.partial(search.__wrapped__, "Paris", k=5))  # type: ignore[attr-defined]
    for paris in (partial, of_partial):
        found = arguments(lambda: paris(strict=True), lambda: paris(k=6))  # noqa: B023
        assert [item["query"] for item in found] == ["Paris"] * 2
        assert [item["k"] for item in found] == [5, 6]


def test_messages_stand_beside_the_arguments() -> None:
    """A conversation is a part of its own: each request of an agent is stored as what is new in it."""

    @boundary("chat")
    def chat(messages: list[dict[str, str]], model: str = "m") -> str:
        return f"answer {len(messages)}"

    def agent() -> list[str]:
        messages: list[dict[str, str]] = []
        answers = []
        for turn in range(100):
            messages.append({"role": "user", "content": f"question {turn} " + "word " * 20})
            answers.append(chat(messages))
            messages.append({"role": "assistant", "content": answers[-1]})
        return answers

    with use_cassette("c", mode="once"):
        recorded = agent()
    with use_cassette("c"):
        assert agent() == recorded
    cassette = open_cassette("cassettes/c.yaml")
    assert list(cassette.interaction(100).request) == ["arguments", "messages", "name"]
    assert len(cassette.interaction(100).request["messages"]) == 199
    assert Path("cassettes/c.yaml").stat().st_size < 80_000


# -- the object of a method ------------------------------------------------------------------------------------


@dataclass
class Pair:
    """An object that could be recorded, so that it would not be noticed if it were."""

    n: int

    @boundary
    def add(self, other: Any) -> int:
        """Add a number, or the number of another pair."""
        return self.n + (other.n if isinstance(other, Pair) else int(other))

    @staticmethod
    @boundary
    def both(one: Pair, two: Pair) -> int:
        """Add two pairs; neither is the object of a method."""
        return one.n + two.n

    @boundary
    def every(*pairs: Pair) -> int:
        """Add all; the first is the object."""
        return sum(pair.n for pair in pairs)


def test_object_is_left_out() -> None:
    """Only what a method was called on is left out, not an argument of the same class."""
    two = {"$dataclass": {"type": f"{__name__}:Pair", "fields": {"n": 2}}}
    one = {"$dataclass": {"type": f"{__name__}:Pair", "fields": {"n": 1}}}
    assert arguments(
        lambda: Pair(1).add(Pair(2)),
        lambda: Pair.add(Pair(1), Pair(2)),
        lambda: Pair(1).add(other=5),
        lambda: Pair.both(Pair(1), Pair(2)),
        lambda: Pair(1).both(Pair(1), two=Pair(2)),
        lambda: Pair(1).every(Pair(2)),
    ) == [
        {"other": two},
        {"other": two},
        {"other": 5},
        {"one": one, "two": two},
        {"one": one, "two": two},
        {"pairs": [two]},
    ]


def test_function_called_with_self() -> None:
    """A parameter is not left out for its name: a function that is no method has no object."""

    @boundary
    def greet(self: str, cls: str) -> str:
        return self + cls

    assert arguments(lambda: greet("a", "b")) == [{"self": "a", "cls": "b"}]


def test_function_put_on_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """A boundary that is set on a class from outside is a method of it."""

    def minus(pair: Pair, other: int) -> int:
        return pair.n - other

    monkeypatch.setattr(Pair, "take", boundary(minus), raising=False)
    pair: Any = Pair(3)
    assert arguments(lambda: pair.take(1)) == [{"other": 1}]


def test_attribute_that_wraps_itself() -> None:
    """A class may hold anything: a chain of decorators that goes in circles has an end."""
    circle: Any = lambda: None  # noqa: E731
    circle.__wrapped__ = circle

    class Client(BaseModel):
        n: int = 1

    Client.circle = circle  # type: ignore[attr-defined]
    assert Parameters(len_of, "len_of", ()).named((Client(),), {}) == {"value": Client()}


# -- drop ------------------------------------------------------------------------------------------------------


def test_drop() -> None:
    """What is dropped reaches the function, and is not part of the request."""
    seen: list[Any] = []

    @boundary("retrieval", drop=("lock", "trace"))
    def find(query: str, lock: Any, *, n: int = 1, **options: Any) -> str:
        seen.append((lock, options))
        return query

    for mode in ("once", "none"):
        with use_cassette("c", mode=mode):
            assert find("q", threading.Lock(), trace=threading.Lock(), lang="en") == "q"
    assert len(seen) == 1
    assert type(seen[0][1]["trace"]) is type(threading.Lock())
    request = open_cassette("cassettes/c.yaml").interaction(1).request
    assert request["arguments"] == {"query": "q", "n": 1, "options": {"lang": "en"}}


def test_drop_the_object_of_another() -> None:
    """Parameters of bound methods, partials and `*args` can be dropped too."""
    pair = Pair(1)
    bound = boundary("call", drop=["other"])(pair.add.__wrapped__.__get__(pair))  # type: ignore[attr-defined]
    assert arguments(lambda: bound(2), lambda: boundary("call", drop={"rest"})(lambda a, *rest: a)(1, object())) == [
        {},
        {"a": 1},
    ]


@pytest.mark.parametrize(
    ("drop", "message"),
    [
        (("sesion",), r"drop names 'sesion'; the parameters of find are: query, session"),
        ("session", r"drop='session': expected a tuple of the names of parameters"),
        ((1,), r"drop=\(1,\): expected a tuple of the names of parameters"),
    ],
)
def test_wrong_drop(drop: Any, message: str) -> None:
    """A parameter that does not exist cannot be dropped: the error names those that do."""

    def find(query: str, session: Any) -> None: ...

    with pytest.raises(ConfigurationError, match=message):
        boundary("tool", drop=drop)(find)


def test_argument_that_cannot_be_recorded() -> None:
    """An argument without a codec is refused before anything is done; the error says where, and how to leave it out."""
    called: list[Any] = []
    find = boundary("tool", name="find")(lambda query, lock: called.append(query))
    with pytest.raises(UnrecordableValueError) as caught, use_cassette("c", mode="once"):
        find("q", threading.Lock())
    assert caught.value.where == "$.arguments.lock"
    assert "leave the argument out of the request of find: @boundary(..., drop=" in caught.value.__notes__[0]
    assert called == []


# -- values ----------------------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(values, min_size=1, max_size=4))
def test_any_values(items: list[Any]) -> None:
    """Arguments and results of all recordable types come through, equal and of their types, as positions or names."""
    results = iter(items)

    @boundary
    def echo(value: Any, *, also: Any = None) -> Any:
        return next(results)

    with use_cassette("c", mode="all", redact=False):
        for item in items:
            echo(item, also=[item])
    with use_cassette("c", redact=False):
        assert all(same(echo(also=[item], value=item), item) for item in items)


# -- results that are not there yet ----------------------------------------------------------------------------


async def _later() -> str:
    return "later"


def _items() -> Iterator[int]:
    yield 1


async def _aitems() -> AsyncIterator[int]:
    yield 1


def returning(function: Callable[[], Any]) -> Callable[[], Any]:
    """Return a plain function that returns what another one does."""

    def call() -> Any:
        return function()

    return call


@pytest.mark.parametrize("accept", [(), {"opaque"}])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_later, "result has yet to be awaited: declare the boundary `async def`, or call it by `await arecord_call"),
        (_items, "items have yet to be read: make the boundary a generator function"),
        (_aitems, "items have yet to be read: make the boundary a generator function"),
        (lambda: map(len, ["a"]), "items have yet to be read"),
    ],
)
def test_unfinished_results(function: Callable[[], Any], message: str, accept: Any) -> None:
    """A plain function that returns an awaitable or an iterator is refused, never recorded as an empty stand-in."""
    plain = boundary(returning(function))
    with pytest.raises(UnrecordableValueError, match=message), use_cassette("c", mode="once", accept=accept) as session:
        try:
            plain()
        finally:
            assert session.interactions == []


async def test_unfinished_result_of_a_coroutine() -> None:
    """So is a coroutine function that returns one when it was awaited; the session fails even if that is swallowed."""

    @boundary
    async def ask() -> Any:
        return _aitems()

    with pytest.raises(UnrecordableValueError, match="items have yet to be read"):
        async with use_cassette("c", mode="once"):
            with pytest.raises(UnrecordableValueError):
                await ask()


class Countdown(BaseModel):
    """An iterator that can be recorded as what it is."""

    n: int

    def __next__(self) -> int:
        raise StopIteration


def test_iterator_with_a_codec() -> None:
    """A result that happens to be an iterator, of a type that is recorded whole, is recorded whole."""
    countdown = boundary(lambda: Countdown(n=3))
    for mode in ("once", "none"):
        with use_cassette("c", mode=mode):
            assert countdown() == Countdown(n=3)


def test_unfinished_outside_a_session() -> None:
    """Outside any session such a function does what it always did."""
    assert asyncio.run(boundary(returning(_later))()) == "later"
    assert list(boundary(returning(_items))()) == [1]


# -- errors, nesting, concurrency ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
def test_errors(is_async: bool) -> None:
    """An error is recorded, and raised again as its own type with its attributes."""

    class QuotaError(Exception):
        """An error with an attribute."""

        def __init__(self, message: str, retry_after: float) -> None:
            super().__init__(message)
            self.retry_after = retry_after

    calls: list[str] = []

    @boundary("tool")
    def fail(what: str) -> None:
        calls.append(what)
        raise QuotaError(what, 2.5)

    @boundary("tool", name="fail")
    async def afail(what: str) -> None:
        calls.append(what)
        raise QuotaError(what, 2.5)

    for mode in ("once", "none"):
        with use_cassette("c", mode=mode):
            with pytest.raises(QuotaError, match="too many") as caught:
                asyncio.run(afail("too many")) if is_async else fail("too many")
            assert caught.value.retry_after == 2.5
    assert calls == ["too many"]


def test_nested_and_recursive() -> None:
    """What a boundary calls is recorded inside it; a recursive one inside itself; replayed, none of it runs."""
    ran: list[int] = []

    @boundary
    def countdown(n: int) -> list[int]:
        ran.append(n)
        return [n, *(countdown(n - 1) if n else [leaf()])]

    @boundary
    def leaf() -> int:
        return -1

    for mode in ("once", "none"):
        with use_cassette("c", mode=mode):
            assert countdown(2) == [2, 1, 0, -1]
    assert ran == [2, 1, 0]
    rows = [(entry.name, entry.parent, entry.address) for entry in open_cassette("cassettes/c.yaml").entries]
    assert rows == [
        ("countdown", None, "countdown"),
        ("countdown", 1, "countdown/countdown"),
        ("countdown", 2, "countdown/countdown/countdown"),
        ("leaf", 3, "countdown/countdown/countdown/leaf"),
    ]


def test_equal_calls_of_concurrent_tasks() -> None:
    """Equal calls of parallel tasks find their own recording each, whichever is faster on replay."""
    delays: Sequence[int] = ()
    answers = iter(range(100))

    @boundary("tool")
    async def ask(question: str) -> int:
        return next(answers)

    async def agent(turns: int) -> list[int]:
        for _ in range(turns):
            await asyncio.sleep(0)
        return [await ask("x"), await ask("x")]

    async def main() -> list[list[int]]:
        return await asyncio.gather(*(agent(turns) for turns in delays))

    delays = (1, 2, 3)
    with use_cassette("c", mode="once"):
        recorded = asyncio.run(main())
    assert sorted(itertools.chain(*recorded)) == list(range(6))
    with use_cassette("c"):
        assert asyncio.run(main()) == recorded
    delays = (1, 5, 9)
    with use_cassette("c") as session:
        assert asyncio.run(main()) == recorded
    assert {call_record.match_rule for call_record in session.report.replayed} == {"exact"}


async def test_awaited_more_than_once_at_a_time() -> None:
    """A coroutine crosses when it is awaited, not when it is made."""
    ask: Callable[[], Awaitable[str]] = boundary("tool")(_later)
    waiting = ask()
    async with use_cassette("c", mode="once") as session:
        assert await waiting == "later"
        assert [interaction.kind for interaction in session.interactions] == ["tool"]
