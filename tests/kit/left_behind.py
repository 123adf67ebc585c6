"""What a freeze has left in the modules of the process."""

from __future__ import annotations

import sys
import types

from agenttape_core.freeze.frozen_function import FrozenFunction


def left_behind() -> list[str]:
    """Every global of every loaded module that is still a stand-in, our own definitions aside."""
    return [
        f"{name}.{attribute}"
        for name, module in list(sys.modules.items())
        if issubclass(type(module), types.ModuleType) and not name.startswith("agenttape_core.")
        for attribute, value in list(object.__getattribute__(module, "__dict__").items())
        if type(value) is FrozenFunction
    ]
