"""Functions of every shape and form become boundaries: recorded once, replayed ever after, else left as they are."""

from __future__ import annotations

import abc
import asyncio
import functools
import inspect
import pickle
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, assert_type, get_type_hints

import pytest

from agenttape_core import arecord_call, boundary, open_cassette, record_call, use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError

Function = Callable[..., Any]


class World:
    """What lies outside: no two answers are equal, and when it is gone there are none."""

    def __init__(self) -> None:
        self.answers = 0
        self.gone = False

    def answer(self, first: Any, second: Any) -> str:
        """Really do something."""
        assert not self.gone, "the real function was called"
        self.answers += 1
        return f"{first} {second} {self.answers}"


WORLD = World()


@pytest.fixture(autouse=True)
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A fresh world, in an empty project."""
    monkeypatch.chdir(tmp_path)
    WORLD.__init__()  # type: ignore[misc]
    return WORLD


# -- every shape in every form ---------------------------------------------------------------------------------


class Plain:
    """The functions that all forms are made of, in the plain shape; `method` does not call its object `self`."""

    @staticmethod
    def function(first: Any, second: Any = "y") -> Any:
        """Ask."""
        return WORLD.answer(first, second)

    def method(this, first: Any, second: Any = "y") -> Any:  # noqa: N805
        """Ask."""
        return WORLD.answer(first, second)


class Coroutine:
    """The same as coroutines."""

    @staticmethod
    async def function(first: Any, second: Any = "y") -> Any:
        """Ask."""
        await asyncio.sleep(0)
        return WORLD.answer(first, second)

    async def method(this, first: Any, second: Any = "y") -> Any:  # noqa: N805
        """Ask."""
        await asyncio.sleep(0)
        return WORLD.answer(first, second)


class Generator:
    """The same as generators."""

    @staticmethod
    def function(first: Any, second: Any = "y") -> Any:
        """Ask."""
        yield WORLD.answer(first, second)
        yield WORLD.answer(first, second)

    def method(this, first: Any, second: Any = "y") -> Any:  # noqa: N805
        """Ask."""
        yield WORLD.answer(first, second)
        yield WORLD.answer(first, second)


class AsyncGenerator:
    """The same as async generators."""

    @staticmethod
    async def function(first: Any, second: Any = "y") -> Any:
        """Ask."""
        yield WORLD.answer(first, second)
        await asyncio.sleep(0)
        yield WORLD.answer(first, second)

    async def method(this, first: Any, second: Any = "y") -> Any:  # noqa: N805
        """Ask."""
        yield WORLD.answer(first, second)
        yield WORLD.answer(first, second)


SHAPES = [Plain, Coroutine, Generator, AsyncGenerator]


def made(attributes: dict[str, Any]) -> Any:
    """Return an instance of a class with these attributes. It cannot be recorded."""
    return type("Client", (), attributes)()


def retried(function: Function) -> Function:
    """Decorate a function as many libraries do."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


TAPE: Any = boundary("tool", name="ask")
FORMS: dict[str, Callable[[Any], Function]] = {
    "function": lambda shape: TAPE(shape.function),
    "method": lambda shape: made({"ask": TAPE(shape.method)}).ask,
    "method under another name": lambda shape: made({"other": TAPE(shape.method)}).other,
    "method, decorated above": lambda shape: made({"ask": retried(TAPE(shape.method))}).ask,
    "method of a base": lambda shape: type("Derived", (type(made({"ask": TAPE(shape.method)})),), {})().ask,
    "method through its class": lambda shape: functools.partial(
        (client := made({"ask": TAPE(shape.method)})).__class__.ask, client
    ),
    "partial method": lambda shape: made({"ask": functools.partialmethod(TAPE(shape.method), second="y")}).ask,
    "bound method": lambda shape: TAPE(made({"ask": shape.method}).ask),
    "class method, above": lambda shape: made({"ask": TAPE(classmethod(shape.method))}).ask,
    "class method, below": lambda shape: made({"ask": classmethod(TAPE(shape.method))}).ask,
    "class method of a class": lambda shape: type(made({"ask": classmethod(TAPE(shape.method))})).ask,
    "bound class method": lambda shape: TAPE(made({"ask": classmethod(shape.method)}).ask),
    "static method, above": lambda shape: made({"ask": TAPE(staticmethod(shape.function))}).ask,
    "static method, below": lambda shape: made({"ask": staticmethod(TAPE(shape.function))}).ask,
    "abstract method": lambda shape: (
        type(
            "C", (type("A", (abc.ABC,), {"ask": abc.abstractmethod(TAPE(shape.method))}),), {"ask": TAPE(shape.method)}
        )().ask
    ),
    "partial": lambda shape: TAPE(functools.partial(shape.function, second="y")),
    "partial of a bound method": lambda shape: TAPE(functools.partial(made({"ask": shape.method}).ask, second="y")),
    "partial of a method": lambda shape: TAPE(functools.partial((c := made({"ask": shape.method})).__class__.ask, c)),
    "callable object": lambda shape: TAPE(made({"__call__": shape.method})),
    "taped call of an object": lambda shape: made({"__call__": TAPE(shape.method)}),
    "partial of an object": lambda shape: TAPE(functools.partial(made({"__call__": shape.method}), second="y")),
}


