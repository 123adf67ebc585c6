"""Work that this process hands to its other processes and interpreters, shown to whoever watches.

A child that starts within a session gets the session (see `lifecycle.children`). One that's older has none: the workers
of a pool that a module made, a manager of a fixture. What goes there raises no audit event, as it's written to a pipe
that is open already. So while someone watches, these are wrapped, in `multiprocessing` and its copy `multiprocess`:

- the ways by which a program's own thread hands work over: pools, executors (joblib's too), `Queue.put`. Threads of
  theirs do the writing; a refusal in one of these would leave the program waiting forever;
- `Connection`, to which all else comes down: pipes, simple queues, managers' proxies;
- the functions that run code in another interpreter of this process, or exchange data with one.

Nothing is imported for this: a module is wrapped when the program has imported it.

A pipe alone leads nowhere. So an older pipe counts only if this process also has a child that's older than the session.
A process that `multiprocessing` has started may therefore open a session and report to its parent.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import sys
import types
import weakref
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from agenttape_core.guard.caller import is_library, is_own
from agenttape_core.guard.imports import ImportFinder
from agenttape_core.guard.patching import Watchers, Wrappers
from agenttape_core.named_tuples import NamedTuple

_FAMILIES = ("multiprocessing", "multiprocess")
_EXECUTORS = ("concurrent.futures.process", "joblib.externals.loky.process_executor", "loky.process_executor")

_numbers = itertools.count(1)
_born: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
"""By a connection that was made under a watcher: its moment, numbered on the same scale as the ages."""
_forked: dict[int, int] = {}  # the same by the number of a forked process, which the system may give to a later one


def moment() -> int:
    """Return a number that is greater than all before: a clock that orders events."""
    return next(_numbers)


class Age:
    """The moment at which a session begins, and the child processes that are there already.

    `owns_caller` returns True if the caller is surely part of the session's program.
    """

    def __init__(self, owns_caller: Callable[[], bool]) -> None:
        self.owns_caller = owns_caller
        self._since = next(_numbers)
        self._children = weakref.WeakSet(_children(is_alive=True))

    def has_child(self) -> bool:
        """Return True if any child of this process is older."""
        return bool(self._children)

    def has_any(self, processes: Collection[Any]) -> bool:
        """Return True if any of these children is older."""
        return bool(self._children) and any(process in self._children for process in processes)

    def precedes(self, other: int) -> bool:
        """Return True if this moment came before another one."""
        return other > self._since

    def precedes_process(self, pid: int) -> bool:
        """Return True if this process has started a process after this moment, by `multiprocessing` or by a fork."""
        if self.precedes(_forked.get(pid, 0)):
            return True
        return any(child.pid == pid and child not in self._children for child in _children())


class Handover(NamedTuple):
    """Work or data that's about to be handed over."""

    verb: str  # the word for it, as it follows "an attempt to"
    to: str  # the words for what gets it
    is_older: Callable[[Age], bool]  # returns True if what gets it has no session, as it's older than this age
    advice: str  # the remedy for the user, which ends before an option that allows it


Watcher = Callable[[Handover], object]
"""Called before each of them, in its thread and context; if it raises, the handover is refused."""

OLDER_PROCESS = "a process that is older than the session"
_IN_BLOCK = (
    "make it inside the block, or in a fixture that starts after the session: processes that start in a replay use\n"
    "  the same cassette; or allow it: "
)


def to_interpreter(verb: str) -> Handover:
    """Return the handover to another interpreter of this process: none of them has a session."""
    advice = "another interpreter has neither the cassette nor the guard: run this code in the main one, or allow it: "
    return Handover(verb, "another interpreter", lambda _: True, advice)


class _Wrapped:
    """The modules that are wrapped: those that are there, and each that the program imports while someone watches."""

    def __init__(self) -> None:
        self._wrappers = Wrappers()
        self._modules: dict[str, Any] = {}
        self._finder = ImportFinder(lambda name: name in _WRAPS, self._wrap)

    def install(self, wrappers: Wrappers) -> None:
        self._wrappers = wrappers
        for name in ("fork", "forkpty"):
            if hasattr(os, name):
                wrappers.patch(os, name, _forking)
        wrappers.exchange(self._look, self._leave)

    def _look(self) -> None:
        sys.meta_path.insert(0, self._finder)
        modules = sys.modules
        for name in _WRAPS:
            # What another thread imports right now does not have all of its parts yet.
            module = modules.get(name)
            if module is not None and not getattr(module.__spec__, "_initializing", False):
                self._wrap(name)

    def _leave(self) -> None:
        if self._finder in sys.meta_path:  # else a test tool has put the list back
            sys.meta_path.remove(self._finder)
        _forked.clear()

    def _wrap(self, name: str) -> None:
        module = sys.modules[name]
        if self._modules.get(name) is not module:  # another one, if it was loaded anew
            self._modules[name] = module
            _WRAPS[name](module, self._wrappers.patch)


