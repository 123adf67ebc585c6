"""Beyond the public interface of `mcp`: where the function of a transport is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any


@contextmanager
def replacing_transport(transport: Any, around: Callable[[Any], Any]) -> Iterator[None]:
    """Replace the generator function of a transport while inside, for all who have imported the transport by its name.

    `contextlib.asynccontextmanager` returns a function that keeps the generator function in a cell named `func`.
    Replacing the name in its module wouldn't affect modules that imported it before.

    The transport may be wrapped by `warnings.deprecated`; `around` returns the generator function that takes the place
    of the real one.
    """
    cell = _cell_of(transport)
    if cell is None:  # a stand-in of a test tool, for example
        yield
        return
    real = cell.cell_contents
    ours = around(real)
    cell.cell_contents = ours
    try:
        yield
    finally:
        if cell.cell_contents is ours:
            cell.cell_contents = real


def _cell_of(transport: Any) -> Any:
    while isinstance(transport, FunctionType):
        if transport.__code__.co_freevars == ("func",) and transport.__closure__:
            return transport.__closure__[0]
        transport = getattr(transport, "__wrapped__", None)
    return None
