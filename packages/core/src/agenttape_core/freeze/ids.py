"""The makers of ids: those in `uuid`, and those in third-party modules that are used next to it.

Makers that are plain Python functions are replaced inside their function objects: swapping their code reaches every
reference there is, module globals, class attributes, default factories captured long before the session. No module has
to be searched for them. Makers in C get a stand-in wherever a module holds them, as the clocks do.
"""

from __future__ import annotations

import inspect
import sys
import types
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agenttape_core.freeze.frozen_function import FrozenFunction, active
from agenttape_core.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.freeze.frozen import Frozen

NAMES = ("uuid1", "uuid4", "uuid6", "uuid7")
_UNDERSTOOD = {"node", "clock_seq", "timestamp", "nanos", "nanoseconds"}
"""The parameters of makers, in the versions that there are: seconds, their rest in nanoseconds, or nanoseconds."""

MODULES = ("uuid", "uuid_utils", "uuid_utils.compat", "uuid6")
"""The modules with makers, of which only those are looked at that are imported already."""


class _Maker(NamedTuple):
    """One maker of ids."""

    key: str
    real: Callable[..., Any]
    signature: inspect.Signature
    result: Callable[..., Any]

    def make(self, frozen: Frozen, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Give the session's next id for the arguments of a call."""
        given = self.signature.bind(*args, **kwargs).arguments if args or kwargs else {}
        made = frozen.next_uuid(
            self.key,
            int(self.key[-1]),
            node=given.get("node"),
            clock_seq=given.get("clock_seq"),
            milliseconds=_milliseconds(given),
        )
        return made if self.result is uuid.UUID else self.result(int=made.int)


def _milliseconds(given: dict[str, int | None]) -> int | None:
    """Give the time that a caller chose: an id for a given moment is an id of that moment."""
    nanoseconds, seconds = given.get("nanoseconds"), given.get("timestamp")
    if nanoseconds is None and seconds is None:
        return None
    return (seconds or 0) * 1_000 + (nanoseconds or given.get("nanos") or 0) // 1_000_000


class _Swap:
    """A maker that is a Python function, and the code that it has in turn.

    Why its `__code__` is exchanged, and not the names that refer to it: `uuid.uuid4` is captured everywhere long
    before a session opens, as `default_factory` of pydantic fields and dataclasses, as a default argument, in
    `functools.partial`, in closures, in class attributes. No search of modules finds those references, and each of
    them would draw a real id in a replay. All of them call one function object, so the one thing that reaches them
    is what that object runs.

    The code of `_asking` looks up its maker by the constant "KEY", which is replaced by the maker's key: a function's
    code has no closure to carry it (`co_freevars` must keep their number when `__code__` is assigned, see
    https://docs.python.org/3/reference/datamodel.html#function.__code__), and its globals stay those of `uuid`, so that
    the module of the maker must be imported by `_asking` itself.

    The call keeps the function's identity, name and module; only `inspect` needs an explicit signature. The real makers
    are called through `_copy`, a function with the old code.

    It holds for functions in Python alone: `uuid` since it exists, the back-ports `uuid6`. Makers in C
    (`uuid_utils`) have no code to exchange, and are replaced in each module that holds them.
    """

    def __init__(self, maker: _Maker) -> None:
        self.function: Any = maker.real
        self.signature = maker.signature
        self.real = self.function.__code__
        self.asking = _asking.__code__.replace(
            co_consts=tuple(maker.key if const == "KEY" else const for const in _asking.__code__.co_consts)
        )


class _Makers:
    """The makers found so far, by key. Not thread-safe; `install` holds the lock."""

    def __init__(self) -> None:
        self.by_key: dict[str, _Maker] = {}
        self.functions: dict[str, _Swap] = {}
        self._found: dict[str, Any] = {}

    def look(self) -> Iterator[tuple[Any, FrozenFunction]]:
        """Find the makers of the modules that came since; gives those in C with their stand-ins."""
        for module_name in MODULES:
            content = vars(sys.modules[module_name]) if module_name in sys.modules else {}
            for name in NAMES:
                key = f"{module_name}.{name}"
                real: Any = content.get(name)
                signature = _understood(real, module_name) if real is not self._found.get(key) else None
                if signature is not None:
                    self._found[key] = real
                    yield from self._keep(_Maker(key, real, signature, content["UUID"]))

    def _keep(self, maker: _Maker) -> Iterator[tuple[Any, FrozenFunction]]:
        outdated = self.functions.pop(maker.key, None)
        if outdated is not None:  # of a module that was loaded again
            outdated.function.__code__ = outdated.real
            vars(outdated.function).pop("__signature__", None)
        if isinstance(maker.real, types.FunctionType):
            self.functions[maker.key] = _Swap(maker)
            maker = maker._replace(real=_copy(maker.real))
        else:
            yield maker.real, FrozenFunction(maker.real, "uuid", _replacement(maker))
        self.by_key[maker.key] = maker


def _understood(real: Any, module_name: str) -> inspect.Signature | None:
    """Give the signature of a maker that no one replaced by something else, and whose arguments are understood."""
    plain = isinstance(real, types.FunctionType) and real.__module__ == module_name and not real.__closure__
    if not plain and not isinstance(real, types.BuiltinFunctionType):
        return None
    try:
        signature = inspect.signature(real)
    except ValueError:
        return None  # in C, and does not say what it takes
    return signature if set(signature.parameters) <= _UNDERSTOOD else None


def _replacement(maker: _Maker) -> Callable[[Frozen, Any], Callable[..., Any]]:
    return lambda frozen, _real: lambda *args, **kwargs: maker.make(frozen, args, kwargs)


def _copy(function: types.FunctionType) -> types.FunctionType:
    copied = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


def _asking(*args: Any, **kwargs: Any) -> Any:
    from agenttape_core.freeze.ids import make  # this code runs with the globals of the maker's module

    return make("KEY", args, kwargs)


_makers = _Makers()
look = _makers.look


def make(key: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make an id for a caller of a swapped function: the session's next one, or a real one."""
    maker = _makers.by_key[key]
    frozen = active("uuid")
    if frozen is None or frozen.is_importing():
        return maker.real(*args, **kwargs)
    return maker.make(frozen, args, kwargs)


def swap_in() -> None:
    """Make the functions ask for the caller's session."""
    for swap in _makers.functions.values():
        swap.function.__code__ = swap.asking
        swap.function.__signature__ = swap.signature  # it stays what it is


def swap_out() -> None:
    """Make the functions real again."""
    for swap in _makers.functions.values():
        swap.function.__code__ = swap.real
        vars(swap.function).pop("__signature__", None)
