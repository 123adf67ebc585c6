"""`TapeSaver`: the public class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.base import SerializerProtocol

from agenttape_core import ConfigurationError, Rule
from agenttape_langgraph.saver.database import Database
from agenttape_langgraph.saver.local import LocalSaver
from agenttape_langgraph.saver.redacting import redaction_of
from agenttape_langgraph.saver.wrapping import Copying, wrapping_class

_COPY_PATIENCE = 5.0
"""Seconds that a copy may delay a production thread while another process locks the file; then it is given up."""


class TapeSaver(LocalSaver):
    """A LangGraph checkpointer on one SQLite file, alone or as a copy of another one.

    ```python
    graph = builder.compile(checkpointer=TapeSaver("runs/support.sqlite"))
    graph = builder.compile(checkpointer=TapeSaver("runs/support.sqlite", inner=production_saver))
    ```

    Alone it has every method of `BaseCheckpointSaver`, sync and async. Several threads, event loops and processes may
    use it at once, and finished calls survive a crash. Values are stored once, however many checkpoints, threads and
    copies have them, and lists that grow are stored as they grow. Deleted data is overwritten in the file:
    at once, and in a series of deletions soon after, in a thread that `close` waits for.

    Around an `inner` saver it has just the methods that the inner one overrides, and the inner one's other attributes:
    the inner saver serves, and each change is made in the file, too. An error of the inner saver is raised as it is,
    and nothing is copied. If the copy fails, the thread goes on: there is an `IncompleteCopyWarning`, nothing more is
    copied, `copy_failure` has the error, and `close` raises `CassetteWriteError`. The copy begins with the first change
    after wrapping. Closing it does not close the inner saver.

    With LangGraph's `EncryptedSerializer` all values and metadata are encrypted in the file. Searchable data is not:
    ids of threads, runs, checkpoints and tasks, the names of namespaces, tasks and written channels, the types of
    values, and lengths. The bytes of any other encrypting serialiser are stored as they are.

    Args:
        path: The file, or `:memory:`. Its folder is made. It must be on a local disk.
        inner: The saver that serves; the file is a copy of it.
        serde: The serialiser of values in the file. The default is the inner saver's, or else LangGraph's.
        read_only: Open an existing file for reading. A file without write permission is always opened so.
        redact: Whether secrets in the file are replaced by pseudonyms, or the user's rules. A thread that goes on from
            such a file goes on with the pseudonyms. By default values are stored as they are, and a copy that holds
            secrets warns once.

    Raises:
        CassetteNotFoundError: There is no file, with `read_only`.
        CassetteFormatError: The file is not that of a `TapeSaver`.
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
