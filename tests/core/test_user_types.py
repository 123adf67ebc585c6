"""What users make of Python's types comes back with its type, also where a function defines the class in each run."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import functools
import json
import pickle
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from zoneinfo import ZoneInfo

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, v1

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import UnreadableValueError, UnrecordableValueError
from agenttape_core.integration import request_value, value_codec

if TYPE_CHECKING:
    from collections.abc import Callable


class Words(str):  # noqa: SLOT000 - it is to have a dict
    """A text with an attribute and code that must not run."""

    language = "en"

    def __new__(cls, text: str) -> Self:
        ran.append("new")
        return super().__new__(cls, text)

    def __add__(self, other: str) -> str:
        ran.append("add")
        return super().__add__(other)


class Slotted(str):
    __slots__ = ("more",)
    more: Any


class Table(dict[Any, Any]):
    """A dict that shows other items than it holds."""

    def items(self) -> Any:
        return {"shown": 1}.items()

    def __setitem__(self, key: Any, value: Any) -> None:
        ran.append("set")
        super().__setitem__(key, value)


class Sheet(dict[Any, Any]): ...


class Items(list[Any]): ...


class Pair(tuple[Any, ...]): ...  # noqa: SLOT001 - it is to have a dict


class Names(set[str]): ...


class Fixed(frozenset[int]): ...


class Raw(bytes): ...


class Buffer(bytearray): ...


class Count(int): ...


class Share(float): ...


class Point(complex): ...


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Options(enum.IntFlag):
    A = 1
    B = 2


@attrs.define
class Place:
    name: str
    tags: list[Any] = attrs.Factory(list)
    _hidden: int = 0
    later: int = attrs.field(init=False)


@attrs.frozen(slots=False)
class City:
    name: str

    @functools.cached_property
    def size(self) -> int:
        """Return the length of the name."""
        return len(self.name)


class Old(v1.BaseModel):
    """A model of pydantic v1."""

    n: int = 1
    inner: Any = None
    _private: int = v1.PrivateAttr(3)


class Ordered(collections.OrderedDict[str, int]): ...


ran: list[str] = []


def _with(value: Any, **attributes: Any) -> Any:
    for name, item in attributes.items():
        setattr(value, name, item)
    return value


def _city() -> City:
    city = City("Oslo")
    assert city.size == 4
    return city


VALUES: list[Any] = [
    _with(Words("hi"), language="de"),
    _with(Slotted("hi"), more=[1]),
    Slotted("hi"),
    _with(Table({"a": Items([1, Pair((2, Words("x")))])}), note="n"),
    Names({"a", "b"}),
    Fixed({1, 2}),
    Raw(b"\xff"),
    Buffer(b"x"),
    Count(2**70),
    Share("inf"),
    Point(1, -0.0),
    Access.READ | Access.WRITE,
    Access.READ,
    Access(0),
    Options.A | Options.B,
    _with(Place("Oslo", [Count(1)], 5), later=2),
    _city(),
    Old(inner=Old(n=2)),
    types.SimpleNamespace(a=1, b=types.SimpleNamespace()),
    dt.UTC,
    dt.timezone(dt.timedelta(hours=2), "home"),
    ZoneInfo("Europe/Paris"),
    dt.datetime(2024, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2), "home")),
    dt.time(1, tzinfo=dt.timezone(-dt.timedelta(minutes=3), "away")),
]


def again(value: Any) -> Any:
    """Return a value as a file brings it back."""
    return value_codec().decode(json.loads(json.dumps(value_codec().encode(value))))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values(value: Any) -> None:
    """Each comes back with its type and all that it holds, down to the bytes of its pickle; none of its code runs."""
    ran.clear()
    back = again(value)
    assert ran == []
    assert (type(back), repr(back), back) == (type(value), repr(value), value)
    assert getattr(back, "__dict__", None) == getattr(value, "__dict__", None)
    assert pickle.dumps(back) == pickle.dumps(value)


def test_fields_that_are_not_set() -> None:
    """A field of an attrs object that nobody has set is not set again."""
    assert not hasattr(again(Place("Oslo")), "later")


def test_what_a_call_returns(tmp_path: Path) -> None:
    """They are replayed as they were returned, and given as arguments they are part of the request."""

    @boundary
    def find(place: Place) -> Any:
        return VALUES

    place = _with(Place("Oslo"), later=1)
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        find(place)
    with use_cassette(tmp_path / "c.yaml"):
        assert find(place) == VALUES


def test_order_of_arrays() -> None:
    """An array that is laid out column by column comes back so."""
    array = np.asfortranarray(np.arange(6).reshape(2, 3))
    back = again(array)
    assert back.flags.f_contiguous
    assert (back == array).all()
    assert again(np.arange(6).reshape(2, 3)).flags.c_contiguous


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (Ordered(a=1), "no codec is known"),
        (types.new_class("Local", (str,))("x"), "cannot be found again by name"),
        (np.ma.masked_array([1], mask=[True]), "subclass of numpy's array"),
    ],
    ids=["state in C", "local", "numpy"],
)
def test_refused(value: Any, why: str) -> None:
    """A class whose state cannot be seen, or that cannot be found again, is refused as before."""
    with pytest.raises(UnrecordableValueError, match=why):
        value_codec().encode(value)


@pytest.mark.parametrize(
    "plain",
    [
        {"$subclass": {"type": f"{__name__}:Words", "of": "int", "value": 1}},
        {"$subclass": {"type": f"{__name__}:Words", "of": "str", "value": 1}},
        {"$subclass": {"type": f"{__name__}:Gone", "of": "str", "value": "x"}},
        {"$attrs": {"type": f"{__name__}:Words", "fields": {}}},
        {"$attrs": {"type": f"{__name__}:City", "fields": {"gone": 1}}},
        {"$zone": "../../etc/passwd"},
        {"$enum": [f"{__name__}:Access", "GONE"]},
        {"$enum": [f"{__name__}:Access", 64]},
    ],
)
def test_malformed(plain: Any) -> None:
    """What does not fit its class is an error of ours, and nothing else."""
    with pytest.raises(UnreadableValueError):
        value_codec().decode(plain)


def test_settings_in_requests() -> None:
    """Settings of a model are written as before, so that older recordings are found: an attrs object by its type."""
    assert request_value(City("Oslo")) == {"type": f"{__name__}:City"}


_leaves = st.one_of(
    st.text(max_size=3).map(Slotted),
    st.integers().map(Count),
    st.floats(allow_nan=False).map(Share),
    st.binary(max_size=3).map(Raw),
    st.sampled_from([Access.READ, Access.READ | Access.WRITE, Options(0), dt.UTC]),
    st.text(max_size=3).map(City),
)
_nested = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(Items),
        st.lists(inner, max_size=3).map(Pair),
        st.dictionaries(inner.filter(lambda key: type(key) in {Slotted, Count, Raw}), inner, max_size=3).map(Sheet),
        st.lists(inner, max_size=2).map(lambda items: Old(inner=items)),
    ),
    max_leaves=6,
)


@given(_nested)
def test_nested(value: Any) -> None:
    """So does whatever they are nested in each other."""
    back = again(value)
    assert (type(back), repr(back), back) == (type(value), repr(value), value)
    assert pickle.loads(pickle.dumps(back)) == value


def model() -> tuple[type, Any]:
    """Define a model of pydantic."""

    class Answer(BaseModel):
        n: int
        inner: Answer | None = None

    Answer.model_rebuild(_types_namespace={"Answer": Answer})
    return Answer, Answer(n=1, inner=Answer(n=2))


def dataclass() -> tuple[type, Any]:
    """Define a dataclass."""

    @dataclasses.dataclass
    class Answer:
        n: int

    return Answer, Answer(1)


def choice() -> tuple[type, Any]:
    """Define an enumeration."""

    class Answer(enum.Enum):
        YES = "yes"

    return Answer, Answer.YES


def fields() -> tuple[type, Any]:
    """Define a named tuple."""

    class Answer(NamedTuple):
        n: int

    return Answer, Answer(1)


MAKERS: list[Callable[[], tuple[type, Any]]] = [model, dataclass, choice, fields]


@pytest.mark.parametrize("make", MAKERS)
def test_a_value_is_of_the_class_that_this_run_defined(make: Callable[[], tuple[type, Any]], tmp_path: Path) -> None:
    """Neither is the class of the recording meant, which may still be alive, nor is it refused to record its values."""

    def run() -> tuple[type, Any, Any]:
        cls, value = make()
        return cls, value, boundary("tool", name="ask")(lambda: [value])()

    with use_cassette(tmp_path / "run.yaml", mode="all"):
        before, _, _ = run()
    with use_cassette(tmp_path / "run.yaml") as cassette:
        cls, value, (replayed,) = run()
    assert type(replayed) is cls is not before
    assert replayed == value
    assert len(cassette.report.replayed) == 1


def test_an_error_is_caught_by_the_class_that_this_run_defined(tmp_path: Path) -> None:
    """An error of a local class is raised again as that, so that its handlers and retries see it."""

    def run() -> Exception:
        class TooBusyError(ConnectionError): ...

        def ask() -> None:
            raise TooBusyError("later", 5)

        with pytest.raises(TooBusyError) as raised:
            boundary("tool", name="ask")(ask)()
        return raised.value

    for mode in ("all", "none"):
        with use_cassette(tmp_path / "run.yaml", mode=mode):
            assert run().args == ("later", 5)


def test_of_two_classes_of_one_name_only_the_last_is_recorded(tmp_path: Path) -> None:
    """A replay could not know which of the two is meant, so a value of the first is refused."""
    first, last = model(), model()
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        assert boundary("call", name="ask")(lambda: last[1])() == last[1]
    with pytest.raises(UnrecordableValueError, match="found again"), use_cassette(tmp_path / "run.yaml", mode="all"):
        boundary("call", name="ask")(lambda: first[1])()
