"""The places in loaded modules where stand-ins go.

Every loaded module is searched once per process (4-6 ms); after that only those that appeared or got new globals. What
is found is remembered as a place, to fill and clear in microseconds. Only the module's own dict is read: attribute
access could run a lazy module's code.
"""

from __future__ import annotations

import functools
import operator
import os
import random
import secrets
import sys
import time
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from types import FrameType
from typing import Any, cast

from agenttape_core.freeze import clock, randomness, timed_waits
from agenttape_core.freeze.callers import MACHINERY
from agenttape_core.freeze.frozen_function import current, tell_real_draw
from agenttape_core.freeze.references import FunctionReference
from agenttape_core.guard.caller import is_library, is_own
from agenttape_core.named_tuples import NamedTuple

# -- The sources that stay real in a session: clocks that measure spans, and noise that no one must foresee.


_PASSING = frozenset({random.__file__, secrets.__file__})
_MEASURING = (
    *("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
    *("process_time", "process_time_ns", "thread_time", "thread_time_ns"),
)

_of_program: dict[str, bool] = {}  # by file: true if its code is the program's


class RealSource:
    """Wraps a function that stays real, and reports its callers. `kind` is `noise` or `spans`."""

    __wrapped__: Callable[..., Any]
    is_stand_in = True

    def __init__(self, real: Callable[..., Any], kind: str) -> None:
        functools.update_wrapper(self, real)
        self.unexchanged = self._real = real
        self._kind = kind

    def __call__(self, *args: Any) -> Any:
        """Call the real function."""
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - gives the stack without building a list
        while frame is not None and frame.f_code.co_filename in _PASSING:
            frame = frame.f_back
        if frame is not None and _of_program.get(frame.f_code.co_filename, True) and _draws_for_program(frame):
            frozen = current()
            if frozen is None or not frozen.is_importing():
                tell_real_draw(self._kind)
        return self._real(*args)

    def __eq__(self, other: object) -> bool:
        return self._real == (other._real if isinstance(other, RealSource) else other)

    def __hash__(self) -> int:
        return hash(self._real)

    def __repr__(self) -> str:
        return repr(self._real)

    def __reduce__(self) -> str:
        return str(self._real.__name__)


def _draws_for_program(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    known = _of_program.get(file)
    if known is None:
        top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        known = _of_program[file] = not (is_library(file) or is_own(frame) or top in MACHINERY or file.startswith("<"))
    return known


STAND_INS = (
    RealSource(os.urandom, "noise"),
    *(RealSource(getattr(time, name), "spans") for name in _MEASURING if hasattr(time, name)),
)
"""One stand-in for each function that this system has."""


SKIPPED = frozenset(
    {
        *("agenttape_core", "_datetime", "_pydatetime", "_strptime", "copyreg", "pickle", "_pickle"),
        *("threading", "asyncio", "selectors", "concurrent", "logging", "queue", "sched", "subprocess"),
        *("multiprocessing", "anyio", "trio", "uvloop", "importlib", "_pytest", "pytest", "hypothesis"),
        *("coverage", "bdb", "pdb", "pydevd", "debugpy", "faulthandler"),
    }
)
"""Top-level modules whose direct references stay real: with a clock that stands still they might wait forever, or the
test runner's own times would be wrong. What they reach as `time.time()` through the module is frozen even so."""

Table = Mapping[int, tuple[Any, Any]]  # by identity of the real thing and of its stand-in: both


class ModuleGlobal(NamedTuple):
    """One global of one module."""

    module: weakref.ref[types.ModuleType]
    name: str
    real: Any
    stand_in: Any


def _table(*pairs: tuple[Any, Any]) -> dict[int, tuple[Any, Any]]:
    return {id(thing): pair for pair in pairs for thing in pair}


_STAND_INS = (*clock.STAND_INS, *timed_waits.STAND_INS, *randomness.STAND_INS)
_EVERYWHERE = _table(
    *((stand_in.__wrapped__, stand_in) for stand_in in _STAND_INS),
    *((stand_in.__wrapped__, stand_in) for stand_in in STAND_INS),
)
_NOTHING: Table = {}
_SETTING_CLOCKS = frozenset({"freezegun", "time_machine"})
"""Tools that set the clock themselves, and hold the real functions on purpose."""


_RUNNING_WORK = frozenset(
    {
        *("Thread.run", "Timer.run", "_WorkItem.run", "WorkerContext.run"),
        *("Work.do", "_FromOrigin.__call__", "_Once.__call__"),
    }
)
"""The functions of `threading`, `concurrent` and ours whose only purpose is to call a function of the program."""


def keeps_real(frame: types.FrameType) -> bool:
    """Return True for code that has the real functions by references that it took before a session."""
    top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    if frame.f_code.co_qualname in _RUNNING_WORK:
        return False
    return top in SKIPPED or top in _SETTING_CLOCKS


REFERENCES = [FunctionReference(stand_in.__wrapped__, stand_in, keeps_real) for stand_in in _STAND_INS]
"""All references to those functions that aren't globals of a module."""
_OWN = "agenttape_core.freeze"


class _Seen:
    """The modules that were searched, and how many globals each had then.

    Every start and end of a session compares, so it does that in loops of C that touch as little as they can: whether
    the modules are the same, and whether the program's modules have as many globals as before.

    Installed modules are examined again after any import: what they look up late, they import. A module whose globals
    changed without a change of their number is not noticed; its known places still are. A module that was removed
    meanwhile lives until the next comparison.
    """

    def __init__(self) -> None:
        self._last: list[object] = []
        """The modules of the last time. They are kept alive, so that no other one gets the identity of a dead one."""
        self._sizes: dict[int, int] = {}  # the numbers of globals, by the identities of modules
        self._found: list[tuple[types.ModuleType, dict[str, Any]]] = []  # all modules with their globals
        self._of_program: list[tuple[types.ModuleType, dict[str, Any]]] | None = None
        """Those of the program; `None` until they are first compared, as most imports come before."""

    def changed(self) -> list[tuple[types.ModuleType, dict[str, Any]]]:
        """Give the modules that are new or have another number of globals, and count them as searched."""
        now: list[object] = list(sys.modules.values())
        # By identity: to compare them would ask what is no module.
        if len(now) != len(self._last) or not all(map(operator.is_, now, self._last)):
            return self._look(now)
        if self._of_program is None:
            self._of_program = [found for found in self._found if _is_of_program(found[1])]
        sizes = self._sizes
        changed = [(each, content) for each, content in self._of_program if len(content) != sizes[id(each)]]
        for each, content in changed:
            sizes[id(each)] = len(content)
        return changed

    def _look(self, now: list[object]) -> list[tuple[types.ModuleType, dict[str, Any]]]:
        before, self._last = self._sizes, now
        # What is no module may run code when asked anything, so it is recognised by its type alone.
        modules = {id(each): cast("types.ModuleType", each) for each in now if issubclass(type(each), types.ModuleType)}
        contents = list(map(object.__getattribute__, modules.values(), repeat("__dict__")))  # triggers no lazy module
        self._found = found = list(zip(modules.values(), contents, strict=True))
        self._of_program = None
        self._sizes = dict(zip(modules, map(len, contents), strict=True))
        return [(module, content) for module, content in found if before.get(id(module)) != len(content)]


def _is_of_program(content: dict[str, Any]) -> bool:
    file, name = content.get("__file__"), str(content.get("__name__", ""))
    if not isinstance(file, str):
        return name not in sys.builtin_module_names
    return not is_library(file) and not name.startswith("agenttape_")


class ModuleGlobals:
    """The places found so far. Not thread-safe; `install` holds the lock."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, str], ModuleGlobal] = {}
        self._anywhere = _EVERYWHERE
        self._seen = _Seen()

    def know(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        """Also search for further functions from now on, such as those of a module that was just imported."""
        if pairs:
            self._anywhere = self._anywhere | _table(*pairs)
            self._seen = _Seen()  # what was searched before may hold them already

    def fill(self) -> None:
        """Put every stand-in where the real thing is."""
        self._search(_NOTHING)
        for module_of, name, real, stand_in in self._places.values():
            module = module_of()
            content = object.__getattribute__(module, "__dict__") if module is not None else {}  # as in `_look`
            # Leave anything else that's there by now: a test's mock, another library's clock.
            if content.get(name) is real:
                content[name] = stand_in

    def clear(self, extra: Table) -> None:
        """Put every real function back, even in modules that were imported since.

        Stand-ins in `extra` are removed where they spread to, but not put there again.
        """
        self._search(extra)
        for module_of, name, real, stand_in in self._places.values():
            module = module_of()
            content = object.__getattribute__(module, "__dict__") if module is not None else {}
            if content.get(name) is stand_in:
                content[name] = real

    def _search(self, extra: Table) -> None:
        """Search the modules that appeared or got new globals since the last time."""
        changed = self._seen.changed()
        if not changed:
            return
        wanted = self._anywhere.keys() | extra.keys()
        for module, content in changed:
            # Nearly all modules hold nothing of it, which C finds out in a fifth of the time.
            if not wanted.isdisjoint(map(id, list(content.values()))):
                self._search_in(module, content, extra)
        self._places = {key: place for key, place in self._places.items() if place.module() is not None}

    def _search_in(self, module: types.ModuleType, content: dict[str, Any], extra: Table) -> None:
        name = str(content.get("__name__", ""))
        if name.startswith(_OWN):
            return
        top = name.partition(".")[0]
        belonging = _NOTHING if top in SKIPPED else self._anywhere
        for attribute, value in list(content.items()):
            key = id(value)
            if key in belonging:
                real, stand_in = belonging[key]
                self._places[id(module), attribute] = ModuleGlobal(weakref.ref(module), attribute, real, stand_in)
            elif key in self._anywhere:
                # Where nothing belongs, a stand-in that came by an import during a session has to go, and the real
                # thing must not be reached by the reference: see `references`.
                real, stand_in = self._anywhere[key]
                content[attribute] = real
                self._places[id(module), attribute] = ModuleGlobal(
                    weakref.ref(module), attribute, real, stand_in.unexchanged
                )
            elif key in extra:
                content[attribute] = extra[key][0]
