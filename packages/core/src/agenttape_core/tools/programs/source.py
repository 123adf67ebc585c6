"""The place of a program in the source: what another process, or a file that is written, imports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from agenttape_core.guard.caller import is_library


class Source(NamedTuple):
    """The place of a function or of a test.

    Args:
        module: Its module as it is imported; for a script, the name of its file.
        file: Its file.
        name: Its name in the module, such as `Agent.answer`.
        is_async: Whether it is a coroutine function.
        is_test: Whether pytest calls it.
        fixtures: The fixtures of its module that it uses, if it is a test.
        owner: The name of its class in the module, if it is a test that is a method.
        case: The place of its values among those that it is parametrized with, by the name of their first argument.
    """

    module: str
    file: Path
    name: str
    is_async: bool = False
    is_test: bool = False
    fixtures: tuple[str, ...] = ()
    owner: str = ""
    case: Mapping[str, int] = {}

    @property
    def root(self) -> Path | None:
        """The folder from which the module is imported; `None` if it is installed."""
        if is_library(str(self.file)):
            return None
        place = self.file.parent if self.file.name == "__init__.py" else self.file.with_suffix("")
        parts = tuple(self.module.split("."))
        return place.parents[len(parts) - 1] if place.parts[-len(parts) :] == parts else self.file.parent

    @property
    def importable(self) -> str:
        """The name of the module as it is imported from the root."""
        root = self.root
        place = self.file.with_suffix("")
        is_below = root is not None and place.parts[-len(self.module.split(".")) :] == tuple(self.module.split("."))
        return self.module if root is None or is_below or self.file.name == "__init__.py" else self.file.stem
