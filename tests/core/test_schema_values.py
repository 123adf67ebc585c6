"""Values come back from a cassette equal and of the same type, fresh, and without running or importing anything."""

from __future__ import annotations

import base64
import collections
import copy
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import json
import math
import os
import pathlib
import random
import sys
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, HttpUrl, PrivateAttr, RootModel, SecretBytes, SecretStr

from agenttape_core.errors import UnreadableValueError, UnrecordableValueError
from agenttape_core.redaction import Redactor, new_key
from agenttape_core.schema import PYTHON_VALUES, TypeCodec, ValueCodec, class_name, loaded_class
from agenttape_core.schema.values import MAX_DEPTH


class Colour(enum.Enum):
    RED = "r"
    CRIMSON = "r"  # noqa: PIE796 - an alias
    BLUE = (1, 2)


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: Any = None


@dataclasses.dataclass
class Order:
    item: str
    price: decimal.Decimal | None = None
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    n: int
    point: Point


@dataclasses.dataclass
class Derived:
    n: int

    def __post_init__(self) -> None:
        self.twice = 2 * self.n


class Inner(BaseModel):
    n: int
    tags: set[str] = set()


class Outer(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)
    inner: Inner
    maybe: Inner | None = None
    name: str = Field(default="none", alias="n")
    _secret: int = PrivateAttr(default=7)


class Numbers(RootModel[list[int]]):
    pass


class Strict(BaseModel):
    """Its constructor and validators must not run when it is read."""

    n: int

    def __init__(self, **values: Any) -> None:
        ran.append("init")
        super().__init__(**values)

    def model_post_init(self, context: Any) -> None:
        ran.append("post")


ran: list[str] = []


def again(value: Any, codec: ValueCodec = PYTHON_VALUES) -> Any:
    """Return what a reader of the cassette gets."""
    return codec.decode(json.loads(json.dumps(codec.encode(value), allow_nan=False)))


def same(one: Any, two: Any) -> bool:  # noqa: C901, PLR0911 - one case per family
    """Whether two values are equal all the way down, with their types; NaN equals NaN, zeros have signs."""
    if type(one) is not type(two):
        return False
    if isinstance(one, float):
        return (math.isnan(one) and math.isnan(two)) or (one == two and math.copysign(1, one) == math.copysign(1, two))
    if isinstance(one, complex):
        return same(one.real, two.real) and same(one.imag, two.imag)
    if isinstance(one, decimal.Decimal):
        return one.as_tuple() == two.as_tuple()
    if isinstance(one, dict):
        return len(one) == len(two) and all(same(a, b) and same(one[a], two[b]) for a, b in zip(one, two, strict=True))
    if isinstance(one, list | tuple | collections.deque):
        return len(one) == len(two) and all(same(a, b) for a, b in zip(one, two, strict=True))
    if isinstance(one, set | frozenset):
        return one == two and sorted(map(repr, one)) == sorted(map(repr, two))
    if isinstance(one, dt.datetime | dt.time):
        return (one, one.fold, str(one.tzinfo)) == (two, two.fold, str(two.tzinfo))
    if isinstance(one, BaseModel):
        inside = [(vars(v), v.__pydantic_extra__, v.__pydantic_private__) for v in (one, two)]
        return same(*inside) and one.model_fields_set == two.model_fields_set
    if dataclasses.is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(two, f.name)) for f in dataclasses.fields(one))
    return bool(one == two)


