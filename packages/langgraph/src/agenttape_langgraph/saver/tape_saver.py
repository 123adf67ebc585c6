"""`TapeSaver`: the public class."""

from __future__ import annotations

import copy
import inspect
import logging
import warnings
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import Any, Self

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.base import SerializerProtocol

from agenttape_core import Rule
from agenttape_core.errors import CassetteWriteError, ConfigurationError, IncompleteCopyWarning
from agenttape_core.integration import value_codec
from agenttape_core.integration.patching import Stored
from agenttape_langgraph.saver.database import Database
from agenttape_langgraph.saver.local import LocalSaver
from agenttape_langgraph.saver.redacting import redaction_of

# -- A saver around another one, which serves, that keeps a copy of all changes.
#
# LangGraph calls a saver according to the methods that its class overrides, so the class of the wrapper overrides
# exactly those that the class of the wrapped saver does. It is made once for each such class.

_READS = ("get", "get_tuple", "list", "get_delta_channel_history")
_MIRRORED = {"copy_thread": {"merge": True}}
"""Further arguments for the saver on the file, which does the same as the inner one."""
_WRITES = ("put", "put_writes", "delete_thread", "delete_for_runs", "copy_thread", "prune")


class Copying:
    """The copy that a wrapping saver keeps. `inner` is the one that serves; with `follows`, its serializer is used."""

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
        """Repeat a call of the inner saver in the copy. After a failure, copying stops."""
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
        """Close the copy. Raises `CassetteWriteError` if the copy is incomplete."""
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

    Its instances keep a `Copying` as `copying`.
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
    """Return a clone whose savers both know the types; this one if they don't change."""
    inner, local = self.inner.with_allowlist(extra_allowlist), self.copying.local.with_allowlist(extra_allowlist)
    if inner is self.inner and local is self.copying.local:
        return self
    clone = copy.copy(self)
    clone.copying = copy.copy(self.copying)
    clone.copying.inner, clone.copying.local = inner, local
    return clone


_COPY_PATIENCE = 5.0
"""Seconds that a copy may delay a production thread while another process locks the file; then it is given up."""


