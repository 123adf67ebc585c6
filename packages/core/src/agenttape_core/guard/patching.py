"""Functions that are wrapped for a while, again and again, beside other tools that wrap the same ones.

`Wrappers` are in place as long as they have a user, and `Watchers` are users that observe calls.

Nothing of ours stays where no session is open. But the wrappers of a session are made once, and put in again by loops
that call none of our functions, as long as the wrapped functions are the same.

Whoever wraps a function later, and is done later, puts ours back when our time is over: the mock of a test, a detector
of blocking calls, an instrumentor. Then it's inactive, but the next one must not be put around it. Else each session of
a suite adds one, until a call has as many frames as Python allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from types import FunctionType
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from agenttape_core.locks import RLock

WatcherT = TypeVar("WatcherT")
_ABSENT = object()


class Left:
    """Our wrappers that other code may put back after their time, with the function below each."""

    def __init__(self) -> None:
        self._below: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

        self.any = False  # true if there may be any; read on each call of a wrapped function

    def add(self, ours: Any, below: Any) -> None:
        """Note that someone else's wrapper replaces `ours`, which had replaced the function `below`."""
        if isinstance(ours, FunctionType):  # nothing else can be referred to weakly
            self._below[ours] = below
            self.any = True

    def discard(self, ours: Any) -> None:
        """Note that a wrapper is put in by us."""
        if isinstance(ours, FunctionType):
            self._below.pop(ours, None)
            self.any = bool(self._below)

    def below(self, found: Any) -> Any:
        """Return a function without the wrappers of ours that were left around it."""
        while isinstance(found, FunctionType) and found in self._below:
            found = self._below[found]
        return found


_left = Left()


