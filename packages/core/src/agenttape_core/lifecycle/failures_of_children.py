"""The failures of a replay's processes, which fail it like those of its threads, even if the program drops them.

Their lines about order and draws are added to the report of the replay in the same way.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import sys
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from agenttape_core import errors
from agenttape_core.errors import (
    AgentTapeError,
    AgentTapeHalt,
    CassetteMissError,
    ConfigurationError,
    NetworkBlockedError,
)
from agenttape_core.freeze import is_drawn_by_program
from agenttape_core.session import Session, Slot

_UNKNOWN = os.urandom(8).hex()  # a word that no other user can guess
_numbers = itertools.count(1)
_NOT_BEGUN = ".not_begun.json"
_WRONG = 2  # the exit code of a process that was not run


class FailuresOfChildren:
    """A folder that is made by the first process that fails, and the failures in it.

    `folder` is by default a new one, and `parent`, which the failures are for, this process.
    """

    def __init__(self, folder: str = "", parent: int = 0) -> None:
        self.parent = parent or os.getpid()
        self.folder = folder or f"{tempfile.gettempdir()}/agenttape-{_UNKNOWN}-{self.parent}-{next(_numbers)}"
        self.has_interrupted = False
        """True if the parent's main thread was interrupted, as it would wait for ever for a process that has ended."""

    def note(self, failure: AgentTapeError | AgentTapeHalt, ending: str = ".json") -> None:
        """Keep a failure for the parent, in a file with this ending, if this is another process."""
        if os.getpid() == self.parent:
            return
        folder = Path(self.folder)
        with suppress(OSError):  # of a full disk, say: it is raised here in any case, and must not become another error
            folder.mkdir(mode=0o700, exist_ok=True)
            written = folder / f"{os.getpid()}.new"
            written.write_text(json.dumps([type(failure).__name__, str(failure)]), encoding="utf-8")
            written.replace(written.with_suffix(ending))

    def refuse(self, error: BaseException) -> NoReturn:
        """End this process, whose session cannot be opened, before it runs anything of the program."""
        reason = f"{type(error).__name__}: {error}"
        text = f"a process of multiprocessing was not run, as its replay could not begin: {reason}"
        try:
            self.note(ConfigurationError(text), _NOT_BEGUN)
            sys.stderr.write(f"agenttape: {text}\n")
            sys.stderr.flush()
        finally:
            os._exit(_WRONG)

    def not_begun(self) -> AgentTapeError | AgentTapeHalt | None:
        """Return the failure of a process that was not run, if there is one."""
        path = next(Path(self.folder).glob(f"*{_NOT_BEGUN}"), None)
        return _made_again(*json.loads(path.read_text(encoding="utf-8"))) if path is not None else None

    def say(self, line: str) -> None:
        """Keep a line for the report of the parent, if this is another process."""
        if os.getpid() == self.parent:
            return
        name = hashlib.sha256(line.encode()).hexdigest()[:16]
        folder = Path(self.folder)
        with suppress(OSError):  # as above
            folder.mkdir(mode=0o700, exist_ok=True)
            written = folder / f"{name}-{os.getpid()}.new"
            written.write_text(line, encoding="utf-8")
            written.replace(folder / f"{name}.said")

    def fail(self, session: Session) -> None:
        """Let the session of the parent fail for them, and remove the folder."""
        folder = Path(self.folder)
        if os.getpid() != self.parent or not folder.is_dir():
            return
        for path in sorted(folder.glob("*.json")):
            failure = _made_again(*json.loads(path.read_text(encoding="utf-8")))
            first = str(failure).partition("\n")[0]
            if isinstance(failure, CassetteMissError):
                session.report.add_failure(missed=first)
            elif isinstance(failure, NetworkBlockedError):
                session.report.add_failure(blocked=first)
            session.latch.keep(failure)
        for path in sorted(folder.glob("*.said")):
            session.report.add_entropy(path.read_text(encoding="utf-8"), moves_calls=True)
        shutil.rmtree(folder, ignore_errors=True)


def _made_again(name: str, text: str) -> AgentTapeError | AgentTapeHalt:
    summary, _, details = text.partition("\n")
    if name == CassetteMissError.__name__:
        return CassetteMissError(summary, details)
    kind = getattr(errors, name, AgentTapeError)
    failure: AgentTapeError | AgentTapeHalt = kind.__new__(kind, text)
    return failure


FAILURES: Slot[FailuresOfChildren] = Slot(lambda _: FailuresOfChildren())  # those of the children of a session


# The draws of a program in processes that `multiprocessing` starts within a replay, for the replay's report.
#
# A spawned process has its own session in a replay, and none while it is recorded. A forked one continues with the ids
# and numbers of its parent, as in the recording; but speed decides which worker of a pool takes which work.

_POOLS = frozenset({"concurrent.futures.process", "multiprocessing.pool"})
_DRAWN = {"clock": "times", "numpy": "random numbers of numpy", "random": "random numbers", "uuid": "ids"}
_SAID = "{drawn} that a process of `multiprocessing` draws are not those of the recording"

_sessions: weakref.WeakSet[Session] = weakref.WeakSet()  # the replays of this process


def watch_draws(session: Session, *, is_new: bool) -> None:
    """Let a replay report the program's draws in other processes; `is_new` if this one was spawned within it."""
    if is_new:
        _tell(session, is_of_pool=True)
    else:
        _sessions.add(session)


def _tell(session: Session, *, is_of_pool: bool) -> None:
    weak, said = weakref.ref(session), set[str]()

    def tell(kind: str) -> None:
        session = weak()
        if session is None or kind in said or not is_drawn_by_program() or not (is_of_pool or _is_worker()):
            return
        said.add(kind)
        session.extension(FAILURES).say(_SAID.format(drawn=_DRAWN[kind]))

    if session.frozen is not None:
        session.frozen.tell_draw = tell


def _is_worker() -> bool:
    """Return whether this process is a worker of a pool."""
    multiprocessing = sys.modules.get("multiprocessing")
    target = getattr(multiprocessing.current_process(), "_target", None) if multiprocessing is not None else None
    return getattr(target, "__module__", "") in _POOLS


def _in_child() -> None:
    for session in list(_sessions):
        if not session.closed:
            _tell(session, is_of_pool=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