zones = st.sampled_from([None, dt.UTC, dt.timezone(dt.timedelta(hours=-3, minutes=7)), ZoneInfo("Europe/Paris")])
text = st.text(st.characters(), max_size=6)
hashable = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False)
    | text
    | st.binary(max_size=6)
    | st.uuids()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.datetimes(timezones=zones, allow_imaginary=False)
    | st.dates()
    | st.times(timezones=zones)
    | st.timedeltas()
    | st.sampled_from([*Colour, *Level, *Word, *Right])
    | st.builds(pathlib.PurePosixPath, st.text("ab/.", max_size=6))
    | st.integers().map(Point)
)
scalars = hashable | st.floats() | st.complex_numbers() | st.decimals() | st.builds(bytearray, st.binary(max_size=4))
dollar_keys = st.sampled_from(["$", "$$", "$tuple", "$$tuple", "$dict", "$str", "$model", "$nothing", "a", ""])


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Whatever may hold other values."""
    return (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(text | dollar_keys, inner, max_size=3)
        | st.dictionaries(hashable, inner, max_size=3)
        | st.sets(hashable, max_size=3)
        | st.frozensets(hashable, max_size=3)
        | st.builds(collections.deque, st.lists(inner, max_size=3), st.none() | st.integers(0, 5))
        | st.builds(Order, st.just("x"), tags=st.lists(text, max_size=2))
        | st.builds(lambda n, y: Fixed(n, Point(n, y)), st.integers(), inner)
        | st.builds(lambda n, extra: Outer(inner=Inner(n=n), more=extra), st.integers(), inner)
    )


values = st.recursive(scalars, containers, max_leaves=8)


@given(values)
def test_round_trip(value: Any) -> None:
    """Every supported value comes back equal and of the same type, through text that any JSON parser reads."""
    assert same(again(value), value)


@given(values)
def test_nothing_is_shared(value: Any) -> None:
    """What is recorded is a copy, and so is what is read: neither changes with the value that it came from."""

    def mutable_parts(value: Any) -> list[int]:
        """Return the identities of all lists, dicts and the like inside a value."""
        if isinstance(value, dict):
            return [id(value), *(found for pair in value.items() for part in pair for found in mutable_parts(part))]
        if isinstance(value, list | set | collections.deque):
            return [id(value), *(found for item in value for found in mutable_parts(item))]
        if isinstance(value, tuple):
            return [found for item in value for found in mutable_parts(item)]
        if isinstance(value, bytearray | BaseModel | Order):
            return [id(value)]
        return []

    plain = PYTHON_VALUES.encode(value)
    before = json.dumps(plain)
    one, two = PYTHON_VALUES.decode(plain), PYTHON_VALUES.decode(plain)
    assert not set(mutable_parts(one)) & set(mutable_parts(two))
    assert not set(mutable_parts(one)) & (set(mutable_parts(value)) | set(mutable_parts(plain)))
    assert json.dumps(plain) == before


@given(values)
def test_encoding_is_stable(value: Any) -> None:
    """Equal values have one form, whatever the order in which their sets were built."""
    assert json.dumps(PYTHON_VALUES.encode(copy.deepcopy(value))) == json.dumps(PYTHON_VALUES.encode(value))
    assert PYTHON_VALUES.encode(again(value)) == PYTHON_VALUES.encode(value)


@pytest.mark.parametrize(
    "value",
    [
        *["\x00", "\x85", "\r\n", "\ud800", "a\udfffb", "\\ud800 \ud800", "𝄞", "\u2028"],
        {"\ud800": 1, 1: {"$tuple": [1]}},
        *[math.inf, -math.inf, math.nan, -0.0, 10**400, 1, 1.0, True],
        [1, (1, [2, (3,)]), {1, 2}, frozenset({(1, 2)})],
        {"$tuple": [1, 2]},
        {"$$": {"$": {"$dict": []}}},
        {"$a": 1, "b": 2},
        {None: 1, 1.5: 2, (1, 2): 3, True: 4, b"x": 5},
        collections.deque([1, 2], maxlen=2),
        dt.time(12, 30, tzinfo=ZoneInfo("Europe/Paris"), fold=1),
        dt.time(12, 30, tzinfo=dt.UTC),
        dt.datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Paris"), fold=1),
        dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(seconds=1, microseconds=1))),
        dt.timedelta.min,
        *[decimal.Decimal(text) for text in ("0.10", "1E+3", "-0", "sNaN12", "Infinity")],
        complex(-0.0, math.inf),
        *[Colour.CRIMSON, Level.LOW, Word.YES, Right.READ],
        pathlib.Path("a/b"),
        pathlib.PureWindowsPath("c:\\x"),
        Derived(4),
        Numbers([1, 2]),
        Outer(n="x", inner=Inner(n=1, tags={"a"}), maybe=Inner(n=2)),  # type: ignore[call-arg]
        Outer.model_construct(inner=3),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_particular_values(value: Any) -> None:
    """The values that are easily lost on the way."""
    assert same(again(value), value)


def test_what_models_and_dataclasses_carry() -> None:
    """Extra fields, private attributes, unset defaults and attributes beside the fields come back too."""
    model = Outer(inner=Inner(n=1), more=[(1,)])  # type: ignore[call-arg]
    model._secret = 9
    back = again(model)
    assert (back.more, back._secret, back.model_fields_set) == ([(1,)], 9, {"inner", "more"})
    assert back.inner == Inner(n=1)
    assert back.inner.model_fields_set == {"n"}
    assert vars(again(Derived(4))) == {"n": 4, "twice": 8}
    assert collections.deque([1], 2).maxlen == again(collections.deque([1], 2)).maxlen


def test_nothing_runs_when_read() -> None:
    """Neither constructors nor validators run."""
    plain = PYTHON_VALUES.encode(Strict(n=1))
    ran.clear()
    assert PYTHON_VALUES.decode(plain).n == 1
    assert ran == []


class Closed:
    """Has no codec."""


class LooksLikeText(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "where", "why"),
    [
        (object(), "$", "no codec is known for this type"),
        ({"a": [1, Closed()]}, "$.a[1]", "no codec"),
        ({"a": {1: Closed()}}, "$.a[1]", "no codec"),
        ({Closed(): 1}, "$.keys()", "no codec"),
        ({"a": (1, Closed())}, "$.a.$tuple", "no codec"),
        (Order("x", tags=[Closed()]), "$.$dataclass[0]", "no codec"),  # type: ignore[list-item]
        ([LooksLikeText("x")], "$[0]", "no codec"),
        (collections.defaultdict(lambda: 1), "$", "its default factory .* has no codec; make it a plain dict"),
        ([Right.READ | Right.WRITE], "$[0]", "a combination of flags has no single name"),
        ({"x": [dataclasses.make_dataclass("Made", ["n"])(1)]}, "$.x[0]", "cannot be found again by name"),
        ([enum.Enum("Local", ["A"]).A], "$[0]", "cannot be found again by name"),  # type: ignore[attr-defined]
        ([object.__new__(Order)], "$[0]", "its fields item, tags are not set"),
        (lambda: 1, "$", "no codec"),
        (len, "$", "no codec"),
        (int, "$", "no codec"),
        (os, "$", "no codec"),
        (threading.Lock(), "$", "no codec"),
        ((n for n in ()), "$", "no codec"),
        ([ValueError("x")], "$[0]", "no codec"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_refused(value: Any, where: str, why: str) -> None:
    """What cannot come back with its type is refused, with its place, its type and the reason."""
    with pytest.raises(UnrecordableValueError, match=why) as caught:
        PYTHON_VALUES.encode(value)
    assert caught.value.where == where
    assert str(caught.value).startswith(f"cannot record the value at {where}: ")


@pytest.mark.parametrize("wrap", [list, tuple, lambda items: {"k": items[0]}, lambda items: {1: items[0]}])
def test_depth(wrap: Callable[[list[Any]], Any]) -> None:
    """What is nested deeper than the limit is refused and not a stack overflow, whatever it is nested in."""
    value: Any = 0
    for _ in range(20):
        value = wrap([value])
    assert same(again(value), value)
    for _ in range(MAX_DEPTH):
        value = wrap([value])
    with pytest.raises(UnrecordableValueError, match=f"nested deeper than {MAX_DEPTH}, perhaps it refers to itself"):
        PYTHON_VALUES.encode(value)


def test_at_the_limit() -> None:
    """The limit itself is allowed."""

    def nested(depth: int) -> list[Any]:
        """Return a list inside a list inside a list."""
        value: list[Any] = []
        for _ in range(depth - 1):
            value = [value]
        return value

    assert again(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    with pytest.raises(UnrecordableValueError):
        PYTHON_VALUES.encode(nested(MAX_DEPTH + 1))


def test_cycles() -> None:
    """Values that refer to themselves are refused."""
    in_list: list[Any] = []
    in_list.append(in_list)
    in_dict: dict[str, Any] = {}
    in_dict["self"] = [in_dict]
    order = Order("x")
    order.tags = [order]  # type: ignore[list-item]
    for value in (in_list, in_dict, order):
        with pytest.raises(UnrecordableValueError, match="refers to itself"):
            PYTHON_VALUES.encode(value)


@pytest.mark.parametrize(
    "plain",
    [
        {"$model": {"type": "MODULE:Thing", "fields": {}}},
        {"$dataclass": {"type": "MODULE:Thing", "fields": {}}},
        {"$enum": ["MODULE:Thing", "A"]},
        {"$namedtuple": ["MODULE:Thing", 1]},
        {"$MODULE": 1},
        [{"k": ({"$enum": ["MODULE.sub:Thing.Inner", "A"]})}],
    ],
)
def test_never_imports(plain: Any) -> None:
    """A type that a cassette names is looked up among what is loaded; a module that is not stays out."""

    def unimported() -> str:
        """Return a module of the standard library that is not imported."""
        return next(
            name for name in ("this", "antigravity", "nturl2path", "chunk", "turtledemo") if name not in sys.modules
        )

    module = unimported()
    named = json.loads(json.dumps(plain).replace("MODULE", module))
    with pytest.raises(UnreadableValueError):
        PYTHON_VALUES.decode(named)
    assert module not in sys.modules


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"$unknown": 1}, "cannot rebuild the recorded value \\$unknown: no codec for this tag is registered"),
        ({"$enum": ["os:environ", "A"]}, "the class is not loaded"),
        ({"$enum": ["builtins:int", "A"]}, "expected a Enum, found another class of that name"),
        ({"$model": {"type": "builtins:dict", "fields": {}}}, "expected a BaseModel"),
        ({"$dataclass": {"type": "builtins:dict", "fields": {}}}, "expected a dataclass"),
        ({"$namedtuple": ["builtins:tuple", 1]}, "the number of its fields changed"),
        ({"$enum": [f"{__name__}:Colour", "GREEN"]}, r"expected one of \['BLUE', 'CRIMSON', 'RED'\], found 'GREEN'"),
        ({"$dataclass": {"type": f"{__name__}:Order", "fields": {"item": 1}}}, "its fields changed"),
        ({"$model": {"type": f"{__name__}:Inner", "fields": {}}}, "the class now requires n; re-record"),
    ],
)
def test_unreadable(plain: Any, message: str) -> None:
    """A recorded value whose class or codec is missing, or has changed, says so and what to do."""
    with pytest.raises(UnreadableValueError, match=message):
        PYTHON_VALUES.decode(plain)


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("a:$.1", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "fields", "at", "zone", "items", "maxlen", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)
TAGS = [*(codec.tag for codec in PYTHON_VALUES._types), "$dict", "$str", "$float", "$$x", "$"]


@given(st.sampled_from(TAGS), junk)
def test_mangled(tag: str, body: Any) -> None:
    """Whatever stands under a tag, reading it gives a value or our own error, never another one."""
    with suppress(UnreadableValueError):
        PYTHON_VALUES.decode([{tag: body}])


def test_names_of_classes() -> None:
    """A class is found again by its name if it is loaded, nested ones too; nothing else is."""
    assert loaded_class(class_name(Order)) is Order
    assert loaded_class("zoneinfo:ZoneInfo") is ZoneInfo
    assert [loaded_class(name) for name in ("", ":", "os", "os:", "os:path", "os:environ.get", "no:No")] == [None] * 7


def test_families_of_others() -> None:
    """An integration's families are asked first, and their nested values find every codec."""

    def made(**attributes: Any) -> Closed:
        """Return an instance with attributes."""
        value = Closed()
        vars(value).update(attributes)
        return value

    codec = PYTHON_VALUES.extended(
        [
            TypeCodec(
                "$closed",
                lambda value: isinstance(value, Closed),
                lambda value, encode: encode(vars(value)),
                lambda plain, decode: made(**decode(plain)),
            ),
            TypeCodec("$mine", lambda value: isinstance(value, Point), lambda *_: 1, lambda *_: Point(0)),
        ]
    )
    assert vars(again(made(a=(1, {2})), codec)) == {"a": (1, {2})}
    assert codec.encode(Point(5)) == {"$mine": 1}
    assert PYTHON_VALUES.encode(Point(5)) != {"$mine": 1}


