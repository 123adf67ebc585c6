"""The words for the imminent side effect of an audit event."""

from __future__ import annotations

import contextlib
import os
import stat
from os import getcwd, lstat
from os import stat as stat_of  # bound here: watchers that replace these (blockbuster) are about the program, not us
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_ANONYMOUS = getattr(os, "O_TMPFILE", 0) & ~getattr(os, "O_DIRECTORY", 0)
_DEVICES, _FILES_IN_DEVICES = ("/dev/", "/proc/self/fd/"), ("/dev/shm/", "/dev/mqueue/")  # noqa: S108 - others write there
"""Paths that aren't files: terminals, the null device, descriptors. What is in `/dev/shm` is a file like any other."""
_PRINTING = (1, 2)  # the descriptors of standard output and error
_READING_MAPS = (1, 3)
"""The kinds of access to a mapped file that leave it as it is: `mmap.ACCESS_READ` and `mmap.ACCESS_COPY`."""
IN_MEMORY = "opened a database in memory"
"""The words for an event that isn't a side effect, and shows that no older database was needed."""
_HERE = -1  # the number of a folder in an event that is about a path of the working folder


def shown(path: Any) -> str:
    """Return the name of a path: relative to the working folder if it is in there, else without its folders."""
    full = _absolute(path)
    with contextlib.suppress(OSError):  # the working folder may be gone
        here = getcwd()
        if full.startswith(here + os.sep):
            return full[len(here) + 1 :].replace(os.sep, "/")
    return os.path.basename(full)


def _absolute(path: Any) -> str:
    name = os.fsdecode(path)
    return os.path.normpath(name if os.path.isabs(name) else os.path.join(getcwd(), name))


def _is_folder(path: Any) -> bool:
    try:
        return stat.S_ISDIR(stat_of(path).st_mode)
    except (OSError, ValueError):
        return False


def _is_there(path: Any) -> bool:
    try:
        lstat(path)
    except (OSError, ValueError):
        return False
    return True


def _is_path(path: Any) -> bool:
    return isinstance(path, str | bytes | os.PathLike)


def _is_file_of_others(file: Any) -> bool:
    """Return whether a descriptor, or a path of one, leads to a file with a name to which the program doesn't print."""
    status = stat_of(file)
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 0 and not _is_printed_to(status)


def _is_printed_to(status: os.stat_result) -> bool:
    for number in _PRINTING:
        with contextlib.suppress(OSError):  # it is closed
            if os.path.samestat(status, stat_of(number)):
                return True
    return False


def _opened(path: Any, mode: Any, flags: Any) -> str | None:
    writes = bool(flags & _WRITING) if isinstance(flags, int) else bool(set(str(mode)) & set("wax+"))
    if isinstance(path, int):  # a file object is made of a descriptor, as `os.fdopen` does
        return "wrote an open file" if writes and _is_file_of_others(path) else None
    if not writes or not _is_path(path):
        return None
    if _ANONYMOUS and isinstance(flags, int) and flags & _ANONYMOUS:
        return None  # a file without a name, which nobody else can see
    text = os.fsdecode(path)
    if text.startswith(_DEVICES) and not text.startswith(_FILES_IN_DEVICES):
        return "wrote an open file" if _is_there(path) and _is_file_of_others(path) else None
    if _is_folder(path):  # it isn't written to by opening it
        return None
    return f"wrote {_file(path)}"


def _mapped(number: int, _length: int, access: int, *_: Any) -> str | None:
    """Name the writing of a file, or of shared memory, through a map of it."""
    if number < 0 or access in _READING_MAPS or not _is_file_of_others(number):
        return None
    return "mapped an open file for writing"


def named_file(name: Any) -> str:
    """Return the words for a file by the name of its object, which may be a number."""
    return _file(name) if _is_path(name) else "a file"


def _file(path: Any) -> str:
    return "a temporary file" if _temporary.holds(path) else shown(path)


def _folder(path: Any) -> str:
    return "a temporary folder" if _temporary.holds(path) else f"the folder {shown(path)}"


class _Temporary:
    """The names that `tempfile` has drawn: they differ in each run, and must not make a recording differ."""

    _MOST = 1000

    def __init__(self) -> None:
        self._drawn: dict[str, None] = {}

    def drawn(self, path: Any) -> None:
        self._drawn[_absolute(path)] = None
        if len(self._drawn) > self._MOST:
            self._drawn.pop(next(iter(self._drawn)), None)

    def holds(self, path: Any) -> bool:
        if not self._drawn:
            return False
        full = _absolute(path)
        return full in self._drawn or os.path.dirname(full) in self._drawn


_temporary = _Temporary()


def _on(verb: str, path: Any, folder: Any = _HERE, name: Callable[[Any], str] = _file) -> str | None:
    """Name a side effect on a path that has to exist."""
    if isinstance(path, int):
        return f"{verb} an open file"
    if not _is_path(path) or (folder in (_HERE, None) and not _is_there(path)):
        return None
    return f"{verb} {name(path)}"