def run(function: Function, *args: Any, **kwargs: Any) -> Any:
    """Call a function of any shape, and return what it gives: a value, or all chunks."""
    result = function(*args, **kwargs)
    if isinstance(result, Awaitable):
        return asyncio.run(waited_for(result))
    if isinstance(result, AsyncIterator):
        return asyncio.run(collected(result))
    return list(result) if isinstance(result, Iterator) else result


async def waited_for(result: Awaitable[Any]) -> Any:
    """Wait for a result."""
    return await result


async def collected(chunks: AsyncIterator[Any]) -> list[Any]:
    """Read all chunks."""
    return [chunk async for chunk in chunks]


@pytest.mark.sweep
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
def test_recorded_and_replayed(world: World, form: str, shape: Any) -> None:
    """A replay gives what the function gave; the same arguments are the same request, whatever is around a function."""
    ask = FORMS[form](shape)
    with use_cassette("c", mode="once"):
        recorded = [run(ask, "x"), run(ask, "x"), run(ask, first="z", second=3)]
    world.gone = True
    with use_cassette("c"):
        assert [run(ask, "x"), run(ask, "x"), run(ask, first="z", second=3)] == recorded
    calls = list(open_cassette("cassettes/c.yaml").interactions())
    assert [(call.kind, call.name) for call in calls] == [("tool", "ask")] * 3
    requests = [{"first": "x", "second": "y"}] * 2 + [{"first": "z", "second": 3}]
    assert [call.request for call in calls] == [{"name": "ask", "arguments": asked} for asked in requests]


@pytest.mark.sweep
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
def test_outside_any_session(world: World, form: str, shape: Any) -> None:
    """Without a session the real function is called, each time."""
    ask = FORMS[form](shape)
    first = run(ask, "x")
    assert first == (["x y 1", "x y 2"] if "Generator" in shape.__name__ else "x y 1")
    assert run(ask, "x") != first


@pytest.mark.parametrize("shape", SHAPES)
def test_shape_is_told(shape: Any) -> None:
    """A boundary is of the shape of its function, also that of an object or a partial."""
    for original in (shape.function, functools.partial(shape.function), made({"ask": shape.method}).ask):
        for question in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
            assert question(boundary(original)) == question(original)
    called = boundary(made({"__call__": shape.method}))
    assert inspect.iscoroutinefunction(called) == (shape is Coroutine)
    assert inspect.isasyncgenfunction(called) == (shape is AsyncGenerator)


@boundary
def documented(first: int, *rest: str, last: float = 1.0) -> list[str]:
    """Explain yourself."""
    return [str(first), *rest, str(last)]


def test_looks_like_the_original() -> None:
    """Name, module, docs, signature and annotations are those of the function, which is at hand."""
    original = inspect.unwrap(documented)
    assert documented is not original
    assert (documented.__name__, documented.__doc__) == ("documented", "Explain yourself.")
    assert (documented.__module__, documented.__qualname__) == (original.__module__, original.__qualname__)
    assert inspect.signature(documented) == inspect.signature(original)
    assert get_type_hints(documented) == get_type_hints(original)


def test_objects_look_like_functions() -> None:
    """A callable object and a partial give a function with their signature; what the object holds is not copied."""
    client = made({"__call__": Plain.method, "__doc__": "A client.", "token": "of the class"})
    client.key = "of the object"
    taped = boundary(client)
    assert (taped.__name__, taped.__doc__, vars(taped)) == ("Client", "A client.", {"__wrapped__": client})
    assert list(inspect.signature(taped).parameters) == ["first", "second"]
    partial: Any = boundary(functools.partial(Plain.function, "x"))
    assert (partial.__name__, partial.__doc__) == ("function", "Ask.")
    assert list(inspect.signature(partial).parameters) == ["second"]


def test_pickled_by_name() -> None:
    """A decorated function of a module is pickled as its name, as any function is."""
    assert sys.modules[documented.__module__].__dict__["documented"] is documented
    assert pickle.loads(pickle.dumps(documented)) is documented


def test_types_are_kept() -> None:
    """A type checker sees the function that was decorated, and what a single call returns."""
    assert_type(documented(1, "x"), list[str])
    assert_type(boundary("tool")(documented)(1), list[str])
    assert_type(record_call("tool", documented, 1, "x", last=2.0), list[str])


# -- a property is a method too --------------------------------------------------------------------------------


