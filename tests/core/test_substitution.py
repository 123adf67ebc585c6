"""What is common to the substitution of classes that others write, without a framework."""

from __future__ import annotations

import asyncio
import copy
import functools
import importlib
import pickle
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from agenttape_core import use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import (
    Boundary,
    Family,
    Leaf,
    Position,
    SessionCall,
    TypeCodec,
    async_generator,
    begin,
    coroutine,
    forking_pools,
    generator,
    leaf_call,
    named_arguments,
    original_of,
    plain,
    register_codecs,
    register_position,
    value_codec,
    wrapping,
)
from agenttape_core.integration.alias import is_alias
from agenttape_core.integration.codecs import VECTORS
from agenttape_core.integration.stand_ins import StandIn


class Base:
    """A base class with four leaf methods, and a default that calls one of them."""

    def one(self, what: str) -> str:
        raise NotImplementedError

    def two(self, what: str) -> str:
        return self.one(what)

    async def later(self, what: str) -> str:
        raise NotImplementedError

    def many(self, what: str) -> Iterator[str]:
        raise NotImplementedError

    def many_later(self, what: str) -> AsyncIterator[str]:
        raise NotImplementedError


class Helper(Base):
    """A class of the framework that implements one leaf method by another."""

    async def later(self, what: str) -> str:
        return self.one(what)


class Mine(Helper):
    """A class of the user's."""

    def __init__(self) -> None:
        self.calls = 0

    def one(self, what: str) -> str:
        self.calls += 1
        return f"{what} {self.calls}"

    def many(self, what: str) -> Iterator[str]:
        self.calls += 1
        yield from (what, str(self.calls))

    async def many_later(self, what: str) -> AsyncIterator[str]:
        self.calls += 1
        yield f"{what} {self.calls}"