def _removed(path: Any, folder: Any = _HERE) -> str | None:
    return _on("removed", path, folder)


def _removed_folder(path: Any, folder: Any = _HERE) -> str | None:
    return _on("removed", path, folder, _folder)


def _made_folder(path: Any, _mode: Any = 0, folder: Any = _HERE) -> str | None:
    if folder in (_HERE, None) and (_is_there(path) or not _is_folder(os.path.dirname(_absolute(path)))):
        return None  # it cannot be made
    return f"made {_folder(path)}"


def _cut(path: Any, *_: Any) -> str | None:
    return _on("cut", path)


def _changed(path: Any, *_: Any) -> str | None:
    return _on("changed", path)


def _changed_target(_: Any, path: Any) -> str | None:
    return _on("changed", path)


def _moved(source: Any, target: Any, *_: Any) -> str | None:
    return f"renamed {_file(source)} to {_file(target)}" if _is_path(source) and _is_path(target) else None


def _linked(source: Any, target: Any, *_: Any) -> str | None:
    return f"made the link {shown(target)}" if _is_path(source) and _is_path(target) else None


def _database(database: Any) -> str | None:
    name = os.fsdecode(database) if _is_path(database) else ""
    if not name or name.startswith((":memory:", "file::memory:")) or "mode=memory" in name:
        return IN_MEMORY
    return f"opened the database {shown(name.removeprefix('file:').partition('?')[0])}"


def program(command: Any) -> str:
    """Return the program of a command, without its arguments, which may hold secrets."""
    first = command[0] if isinstance(command, list | tuple) and command else command
    words = os.fsdecode(first).split() if _is_path(first) else []
    return words[0].replace("\\", "/").rpartition("/")[2] if words else "a process"


def _started(command: Any, *_: Any) -> str:
    return f"started {program(command)}"


def _spawned(executable: Any, args: Any = None, *_: Any) -> str:
    """Name the program that `subprocess` starts: it is given only if it differs from the arguments."""
    return _started(executable or args)


def _told(text: str) -> Callable[..., str]:
    return lambda *_: text


_WORDS: dict[str, Callable[..., str | None]] = {
    "open": _opened,
    "mmap.__new__": _mapped,
    "os.remove": _removed,
    "os.rmdir": _removed_folder,
    "shutil.rmtree": _removed_folder,
    "os.mkdir": _made_folder,
    "os.rename": _moved,
    "shutil.move": _moved,
    "os.link": _linked,
    "os.symlink": _linked,
    "os.truncate": _cut,
    **dict.fromkeys(
        ("os.chmod", "os.chown", "os.chflags", "os.utime", "os.setxattr", "os.removexattr", "shutil.chown"), _changed
    ),
    **dict.fromkeys(("shutil.copymode", "shutil.copystat"), _changed_target),
    "sqlite3.connect": _database,
    "subprocess.Popen": _spawned,
    "os.system": _started,
    "os.exec": _started,
    "os.posix_spawn": _started,
    "os.spawn": lambda _, path, *__: _started(path),
    "os.startfile": _started,
    "os.startfile/2": _started,
    "pty.spawn": _started,
    "os.fork": _told("started a copy of this process"),
    "os.forkpty": _told("started a copy of this process"),
    "os.kill": _told("sent a signal to a process"),
    "os.killpg": _told("sent a signal to a process"),
    "ctypes.dlopen": lambda name: f"loaded the C library {shown(name)}" if name else None,
    "syslog.syslog": _told("wrote to the system's log"),
    **dict.fromkeys(
        ("winreg.CreateKey", "winreg.DeleteKey", "winreg.DeleteValue", "winreg.SetValue", "winreg.LoadKey"),
        _told("changed the registry"),
    ),
}
"""The words for the imminent side effect of each event, given its arguments; `None` if it has none."""

WITHIN_SHUTIL = frozenset({"os.remove", "os.rmdir", "os.chmod", "os.chown", "os.utime", "os.setxattr"})
"""The events that repeat the `shutil` event around them."""

EVENTS = frozenset(_WORDS)  # the events that may be side effects, without those of sockets

DRAWING = frozenset({"tempfile.mkstemp", "tempfile.mkdtemp"})
"""The events that come before a temporary file or folder is made, with its name."""


def words_of(event: str, args: tuple[Any, ...]) -> str | None:
    """Return the imminent side effect of an event, in words; `None` if it has none."""
    try:
        return _WORDS[event](*args)
    except (TypeError, ValueError, OSError):  # a Python with other arguments, or a path that cannot be one
        return f"did {event}" if not _is_reading(event, args) else None


def _is_reading(event: str, args: tuple[Any, ...]) -> bool:
    return event == "open" and len(args) > 1 and not set(str(args[1])) & set("wax+")


def draw(path: Any) -> None:
    """Note a name that `tempfile` has drawn."""
    if _is_path(path):
        _temporary.drawn(path)