def test_property(world: World) -> None:
    """A boundary below `@property` or `@cached_property` is replayed, without the object in its request."""
    attributes = {
        "size": property(boundary(lambda this: WORLD.answer("size", 0))),
        "kept": functools.cached_property(boundary(lambda this: WORLD.answer("kept", 0))),
    }
    attributes["kept"].__set_name__(None, "kept")  # type: ignore[attr-defined]
    with use_cassette("c", mode="once"):
        client = made(attributes)
        recorded = [client.size, client.kept, client.size]
    world.gone = True
    with use_cassette("c"):
        client = made(attributes)
        assert [client.size, client.kept, client.size] == recorded


# -- single calls ----------------------------------------------------------------------------------------------


def test_record_call(world: World) -> None:
    """A single call is what a decorated function would be: same recording, same arguments, lazy when it streams."""
    with use_cassette("c", mode="once"):
        value = record_call("tool", Plain.function, "x", second="z")
        chunks = record_call("chat", Generator.function, "x")
        assert world.answers == 1
        recorded = [value, list(chunks), run(record_call, "chat", AsyncGenerator.function, "x")]
    world.gone = True
    with use_cassette("c"):
        replayed = boundary("tool")(Plain.function)(first="x", second="z")
        assert [
            replayed,
            list(boundary("chat")(Generator.function)("x")),
            run(record_call, "chat", AsyncGenerator.function, "x"),
        ] == recorded


async def test_arecord_call(world: World) -> None:
    """A single call that is awaited may be of a coroutine function, or of one that returns an awaitable."""

    def ask(first: str) -> Awaitable[str]:
        return Coroutine.function(first)

    recorded: list[str] = [await arecord_call("tool", Coroutine.function, "x"), await arecord_call("tool", ask, "x")]
    assert recorded == ["x y 1", "x y 2"]
    for mode in ("once", "none"):
        async with use_cassette("c", mode=mode):
            answer = await arecord_call("tool", Coroutine.function, "x")
            assert_type(await arecord_call("tool", ask, "x"), str)
        assert answer == "x y 3"
        world.gone = True


@pytest.mark.parametrize("shape", [Generator, AsyncGenerator])
async def test_arecord_call_of_a_generator(shape: Any) -> None:
    """What is looped over is not awaited: the error says what to write."""
    with pytest.raises(ConfigurationError, match=r"loop over record_call\('chat', \w+.function, …\)"):
        await arecord_call("chat", shape.function, "x")


# -- what cannot be one ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decorate", "message"),
    [
        (lambda: boundary("tol")(len), "unknown kind of boundary 'tol'; choose one of: chat, completion, "),  # type: ignore[call-overload]
        (lambda: record_call("tol", len, []), "unknown kind of boundary 'tol'"),  # type: ignore[arg-type]
        (lambda: boundary(World), "the class World cannot be a boundary: decorate its methods"),
        (lambda: boundary(property(lambda this: 1)), "put `@property` above `@boundary`"),  # type: ignore[call-overload]
        (lambda: boundary(42), "expected a function or a kind of boundary, found a value of the type int"),  # type: ignore[call-overload]
        (lambda: boundary("tool", name="")(len), "must be a text that is not empty"),
        (lambda: boundary("tool", name=3)(len), "must be a text that is not empty, found 3"),  # type: ignore[call-overload]
    ],
)
def test_refused_at_once(decorate: Callable[[], Any], message: str) -> None:
    """What cannot be a boundary is refused where it is decorated, in words that say what to do."""
    with pytest.raises(ConfigurationError, match=message.replace("(", r"\(")):
        decorate()


def test_automatic_or_not(world: World) -> None:
    """A boundary was asked for, so it takes part in a session that leaves frameworks alone."""
    ask = boundary(Plain.function)
    with use_cassette("c", mode="once", auto=False):
        answer = ask("x")
    world.gone = True
    with use_cassette("c", auto=False):
        assert ask("x") == answer


def test_names() -> None:
    """A boundary is called like its function: where a function was made inside another one is left out."""

    def inner() -> None: ...

    class Local:
        def method(self) -> None: ...

    with use_cassette("c", mode="once"):
        for function in (
            inner,
            Local().method,
            made({"__call__": lambda this: None}),
            functools.partial(len, []),
            functools.partial(inner),
        ):
            record_call("call", function)
        boundary("memory", name="store")(inner)()
    names = [entry.name for entry in open_cassette("cassettes/c.yaml").entries]
    assert names == ["inner", "Local.method", "Client", "len", "inner", "store"]


def test_equal_arguments_of_two_functions(world: World) -> None:
    """A recording of one function never serves another one, however equal their arguments."""
    one, two = boundary("tool", name="one")(Plain.function), boundary("tool", name="two")(Plain.function)
    with use_cassette("c", mode="once"):
        one("x")
    with pytest.raises(CassetteMissError), use_cassette("c"):
        two("x")