HANDOVERS: Watchers[Watcher] = Watchers(_Wrapped().install)
"""Each of them is shown all that's handed to other processes and interpreters. It doesn't happen if one raises."""


def _connections(module: Any, patched: Callable[..., None]) -> None:
    patched(module._ConnectionBase, "__init__", _noting)  # noqa: SLF001 - it is that of all of them
    # Each way to send or receive asks one of these first. Later there is a buffer: Python 3.12 crashes if the garbage
    # collector finds one in the traceback of a refusal.
    for name, verb in (("_check_writable", "send to"), ("_check_readable", "receive from")):
        patched(module._ConnectionBase, name, partial(_through, verb))  # noqa: SLF001
    if "SocketClient" in vars(module):
        patched(module, "SocketClient", _connecting)


def _queues(module: Any, patched: Callable[..., None]) -> None:
    for cls in (module.Queue, module.JoinableQueue, module.SimpleQueue):
        patched(cls, "put", _putting)


def _pools(module: Any, patched: Callable[..., None]) -> None:
    # Each way to submit to a pool checks first that it's running. Its workers are threads in a `ThreadPool`.
    patched(module.Pool, "_check_running", partial(_submitting, lambda pool: list(pool._pool)))  # noqa: SLF001


def _executors(module: Any, patched: Callable[..., None]) -> None:
    patched(module.ProcessPoolExecutor, "submit", partial(_submitting, _workers))


def _workers(executor: Any) -> Collection[Any]:
    return list((executor._processes or {}).values())  # noqa: SLF001 - it is `None` after a shutdown


_USES = {
    "create": "start",
    **dict.fromkeys(("run_string", "run_func", "exec", "call"), "run code in"),
    **dict.fromkeys(("send", "send_buffer", "put", "channel_send"), "send to"),
    **dict.fromkeys(("recv", "get", "channel_recv"), "receive from"),
}
"""The functions of the modules of interpreters, in all versions of Python, and their names in messages."""


def _interpreters(module: Any, patched: Callable[..., None]) -> None:
    for name, verb in _USES.items():
        if name in vars(module):
            patched(module, name, partial(_using_interpreter, verb))


_WRAPS: dict[str, Callable[[Any, Callable[..., None]], None]] = {
    **{f"{family}.connection": _connections for family in _FAMILIES},
    **{f"{family}.queues": _queues for family in _FAMILIES},
    **{f"{family}.pool": _pools for family in _FAMILIES},
    **dict.fromkeys(_EXECUTORS, _executors),
    **dict.fromkeys(("_interpreters", "_interpchannels", "_interpqueues"), _interpreters),
    **dict.fromkeys(("_xxsubinterpreters", "_xxinterpchannels"), _interpreters),
}
"""By the name of a module: the function that wraps its parts."""

_CARRYING = frozenset(
    f"{family}.{module}" for family in _FAMILIES for module in ("connection", "managers", "queues", "reduction")
)
_JUDGED_BEFORE = frozenset({*_EXECUTORS, *(f"{family}.pool" for family in _FAMILIES)})
"""The modules whose threads carry work that was judged when the program submitted it."""
_FEEDER = "_feed"
_COUNTING = frozenset({"_decref", "_incref", "_finalize_manager"})
"""The functions of a proxy that count references: the garbage collector calls them, at any time."""


def _is_of_program() -> bool:
    """Return True if the program uses a connection or a queue, rather than a thread of a pool, or a counter."""
    frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001 - gives the stack without building a list
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if module in _JUDGED_BEFORE:
            return False
        if module in _CARRYING:
            name = frame.f_code.co_name
            if name in _COUNTING or (name == _FEEDER and str(module).endswith(".queues")):
                return False
        elif not is_own(frame):
            return True
        frame = frame.f_back
    return True


def is_for_interpreters(pool: Any) -> bool:
    """Return whether the threads of a pool run code in other interpreters; then show that there is work for these."""
    module: Any = sys.modules.get("concurrent.futures.interpreter")
    if module is None or not isinstance(pool, module.InterpreterPoolExecutor):
        return False
    if HANDOVERS.all:
        _show(to_interpreter("run code in"))
    return True


