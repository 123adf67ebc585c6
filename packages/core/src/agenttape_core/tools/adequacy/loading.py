"""Import a file as it would be with one edit. The file itself stays as it is."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib.machinery
import types
from collections.abc import Callable
from importlib.util import decode_source
from pathlib import Path
from typing import Any

from agenttape_core.tools.adequacy.mutants import mutated

_TICK = "__agenttape_tick__"
MUCH = 100_000
"""The passes of loops that a mutated file may take, if it takes fewer without the edit."""


class Loading:
    """The import of one file with an edit, in this process from now on.

    Args:
        file: The file.
        name: Its name in ids.
        mutant: The id of the mutant.
        is_test: Whether it holds tests.
        passes: The passes of its loops after which it counts as endless.
        end: Called then; it does not return.
    """

    def __init__(
        self, file: Path, name: str, mutant: str, *, is_test: bool, passes: int, end: Callable[[], object]
    ) -> None:
        self._file = file.resolve()
        self._name = name
        self._mutant = mutant
        self._is_test = is_test
        self._left = max(passes, MUCH)
        self._end = end
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
        setattr(builtins, _TICK, self._tick)  # found from any module, and shadowed by nobody
        counted = ast.fix_missing_locations(_Counted().visit(tree))
        code: types.CodeType = compile(counted, str(self._file), "exec", dont_inherit=True)
        return code

    def _tick(self) -> None:
        self._left -= 1
        if self._left < 0:
            self._end()


class _Counted(ast.NodeTransformer):
    """Count the passes of loops."""

    def _counted(self, node: Any) -> Any:
        self.generic_visit(node)
        tick = ast.parse(f"{_TICK}()").body[0]
        for inner in ast.walk(tick):
            ast.copy_location(inner, node)
        node.body = [tick, *node.body]
        return node

    visit_While = visit_For = visit_AsyncFor = _counted  # noqa: N815 - names of `ast`
