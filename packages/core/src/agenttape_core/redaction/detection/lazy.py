"""Regular expressions that are compiled when they are first used.

Compiling all patterns of this layer takes longer than importing the rest of core, and a text without an anchor of a
pattern never needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol

_METHODS = ("match", "fullmatch", "search", "finditer", "findall", "sub")


class _Match(Protocol):
    def __call__(self, string: str, pos: int = 0, endpos: int = ...) -> re.Match[str] | None: ...


class Lazy:
    """Stands for a pattern until its first use; from then on its methods are those of the compiled one.

    Args:
        pattern: As `re.compile` takes it.
        flags: Likewise.
    """

    match: _Match
    fullmatch: _Match
    search: _Match
    finditer: Callable[[str], Iterator[re.Match[str]]]
    findall: Callable[[str], list[Any]]
    sub: Callable[[str | Callable[[re.Match[str]], str], str], str]

    def __init__(self, pattern: str, flags: re.RegexFlag = re.NOFLAG) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Compile, and keep the methods where the next look-up finds them without asking here."""
        if name.startswith("__"):  # of protocols such as copy and pickle
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)