class TapeSaver(LocalSaver):
    """A LangGraph checkpointer on one SQLite file, alone or as a copy of another one.

    ```python
    graph = builder.compile(checkpointer=TapeSaver("runs/support.sqlite"))
    graph = builder.compile(checkpointer=TapeSaver("runs/support.sqlite", inner=production_saver))
    ```

    Alone it has every method of `BaseCheckpointSaver`, sync and async. Several threads, event loops and processes may
    use it in parallel, and finished calls survive a crash. Values are stored once, however many checkpoints, threads
    and copies have them, and lists that grow are stored as they grow. Deleted data is overwritten in the file: right
    away, and in a series of deletions soon after, in a thread that `close` waits for.

    Around an `inner` saver it has just the methods that the inner one overrides, and the inner one's other attributes:
    the inner saver serves, and each change is also made in the file. An error of the inner saver is raised unchanged,
    and no copy is made.

    If the copy fails, the thread continues: there is an `IncompleteCopyWarning`, no further changes are copied,
    `copy_failure` has the error, and `close` raises `CassetteWriteError`. The copy begins with the first change after
    wrapping. Closing it does not close the inner saver.

    With LangGraph's `EncryptedSerializer` all values and metadata are encrypted in the file. Searchable data is not:
    ids of threads, runs, checkpoints and tasks, the names of namespaces, tasks and written channels, the types of
    values, and lengths. The bytes of any other encrypting serialiser are stored unchanged.

    Args:
        path: The file, or `:memory:`. Its folder is made. It must be on a local disk.
        inner: The saver that serves; the file is a copy of it.
        serde: The serialiser of values in the file. The default is the inner saver's, or else LangGraph's.
        read_only: Open an existing file for reading. A file without write permission is always opened so.
        redact: Whether secrets in the file are replaced by pseudonyms, or the user's rules. A thread that continues
            from such a file sees the pseudonyms. By default values are stored unchanged, and a copy that holds
            secrets warns once.

    Raises:
        CassetteNotFoundError: The file doesn't exist, with `read_only`.
        CassetteFormatError: The file isn't a `TapeSaver` file.
        CassetteVersionError: It is of a newer version of this library.
        CassetteLockedError: Another process kept it locked for half a minute.
        CassetteWriteError: It cannot be made.
        ConfigurationError: `inner` is not a saver.
    """

    copying: Copying | None = None

    def __new__(cls, *_: Any, inner: BaseCheckpointSaver[Any] | None = None, **__: Any) -> Self:
        """Make a saver; around an inner one, of a class that fits it."""
        if inner is None:
            return super().__new__(cls)
        if not isinstance(inner, BaseCheckpointSaver):
            raise ConfigurationError(f"inner={inner!r}: expected a checkpointer, an instance of BaseCheckpointSaver")
        kind: type[Self] = wrapping_class(cls, inner)
        return super().__new__(kind)

    def __init__(
        self,
        path: Path | str,
        *,
        inner: BaseCheckpointSaver[Any] | None = None,
        serde: SerializerProtocol | None = None,
        read_only: bool = False,
        redact: bool | Sequence[Rule] | None = None,
    ) -> None:
        redacted = redaction_of(Path(path), redact, copies=inner is not None)
        if inner is None:
            super().__init__(Database(path, read_only=read_only), serde=serde, redacted=redacted)
        else:
            database = Database(path, read_only=read_only, patience=_COPY_PATIENCE)
            self.database = database
            local = LocalSaver(database, serde=serde or inner.serde, redacted=redacted)
            self.copying = Copying(inner, local, follows=serde is None)

    @property
    def inner(self) -> BaseCheckpointSaver[Any] | None:
        """The saver that serves; the file is a copy of it."""
        return None if self.copying is None else self.copying.inner

    @property
    def local(self) -> LocalSaver:
        """The saver on the file: this one, or the one that keeps the copy."""
        return self if self.copying is None else self.copying.local

    @property
    def copy_failure(self) -> BaseException | None:
        """The error that made the copy incomplete, if there was one."""
        return None if self.copying is None else self.copying.copy_failure

    def close(self) -> None:
        """Close the file. `with saver:` opens it again.

        Raises:
            CassetteWriteError: It is an incomplete copy.
        """
        if self.copying is None:
            super().close()
        else:
            self.copying.finish()

    def _leave(self, error: BaseException | None) -> None:
        if self.copying is None or error is None:
            self.close()
        else:
            self.database.close()  # the error of the block is the one to be seen

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that only the inner saver has."""
        copying = self.__dict__.get("copying")
        if copying is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(copying.inner, name)


# -- The content of a file of `TapeSaver` as plain data, for those who search it.


def stored_values(path: Path) -> Iterator[Stored]:
    """Yield the values of each checkpoint of a file, with its metadata and pending writes, the newest first.

    No class is imported and no object made that LangGraph does not know as safe: the file may be a stranger's. Objects
    of other classes are returned as the values that they were built from. Raises `CassetteError` if it cannot be read,
    and `UnreadableValueError` if it is encrypted.
    """
    codec, serde = value_codec(lenient=True), jsonplus.JsonPlusSerializer(allowed_msgpack_modules=None)
    with TapeSaver(path, serde=serde, read_only=True) as saver, _quiet():
        for found in saver.list(None):
            at = found.config["configurable"]
            values = {
                "thread_id": at["thread_id"],
                "channel_values": found.checkpoint["channel_values"],
                "metadata": found.metadata,
                "writes": [{channel: value} for _, channel, value in found.pending_writes or ()],
            }
            yield Stored(f"thread {at['thread_id']}, checkpoint {at['checkpoint_id']}", codec.encode(values))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the serialiser from advising to allow the classes of which it makes no objects: none is wanted."""
    logger = logging.getLogger(jsonplus.__name__)
    logger.addFilter(_is_no_advice)
    try:
        yield
    finally:
        logger.removeFilter(_is_no_advice)


def _is_no_advice(record: logging.LogRecord) -> bool:
    return "allowed_msgpack_modules" not in str(record.msg)
