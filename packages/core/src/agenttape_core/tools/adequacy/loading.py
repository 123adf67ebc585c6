"""Import a file as it would be with one edit. The file itself stays as it is."""

from __future__ import annotations

import functools
import importlib.machinery
import types
from importlib.util import decode_source
from pathlib import Path
from typing import Any

from agenttape_core.tools.adequacy.mutants import mutated


class Loading:
    """The import of one file with an edit, in this process from now on.

    Args:
        file: The file.
        name: Its name in ids.
        mutant: The id of the mutant.
        is_test: Whether it holds tests.
    """

    def __init__(self, file: Path, name: str, mutant: str, *, is_test: bool) -> None:
        self._file = file.resolve()
        self._name = name
        self._mutant = mutant
        self._is_test = is_test
        self.is_loaded = False
        """True once the file was imported."""

    def install(self) -> None:
        """Let the loader of Python files compile the edited file, wherever it is imported from."""
        kind: Any = importlib.machinery.SourceFileLoader
        before = kind.get_code
        loading = self

        @functools.wraps(before)
        def get_code(self: Any, fullname: str) -> types.CodeType | None:
            if Path(self.path).resolve() == loading._file:
                return loading.code()
            found: types.CodeType | None = before(self, fullname)
            return found

        kind.get_code = get_code

    def code(self) -> types.CodeType:
        """Return the code of the file with the edit."""
        source = decode_source(self._file.read_bytes())
        tree = mutated(source, self._mutant, file=self._name, is_test=self._is_test)
        self.is_loaded = True
        code: types.CodeType = compile(tree, str(self._file), "exec", dont_inherit=True)
        return code
