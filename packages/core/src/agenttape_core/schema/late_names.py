"""Names of a package that are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def late_names(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose names are imported when they are first used.

    `homes` has the names that each module has; the modules as `import_module` takes them, such as `.header`.
    """
    modules = {name: module for module, names in homes.items() for name in names}

    def imported(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(modules[name], package), name)
        setattr(sys.modules[package], name, found)
        return found

    return imported
