"""Leaf methods of a framework's interfaces, and the families of classes that implement them.

A family is a base class of the framework and its leaf methods: those that reach outside. `Family.tape` makes aliases of
its objects. An automatic session meets the objects themselves, by the same adapters around the same methods
(`automatic.py`).
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterator, Mapping, Sized
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from io import IOBase
from operator import is_
from pickle import PicklingError
from typing import Any, TypeAlias, TypeVar

from agenttape_core.integration.alias import alias_class, alias_of, hold_signature, is_alias, original_of, state_of
from agenttape_core.integration.request_values import content_of
from agenttape_core.integration.shapes import (
    Call,
    Describe,
    Shape,
    as_it_is,
    async_generator,
    coroutine,
    generator,
    leave_to_call,
)
from agenttape_core.integration.stand_ins.stand_in import StandIn
from agenttape_core.matching import Position
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.scheduling import taking_part
from agenttape_core.session import Boundary, Session, SessionCall, current_session, executing
from agenttape_core.session.positions import below
from agenttape_core.session.side_effects import note_side_effect

ObjectT = TypeVar("ObjectT")

Cross: TypeAlias = Callable[[Any, tuple[Any, ...], dict[str, Any]], SessionCall | None]
"""Begins a method call (object, arguments); `None` if the call belongs to no recorded object."""

DescribeLeaf: TypeAlias = Callable[..., Call]
"""Describes a call of a leaf method, given the real method, its `Cross`, the object, and the arguments."""


def leaf_call(
    *,
    pack: Callable[[Any], Any] = as_it_is,
    unpack: Callable[[Any], Any] = as_it_is,
    owner: Callable[[Any], Any] = original_of,
    read_by_request: type | tuple[type, ...] = (),
) -> DescribeLeaf:
    """Return the usual description of a call: it crosses the boundary; if it doesn't, or is live, the real method runs.

    Args:
        pack: Returns the recorded form of a value.
        unpack: Returns the value from its recorded form.
        owner: Returns the object whose method runs, by default the one behind an alias.
        read_by_request: Classes of iterators that the request reads and rewinds; others become lists for it.
    """

    def describe(real: Callable[..., Any], cross: Cross, self: Any, /, *args: Any, **kwargs: Any) -> Call:
        given, named = args, kwargs
        args, kwargs = kept(args, kwargs, read_by_request)
        session_call = cross(self, args, kwargs)
        if kwargs is not named:  # LangChain's `add_texts` makes nothing of an iterator, and something of a list
            args = tuple(map(_as_given, given, args))
            kwargs = {key: _as_given(named[key], value) for key, value in kwargs.items()}
        return Call(session_call, lambda: real(owner(self), *args, **kwargs), pack=pack, unpack=unpack)

    return describe


def _itself(method: Any, make: Callable[[Any], Any]) -> Any:
    return make(method)


def _no_object(_: Any) -> bool:
    """Take no object for one that is made of others."""
    return False


class Leaf(NamedTuple):
    """A leaf method.

    Args:
        shape: The adapter for its calls: `plain`, `coroutine`, `generator`, `async_generator`.
        cross: Begins its calls in the session.
        describe: Describes a call of it, where more is special than its session call.
        inherited: Takes over a call that an alias's method makes of the one of its base class; by default such a call
            is part of the alias's.
        within: Returns a method whose inner function is replaced by the wrapped one, if the leaf isn't
            the method itself: inside a property, inside decorators of the framework.
        is_inspected: Whether the framework reads the signature of the method on each call.
    """

    shape: Shape
    cross: Cross
    describe: DescribeLeaf = leaf_call()
    inherited: Cross | None = None
    within: Callable[[Any, Callable[[Any], Any]], Any] = _itself
    is_inspected: bool = False

    def around(self, real: Any, cross: Cross, is_made_of_parts: Callable[[Any], bool] = _no_object) -> Any:
        """Return a taped method around a real one.

        Args:
            real: The method of the class, unchanged.
            cross: Begins the calls.
            is_made_of_parts: Whether an object's code runs if its calls don't cross, so that its own calls take part.
        """

        def wrapped(inner: Callable[..., Any]) -> Any:
            describe = functools.partial(self.describe, inner, cross)

            def with_parts(self_: Any, /, *args: Any, **kwargs: Any) -> Call:
                call = describe(self_, *args, **kwargs)
                if call.session_call is None and is_made_of_parts(self_):
                    call.real = taking_part_while(call.real, self.shape)
                return call

            return self.shape(inner, describe if is_made_of_parts is _no_object else with_parts)

        return self.within(real, wrapped)


def _every_class(_: type) -> bool:
    """Tape the objects of every class."""
    return True


@dataclass(eq=False, repr=False)
class Family:
    """The classes that implement one interface of the framework. It's a module-level object with its own name.

    Args:
        base: The interface.
        leaves: Its leaf methods by name.
        defaults: The leaf methods that count as such even where a class leaves them as the interface has them.
            Asynchronous methods that continue in a thread belong here: only before is it certain which of several calls
            is the first.
        is_boundary: Whether automatic sessions record the objects of a class: its work is outside the process.
        is_made_of_parts: Whether the calls of an object that do not cross run, and consist of calls of others. Where
            the object is recorded, its parts take part, even in sessions that aren't automatic.
        delegating: Classes of the framework that implement leaf methods by calling others. Theirs aren't leaves: they
            run on every replay, with all the framework's callbacks and events, and the calls that they make are
            replayed.
    """

    base: type
    leaves: Mapping[str, Leaf]
    defaults: frozenset[str] = frozenset()
    is_boundary: Callable[[type], bool] = _every_class
    is_made_of_parts: Callable[[Any], bool] = _no_object
    delegating: tuple[type, ...] = ()
    _aliases: dict[type, type] = field(default_factory=dict, init=False, repr=False)
    _automatic: dict[tuple[type, str], tuple[Any, Any]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Note the module that defines the family: an alias is pickled with the name of its family there."""
        # Two frames up, past the `__init__` of the dataclass; as `TypeVar` and `namedtuple` learn their module.
        self.__module__ = sys._getframe(2).f_globals.get("__name__", "__main__")  # noqa: SLF001

    def __reduce__(self) -> str:
        """Pickle the family as its name in its module, as functions are. Raises `PicklingError` if it has none."""
        names = (name for name, value in vars(sys.modules[self.__module__]).items() if value is self)
        name = next(names, None)
        if name is None:
            raise PicklingError(
                f"cannot pickle a taped {self.base.__qualname__}: its family has no name in {self.__module__}\n"
                "  assign the Family to a variable of the module"
            )
        return name

    def tape(self, value: ObjectT, *, again: bool = False) -> ObjectT:
        """Return the recorded alias of an object: it shares its state. An alias is returned unchanged.

        Args:
            value: The object.
            again: Whether to make an alias of an alias that another family has made.

        Raises:
            ConfigurationError: If the object keeps its state where an alias cannot share it.
        """
        return alias_of(value, self.alias, again=again)

    def alias(self, cls: type) -> type:
        """Return the class of aliases for the objects of a class, whether or not an automatic session tapes them."""
        if cls not in self._aliases:
            methods = {
                name: leaf.around(inspect.getattr_static(cls, name), leaf.cross, self.is_made_of_parts)
                for name, leaf in self.leaves.items()
                if self._has(cls, name)
            }
            self._aliases.setdefault(cls, alias_class(cls, methods, self.alias))
        return self._aliases[cls]

    def automatic(self, cls: type, name: str, real: Any) -> Any:
        """Return the recorded method that automatic sessions put in place of a class's method.

        It is kept for the next session, which would have hundreds to make; not for a class that a function defines, as
        that would never be freed.

        Args:
            cls: The class.
            name: The name of the leaf.
            real: The method of the class, or of the class it is inherited from.
        """
        known, method = self._automatic.get((cls, name), (None, None))
        if known is not real:
            leaf = self.leaves[name]
            method = leaf.around(real, _only_automatic(self, leaf))
            if leaf.is_inspected:
                hold_signature(method, real)
            if "<locals>" not in cls.__qualname__:
                self._automatic[cls, name] = real, method
        return method

    def leaves_of(self, cls: type) -> list[str]:
        """Return the names of the leaf methods of a class that an automatic session tapes."""
        return [name for name in self.leaves if self._has(cls, name)] if self.is_boundary(cls) else []

    def _has(self, cls: type, name: str) -> bool:
        method = inspect.getattr_static(cls, name, None)  # a descriptor may make another one for each look
        if method is None or getattr(method, "__isabstractmethod__", False):
            return False
        if name in self.defaults:
            return True
        others = [inspect.getattr_static(other, name, None) for other in (self.base, *self.delegating)]
        return not any(map(functools.partial(is_, method), others))


