"""Objects of the user's own code by their names."""

from __future__ import annotations

import sys
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError


def loaded(name: str, where: str) -> Any:
    """Return the object of a name, `module:function`, from the working folder or what is installed.

    Args:
        name: The name.
        where: The place where it stands.

    Raises:
        ConfigurationError: If it leads to nothing.
    """
    module, _, function = name.partition(":")
    if not module or not function:
        raise ConfigurationError(f"{where}: expected a name such as module:function, found {name!r}")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return reduce(getattr, function.split("."), import_module(module))
    except Exception as error:  # noqa: BLE001 - importing runs code of the user
        raise ConfigurationError(f"{where}: {name} cannot be loaded: {type(error).__name__}: {error}") from None
