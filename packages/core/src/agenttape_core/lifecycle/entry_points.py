"""Find the installed integrations, and connect them while a session is open."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from importlib.metadata import Distribution, EntryPoint, distribution, distributions
from itertools import chain
from threading import local

from agenttape_core.errors import AgentTapeError, AgentTapeHalt, ConfigurationError
from agenttape_core.guard.imports import ImportFinder
from agenttape_core.locks import RLock
from agenttape_core.on_demand import WAITING, load_late

GROUP = "agenttape.integrations"
SERVER_GROUP = "agenttape.tool_servers"  # the group of what tapes clients of tool servers
HTTP_GROUP = "agenttape.http_clients"  # the group of what tapes HTTP clients, in sessions that record HTTP


class Integrations:
    """The installed integrations, connected while at least one session is open. Reference-counted, thread-safe.

    `groups` are of entry points, by default the frameworks' group.
    """

    def __init__(self, *groups: str) -> None:
        self._groups = groups or (GROUP,)
        self._lock = RLock()
        self._open = 0
        self._stack = ExitStack()
        self._waiting: dict[str, list[EntryPoint]] = {}
        self._finder = ImportFinder(self._is_waiting_for, self._imported)

    def connect(self) -> None:
        """Connect the integrations of every framework that is imported, and watch for the imports of the others."""
        with self._lock:
            if self._open == 0:
                self._connect_all()
            self._open += 1
            try:
                self._catch_up()
            except BaseException:
                self.disconnect()
                raise

    def _connect_all(self) -> None:
        self._waiting.clear()  # of an attempt that failed
        with ExitStack() as stack:
            for point in dict.fromkeys(chain.from_iterable(map(_installed, self._groups))):
                if point.name in sys.modules:
                    _connect(point, stack)
                else:
                    self._waiting.setdefault(point.name, []).append(point)
            stack.callback(self._watch_no_more)
            self._stack = stack.pop_all()

    def _catch_up(self) -> None:
        """Connect frameworks that were imported before, and watch for the rest.

        An integration may have imported it, or something has put back the finders of before, such as a test tool.
        """
        modules = sys.modules
        for module in [module for module in self._waiting if module in modules]:
            if _is_imported(module):
                self._imported(module)
        if self._waiting and self._finder not in sys.meta_path:
            sys.meta_path.insert(0, self._finder)

    def _watch_no_more(self) -> None:
        if self._finder in (sys.meta_path or ()):  # there is none while Python ends
            sys.meta_path.remove(self._finder)

    def disconnect(self) -> None:
        """Undo `connect`; the last one disconnects for good."""
        with self._lock:
            self._open -= 1
            if self._open == 0:
                self._waiting.clear()
                self._stack.close()

    def _is_waiting_for(self, module: str) -> bool:
        return module in self._waiting

    def _imported(self, module: str) -> None:
        """Connect what waited for a framework. If that fails, its import does, and fails again when tried again.

        The program may catch that, so all watchers are notified as well.
        """
        waiting: list[EntryPoint] = []
        try:
            with self._lock:
                waiting = self._waiting.pop(module, []) if self._open else []
                while waiting:
                    _connect(waiting[0], self._stack)
                    del waiting[0]
        except BaseException as error:
            self._waiting[module] = waiting
            for watcher in tuple(_watchers):  # without the lock: one may end the process, and so its session
                watcher(error)
            raise


def _connect(point: EntryPoint, stack: ExitStack) -> None:
    """Connect an integration until a stack is closed. Raises `ConfigurationError` if its code has raised."""
    try:
        stack.enter_context(_loaded(point)())
    except (AgentTapeError, AgentTapeHalt, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit, too, by which a program would end well
        raise ConfigurationError(
            f"the integration for {point.name} ({point.value}) cannot be connected: {type(error).__name__}: {error}\n"
            "  nothing of it would be recorded or replayed: update it, or uninstall its distribution"
        ) from error


_watchers: list[Callable[[BaseException], object]] = []
"""Called with the error of an integration that is connected when its framework is imported, in the middle of a run."""


def watch_broken(watcher: Callable[[BaseException], object]) -> None:
    """Call a function with the error of an integration that is connected in the middle of a run."""
    _watchers.append(watcher)


def _is_imported(module: str) -> bool:
    """Return whether a module has run to its end: the finder reports one that is running now."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return module in sys.modules and not getattr(spec, "_initializing", False)


def load_integration(framework: str) -> None:
    """Import the integration of a framework, if one is installed, so that it makes its registrations.

    Args:
        framework: The name of the framework's module, as its entry point has it.
    """
    for point in _installed(GROUP):
        if point.name == framework:
            _loaded(point)


def _loaded(point: EntryPoint) -> Callable[[], AbstractContextManager[None]]:
    """Import an integration, with its deferred parts.

    One may be imported in the middle of another one's import, whose framework uses an HTTP client: the deferred parts
    wait for the end of that.
    """
    is_inside, _loading.is_under_way = getattr(_loading, "is_under_way", False), True
    try:
        connecting: Callable[[], AbstractContextManager[None]] = point.load()
    finally:
        _loading.is_under_way = is_inside
    if WAITING and not is_inside:
        load_late()
    return connecting


_loading = local()  # the mark of a thread that is importing an integration


@cache
def _installed(group: str) -> tuple[EntryPoint, ...]:
    return tuple(point for point in _all_installed() if point.group == group)


@cache
def _all_installed() -> tuple[EntryPoint, ...]:
    """Return the entry points of all distributions that have some for us.

    `importlib.metadata.entry_points` also parses those of all others, once for each group: 50 ms in a large
    environment. If two distributions have the same name, the first one on the path counts, as it does there.
    """
    ours = (each for each in distributions() if _OURS in (each.read_text("entry_points.txt") or ""))
    names = dict.fromkeys(map(_name_of, ours))
    return tuple(point for name in names for point in distribution(name).entry_points)


def _name_of(found: Distribution) -> str:
    """Return the name of a distribution; to parse all of its metadata takes ten times as long."""
    return (found.read_text("METADATA") or "").partition("\nName: ")[2].partition("\n")[0] or found.name


_OURS = "[agenttape."  # the beginning of all of our groups, as the file of a distribution has them


def installed_names() -> frozenset[str]:
    """Return the modules for which an integration is installed."""
    return frozenset(point.name for point in _installed(GROUP))


integrations = Integrations(GROUP, SERVER_GROUP)  # the integrations of this process

http_clients = Integrations(HTTP_GROUP)  # the integrations of HTTP clients, for sessions that record HTTP