def cross(name: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    """Begin a call."""
    asked = named_arguments(getattr(type(self), name), ("what",), args, kwargs)
    return begin(Boundary("call"), self, name, lambda _: asked)


SHAPES = {"one": plain, "two": plain, "later": coroutine, "many": generator, "many_later": async_generator}
FAMILY = Family(
    Base, {name: Leaf(shape, functools.partial(cross, name)) for name, shape in SHAPES.items()}, delegating=(Helper,)
)


@pytest.mark.parametrize("automatic", [True, False], ids=["automatic", "alias"])
def test_only_leaves_are_replayed(tmp_path: Path, *, automatic: bool) -> None:
    """What a class implements itself is replayed; defaults and delegating classes run, and their calls are replayed."""

    async def everything(mine: Mine) -> list[Any]:
        """Call every leaf method."""
        return [
            mine.one("a"),
            mine.two("b"),
            await mine.later("c"),
            list(mine.many("d")),
            [item async for item in mine.many_later("e")],
        ]

    mine = Mine()
    seen = []
    for mode in ("all", "none"):
        taped = mine if automatic else FAMILY.tape(mine)
        with use_cassette(tmp_path / "c.yaml", mode=mode), wrapping(FAMILY) if automatic else nullcontext():
            seen.append(asyncio.run(everything(taped)))
    assert seen[0] == seen[1] == ["a 1", "b 2", "c 3", ["d", "4"], ["e 5"]]
    assert mine.calls == 5
    with use_cassette(tmp_path / "c.yaml", on_unused="ignore") as cassette:
        assert [interaction.name for interaction in cassette.interactions] == ["one"] * 3 + ["many", "many_later"]


def test_replaced_methods_are_taped_as_they_are_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrappers are kept between sessions, but a method that was replaced meanwhile gets one of its own."""
    before = dict(vars(Mine))
    for answer in ("a 1", "b"):
        with use_cassette(tmp_path / f"{answer}.yaml", mode="all") as cassette, wrapping(FAMILY):
            assert vars(Mine)["one"] is not before["one"]
            assert Mine().one("a") == answer
        assert len(cassette.interactions) == 1
        assert {**vars(Mine), "one": None} == {**before, "one": None}
        monkeypatch.setattr(Mine, "one", lambda _, __: "b")


def test_methods_and_classes_that_come_later_are_taped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found in the classes of a family is looked for anew when one has changed, or another one has come."""

    def recorded(name: str, call: Callable[[], object]) -> list[str]:
        with use_cassette(tmp_path / f"{name}.yaml", mode="all", on_unused="ignore") as cassette, wrapping(FAMILY):
            call()
        return [item.name for item in cassette.interactions]

    assert recorded("default", lambda: Mine().two("a")) == ["one"]
    monkeypatch.setattr(Mine, "two", lambda *_: "own", raising=False)
    assert recorded("own", lambda: Mine().two("a")) == ["two"]
    monkeypatch.undo()
    assert recorded("again", lambda: Mine().two("a")) == ["one"]
    later: Any = type("Later", (Mine,), {"two": lambda *_: "later", "__module__": __name__, "__qualname__": "Later"})
    assert recorded("later", lambda: later().two("a")) == ["two"]
    assert recorded("of the base", lambda: later().one("a")) == ["one"]


def test_mixins_are_taped_where_they_are_mixed_in(tmp_path: Path) -> None:
    """A leaf method that a class has from outside of the family is the class's own."""

    class Mixin:
        def one(self, what: str) -> str:
            return f"mixed {what}"

    class Mixed(Mixin, Mine):
        pass

    with use_cassette(tmp_path / "c.yaml", mode="all") as cassette, wrapping(FAMILY):
        assert Mixed().one("a") == Mixin().one("a") == "mixed a"
    assert len(cassette.interactions) == 1
    assert "one" not in vars(Mixed)


def test_inherited_takes_a_call_over(tmp_path: Path) -> None:
    """A leaf may take over what an alias's method calls of its base class; else that is part of the alias's call."""
    taken = []

    def inherited(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        taken.append((is_alias(self), args))

    class Below(Mine):
        def one(self, what: str) -> str:
            return super().one(what)

    describe = leaf_call(owner=lambda owner: owner)
    family = Family(Base, {"one": Leaf(plain, functools.partial(cross, "one"), describe, inherited)})
    below = family.tape(Below())
    with use_cassette(tmp_path / "c.yaml", mode="all", auto=False) as cassette, wrapping(family):
        assert below.one("a") == "a 1"
    assert taken == [(True, ("a",))]
    assert len(cassette.interactions) == 1


def test_alias_shares_and_is_pickled() -> None:
    """An alias has the state of its object, is taped once, and is pickled as a taped object."""
    mine = Mine()
    taped = FAMILY.tape(mine)
    taped.calls = 7
    assert (mine.calls, FAMILY.tape(taped) is taped, original_of(taped).calls) == (7, True, 7)
    again = pickle.loads(pickle.dumps(taped))
    assert (is_alias(again), again.calls, type(again).__qualname__) == (True, 7, "Mine")
    assert type(again) is type(taped) is type(copy.deepcopy(taped))


def test_family_without_a_name_is_not_pickled() -> None:
    """An alias whose family no module holds cannot be pickled, and the error says what to do."""
    with pytest.raises(pickle.PicklingError, match="assign the Family to a variable"):
        pickle.dumps(Family(Base, FAMILY.leaves).tape(Mine()))


def test_stand_ins_take_no_part(tmp_path: Path) -> None:
    """What answers from a cassette of its own is not recorded by an automatic session."""

    class Replayed(StandIn, Mine):
        pass

    with use_cassette(tmp_path / "c.yaml", mode="all", on_unused="ignore") as cassette, wrapping(FAMILY):
        Replayed().one("a")
    assert cassette.interactions == []


def test_slots_cannot_be_shared() -> None:
    """An object that keeps its state in slots is refused, and the error says what to do."""

    class Slotted(Mine):
        __slots__ = ("extra",)

    with pytest.raises(ConfigurationError, match="auto=True"):
        FAMILY.tape(Slotted())


def test_pools_are_forked_once(tmp_path: Path) -> None:
    """Concurrent work of a thread pool finds its own recordings, however many integrations ask for it."""

    def work(mine: Mine) -> list[str]:
        barrier = Barrier(3)

        def ask(_: int) -> str:
            barrier.wait()  # all three are under way before one asks
            return mine.one("same")

        with ThreadPoolExecutor(3) as pool:
            return list(pool.map(ask, range(3)))

    before = ThreadPoolExecutor.submit
    mine, seen, addresses = FAMILY.tape(Mine()), [], []
    for twice in (False, True, True):
        with forking_pools(), forking_pools() if twice else nullcontext():
            with use_cassette(tmp_path / "c.yaml", mode="once") as cassette:
                seen.append(work(mine))
            addresses.append([interaction.address for interaction in cassette.interactions])
    assert ThreadPoolExecutor.submit is before
    assert seen[1] == seen[2] == seen[0]
    assert addresses[0] == addresses[1] == ["one", "one~1", "one~2"]


def test_innermost_position_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the positions that integrations know the innermost is where a call stands."""
    from agenttape_core.session import positions

    monkeypatch.setattr(positions, "_positions", [])
    tree: list[Position] = []
    register_position(lambda _: tree[0] if tree else None)
    register_position(lambda _: tree[1] if tree else None)
    with use_cassette(tmp_path / "c.yaml", mode="all") as cassette:
        outer = cassette.root.child("agent")
        tree[:] = [outer, outer.child("tool")]
        FAMILY.tape(Mine()).one("a")
    assert [interaction.address for interaction in cassette.interactions] == ["agent/tool/one"]


def test_a_codec_may_be_registered_again() -> None:
    """Two integrations may register the same codec, and no two may share a tag."""
    register_codecs(VECTORS)
    register_codecs(VECTORS)
    other = TypeCodec("$floats", lambda _: False, lambda value, _: value, lambda plain, _: plain)
    with pytest.raises(ConfigurationError, match="already registered"):
        register_codecs([other])


def test_a_module_may_be_imported_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codecs of a module that is imported again take the place of the former, whose objects can still be written."""
    (tmp_path / "shapes.py").write_text(
        "from agenttape_core.integration import TypeCodec, register_codecs\n"
        "class Shape:\n"
        "    pass\n"
        "TAG = TypeCodec('$imported_anew', lambda v: isinstance(v, Shape), lambda v, _: None, lambda _p, _: Shape())\n"
        "register_codecs([TAG])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    shapes = importlib.import_module("shapes")

    former = shapes.Shape()
    monkeypatch.delitem(sys.modules, "shapes")
    shapes = importlib.import_module("shapes")

    written = value_codec().encode([former, shapes.Shape()])
    assert written == [{"$imported_anew": None}] * 2
    assert [type(shape) for shape in value_codec().decode(written)] == [shapes.Shape] * 2
