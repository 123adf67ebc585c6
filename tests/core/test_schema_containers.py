"""Rarer containers, numpy's values and stand-ins come back as they were; walks over plain data reach every leaf."""

from __future__ import annotations

import array
import collections
import ipaddress
import json
import re
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np

from agenttape_core.errors import UnreadableValueError, UnrecordableValueError
from agenttape_core.schema import OPAQUE, PYTHON_VALUES, Opaque
from agenttape_core.schema.plain import leaves, replaced, replaced_in_chunk

scalars = st.none() | st.booleans() | st.integers() | st.text() | st.binary(max_size=5)
hashables = scalars | st.tuples(scalars)
mappings = st.dictionaries(hashables, scalars, max_size=4)
factories = st.sampled_from([None, list, dict, int, str, set, float])
containers = st.one_of(
    mappings.map(collections.OrderedDict),
    st.lists(hashables, max_size=6).map(collections.Counter),
    st.builds(collections.defaultdict, factories, mappings),
    st.builds(range, st.integers(-5, 5), st.integers(-5, 5), st.integers(1, 3)),
    st.ip_addresses(),
    st.ip_addresses().map(ipaddress.ip_network),
    st.ip_addresses().map(ipaddress.ip_interface),
    st.lists(st.integers(-100, 100)).map(lambda items: array.array("i", items)),
    st.lists(st.floats(allow_nan=False, allow_infinity=False)).map(lambda items: array.array("d", items)),
    st.sampled_from([re.compile("a.b", re.IGNORECASE), re.compile(rb"\x00", re.DOTALL), re.compile("é|\ud800")]),
)


def survived(value: Any) -> Any:
    """Return a value as it comes back from a file."""
    return PYTHON_VALUES.decode(json.loads(json.dumps(PYTHON_VALUES.encode(value), allow_nan=False)))


@given(containers)
def test_containers(value: Any) -> None:
    """Containers come back equal, of the same type, in the same order and with the same factory."""
    back = survived(value)
    assert back == value
    assert type(back) is type(value)
    if isinstance(value, dict):
        assert list(back.items()) == list(value.items())
    if isinstance(value, collections.defaultdict):
        assert back.default_factory is value.default_factory


kinds = st.sampled_from(["?", "i1", "i8", "u2", "f2", "f4", "f8", "c16", "<U3", "S3", ">i4", "M8[s]", "m8[D]"])


@given(kinds.flatmap(lambda kind: st_np.arrays(kind, st_np.array_shapes(min_dims=0, min_side=0, max_side=9))))
def test_arrays(value: np.ndarray[Any, Any]) -> None:
    """An array comes back with its type, its shape and each of its bytes, and can be written to."""
    back = survived(value)
    assert (back.dtype, back.shape, back.tobytes()) == (value.dtype, value.shape, value.tobytes())
    assert back.flags.writeable


@given(kinds.flatmap(lambda kind: st_np.from_dtype(np.dtype(kind))))
def test_numpy_scalars(value: Any) -> None:
    """A scalar comes back as one of the same type, not as a number of Python's."""
    back = survived(value)
    assert type(back) is type(value)
    assert back.tobytes() == value.tobytes()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (np.array([object()]), "holds more than numbers"),
        (np.zeros(1, dtype=[("a", "i4")]), "holds more than numbers"),
        (np.ma.masked_array([1], mask=[True]), "subclass of numpy's array"),
    ],
    ids=["object", "record", "masked"],
)
def test_numpy_refused(value: Any, why: str) -> None:
    """Arrays of objects and subclasses of arrays are refused with the reason."""
    with pytest.raises(UnrecordableValueError, match=why):
        PYTHON_VALUES.encode(value)


