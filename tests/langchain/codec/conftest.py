"""The codec under test, and what "the same object" means."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from agenttape_core.schema import PYTHON_VALUES, ValueCodec
from agenttape_langchain.codec import CODECS

VALUES = PYTHON_VALUES.extended(CODECS)


def same(found: Any, expected: Any) -> None:
    """Assert that two objects have the same type and the same state, down to the types of nested values."""
    assert type(found) is type(expected)
    assert repr(getattr(found, "__dict__", found)) == repr(getattr(expected, "__dict__", expected))
    assert repr(getattr(found, "__pydantic_extra__", None)) == repr(getattr(expected, "__pydantic_extra__", None))


@pytest.fixture
def subclass(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Make a subclass as a user's module defines it: loaded, and found by its name."""
    module = types.ModuleType("a_users_module")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def make(base: type, **body: Any) -> Any:
        cls = type(f"My{base.__name__}", (base,), {"__module__": module.__name__, **body})
        setattr(module, cls.__name__, cls)
        return cls

    return make


@pytest.fixture
def values() -> ValueCodec:
    """Python's types and LangChain's."""
    return VALUES


@pytest.fixture
def survives() -> Callable[[Any], Any]:
    """Assert that a value survives a trip through plain data; returns the plain data."""

    def check(value: Any) -> Any:
        plain = VALUES.encode(value)
        same(VALUES.decode(plain), value)
        assert VALUES.encode(VALUES.decode(plain)) == plain
        return plain

    return check
