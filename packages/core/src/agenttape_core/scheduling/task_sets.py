"""Sets of tasks and futures that iterate in the order in which these were made, in sessions that record and replay.

A task is hashed by its place in memory, so a set of tasks has another order in each run: the results of `asyncio.wait`,
the tasks that `asyncio.as_completed` makes of coroutines, those that are done when it begins, those that an
`asyncio.TaskGroup` cancels, and those that `asyncio.all_tasks` lists, which `asyncio.run` cancels at its end.

`concurrent.futures` makes sets of what `wait` and `as_completed` are given, and yields those that are done already in
that order: LangGraph's futures of tasks, when a workflow is resumed. A program goes by that order. A set that the
program makes itself keeps the order that Python gives it.
"""

from __future__ import annotations

import asyncio
import builtins
import itertools
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import _base as _futures
from typing import Any, TypeVar, cast

from agenttape_core.scheduling.scopes import SCOPES

_NUMBER = "_agenttape_number"
_numbers = itertools.count(1)

F = TypeVar("F")


def number(future: F) -> F:
    """Give a task or a future its number, unless it has one, and return it."""
    if getattr(future, _NUMBER, None) is None:
        try:
            setattr(future, _NUMBER, next(_numbers))
        except AttributeError:  # of a class that has no room for it
            return future
    return future


def _number_of(future: object) -> int:
    found: int = getattr(future, _NUMBER, 0)
    return found


class FuturesInOrder(set[Any]):
    """A set of futures that iterates in the order of their numbers."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate in order."""
        return iter(sorted(super().__iter__(), key=_number_of))

    def pop(self) -> Any:
        """Remove the first one, and return it."""
        for first in self:
            self.remove(first)
            return first
        return super().pop()


def _keeping_order(name: str) -> Callable[..., Any]:
    real = getattr(set, name)

    def method(self: Any, *others: Any) -> Any:
        made = real(self, *others)
        return FuturesInOrder(made) if type(made) is set else made

    method.__doc__ = real.__doc__
    return method


for _name in ("copy", "union", "intersection", "difference", "symmetric_difference"):
    setattr(FuturesInOrder, _name, _keeping_order(_name))
for _name in ("or", "and", "sub", "xor"):
    for _side in ("", "r"):
        setattr(FuturesInOrder, f"__{_side}{_name}__", _keeping_order(f"__{_side}{_name}__"))


# -- the sets of `concurrent.futures`, replaced in its module ---------------------------------------------------------


def _set_of_futures(given: Iterable[Any]) -> set[Any]:
    """Return the set that `concurrent.futures` makes; in a session, one that iterates in the order of the argument.

    Futures of a pool have hashes by which a set of them has an order already, the recorded one.
    """
    if SCOPES.innermost() is None:
        return builtins.set(given)
    several = list(given)
    if all(hash(future) != object.__hash__(future) for future in several):
        return builtins.set(several)
    return FuturesInOrder(map(number, several))


def _done_and_not(done: set[Any], not_done: set[Any]) -> Any:
    return _DONE(_set_of_futures(done), _set_of_futures(not_done))


_DONE = _futures.DoneAndNotDoneFutures


# -- asyncio's functions, replaced inside, so that every reference to them is covered: see `freeze.ids` ----------------


_WAIT = cast("types.FunctionType", asyncio.wait)
_COMPLETED = cast("types.FunctionType", asyncio.as_completed)
_ALL: Any = asyncio.all_tasks
_GROUP: Any = asyncio.TaskGroup
_real_group = _GROUP.__init__


def _copied(function: types.FunctionType) -> Callable[..., Any]:
    copied = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


_real_wait, _real_completed = _copied(_WAIT), _copied(_COMPLETED)
_real_all: Any = _copied(_ALL) if isinstance(_ALL, types.FunctionType) else _ALL


