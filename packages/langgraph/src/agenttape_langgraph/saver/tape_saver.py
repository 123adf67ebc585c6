"""The saver that users name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.base import SerializerProtocol

from agenttape_core import ConfigurationError
from agenttape_langgraph.saver.database import Database
from agenttape_langgraph.saver.local import LocalSaver
from agenttape_langgraph.saver.wrapping import Copying, wrapping_class

_COPY_PATIENCE = 5.0
"""Seconds for which a copy holds a production thread up when another process keeps the file; then it is given up."""


class TapeSaver(LocalSaver):
    """A LangGraph checkpointer on one SQLite file, alone or as a copy of what another one is given.

    ```python
    graph = builder.compile(checkpointer=TapeSaver("runs/support.sqlite"))
    graph = builder.compile(checkpointer=TapeSaver("runs/support.sqlite", inner=production_saver))
    ```

    Alone it has every method of `BaseCheckpointSaver`, sync and async. It may be used by several threads, event loops
    and processes at once, and what it was given is there after a crash. Values are stored once, however many
    checkpoints, threads and copies have them, and lists that grow are stored as they grow. What is deleted is
    overwritten in the file.

    Around an `inner` saver it is a saver with just the methods that the inner one overrides, and its other attributes:
    the inner one serves, and each change that it made is made in the file as well. An error of the inner saver is
    raised as it is, and nothing is copied. If the copy fails, the thread goes on: there is an `IncompleteCopyWarning`,
    nothing more is copied, `copy_failure` says why, and `close` raises `CassetteWriteError`. The copy begins with what
    happens after wrapping. Closing it does not close the inner saver.

    With LangGraph's `EncryptedSerializer` every value and all metadata are encrypted in the file. Not encrypted is
    what is looked for: ids of threads, runs, checkpoints and tasks, the names of namespaces, tasks and written
    channels, the types of values, and lengths. Any other serialiser that encrypts is stored as it encrypts.

    Args:
        path: The file, or `:memory:`. Its folder is made. It must be on a local disk.
        inner: The saver that serves, of which the file is a copy.
        serde: How values become bytes in the file. The default is the inner saver's, or else LangGraph's.
        read_only: Open an existing file for reading. A file that may not be written is opened so by itself.

    Raises:
        CassetteNotFoundError: There is no file, and it is to be read only.
        CassetteFormatError: The file is no file of a `TapeSaver`.
        CassetteVersionError: It is of a newer version of this library.
        CassetteLockedError: Another process kept it locked for half a minute.
        CassetteWriteError: It cannot be made.
        ConfigurationError: `inner` is no saver.
    """

    copying: Copying | None = None

    def __new__(cls, *_: Any, inner: BaseCheckpointSaver[Any] | None = None, **__: Any) -> Self:
        """Make a saver, of a class that fits the inner one if there is one."""
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
    ) -> None:
        if inner is None:
            super().__init__(Database(path, read_only=read_only), serde=serde)
        else:
            database = Database(path, read_only=read_only, patience=_COPY_PATIENCE)
            self.database = database
            self.copying = Copying(inner, LocalSaver(database, serde=serde or inner.serde), follows=serde is None)

    @property
    def inner(self) -> BaseCheckpointSaver[Any] | None:
        """The saver that serves, of which the file is a copy."""
        return None if self.copying is None else self.copying.inner

    @property
    def local(self) -> LocalSaver:
        """The saver on the file: this one, or the copy."""
        return self if self.copying is None else self.copying.local

    @property
    def copy_failure(self) -> BaseException | None:
        """Why the copy is incomplete, if it is."""
        return None if self.copying is None else self.copying.copy_failure

    def close(self) -> None:
        """Close the file. `with saver:` opens it again.

        Raises:
            CassetteWriteError: It is a copy, and incomplete.
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
        """Return what only the inner saver has."""
        copying = self.__dict__.get("copying")
        if copying is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(copying.inner, name)
