"""Regular expressions that are compiled when they are first used.

Compiling all patterns takes longer than importing the rest of core, and a session needs few of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, AnyStr, Generic

_METHODS = ("match", "fullmatch", "search", "finditer", "findall", "split", "sub")


class Lazy(Generic[AnyStr]):
    """Stands for a pattern until its first use; from then on its methods are those of the compiled one.

    Args:
        pattern: As `re.compile` takes it.
        flags: Likewise.
    """

    match: Callable[..., re.Match[AnyStr] | None]
    fullmatch: Callable[..., re.Match[AnyStr] | None]
    search: Callable[..., re.Match[AnyStr] | None]
    finditer: Callable[..., Iterator[re.Match[AnyStr]]]
    findall: Callable[[AnyStr], list[Any]]
    split: Callable[[AnyStr], list[AnyStr]]
    sub: Callable[[AnyStr | Callable[[re.Match[AnyStr]], AnyStr], AnyStr], AnyStr]

    def __init__(self, pattern: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> None:
        self.pattern: AnyStr = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Compile, and keep the methods where the next look-up finds them without asking here."""
        if name.startswith("__"):  # of protocols such as copy and pickle
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)