def _show(handover: Handover) -> None:
    for watcher in HANDOVERS.all:
        watcher(handover)


def _noting(real: Callable[..., None]) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes the method of that name
        real(self, *args, **kwargs)
        _born[self] = moment()

    return __init__


def _leads_to_older(connection: Any, age: Age) -> bool:
    return age.has_child() and not age.precedes(_born.get(connection, 0))


def _through(verb: str, real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of a connection."""

    def method(self: Any, *args: Any) -> Any:
        if HANDOVERS.all and _is_of_program():
            _show(Handover(verb, OLDER_PROCESS, partial(_leads_to_older, self), _IN_BLOCK))
        return real(self, *args)

    return method


def _putting(real: Callable[..., None]) -> Callable[..., None]:
    """Wrap the method of a queue that lets a thread send, or that fills its buffer first."""

    def put(self: Any, *args: Any, **kwargs: Any) -> None:
        if HANDOVERS.all and _is_of_program():
            _show(Handover("send to", OLDER_PROCESS, partial(_leads_to_older, self._writer), _IN_BLOCK))
        real(self, *args, **kwargs)

    return put


def _submitting(workers_of: Callable[[Any], Collection[Any]], real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method by which work is submitted."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if HANDOVERS.all:
            workers = workers_of(self)
            to = f"a {type(self).__name__} whose processes are older than the session"
            _show(Handover("hand work to", to, lambda age: age.has_any(workers), _IN_BLOCK))
        return real(self, *args, **kwargs)

    return method


def _connecting(real: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap the function that connects with a manager, or with another process that listens."""

    def connect(address: Any) -> Any:
        connection = real(address)
        if HANDOVERS.all and not isinstance(address, tuple) and _is_of_program():  # others were judged as hosts
            pid = _peer(connection)
            try:
                _show(Handover("connect to", OLDER_PROCESS, lambda age: _is_beyond(pid, age), _IN_BLOCK))
            except BaseException:
                connection.close()
                raise
        return connection

    return connect


def _peer(connection: Any) -> int | None:
    """Return the process that listens at the other end of a Unix socket, if the system provides it: on Linux."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    with socket.socket(fileno=os.dup(connection.fileno())) as sock:
        return int(struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))[0])


def _is_beyond(pid: int | None, age: Age) -> bool:
    """Return True if a process is none of the session: it is an older child, or someone else's."""
    if pid is None:
        return age.has_child()
    if pid == os.getpid():
        return False
    own = next((child for child in _children() if child.pid == pid), None)
    if own is not None:
        return age.has_any([own])
    return age.has_child() or not _is_child()


def _forking(real: Callable[[], Any]) -> Callable[[], Any]:
    def fork() -> Any:
        answer = real()
        pid = answer[0] if isinstance(answer, tuple) else answer  # of `forkpty`
        if pid:
            _forked[pid] = moment()
        return answer

    return fork


def ends_workers() -> bool:
    """Return True if a pool, an executor or a manager ends its own processes, by a call or by garbage collection."""
    frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001 - gives the stack without building a list
    while frame is not None and (is_own(frame) or is_library(frame.f_code.co_filename)):
        module, name = str(frame.f_globals.get("__name__")), frame.f_code.co_name
        if module in _JUDGED_BEFORE or name in _COUNTING or name == "__del__" or "loky.backend" in module:
            return True
        frame = frame.f_back
    return False


def _using_interpreter(verb: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def use(*args: Any, **kwargs: Any) -> Any:
        if HANDOVERS.all:
            _show(to_interpreter(verb))
        return real(*args, **kwargs)

    return use


def _children(*, is_alive: bool = False) -> list[Any]:
    """Return the processes that this one has started; those that have ended are left out on request."""
    found: list[Any] = []
    for family in _FAMILIES:
        module: Any = sys.modules.get(f"{family}.process")
        # The only list: the function waits for those that have ended. Another thread may just be importing the module.
        if children := getattr(module, "_children", None):
            found += module.active_children() if is_alive else list(children)
    return found


def _is_child() -> bool:
    """Return True if `multiprocessing` has started this process."""
    modules = (sys.modules.get(f"{family}.process") for family in _FAMILIES)
    parents = (getattr(module, "parent_process", None) for module in modules)  # another thread may be importing it
    return any(parent is not None and parent() is not None for parent in parents)