async def wait(futures: Any, seconds: float | None, return_when: str) -> tuple[Any, Any]:
    """Wait as `asyncio.wait` does; in a session, return sets that iterate in order."""
    if SCOPES.innermost() is None or not isinstance(futures, Iterable) or asyncio.isfuture(futures):
        return cast("tuple[Any, Any]", await _real_wait(futures, timeout=seconds, return_when=return_when))
    futures = [number(future) for future in futures]
    done, pending = await _real_wait(futures, timeout=seconds, return_when=return_when)
    return FuturesInOrder(done), FuturesInOrder(pending)


def as_completed(futures: Any, timeout: float | None) -> Any:
    """Return what `asyncio.as_completed` does; in a session, begin in the order of the argument."""
    if SCOPES.innermost() is None or not isinstance(futures, Iterable) or asyncio.isfuture(futures):
        return _real_completed(futures, timeout=timeout)
    tasks = [number(asyncio.ensure_future(future)) for future in dict.fromkeys(futures)]
    ready = getattr(tasks[0].get_loop(), "_ready", None) if tasks else None
    if ready is None or not any(task.done() for task in tasks):  # no loop of asyncio: another one hides its callbacks
        return _real_completed(tasks, timeout=timeout)
    before = len(ready)
    waits = _real_completed(tasks, timeout=timeout)
    if isinstance(waits, types.GeneratorType):  # until Python 3.12, it begins with its first item
        return _beginning_in_order(waits, ready)
    _sort_since(ready, before)
    return waits


def _beginning_in_order(waits: Iterator[Any], ready: deque[Any]) -> Iterator[Any]:
    before = len(ready)
    for first in waits:
        _sort_since(ready, before)
        yield first
        break
    yield from waits


def _sort_since(ready: deque[Any], before: int) -> None:
    """Sort the callbacks of futures that were done already: asyncio adds them in the order of a set."""
    added = [ready.pop() for _ in range(len(ready) - before)]
    ready.extend(sorted(added, key=lambda handle: _number_of(next(iter(handle._args or ()), None))))  # noqa: SLF001


def all_tasks(loop: Any = None) -> set[Any]:
    """Return what `asyncio.all_tasks` does; in a session, a set that iterates in order."""
    tasks: set[Any] = _real_all(loop if loop is not None else asyncio.get_running_loop())
    return FuturesInOrder(tasks) if SCOPES.innermost() is not None else tasks


def _group(self: Any) -> None:
    _real_group(self)
    self._tasks = FuturesInOrder()


async def _wait_code(fs, *, timeout=None, return_when="ALL_COMPLETED"):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202, ASYNC109
    from agenttape_core.scheduling.task_sets import wait

    return await wait(fs, timeout, return_when)


def _completed_code(fs, *, timeout=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    from agenttape_core.scheduling.task_sets import as_completed

    return as_completed(fs, timeout)


def _all_code(loop=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    from agenttape_core.scheduling.task_sets import all_tasks

    return all_tasks(loop)


_CODES = [(_WAIT, _WAIT.__code__, _wait_code.__code__), (_COMPLETED, _COMPLETED.__code__, _completed_code.__code__)]
if _real_all is not _ALL:
    _CODES.append((_ALL, _ALL.__code__, _all_code.__code__))
_OF_ALL = () if _real_all is not _ALL else (asyncio, asyncio.tasks)
"""The modules with a function in C, since Python 3.14; who has imported it by name gets a set without an order."""


def swap_in() -> None:
    """Let asyncio go by the order of tasks in sessions."""
    for function, _, stand_in in _CODES:
        function.__code__ = stand_in
    for module in _OF_ALL:
        if module.all_tasks is _ALL:
            vars(module)["all_tasks"] = all_tasks
    if _GROUP.__init__ is _real_group:
        _GROUP.__init__ = _group
    vars(_futures).update(set=_set_of_futures, DoneAndNotDoneFutures=_done_and_not)


def swap_out() -> None:
    """Restore everything."""
    for function, real, _ in _CODES:
        function.__code__ = real
    for module in _OF_ALL:
        if module.all_tasks is all_tasks:
            vars(module)["all_tasks"] = _ALL
    if _GROUP.__init__ is _group:
        _GROUP.__init__ = _real_group
    vars(_futures).pop("set", None)  # the built-in one, again
    vars(_futures).update(DoneAndNotDoneFutures=_DONE)
