"""A saver around another one, which serves, that keeps a copy of all changes.

LangGraph calls a saver according to the methods that its class overrides, so the class of the wrapper overrides exactly
those that the class of the wrapped saver does. It is made once for each such class.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import AsyncIterator, Callable, Collection
from functools import cache, wraps
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.base import SerializerProtocol

from agenttape_core import CassetteWriteError, IncompleteCopyWarning
from agenttape_langgraph.saver.local import LocalSaver

_READS = ("get", "get_tuple", "list", "get_delta_channel_history")
_MIRRORED = {"copy_thread": {"merge": True}}
"""Further arguments for the saver on the file, which does what the inner one did."""
_WRITES = ("put", "put_writes", "delete_thread", "delete_for_runs", "copy_thread", "prune")


class Copying:
    """The copy that a wrapping saver keeps.

    Args:
        inner: The saver that serves.
        local: Where the copy is kept.
        follows: Whether the copy uses the serialiser of the inner saver.
    """

    def __init__(self, inner: BaseCheckpointSaver[Any], local: LocalSaver, *, follows: bool) -> None:
        self.inner = inner
        self.local = local
        self._follows = follows
        self._failures: list[BaseException] = []  # one list for all clones that `with_allowlist` makes

    @property
    def copy_failure(self) -> BaseException | None:
        """The error that made the copy incomplete, if there was one."""
        return self._failures[0] if self._failures else None

    def copy(self, call: Callable[[], object]) -> None:
        """Repeat a call of the inner saver in the copy. After a failure nothing is copied any more."""
        if self.copy_failure is None:
            try:
                call()
            except Exception as error:  # noqa: BLE001 - the thread goes on whatever it is, with a warning
                self.failed(error)

    def use(self, serde: SerializerProtocol) -> None:
        """Give the inner saver another serialiser, and the copy if it uses the same."""
        self.inner.serde = serde
        if self._follows:
            self.local.serde = serde

    def failed(self, error: BaseException) -> None:
        """Remember that the copy is incomplete from here on, and warn once."""
        self._failures.append(error)
        warnings.warn(
            f"{self.local.path}: the copy of the thread is incomplete from here on, and nothing more is copied: "
            f"{type(error).__name__}: {error}\n  The saver that serves the thread goes on. "
            "Closing this saver raises CassetteWriteError.",
            IncompleteCopyWarning,
            stacklevel=4,
        )

    def finish(self) -> None:
        """Close the copy.

        Raises:
            CassetteWriteError: The copy is incomplete.
        """
        self.local.close()
        if self.copy_failure is not None:
            raise CassetteWriteError(
                self.local.path,
                f"the copy is incomplete: {type(self.copy_failure).__name__}: {self.copy_failure}",
                remedy="its contents are valid; the saver that was copied has the rest",
            ) from self.copy_failure


class Forwarded:
    """An attribute of the inner saver's class that ours does not have."""

    def __init__(self, kind: type, name: str) -> None:
        self._kind = kind
        self._name = name

    def __get__(self, saver: Any, owner: type) -> Any:
        """Return the attribute of the inner saver, or of its class."""
        return getattr(self._kind if saver is None else saver.inner, self._name)


def wrapping_class(base: type, inner: BaseCheckpointSaver[Any]) -> Any:
    """Return a subclass of a class that overrides just the methods that the class of another saver does.

    Args:
        base: The class; its instances keep a `Copying` as `copying`.
        inner: The saver to wrap.
    """
    return _wrapping_class(base, type(inner))  # type: ignore[arg-type]  # mypy: classes are not Hashable


@cache
def _wrapping_class(base: type, kind: type) -> type:
    space: dict[str, Any] = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    for name in _READS:
        space[name] = _like(kind, name, _reading)
        space[f"a{name}"] = _like(kind, f"a{name}", _areading)
    space["alist"] = _like(kind, "alist", _alisting)
    for name in _WRITES:
        space[name] = _like(kind, name, _writing)
        space[f"a{name}"] = _like(kind, f"a{name}", _awriting)
    space["get_next_version"] = _like(kind, "get_next_version", _reading)
    space["config_specs"] = Forwarded(kind, "config_specs")
    space["serde"] = property(lambda self: self.inner.serde, lambda self, serde: self.copying.use(serde))
    space["with_allowlist"] = _with_allowlist
    for name in dir(kind):
        if not name.startswith("_") and not hasattr(base, name):
            space[name] = Forwarded(kind, name)
    return type(base)(base.__name__, (base,), space)


def _like(kind: type, name: str, make: Callable[[str], Any]) -> Any:
    """Return a method that calls the inner saver, with its signature; the base's method if the class inherits that."""
    theirs = inspect.getattr_static(kind, name)
    return theirs if theirs is inspect.getattr_static(BaseCheckpointSaver, name) else wraps(theirs)(make(name))


def _reading(name: str) -> Callable[..., Any]:
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.inner, name)(*args, **kwargs)

    return read


def _areading(name: str) -> Callable[..., Any]:
    async def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await getattr(self.inner, name)(*args, **kwargs)

    return read


def _alisting(name: str) -> Callable[..., Any]:
    async def read(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async for found in getattr(self.inner, name)(*args, **kwargs):
            yield found

    return read


def _writing(name: str) -> Callable[..., Any]:
    def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        done = getattr(self.inner, name)(*args, **kwargs)
        copying: Copying = self.copying
        copying.copy(lambda: getattr(copying.local, name)(*args, **kwargs, **_MIRRORED.get(name, {})))
        return done

    return write


def _awriting(name: str) -> Callable[..., Any]:
    plain = name.removeprefix("a")

    def copied(copying: Copying, args: Any, kwargs: Any) -> None:
        copying.copy(lambda: getattr(copying.local, plain)(*args, **kwargs, **_MIRRORED.get(plain, {})))

    async def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        done = await getattr(self.inner, name)(*args, **kwargs)
        try:
            await self.copying.local.database.run(copied, self.copying, args, kwargs)
        except RuntimeError as error:  # the threads of the copy have ended: it was closed, or the process ends
            self.copying.failed(error)
        return done

    return write


def _with_allowlist(self: Any, extra_allowlist: Collection[tuple[str, ...]]) -> Any:
    """Return a clone whose savers both know the types; this one if nothing changes."""
    inner, local = self.inner.with_allowlist(extra_allowlist), self.copying.local.with_allowlist(extra_allowlist)
    if inner is self.inner and local is self.copying.local:
        return self
    clone = copy.copy(self)
    clone.copying = copy.copy(self.copying)
    clone.copying.inner, clone.copying.local = inner, local
    return clone