def _only_automatic(family: Family, leaf: Leaf) -> Cross:
    """Return how calls of a class's own method begin: only in automatic sessions, and not for aliases' own calls."""

    def begin(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
        if is_alias(self):
            return leaf.inherited(self, args, kwargs) if leaf.inherited is not None else None
        session = current_session()
        if session is None or isinstance(self, StandIn):
            return None
        if not session.auto:
            name = type(self).__name__
            session.refuse_after_replayed_write(state_of(self), name, f"a call of {name} that is not taped")
            return None
        return leaf.cross(self, args, kwargs) if family.is_boundary(type(self)) else None

    return begin


def begin(
    boundary: Boundary,
    owner: Any,
    name: str,
    body: Callable[[Session], Mapping[str, Any]],
    place: Callable[[Session], Position | None] | None = None,
    *,
    ids: tuple[str, ...] = (),
    writes: bool = False,
    is_idempotent: bool = False,
) -> SessionCall | None:
    """Begin a call, or return `None` where it belongs to no session or to a call of the same object.

    Args:
        boundary: The family of the call.
        owner: The object that is called.
        name: The name of the boundary.
        body: Makes the request.
        place: Makes the position; by default it is found by where the caller's code runs.
        ids: Run-specific ids of the call that are not part of its request.
        writes: Whether the call changes the contents of the object. After such a call was replayed, none is made on the
            object any more.
        is_idempotent: Whether the object declares a call safe to repeat, or only reads.
    """
    session = session_of_call(owner)
    if session is None:
        return None
    position = place(session) if place is not None else None
    position = position or below(session, name)
    session_call = session.cross(
        boundary,
        name,
        body(session),
        position=position,
        owner=state_of(owner),
        ids=ids,
        writes=writes,
        is_idempotent=is_idempotent,
    )
    if not session_call.is_replayed:
        session_call.code = owner
    return session_call


def session_of_call(owner: Any) -> Session | None:
    """Return the session of a call on an object; `None` even inside another call of the same object."""
    session, outer = current_session(), executing()
    return None if outer is not None and outer.stack.is_inside(state_of(owner)) else session


def is_part_of_embedding(embedder: Any, boundary: Boundary) -> bool:
    """Return whether a call of an embedding model is part of a call of such a model around it.

    A call of a user's class is stepped into in a replay if it only made recorded calls. Once it embeds by its own code
    as well, it can't be.

    Args:
        embedder: The embedding model.
        boundary: The family of calls that are recorded as a whole.
    """
    outer = executing()
    if outer is None or outer.boundary.kind != boundary.kind:
        return False
    if outer.boundary is boundary or outer.owner is state_of(embedder):
        return True
    if not outer.is_real or outer.has_made_calls:
        return False
    note_side_effect(f"embedded by {type(embedder).__name__}")  # not recorded, so its code can't run in a replay
    return True


def named_arguments(
    method: Callable[..., Any] | None, names: tuple[str, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by name, as given: defaults are left to the method.

    Args:
        method: The method of the class, if it has one of that name: it has the names of further
            arguments, and may have its own for these.
        names: The names that the interface gives the first positional arguments.
        args: The positional arguments, without `self`.
        kwargs: The others.
    """
    own = _positional(method) if method is not None and (kwargs or len(args) > len(names)) else ()
    places = (*names, *own[len(names) :], *(f"argument_{n}" for n in range(len(args))))
    common = dict(zip(own, names, strict=False))
    return {**dict(zip(places, args, strict=False)), **{common.get(key, key): item for key, item in kwargs.items()}}


@functools.lru_cache(512)
def _positional(method: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a method's positional parameters, without `self`."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in inspect.signature(method).parameters.values() if p.kind in kinds)[1:]


def kept(
    args: tuple[Any, ...], kwargs: dict[str, Any], but: type | tuple[type, ...] = ()
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments that can be read by the request, and again for the real call; iterators `but` some are lists."""
    if not any(isinstance(value, Iterator) for value in (*args, *kwargs.values())):
        return args, kwargs

    def listed(value: Any) -> Any:
        if not isinstance(value, Iterator) or isinstance(value, but):
            return value
        return content_of(value, list) if isinstance(value, IOBase) else list(value)

    return tuple(map(listed, args)), {key: listed(value) for key, value in kwargs.items()}


def _as_given(given: Any, read: Any) -> Any:
    if read is given or isinstance(given, Sized):
        return read
    return given if isinstance(given, IOBase) else iter(read)


# Rate limiters wait as a part of the call that they let through.
#
# A framework waits for its limiter before it makes a leaf call. For how long that sleeps follows from a clock that is
# never frozen, so as a step of the program it was another one in each run. In a session, the leaf call waits where it
# is executed for real; where it is replayed, no service has to be spared.


def limiter_leaves(acquire: str, async_acquire: str, *, before: Collection[str]) -> dict[str, Leaf]:
    """Return the leaf methods of a family of rate limiters.

    Args:
        acquire: The name of the method that waits.
        async_acquire: The name of the one that is awaited.
        before: The modules of the framework that call these right before a leaf call. A limiter that other code calls
            waits immediately.
    """
    return {acquire: _leaf(_plain, _now, before), async_acquire: _leaf(_coroutine, _awaited_now, before)}


def _leaf(shape: Shape, let_through: Callable[[], Any], before: Collection[str]) -> Leaf:
    def describe(real: Callable[..., Any], _: Cross, /, *args: Any, **kwargs: Any) -> Call:
        acquire = functools.partial(real, *args, **kwargs)
        if current_session() is None or _caller() not in before:
            return Call(None, acquire)
        leave_to_call(acquire)
        return Call(None, let_through)

    return Leaf(shape, _no_call, describe)


def _plain(real: Callable[..., Any], describe: Describe) -> Callable[..., Any]:
    """Wrap a limiter's method that returns; it isn't a leaf call, which would wait for the limiter itself."""

    @functools.wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        return describe(*args, **kwargs).real()

    return call


def _coroutine(real: Callable[..., Any], describe: Describe) -> Callable[..., Any]:
    """Wrap one that is awaited."""

    @functools.wraps(real)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await describe(*args, **kwargs).real()

    return call


def _caller() -> str:
    """Return the module of the code that calls the method, or awaits it: the first on the stack that is not ours."""
    frame = sys._getframe(1)  # noqa: SLF001 - the way to look at one's callers
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("agenttape_core."):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def _now() -> bool:
    return True


async def _awaited_now() -> bool:
    return True


def _no_call(*_: Any) -> None:
    return None


# Objects that run on every replay while the calls they make are taped: the shapes of their methods.

_END: Any = object()


def taking_part_here() -> AbstractContextManager[None]:
    """Let calls inside take part in the current session, if there is one."""
    session = current_session()
    return taking_part(session) if session is not None else nullcontext()


def taking_part_while(real: Callable[[], Any], shape: Shape) -> Callable[[], Any]:
    """Return a call during which the session in force is automatic.

    Args:
        real: Makes the real call.
        shape: The shape of the function that is called.
    """
    if shape is coroutine:

        async def awaited() -> Any:
            with taking_part_here():
                return await real()

        return awaited
    if shape is generator:
        return lambda: stream_taking_part(real())
    if shape is async_generator:
        return lambda: async_stream_taking_part(real())

    def called() -> Any:
        with taking_part_here():
            return real()

    return called


def stream_taking_part(real: Generator[Any, Any, Any]) -> Iterator[Any]:
    """Yield the items of a generator; the session is automatic only while the generator's own code runs.

    Args:
        real: The generator.
    """
    try:
        while True:
            with taking_part_here():
                item = next(real, _END)
            if item is _END:
                return
            yield item
    finally:
        with taking_part_here():
            real.close()


async def async_stream_taking_part(real: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, None]:
    """Like `stream_taking_part`, for an async generator.

    Args:
        real: The generator.
    """
    try:
        while True:
            with taking_part_here():
                item = await anext(real, _END)
            if item is _END:
                return
            yield item
    finally:
        with taking_part_here():
            await real.aclose()
