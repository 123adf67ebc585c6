"""Putting the stand-ins in place for as long as any session is open."""

from __future__ import annotations

import sys
import types
from contextlib import AbstractContextManager, contextmanager, nullcontext
from operator import is_not
from typing import TYPE_CHECKING, Any

from agenttape_core.errors import SessionStateError
from agenttape_core.freeze import (
    arrays,
    dates,
    gc_state,
    ids,
    modules,
    other_clock_tools,
    randomness,
    sleeping,
    timed_waits,
    variables,
)
from agenttape_core.freeze.frozen import Lookup
from agenttape_core.freeze.frozen_function import FrozenFunction, Replacement, installed
from agenttape_core.freeze.modules import ModuleGlobals, Table
from agenttape_core.freeze.references import References
from agenttape_core.guard.imports import ImportFinder
from agenttape_core.locks import RLock
from agenttape_core.schema.freeze_kinds import check_kinds, family

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

# -- Further id makers and clocks, which integrations name for their frameworks.


class Seams:
    """The registered seams, and the stand-ins that are in place. Not thread-safe; `install` holds the lock."""

    def __init__(self) -> None:
        self._registered: dict[str, dict[str, tuple[str, Replacement]]] = {}
        self._filled: list[tuple[dict[str, Any], str, FrozenFunction]] = []
        self._made: dict[tuple[str, str], FrozenFunction] = {}
        """The wrappers that were made so far; each is reused as long as the wrapped object is the same."""

    def register(self, module: str, attribute: str, kind: str, replacement: Replacement) -> None:
        """Keep a seam; the last registration of the same attribute counts."""
        self._registered.setdefault(module, {})[attribute] = (kind, replacement)
        self._made.pop((module, attribute), None)

    def has(self, name: str) -> bool:
        """Return True if a module has seams."""
        return name in self._registered

    def fill(self, *names: str) -> None:
        """Put wrappers at the seams of modules that are loaded and have them."""
        for name in names or self._registered:
            module = sys.modules.get(name)
            if not issubclass(type(module), types.ModuleType):
                continue
            content: dict[str, Any] = object.__getattribute__(module, "__dict__")  # triggers no lazy module
            for attribute, (kind, replacement) in self._registered.get(name, {}).items():
                real = content.get(attribute)
                if isinstance(real, FrozenFunction):
                    real = real.__wrapped__
                if callable(real):
                    stand_in = self._made.get((name, attribute))
                    if stand_in is None or stand_in.__wrapped__ is not real:
                        stand_in = self._made[name, attribute] = FrozenFunction(
                            real, kind, replacement, is_of_framework=True
                        )
                    content[attribute] = stand_in
                    self._filled.append((content, attribute, stand_in))

    def clear(self) -> Table:
        """Put the real things back. Returns the stand-ins that were in place, to find where else they got to."""
        spread: dict[int, tuple[Any, Any]] = {}
        # Backwards: a seam that was registered twice was filled twice.
        for content, attribute, stand_in in reversed(self._filled):
            spread[id(stand_in)] = (stand_in.__wrapped__, stand_in)
            if content.get(attribute) is stand_in:
                content[attribute] = stand_in.__wrapped__
        self._filled.clear()
        return spread


_LATE = (*ids.MODULES, arrays.MODULE)  # the modules that are covered when someone else imports them
_IN_C = frozenset({"_time_machine"})
"""Modules in C that take the functions apart which they find when they are imported: they must find the real ones."""
_CODES = (*sleeping.CODES, *timed_waits.CODES)
"""The functions whose code is replaced, without a search, as the following references are."""
_REFERENCES = References((*dates.REFERENCES, *modules.REFERENCES))


