"""`os.environ` and `os.environb` as a session sees them: dispatched by context, in the methods of their class.

The variables themselves don't change. A session that freezes `env` sees other values when it reads a single one, by any
reference to the mapping there is; whatever it writes is really written, so child processes get it. Code that iterates
over the whole environment (`dict(os.environ)`, `copy()`, `items()`) sees the real one: that is for child processes, and
for restoring it later.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from agenttape_core.freeze.callers import MACHINERY, calling_module
from agenttape_core.freeze.environment import Environment, is_of_the_machine
from agenttape_core.freeze.frozen_function import active

_Variables: Any = type(os.environ)
_NAMES = ("__getitem__", "__setitem__", "__delitem__", "__iter__", "clear")
_REAL: dict[str, Callable[..., Any]] = {name: vars(_Variables)[name] for name in _NAMES if name in vars(_Variables)}
_PASSING = frozenset({__name__, "agenttape_core.freeze.frozen_function", "os", "collections.abc", "_collections_abc"})


def _environment() -> Environment | None:
    frozen = active("env")
    return frozen.environment if frozen is not None else None


def _name(variables: Any, key: Any) -> str:
    """Return the name of a variable in the form that the system uses: upper case on Windows."""
    raw = variables.encodekey(key)
    return raw if isinstance(raw, str) else os.fsdecode(raw)


def _live(variables: Any, key: Any) -> str | None:
    try:
        value: str | bytes = _REAL["__getitem__"](variables, key)
    except KeyError:
        return None
    return os.fsdecode(value)


def _asked(variables: Any, key: Any) -> Environment | None:
    """Return the session's value, if it has one for this variable."""
    frozen = active("env")
    environment = frozen.environment if frozen is not None else None
    if environment is None or not isinstance(key, str | bytes) or environment.is_listed(key):
        return None
    if is_of_the_machine(_name(variables, key)) or calling_module(_PASSING) in MACHINERY:
        return None
    return None if frozen is not None and frozen.is_importing() else environment


def _get(self: Any, key: Any) -> Any:
    environment = _asked(self, key)
    if environment is None:
        return _REAL["__getitem__"](self, key)
    value = environment.value(_name(self, key), _live(self, key))
    if value is None:
        raise KeyError(key)
    return value if isinstance(key, str) else os.fsencode(value)


def _set(self: Any, key: Any, value: Any) -> None:
    environment = _environment()
    before = _live(self, key) if environment is not None else None
    _REAL["__setitem__"](self, key, value)
    if environment is not None:
        environment.changed(_name(self, key), before, _live(self, key))


def _delete(self: Any, key: Any) -> None:
    environment, asked = _environment(), _asked(self, key)
    if environment is None:
        _REAL["__delitem__"](self, key)
        return
    name, before = _name(self, key), _live(self, key)
    if asked is not None and asked.value(name, before) is None:
        raise KeyError(key)
    if asked is None or before is not None:
        _REAL["__delitem__"](self, key)
    environment.changed(name, before, None)


def _walk(self: Any) -> Iterator[Any]:
    keys: Iterator[Any] = _REAL["__iter__"](self)
    environment = _environment()
    return keys if environment is None else map(environment.as_listed, keys)


def _clear(self: Any) -> None:
    # Python 3.15 clears all variables at once in C. This is the way of older versions, one by one, by `__delitem__`.
    MutableMapping.clear(self) if _environment() is not None else _REAL["clear"](self)


_STAND_INS: dict[str, Callable[..., Any]] = {
    "__getitem__": _get,
    "__setitem__": _set,
    "__delitem__": _delete,
    "__iter__": _walk,
    "clear": _clear,
}


def swap_in() -> None:
    """Make the environment ask for the caller's session."""
    for name, real in _REAL.items():
        _exchange(name, real, _STAND_INS[name])


def swap_out() -> None:
    """Give the environment its own methods back."""
    for name, real in _REAL.items():
        _exchange(name, _STAND_INS[name], real)


def _exchange(name: str, old: Callable[..., Any], new: Callable[..., Any]) -> None:
    # Anything else that is there by now is somebody else's.
    if vars(_Variables).get(name) is old:
        setattr(_Variables, name, new)
