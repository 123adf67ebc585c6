"""The parts of an integration that are imported only when a session needs them."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from types import ModuleType

from agenttape_core.garbage import collecting_late

__all__ = ["WAITING", "LatePackage", "register_late"]

WAITING: list[str] = []
"""The modules that are to be imported, by name."""


def register_late(module: str) -> None:
    """Add the module of an integration that registers its codecs, packages and effects.

    It is imported when the first session opens, or the first value is read or written.

    Args:
        module: Its full name.
    """
    WAITING.append(module)


def load_late() -> None:
    """Import the modules added so far. What cannot be imported is tried again the next time.

    Raises `ImportError` as the import of the modules does.
    """
    if not WAITING:
        return
    with collecting_late():
        while waiting := list(WAITING):  # an import may name more of them
            for module in waiting:
                import_module(module)  # another thread that does so waits here, as Python imports a module once
                with suppress(ValueError):  # it was faster
                    WAITING.remove(module)


class LatePackage(ModuleType):
    """The class of a package in which a public name is an object, although a submodule has the same name.

    The import system binds a submodule to its package after it has run, whoever imports it
    (https://docs.python.org/3/reference/import.html#submodules).
    """

    __all__: list[str]

    def __setattr__(self, name: str, value: object) -> None:
        is_submodule = isinstance(value, ModuleType) and name in self.__all__
        super().__setattr__(name, getattr(value, name) if is_submodule else value)