class _Installation:
    """The one installation of the process: the first session puts it up, the last takes it down."""

    def __init__(self) -> None:
        # Reentrant: a module that is imported by the holder may have seams.
        self._lock = RLock()
        self._sessions = 0
        self._with_variables = 0
        self._places = ModuleGlobals()
        self._arrays: dict[str, Any] = {}
        self._late: list[Any] = []
        self._seams = Seams()
        self._seams.register(*arrays.ENTROPY, "numpy", arrays.entropy)
        self._finder = ImportFinder(self._is_wanted, self._arrived, self._around)

    def enter(self, lookup: Lookup, *, with_variables: bool) -> None:
        with self._lock:
            if self._sessions and installed.lookup != lookup:
                raise SessionStateError(
                    f"clocks are already frozen by {installed.lookup!r}, found {lookup!r}\n"
                    "  pass the same lookup for every session; it is what tells them apart"
                )
            if self._sessions == 0:
                try:
                    installed.lookup = lookup
                    self._look()
                    self._put_in()
                    sys.meta_path.insert(0, self._finder)
                except BaseException:
                    self._take_down()
                    raise
            self._sessions += 1
            if with_variables:
                variables.swap_in()
                self._with_variables += 1

    def leave(self, *, with_variables: bool) -> None:
        with self._lock:
            if with_variables:
                self._with_variables -= 1
                if self._with_variables == 0:
                    variables.swap_out()
            self._sessions -= 1
            if self._sessions == 0:
                self._take_down()

    def register(self, module: str, attribute: str, kind: str, replacement: Replacement) -> None:
        check_kinds([kind])
        with self._lock:
            self._seams.register(module, attribute, family(kind), replacement)
            self._arrived(module)

    def _take_down(self) -> None:
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        self._put_back(self._seams.clear())
        other_clock_tools.refresh()
        installed.lookup = None

    def _put_in(self) -> None:
        gc_state.swap_in()
        dates.METHODS.swap_in()
        ids.swap_in()
        timed_waits.use_waits("clock")
        randomness.swap_in()
        for function, _, code in _CODES:
            function.__code__ = code
        _REFERENCES.swap_in()
        self._seams.fill()
        self._places.fill()

    def _put_back(self, spread: Table) -> None:
        self._places.clear(spread)
        gc_state.swap_out()
        _REFERENCES.swap_out()
        dates.METHODS.swap_out()
        ids.swap_out()
        timed_waits.drop_waits("clock")
        randomness.swap_out()
        for function, code, _ in _CODES:
            function.__code__ = code

    def _look(self) -> None:
        """Look at the modules that are covered only when they are imported, if others are there than before."""
        there = [module for name in _LATE if (module := sys.modules.get(name)) is not None]
        late = [*there, *[vars(module).get(name) for module in there for name in ids.NAMES]]
        if len(late) != len(self._late) or any(map(is_not, late, self._late)):
            self._late = late
            self._places.know([*ids.look(), *arrays.look(self._arrays)])

    def _is_wanted(self, name: str) -> bool:
        return name in _LATE or name in _IN_C or self._seams.has(name)

    def _around(self, name: str) -> AbstractContextManager[None]:
        return self._all_real() if name in _IN_C else nullcontext()

    @contextmanager
    def _all_real(self) -> Iterator[None]:
        """Take the stand-ins out during the block, for the whole process."""
        with self._lock:
            self._put_back(self._seams.clear())
            try:
                yield
            finally:
                if self._sessions:
                    self._put_in()

    def _arrived(self, name: str) -> None:
        with self._lock:
            if not self._sessions:
                return
            self._seams.fill(name)
            if name in _LATE:
                self._look()
                ids.swap_in()
                self._places.fill()


_installation = _Installation()


@contextmanager
def freezing(lookup: Lookup, kinds: Collection[str] = ()) -> Iterator[None]:
    """Keep the stand-ins in place, for the whole process, during the block.

    Blocks may nest and overlap, in any threads; the last one out restores everything. The stand-ins ask the lookup at
    every call and call the real thing when it gives `None` or a `Frozen` without that kind.

    `lookup` returns the frozen state of the calling context's session, and is the same for all blocks that are open
    together. `env` is put in place only while a session that freezes it is open, because everything in the process
    reads the environment. Raises `SessionStateError` if a block with another lookup is open.
    """
    with_variables = "env" in kinds
    _installation.enter(lookup, with_variables=with_variables)
    try:
        yield
    finally:
        _installation.leave(with_variables=with_variables)


def register_seam(module: str, attribute: str, kind: str, replacement: Replacement) -> None:
    """Register a global of a framework's module that makes ids or returns the current time.

    The module is never imported for this: its seam is filled when it is loaded at the time a session opens, or is
    imported while one is open. A module without that attribute is left alone, as versions of a framework differ.

    Args:
        module: The full name of the module, such as `langchain_core.callbacks.manager`.
        attribute: The name of the global, which must hold a function.
        kind: Which of `KINDS` it belongs to.
        replacement: Called with the `Frozen` of the caller's session and the real function at each call; gives the
            function to call instead.

    Raises:
        ConfigurationError: The kind is not known.
    """
    _installation.register(module, attribute, kind, replacement)