class _Wrapper:
    """A function that is wrapped, and its wrapper. `owner` is the class or module; `wrap` makes the wrapper."""

    __slots__ = ("before", "get", "inherited", "is_left", "name", "ours", "owner", "wrap")

    def __init__(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        self.owner = owner
        self.name = name
        self.wrap = wrap
        self.get = vars(owner).get
        self.inherited: Any = None
        self.before: Any = _ABSENT
        self.ours: Any = None
        self.is_left = False  # true if another wrapper was in its place when it was to be removed

    def returns(self) -> None:
        """Note that it is put in by us again."""
        self.is_left = False
        _left.discard(self.ours)

    def look(self) -> None:
        """Make the wrapper of the current function, unless it has been made."""
        before = _left.below(self.get(self.name, _ABSENT))
        inherited = _inherited(self.owner, self.name) if before is _ABSENT else None
        if self.ours is None or before is not self.before or inherited is not self.inherited:
            self.before, self.inherited, self.is_left = before, inherited, False
            self.ours = self.wrap(inherited if before is _ABSENT else before)


class _Join:
    """One more watcher, as a step. Sessions nest several, so it has no wrapper function itself."""

    __slots__ = ("watcher", "watchers")

    def __init__(self, watchers: Watchers[Any], watcher: Any) -> None:
        self.watchers = watchers
        self.watcher = watcher


_Step = _Wrapper | _Join | tuple[Callable[[], object], Callable[[], object]]


class Wrappers:
    """Wrappers of functions and replaced values, in place as long as they have a user. Thread-safe.

    They are a reentrant context manager. A wrapper must not refer to anything that ends with a session.

    Args:
        install: Adds them; called once, with these, when the first one comes who needs them.
    """

    def __init__(self, install: Callable[[Wrappers], object] | None = None) -> None:
        self.install = install
        """Adds them; `None` once that is done."""
        self.lock = RLock()
        """Held while they are put in and taken out."""
        self.steps: list[_Step] = []
        """All that is put in, in this order."""
        self.is_in = False
        """True while they are in place."""
        self._uses = 0

    def patch(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        """Have a function wrapped. It is put back, unless someone else has replaced the wrapper.

        Args:
            owner: The class or module.
            name: The name of the function.
            wrap: Makes the wrapper of the function; called again when another one is there.
        """
        self.add_step(_Wrapper(owner, name, wrap))

    def exchange(self, swap_in: Callable[[], object], swap_out: Callable[[], object]) -> None:
        """Have something done when they are put in, and undone when they are taken out."""
        self.add_step((swap_in, swap_out))

    def enter(self, context: AbstractContextManager[object]) -> None:
        """Have a context around that may be entered again when it has been left."""
        self.exchange(context.__enter__, partial(context.__exit__, None, None, None))

    def hold(self, make: Callable[[], AbstractContextManager[object]]) -> None:
        """Have a context around, made again each time."""
        entered = ExitStack()
        self.exchange(lambda: entered.enter_context(make()), entered.close)

    def __enter__(self) -> None:
        with self.lock:
            if not self._uses:
                _put_in(self.steps, self)
            self._uses += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self._uses -= 1
            if not self._uses:
                self.is_in = False
                _take_out(self.steps)

    def add_step(self, step: _Step) -> None:
        """Have one more step: done now if they are in place."""
        with self.lock:
            self.steps.append(step)
            if self.is_in:
                _put_in([step])


class Watchers(Wrappers, Generic[WatcherT]):
    """Those that watch one thing of this process, and the wrappers that are in place while there are any. Thread-safe.

    `install` adds the watching functions; it's called once, for the first watcher.
    """

    def __init__(self, install: Callable[[Wrappers], object]) -> None:
        super().__init__(install)
        self.all: tuple[WatcherT, ...] = ()

    def within(self, wrappers: Wrappers, watcher: WatcherT) -> None:
        """Have one more while wrappers are in place."""
        wrappers.add_step(_Join(self, watcher))

    @contextmanager
    def including(self, watcher: WatcherT) -> Iterator[None]:
        """Have one more during the block. Blocks may nest and overlap in any threads."""
        joined = (_Join(self, watcher),)
        _put_in(joined)
        try:
            yield
        finally:
            _take_out(joined)


def _put_in(steps: Iterable[_Step], wrappers: Wrappers | None = None) -> None:  # noqa: C901 - a call less for each step
    """Put in all steps, or none of them. `wrappers` are those that they are all steps of."""
    if wrappers is not None and wrappers.install is not None:
        install, wrappers.install = wrappers.install, None
        install(wrappers)
    try:
        for step in steps:
            if type(step) is tuple:
                step[0]()
                continue
            if type(step) is _Join:
                watchers = step.watchers
                with watchers.lock:
                    if not watchers.all:
                        _put_in(watchers.steps, watchers)
                    watchers.all = (*watchers.all, step.watcher)
                continue
            assert isinstance(step, _Wrapper)
            found = step.get(step.name, _ABSENT)
            if found is step.ours:  # somebody has put it back, whose time was over later than ours
                step.returns()
                continue
            if found is not step.before or (found is _ABSENT and getattr(step.owner, step.name) is not step.inherited):
                step.look()
            if step.is_left:
                step.returns()
            setattr(step.owner, step.name, step.ours)
    except BaseException:
        _take_out([*steps])
        raise
    if wrappers is not None:
        wrappers.is_in = True


def _take_out(steps: Sequence[_Step]) -> None:
    for step in reversed(steps):
        if type(step) is tuple:
            step[1]()
            continue
        if type(step) is _Join:
            watchers, watcher = step.watchers, step.watcher
            with watchers.lock:
                left = list(watchers.all)
                for at, other in enumerate(left):
                    if other is watcher:
                        del left[at]
                        watchers.all = tuple(left)
                        if not left:
                            watchers.is_in = False
                            _take_out(watchers.steps)
                        break
            continue
        assert isinstance(step, _Wrapper)
        if step.get(step.name, _ABSENT) is step.ours:
            if step.before is _ABSENT:
                delattr(step.owner, step.name)
            else:  # without a wrapper of ours that was to be removed while this one was around it
                setattr(step.owner, step.name, _left.below(step.before) if _left.any else step.before)
        elif step.ours is not None:
            step.is_left = True
            _left.add(step.ours, step.before)


def _inherited(owner: Any, name: str) -> Any:
    return next(vars(cls)[name] for cls in owner.__mro__[1:] if name in vars(cls))