def test_order_of_sets() -> None:
    """A set has one form, whatever the order of its items in memory."""
    words = [str(uuid.UUID(int=n)) for n in range(30)]
    forms = set()
    for seed in range(5):
        random.Random(seed).shuffle(words)
        forms.add(json.dumps(PYTHON_VALUES.encode(set(words))))
    assert len(forms) == 1


def test_fractions_and_paths_are_exact() -> None:
    """Types that have text forms of their own keep them."""
    assert PYTHON_VALUES.encode([fractions.Fraction(1, 3), pathlib.PurePosixPath("a")]) == [
        {"$fraction": "1/3"},
        {"$PurePosixPath": "a"},
    ]


class Linked(BaseModel):
    """A model with values of pydantic's own types."""

    at: dt.datetime
    url: HttpUrl
    database: AnyUrl


def test_values_of_pydantic() -> None:
    """Moments with the offsets that pydantic parses, and its URLs, come back equal."""
    value = Linked.model_validate({"at": "2024-01-02T03:04:05+02:00", "url": "http://a.b/c", "database": "pg://h/d"})
    back = PYTHON_VALUES.decode(PYTHON_VALUES.encode(value))
    assert back == value
    assert type(back.url) is HttpUrl
    assert back.at.utcoffset() == dt.timedelta(hours=2)


@pytest.mark.parametrize("secret", [SecretStr("hush 1"), SecretBytes(b"hush 2")])
def test_hidden_values_are_redacted(secret: Any) -> None:
    """What a model hides is written under a pseudonym, and comes back to whoever holds the secret."""
    plain = PYTHON_VALUES.encode({"field": secret})
    redactor = Redactor(new_key())
    assert "hush" not in str(redactor.value(plain))
    assert base64.b64encode(b"hush 2").decode() not in str(redactor.value(plain))
    assert type(PYTHON_VALUES.decode(redactor.value(plain))["field"]) is type(secret)
    assert PYTHON_VALUES.decode(plain) == {"field": secret}
