"""The id makers of `uuid`, replaced inside their function objects.

They are plain Python functions, so swapping their code reaches every reference there is: module globals, class
attributes, default factories captured long before the session. No module has to be searched for them.
"""

from __future__ import annotations

import types
import uuid

from agenttape_core.freeze.stand_in import active


def _uuid1(node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
    from agenttape_core.freeze.ids import make  # this code runs with the globals of `uuid`

    return make("uuid1", 1, node, clock_seq)


def _uuid4() -> uuid.UUID:
    from agenttape_core.freeze.ids import make

    return make("uuid4", 4)


def _uuid6(node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
    from agenttape_core.freeze.ids import make

    return make("uuid6", 6, node, clock_seq)


def _uuid7() -> uuid.UUID:
    from agenttape_core.freeze.ids import make

    return make("uuid7", 7)


def _makers() -> dict[str, types.FunctionType]:
    """The makers that this Python has and that nobody replaced by something else than a function."""
    found = {name: getattr(uuid, name, None) for name in ("uuid1", "uuid4", "uuid6", "uuid7")}
    return {name: maker for name, maker in found.items() if isinstance(maker, types.FunctionType)}


def _copy(function: types.FunctionType) -> types.FunctionType:
    return types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


_MAKERS = _makers()
_REAL = {name: _copy(maker) for name, maker in _MAKERS.items()}
_CODE = {function.__name__[1:]: function.__code__ for function in (_uuid1, _uuid4, _uuid6, _uuid7)}


def make(name: str, version: int, *args: int | None) -> uuid.UUID:
    """Make an id for a caller of `uuid`: the session's next one, or a real one."""
    frozen = active("uuid")
    if frozen is None:
        real: uuid.UUID = _REAL[name](*args)
        return real
    node, clock_seq = (*args, None, None)[:2]
    return frozen.next_uuid(f"uuid.{name}", version, node=node, clock_seq=clock_seq)


def swap_in() -> None:
    """Make the functions of `uuid` ask for the caller's session."""
    for name, maker in _MAKERS.items():
        maker.__code__ = _CODE[name]


def swap_out() -> None:
    """Give the functions of `uuid` their own code back."""
    for name, maker in _MAKERS.items():
        maker.__code__ = _REAL[name].__code__
