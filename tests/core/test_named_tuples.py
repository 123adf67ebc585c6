"""Named tuples whose classes are made quickly."""

from __future__ import annotations

import copy
import pickle
from typing import Generic, TypeVar

import pytest

from agenttape_core.named_tuples import NamedTuple

T = TypeVar("T")


class Point(NamedTuple, Generic[T]):
    """A place."""

    x: T
    y: int = 2

    @property
    def total(self) -> int:
        return self.y + 1


def test_they_are_those_of_python() -> None:
    """They're made, shown, changed, matched, copied and pickled as Python's are."""
    point = Point("a")
    assert point == ("a", 2)
    assert (point.x, point.y, point.total, hash(point)) == ("a", 2, 3, hash(("a", 2)))
    assert repr(point) == "Point(x='a', y=2)"
    assert point._replace(y=3) == Point("a", y=3) == Point._make(["a", 3])
    assert point._asdict() == {"x": "a", "y": 2}
    assert (Point._fields, Point._field_defaults, Point.__doc__) == (("x", "y"), {"y": 2}, "A place.")
    match point:
        case Point(x, y):
            assert (x, y) == point
    for twin in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert (type(twin), twin) == (Point, point)


def test_wrong_fields_are_refused() -> None:
    """Unknown and missing fields raise, and none can be set."""
    point = Point("a")
    with pytest.raises(ValueError, match="unexpected field names: \\['z'\\]"):
        point._replace(z=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Expected 2 arguments, got 1"):
        Point._make(["a"])
    with pytest.raises(TypeError):
        Point()  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        point.x = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        point.other = 1  # type: ignore[attr-defined]
