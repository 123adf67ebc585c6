"""Secrets in the data of a saver: replaced if the user wants it, and reported once in a copy of production."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agenttape_core import Rule
from agenttape_core.integration import value_codec
from agenttape_core.integration.cassettes import Redactor, project_settings, redactor_for
from agenttape_core.integration.threads import Lock


class Redacted:
    """Replaces secrets in values of any type."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._codec = value_codec(lenient=True)

    def __call__(self, value: Any) -> Any:
        """Return a copy of a value without secrets."""
        return self._codec.decode(self._redactor.value(self._codec.encode(value)))

    def values(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """Return named values without secrets; a name may say that its value is one."""
        return {name: next(iter(self({name: value}).values())) for name, value in named.items()}


class PlainCopy(Redacted):
    """Stores values unchanged, and warns once if they contain a secret.

    The redactor detects the secrets; `path` is for the warning.
    """

    def __init__(self, redactor: Redactor, path: Path) -> None:
        super().__init__(redactor)
        self._path = path
        self._told = Lock()

    def values(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values themselves."""
        if not self._told.locked():
            plain = self._codec.encode(dict(named))
            # LangGraph stores from several threads; the lock is taken once, and kept.
            if self._redactor.value(plain) != plain and self._told.acquire(blocking=False):
                warnings.warn(
                    f"{self._path}: secrets of the production run are copied as they are; to keep them out of the file,"
                    " use TapeSaver(..., redact=True), or redact=False to have them there",
                    stacklevel=6,
                )
        return dict(named)


def redaction_of(path: Path, redact: bool | Sequence[Rule] | None, *, copies: bool) -> Redacted | None:
    """Return the object that replaces or reports the secrets of a file; `None` if they are simply stored.

    The name of the file makes the key of pseudonyms, unless the environment has one. `redact` is `None` if the user did
    not say; `copies` means that the file is a copy of a production saver.
    """
    if redact is False or (redact is None and not copies):
        return None
    key = hashlib.sha256(path.name.encode("utf-8", "surrogatepass")).hexdigest()
    redactor = redactor_for(path, None, True if redact is None else redact, project_settings(), key=key)
    return PlainCopy(redactor, path) if redact is None else Redacted(redactor)