def test_numpy_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without numpy says that it is missing; it is not imported because a file says so."""
    plain = PYTHON_VALUES.encode(np.float32(1.5))
    monkeypatch.delitem(sys.modules, "numpy")
    with pytest.raises(UnreadableValueError, match="numpy is not imported in this process"):
        PYTHON_VALUES.decode(plain)
    assert "numpy" not in sys.modules


@pytest.mark.parametrize(
    "plain",
    [
        {"$numpy": {"dtype": "O", "bytes": "AAAA"}},
        {"$numpy": {"dtype": "f8", "bytes": "AAAA"}},
        {"$numpy": {"dtype": "f8", "shape": [3], "values": [1.0]}},
        {"$numpy": {"dtype": "nope", "values": []}},
        {"$pattern": {"pattern": "(", "flags": 0}},
        {"$mapping": {"type": "dict", "items": []}},
        {"$defaultdict": {"factory": "eval", "items": []}},
        {"$ip": ["Path", "/"]},
        {"$range": [1, 2, 0]},
        {"$array": ["x", []]},
        {"$opaque": "x"},
    ],
    ids=str,
)
def test_malformed(plain: Any) -> None:
    """What does not fit its tag is an error of ours, whatever it is."""
    with pytest.raises(UnreadableValueError):
        PYTHON_VALUES.decode(plain)


class Handle:
    pass


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError


LENIENT = PYTHON_VALUES.lenient(OPAQUE)


def test_stand_in() -> None:
    """A stand-in tells what was there without its memory address; it is written again as it was."""
    plain = LENIENT.encode({"handle": Handle(), "n": 1})
    back = LENIENT.decode(plain)
    assert back == {"handle": Opaque(f"{__name__}.Handle", f"<{__name__}.Handle object at 0x…>"), "n": 1}
    assert PYTHON_VALUES.encode(back) == plain
    assert repr(back["handle"]) == f"<recorded {__name__}.Handle: <{__name__}.Handle object at 0x…>>"
    assert len({back["handle"], LENIENT.decode(plain)["handle"]}) == 1


def test_opaque_value_is_nothing_more() -> None:
    """Using an opaque value says what it stands for and why there is no more of it."""
    with pytest.raises(AttributeError, match=r"'read': this is an opaque value, recorded of a .*Handle, which had no"):
        _ = LENIENT.decode(LENIENT.encode(Handle())).read


@pytest.mark.parametrize(
    "value",
    [Rude(), lambda: 1, (n for n in ()), type("Local", (), {})(), "\ud800".join, np.array([Handle()])],
    ids=["rude", "lambda", "generator", "local", "surrogate", "objects"],
)
def test_everything_has_a_stand_in(value: Any) -> None:
    """Whatever it is and wherever it is, a value without a codec can be kept as a stand-in."""
    (back,) = LENIENT.decode(json.loads(json.dumps(LENIENT.encode((value,)))))
    assert isinstance(back, Opaque)


def test_what_has_a_codec_is_kept() -> None:
    """Leniency changes nothing for values that can be kept."""
    value = {"a": (1, b"x"), "b": [collections.Counter("aab")]}
    assert LENIENT.encode(value) == PYTHON_VALUES.encode(value)


SCALARS = st.none() | st.booleans() | st.integers() | st.text()
PLAIN = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(PLAIN)
def test_replacing_by_the_same_changes_nothing(plain: Any) -> None:
    """A walk that replaces each leaf and key by itself gives equal data."""
    assert replaced(plain, lambda leaf: leaf, lambda key: key) == plain
    assert replaced_in_chunk(plain, lambda _, text: text) == plain


@given(PLAIN)
def test_leaves_are_what_is_replaced(plain: Any) -> None:
    """The leaves are the values that a replacing walk meets, in the same order."""
    met: list[Any] = []
    replaced(plain, met.append)
    assert list(leaves(plain)) == met


@given(PLAIN)
def test_a_walk_through_a_chunk_meets_each_text_at_one_path(plain: Any) -> None:
    """Two walks through one chunk give its texts the same paths, and no two keys share one with a value."""
    met: list[tuple[Any, ...]] = []
    for _ in range(2):
        replaced_in_chunk(plain, lambda path, text: met.append((path, text)) or text)
    half = len(met) // 2
    assert met[:half] == met[half:]
    assert {path for path, _ in met if path[-1:] == (None,)}.isdisjoint(path for path, _ in met if path[-1:] != (None,))


def test_pieces_of_a_block_have_one_path() -> None:
    """A block of a stream is known by its index, wherever it stands, and a tagged text by its content."""
    paths: list[Any] = []
    for chunk in ({"content": [{"index": 1, "text": "a"}]}, {"content": [{"x": 0}, {"index": 1, "text": "b"}]}):
        replaced_in_chunk(chunk, lambda path, text: paths.append(path) or text if text in "ab" else text)
    assert paths[0] == paths[1]
    paths.clear()
    for chunk in ({"$chunk": "a"}, {"$chunk": {"content": "b"}}):
        replaced_in_chunk(chunk, lambda path, text: paths.append(path) or text if text in "ab" else text)
    assert paths[0] == paths[1]
