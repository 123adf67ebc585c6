"""The attempts that one session allows while it keeps the process offline."""

from __future__ import annotations

import functools
import io
import os
import select
import socket
import stat
import sys
import types
from collections.abc import Callable
from os import fstat, listdir  # bound here: watchers that replace these (blockbuster) are about the program, not us
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agenttape_core.errors import NetworkBlockedError
from agenttape_core.guard.caller import in_debugger, is_own
from agenttape_core.guard.handovers import HANDOVERS, OLDER_PROCESS, Age, Handover, moment
from agenttape_core.guard.hosts import LOOPBACK, OF_PROGRAM, SUBPROCESS, Entry, as_ip, is_loopback, normal, parsed
from agenttape_core.guard.immutable import Exchange
from agenttape_core.guard.receives import show_receipt
from agenttape_core.guard.sends import show_send

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable


class Guard:
    """One session's wish to keep the process offline.

    Args:
        name: The session's cassette, for the message.
        allow_hosts: What is still allowed: host names, `*.example.com` for all names below, IP addresses, each with or
            without a port, and the words `loopback` and `subprocess`. While calls are live, they are open inside
            these, and to the rest of the program only with `program:` before them.
        besides: More entries, for the whole program, which don't restrict live calls.
        on_block: Called with each error before it is raised, so that the session fails even if something eats it.
        background: The hosts open to threads outside the program, such as those of tracers.
        in_background: Whether the caller is such a thread.
        is_live: Whether the caller runs for a call that is executed because it is live. Such a call may reach
            everything, or what `allow_hosts` names, if it names any host for live calls.
        has_live: Whether calls of the session are live at all.
        owns_caller: Returns True if the caller is surely part of the session's program: a server beside it may accept
            connections.

    Raises:
        ConfigurationError: An entry of `allow_hosts` is none of these, such as a URL.
    """

    def __init__(
        self,
        *,
        name: str,
        allow_hosts: Collection[str] = (),
        besides: Collection[str] = (),
        on_block: Callable[[NetworkBlockedError], None] | None = None,
        background: Collection[str] = (),
        in_background: Callable[[], bool] = lambda: False,
        is_live: Callable[[], bool] = lambda: False,
        has_live: bool = False,
        owns_caller: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = name
        look()
        self.age = Age(owns_caller)  # the moment at which the session began
        self.is_over = False  # true if the session has ended, and the guard only covers work that it started
        self.on_block = on_block
        self.owns_caller = owns_caller
        entries = [parsed(entry) for entry in allow_hosts]
        self._named = _Hosts([one for one in entries if not one.is_of_program]) if entries else _NO_HOSTS
        of_program = [*[one for one in entries if one.is_of_program], *map(parsed, besides)]
        self._of_program = _Hosts(of_program) if of_program else _NO_HOSTS
        self._background = _Hosts(map(parsed, background)) if background else _NO_HOSTS
        self._in_background = in_background
        self._is_live = is_live
        self._has_live = has_live
        self._has_learned = False
        self._is_restricted = bool(self._named.listed.keys() - {SUBPROCESS})

    @property
    def state(self) -> str:
        """The state of the session for the message of a refusal, with a placeholder for names of cassettes."""
        if self.is_over:
            return "after the replay of {} had ended"
        if self._is_live():
            return "by a live call while {} is replayed with other allowed hosts"
        return "by code outside of the live calls while {} is replayed" if self._has_live else _OFFLINE

    def entry_for(self, host: str, port: int | None) -> str:
        """Return the entry of `allow_hosts` that would allow the caller what this guard refuses."""
        entry = LOOPBACK if is_loopback(normal(host)) else host
        if port is not None and (self._named.ports(normal(host)) | self._of_program.ports(normal(host))) - {None, port}:
            entry = f"[{entry}]:{port}" if ":" in entry else f"{entry}:{port}"  # other ports of it are open already
        return f"{OF_PROGRAM}{entry}" if self._has_live and not self._is_live() else entry

    def names_to_learn(self) -> frozenset[str]:
        """Return the host names that are allowed one by one, the first time that they are needed."""
        if self._has_learned:
            return frozenset()
        self._has_learned = True
        return self._named.single() | self._of_program.single()

    def allows_host(self, host: str, port: int | None = None) -> bool:
        """Return True if the caller may reach a name or address: as listed, or as the answer for a name that is listed.

        `port` is `None` to look up a name, for which the port of an entry does not count.
        """
        host = normal(host)
        if self._of_program.allows(host, port):
            return True
        if self._background.allows(host, port) and self._in_background():
            return True
        return self._lets_pass(is_named=self._named.allows(host, port))

    def allows_word(self, word: str) -> bool:
        """Return True if the caller may use what `loopback` or `subprocess` allows."""
        return self._of_program.has_word(word) or self._lets_pass(is_named=self._named.has_word(word))

    def _lets_pass(self, *, is_named: bool) -> bool:
        if is_named and not self._has_live:
            return True
        return (is_named or not self._is_restricted) and self._is_live()

    def remember(self, host: str, addresses: Collection[str]) -> None:
        """Allow the addresses that were found for a host, if the host is allowed."""
        for hosts in (self._named, self._of_program, self._background):
            hosts.remember(normal(host), addresses)


_OFFLINE = "during an offline replay of {}"


class _Hosts:
    """Hosts with their ports, and the addresses that were found for them."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.listed: dict[str, set[int | None]] = {}  # the ports by the hosts and words
        self._resolved: dict[str, set[int | None]] = {}
        for entry in entries:
            self.listed.setdefault(entry.host, set()).add(entry.port)
        self._below = [(name[1:], ports) for name, ports in self.listed.items() if name.startswith("*.")]

    def single(self) -> frozenset[str]:
        """Return the names of single hosts."""
        names = self.listed.keys() - {LOOPBACK, SUBPROCESS}
        return frozenset(name for name in names if not name.startswith("*.") and as_ip(name) is None)

    def has_word(self, word: str) -> bool:
        """Return True if a word is listed without a port."""
        return None in self.listed.get(word, ())

    def ports(self, host: str) -> set[int | None]:
        """Return the ports of a host that are open; `None` among them means all."""
        found = self.listed.get(host, set()) | self._resolved.get(host, set())
        for suffix, ports in self._below:
            if host.endswith(suffix):
                found = found | ports
        if LOOPBACK in self.listed and is_loopback(host):
            found = found | self.listed[LOOPBACK]
        return found

    def allows(self, host: str, port: int | None) -> bool:
        """Return True if a host is open at a port; with `None`, at any."""
        if not self.listed:
            return False
        ports = self.ports(host)
        return None in ports or (bool(ports) if port is None else port in ports)

    def remember(self, host: str, addresses: Collection[str]) -> None:
        """Open the addresses that were found for a host, in the same way as the host."""
        if self.listed and (ports := self.ports(host)):
            for address in map(normal, addresses):
                self._resolved.setdefault(address, set()).update(ports)


_NO_HOSTS = _Hosts(())  # nothing is ever added to it


# -- Reads and writes on the numbers of older sockets and pipes, shown to whoever watches.


_Identity = tuple[int, int]  # the device and the inode of a descriptor: numbers are given again when they are free

_OPEN = "/proc/self/fd"
_READS, _WRITES = 0o400, 0o200  # the bits by which Linux shows the uses of a descriptor
_STANDARD = 3  # the number of standard streams, which have the first numbers
_OURS = ("multiprocessing.", "multiprocess.", "loky.", "joblib.externals.loky.")
_TEST_OUTPUT = ("_pytest._io", "_pytest.capture", "_pytest.terminal")
"""The modules of packages for processes, and of a test runner, that use their own pipes."""
_PIPES_OF_LOOPS = "asyncio.unix_events"
_SEND, _RECEIVE = "send to", "receive from"
_ADVICE = (
    "a process that is older has no session, so a replay exchanges nothing with it: decorate the function that does\n"
    "  with @boundary, then record again; or allow it: "
)


class _Older:
    """The descriptors that were open when the last session began."""

    def __init__(self) -> None:
        self.all: dict[int, _Identity] = {}
        """Those of sockets, and of pipes that lead to other processes, by their numbers."""
        self.pipes: frozenset[int] = frozenset()
        self.seen: dict[_Identity, int] = {}  # by such a pipe: the moment at which it was first seen
        self.given: set[_Identity] = set()  # the pipes whose other end belongs to whoever started this process


_older = _Older()


def look() -> None:
    """Note the descriptors that are open: a session begins."""
    found: dict[int, _Identity] = {}
    pipes: dict[int, _Identity] = {}
    standard: set[_Identity] = set()
    try:
        names = listdir(_OPEN)  # noqa: PTH208 - in each session
    except OSError:
        return
    for name in names:
        try:
            status = fstat(number := int(name))
        except OSError:
            continue  # that of the folder itself, or closed by another thread
        kind = stat.S_IFMT(status.st_mode)
        if number < _STANDARD:
            standard.add((status.st_dev, status.st_ino))
        elif kind == stat.S_IFSOCK:
            found[number] = status.st_dev, status.st_ino
        elif kind == stat.S_IFIFO:
            pipes[number] = status.st_dev, status.st_ino
    if pipes or _older.pipes:
        leading = {number: one for number, one in pipes.items() if one not in standard and _leads_out(one, pipes)}
        found |= leading
        _older.pipes = frozenset(leading)
        if leading:
            _wrap_streams()
            if HANDOVERS.all:  # another session is open, which may have none
                _streams().swap_in()
    _older.all = found


def _leads_out(one: _Identity, pipes: dict[int, _Identity]) -> bool:
    """Return True if the other end of a pipe belongs to a process that isn't an ancestor of this one."""
    if one in _older.given:
        return False
    modes = [_mode(Path(_OPEN, str(number))) for number, other in pipes.items() if other == one]
    if all(any(mode & bit for mode in modes) for bit in (_READS, _WRITES)):
        return False
    if one not in _older.seen:
        other = _READS if any(mode & _WRITES for mode in modes) else _WRITES
        if _is_held_above(f"pipe:[{one[1]}]", other):
            _older.given.add(one)
            return False
        _older.seen[one] = moment()
    return True


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except OSError:
        return 0


def _is_held_above(link: str, mode: int) -> bool:
    """Return True if one end of a pipe belongs to an ancestor of this process, or to another child of one.

    Such a pipe was there before this process: a test runner keeps a copy of a standard stream, which a shell may have
    connected with another program.
    """
    process = os.getppid()
    while process > 0:
        others = _children(process) if process > 1 else ()  # the first one also adopts what our own processes leave
        if any(_holds(holder, link, mode) for holder in (process, *others)):
            return True
        process = _parent(process)
    return False


def _holds(process: int | str, link: str, mode: int) -> bool:
    try:
        paths = list(Path(f"/proc/{process}/fd").iterdir())
        return any(_mode(path) & mode and str(path.readlink()) == link for path in paths)
    except OSError:
        return False  # it's another user's, or has ended


def _children(process: int) -> list[str]:
    try:
        lists = [thread / "children" for thread in Path(f"/proc/{process}/task").iterdir()]
        return [child for path in lists for child in path.read_text().split() if int(child) != os.getpid()]
    except OSError:
        return []


def _parent(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


_USES: dict[str, list[tuple[int, str, str]]] = {
    "write": [(0, "fd", _SEND)],
    "writev": [(0, "fd", _SEND)],
    "sendfile": [(0, "out_fd", _SEND)],
    "read": [(0, "fd", _RECEIVE)],
    "readv": [(0, "fd", _RECEIVE)],
    "splice": [(0, "src", _RECEIVE), (1, "dst", _SEND)],
}
"""By function of `os`: the place, the name and the use of each descriptor among its arguments."""


@functools.cache
def _wrap_streams() -> None:
    """Wrap the methods of file objects while someone watches, once there's a pipe that leads to another process."""

    def swap_in() -> None:
        if _older.pipes:
            _streams().swap_in()

    HANDOVERS.exchange(swap_in, _streams().swap_out)


@functools.cache
def _streams() -> Exchange:
    """Return the methods of file objects. What is written to one is buffered, and may leave it after the session."""
    writing: list[type] = [io.FileIO, io.BufferedWriter, io.TextIOWrapper]
    return Exchange(
        [
            *((cls, "write", _showing_stream(_SEND, vars(cls)["write"])) for cls in writing),
            *((io.FileIO, name, _showing_stream(_RECEIVE, vars(io.FileIO)[name])) for name in _READING),
        ]
    )


_READING = ("read", "readall", "readinto")


def _showing(uses: list[tuple[int, str, str]], real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of `os`."""

    @functools.wraps(real)
    def function(*args: Any, **kwargs: Any) -> Any:
        older = _older.all
        if older and HANDOVERS.all:
            for place, name, use in uses:
                number = args[place] if len(args) > place else kwargs.get(name)
                if type(number) is int and number in older:
                    try:
                        _show(use, number, older[number])
                    except NetworkBlockedError:
                        if use == _RECEIVE and _is_of_loop():
                            return b""  # the end of it: the loop would call again and again
                        raise
        return real(*args, **kwargs)

    return function


def _showing_stream(use: str, real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of file objects."""

    @functools.wraps(real)
    def method(self: Any, *args: Any) -> Any:
        pipes = _older.pipes
        if (
            pipes
            and HANDOVERS.all
            and (number := _number(self)) in pipes
            and (one := _older.all.get(number)) is not None
        ):
            try:
                _show(use, number, one)
            except BaseException:
                args = ()  # Python 3.12 crashes if the garbage collector finds a buffer in a traceback
                raise
        return real(self, *args)

    return method


def _number(stream: Any) -> int:
    try:
        number: int = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return -1  # it's closed, detached, or in memory
    return number


def _show(use: str, number: int, one: _Identity) -> None:
    try:
        status = fstat(number)
    except OSError:
        return  # the real call fails as well
    if (status.st_dev, status.st_ino) != one or _is_excused():
        return
    since = _older.seen.get(one)
    if since is not None:
        if use == _RECEIVE and _brings_nothing(number):
            return
        is_beside = use == _RECEIVE and not _is_of_loop()

        def is_older(age: Age) -> bool:
            # A thread beside the session may read on: from the log of a server, for example.
            return not age.precedes(since) and (age.owns_caller() or not is_beside)

        for watcher in HANDOVERS.all:
            watcher(Handover(use, OLDER_PROCESS, is_older, _ADVICE))
        return
    with socket.socket(fileno=os.dup(number)) as sock:
        if use == _SEND:
            show_send(sock)
        else:
            show_receipt(sock)


def _brings_nothing(number: int) -> bool:
    """Return True if a pipe has no data, and its reader doesn't wait for any: the other end is closed, for example."""
    looking = select.poll()
    looking.register(number, select.POLLIN)
    events = dict(looking.poll(0)).get(number, 0)
    return not events & select.POLLIN and (bool(events) or not os.get_blocking(number))


def _is_excused() -> bool:
    return _caller().startswith((*_OURS, *_TEST_OUTPUT)) or in_debugger()


def _is_of_loop() -> bool:
    return _caller() == _PIPES_OF_LOOPS


def _caller() -> str:
    """Return the module of the innermost code that isn't ours."""
    frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001 - gives the stack without building a list
    while frame is not None and is_own(frame):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")) if frame is not None else ""


for _name, _uses in _USES.items():
    if hasattr(os, _name):
        HANDOVERS.patch(os, _name, functools.partial(_showing, _uses))
