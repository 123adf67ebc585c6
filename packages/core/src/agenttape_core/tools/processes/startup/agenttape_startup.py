"""Runs at the start of every Python of a command, and opens a session only where one is needed.

Most of these processes make no calls: installers, trackers, tools. So it only imports modules that are loaded already,
not even the package it belongs to, and waits until a framework or our own boundaries are imported.

No call can be replayed before that, so in a replay no connection is allowed either: a guard without a session judges
each attempt, from the first line of the program to its last. It is set before there is a second thread, so that no
thread waits for the modules that it imports.

Any error while this is set up, or while a session is opened, ends the process (`refuse`): no other code would keep its
program from running for real.
"""

from __future__ import annotations

import _imp
import _signal  # type: ignore[import-not-found] # what `signal` is built on, which takes longer to load
import _thread
import atexit
import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "agenttape_startup":
    from agenttape_core.tools.processes.startup.agenttape_commands import RUN, is_main, label_of, why_unguarded
else:  # in the process of a command, which doesn't import the package
    from agenttape_commands import RUN, is_main, label_of, why_unguarded
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

ADDRESS = "_AGENTTAPE_PROCESS"  # the variable with the address of the process that started this one

OF_REPLAY = "replay:"
"""The beginning of the variable with the folder if the run is a replay. The folder itself may be gone."""

BEGIN, MAIN, NOTES, BLOCKED, NOT_RUN = "begin", "main", "notes", "blocked", "not_run"
ANSWERED_OTHERWISE = "answered_otherwise"
"""The files of that folder: the configuration for all, a mark of the main process, notes of processes without a report,
their refused attempts, and the reasons why processes were not run; and the lines in which a server whose calls are live
answered differently than in the recording, which isn't a failure."""

_WRONG, _INTERRUPTED = 2, 130
"""The exit codes of a process that cannot be set up, and of one that is interrupted meanwhile."""

REFUSED = "refused, which is fine: "  # the beginning of a line about telemetry

_REACHING = frozenset(
    {
        *("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"),
        *("socket.gethostbyaddr", "socket.getnameinfo"),
    }
)
_STARTING = {"os.exec": 0, "os.posix_spawn": 0, "os.spawn": 1, "subprocess.Popen": 0, "os.system": 0}
"""The events of processes that start, and the place of the program among their arguments."""
_SUBPROCESS = "subprocess"  # the word of `allow_hosts` that allows all processes
_REQUIRED = ("pydantic", "yaml")  # the packages that `agenttape_core` needs
_SESSIONS = "agenttape_core.tools.processes.process_session"
"""The module that opens the session of a process, by name: it builds on this module, which itself has no
dependencies."""

_ARGV = getattr(sys, "orig_argv", [sys.executable])
"""The command line of this process, which a Python that is too old for us does not know."""

_PAUSE = 0.02  # seconds between two looks at the thread that opens the session
_PATIENCE = 5.0  # seconds that a process about to exit has for its recording: a lock it needs may never be released


class Process:
    """This process as part of a run. Thread-safe.

    `address` is empty for the main process, else the labels down to it; `replayed` is the cassette of the run, as
    messages name it, if that is a replay; `allow_hosts` may be reached before a session is open; `watched` are the
    modules that need a session when they are imported.
    """

    def __init__(
        self, folder: str, address: str, *, replayed: str, allow_hosts: Sequence[str], watched: Sequence[str]
    ) -> None:
        self.folder = folder
        self.address = address
        self._replayed = replayed
        self._allow_hosts = allow_hosts
        self._shown: Any = None  # the hook of exceptions that this program had before
        self._guarding: Any = None
        """In a replay, the guard of the time before the session and after it; `None` in a Python without AgentTape."""
        self._watched = frozenset(watched)
        self.is_over = False
        self.is_fork = False
        self.is_terminated = False
        self._session: Any = None
        self._is_missing = False
        self._opener: int | None = None
        self._lock = _thread.allocate_lock()  # held while the session is opened or ended

    def begin(self) -> None:
        """Wait for what needs a session."""
        os.environ[ADDRESS] = self.address
        if self._replayed:
            self._guard()
            self._shown, sys.excepthook = sys.excepthook, self._raised
        sys.meta_path.insert(0, self)
        sys.addaudithook(self._audited)
        atexit.register(self.end)  # before all others, so that it is called after them
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)
        # Now, as this is the main thread: the session may be opened in another one, by the first request of a server.
        if _signal.getsignal(_signal.SIGTERM) == _signal.SIG_DFL:
            _signal.signal(_signal.SIGTERM, self._terminated)

    def check(self) -> None:
        """End this process if start-up code has hidden packages from it that a session needs."""
        try:
            missing = [name for name in _REQUIRED if not _is_there(name)] if _is_there("agenttape_core") else []
        except BaseException as error:  # noqa: BLE001 - `site` would print it, and run the program
            self.refuse(error)
        if missing:
            self.refuse(ModuleNotFoundError(f"No module named {missing[0]!r}", name=missing[0]))

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Open the session before a module that needs one is executed, and leave the rest to others."""
        if name not in self._watched or self.is_over or self._session is not None or self._is_missing:
            return None
        self._open(name)
        # The session has put its own finders before this one, and they must see this module too.
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None:
                return spec
        return None

    def end(self) -> None:
        """End the session, if there is one, and report on it. A second caller waits for the first."""
        self.is_over = True
        if self._opener == _thread.get_ident():
            return  # it ends while it opens its session
        with self._lock:
            session, self._session = self._session, None
            if session is not None:
                session.end()
                _interrupted_again()

    def end_in_time(self) -> None:
        """End the session in another thread, with a time limit: this one may hold a lock that it needs."""
        if self.is_over:
            return
        if self._session is None and not self._lock.locked():
            self.is_over = True
            return
        ended = _thread.allocate_lock()
        ended.acquire()

        def work() -> None:
            try:
                self.end()
            finally:
                ended.release()

        _thread.start_new_thread(work, ())
        ended.acquire(timeout=_PATIENCE)

    def note(self, text: str, paper: str = NOTES) -> None:
        """Add a line to the notes, for facts that are in no report."""
        try:
            _write(self.folder, paper, text)
        except FileNotFoundError:
            return  # the command ended before this process, and nobody reads its folder any more

    def note_missing_key(self, error: BaseException | None) -> None:
        """Note the advice for an error about a provider's missing key: in a replay, any text will do."""
        if not self._replayed:
            return
        try:
            from agenttape_core.lifecycle.remedy import remedy_for_key
        except Exception as missing:
            if not _has_none(missing):
                raise
        else:
            if remedy := remedy_for_key(error):
                self.note(remedy)

    def _raised(self, kind: Any, error: Any, trace: Any) -> None:
        self.note_missing_key(error)
        self._shown(kind, error, trace)

    def _open(self, name: str) -> None:
        """Open the session, or wait until another thread has opened it.

        To open it imports modules, and who waits for it may be in the midst of importing one of them. Python would let
        both wait forever. So such a thread continues: the session is open soon after that module is there, and until
        then no connection is allowed.
        """
        me = _thread.get_ident()
        if self._opener == me:
            return
        while not self._lock.acquire(timeout=_PAUSE):
            if _waits_for_import(self._opener, me):
                return
        try:
            if self.is_over or self._session is not None or self._is_missing:
                return
            if not self._replayed and not os.path.exists(self.folder):  # noqa: PTH110 - pathlib is not loaded yet
                self.is_over = True  # the command has ended before this process
                return
            self._opener = me
            held = _without_import_lock()
            try:
                self._session = self._opened(name)
            finally:
                for _ in range(held):
                    _imp.acquire_lock()
        except BaseException as error:  # noqa: BLE001 - a program may catch it, and run without a session
            self.refuse(error)
        finally:
            self._opener = None
            self._lock.release()

    def _opened(self, name: str) -> Any:
        import importlib  # only now: a process that needs no session does not pay for it

        try:
            open_process_session = importlib.import_module(_SESSIONS).open_process_session
        except Exception as error:
            if not _has_none(error):
                raise
            # The standard library alone asks no model, and a connection by it is refused in a replay.
            if self._replayed and name.partition(".")[0] not in getattr(sys, "stdlib_module_names", ()):
                raise RuntimeError(f"it imports {name}, and {sys.executable} has no AgentTape to replay with") from None
            self._is_missing = True
            self.note(
                f"{sys.executable} has no AgentTape, so what it asks for is neither recorded nor replayed: {error}"
            )
            return None
        return open_process_session(self)

    def refuse(self, error: BaseException) -> NoReturn:
        """End this process, as it cannot be set up."""
        refuse(self.folder, error)

    def _audited(self, event: str, args: tuple[Any, ...]) -> None:
        if self.is_over:
            return
        if event == "import":
            self._imported(args[0])
        elif event in _REACHING:
            self._reached(event)
        elif event in _STARTING:
            if event == "os.system":
                self._starts("sh", ["sh", "-c", args[0]], None)
            else:
                program, arguments, *others = args[_STARTING[event] :]
                self._starts(program, arguments, others[-1])
            if event == "os.exec" and os.access(args[0], os.X_OK):  # else it fails, and this program continues
                self.end()

    def _starts(self, program: Any, arguments: Any, environment: Any) -> None:
        """Refuse to start in a replay what isn't known to be guarded, unless the user allows processes."""
        if isinstance(arguments, (str, bytes)):  # for an old Python, too
            arguments = [arguments]
        words = [os.fsdecode(program or arguments[0]), *map(os.fsdecode, arguments[1:])]
        given = os.environ if environment is None else environment
        variables = {os.fsdecode(name): os.fsdecode(value) for name, value in given.items()}
        reason, is_deaf = why_unguarded(words, variables)
        if not reason or (not is_deaf and self._covers_start()):
            return
        name = os.path.basename(words[0])  # noqa: PTH119
        if not self._replayed:
            self.note(f"{name} is not recorded, and a replay refuses it: {reason}")
            return
        if any(entry.rpartition(":")[2] == _SUBPROCESS for entry in self._allow_hosts):
            if is_deaf:
                self.note(f"{name} is not guarded: {reason}")
            return
        remedy = f"allow it: --allow-hosts {_SUBPROCESS}"
        blocked = f"blocked the start of {name}, which a replay can't guard: {reason}; {remedy}"
        if self._guarding is None:
            self.note(blocked, BLOCKED)
            raise RuntimeError(blocked)
        from agenttape_core.errors import NetworkBlockedError
        from agenttape_core.guard import in_telemetry

        if in_telemetry():
            self.note(f"{REFUSED}{blocked}")
            raise ConnectionRefusedError(blocked)
        self.note(blocked, BLOCKED)
        raise NetworkBlockedError(blocked)

    def _covers_start(self) -> bool:
        """Return True if an executed call starts a process, or a library does to learn about the machine."""
        try:
            from agenttape_core.guard.attempts import looks_at_machine
        except Exception as error:
            if not _has_none(error):
                raise
            return False
        return looks_at_machine() or (self._session is not None and self._session.is_in_call())

    def _imported(self, name: str) -> None:
        """Open the session late, if another finder finds the module: pytest does for all packages with plugins."""
        if self._session is None:
            top, _, below = name.partition(".")
            if top in self._watched or f"{top}.{below.partition('.')[0]}" in self._watched:
                self._open(name)

    def _reached(self, event: str) -> None:
        """Refuse all in a replay by a Python that cannot have a guard."""
        if self._replayed and self._guarding is None:
            blocked = f"blocked {event} in a replay: {sys.executable} has no AgentTape to replay with"
            self.note(blocked, BLOCKED)
            raise RuntimeError(blocked)

    def _guard(self) -> None:
        """Judge what tries to get out before a session is open, and after its end: the session brings its own."""
        try:
            from agenttape_core.guard import SUBPROCESS, Guard, guarding, in_telemetry
        except Exception as error:
            if not _has_none(error):
                raise
            return

        def blocked(error: BaseException) -> None:
            line = str(error).partition("\n")[0]
            if in_telemetry():
                self.note(f"{REFUSED}{line}")
            else:
                self.note(line, BLOCKED)

        guard = Guard(name=self._replayed, allow_hosts=[*self._allow_hosts, SUBPROCESS], on_block=blocked)
        self._guarding = guarding(guard, lambda: self._session is not None)
        self._guarding.__enter__()

    def _terminated(self, number: int, frame: Any) -> None:  # noqa: ARG002 - the signature of handlers
        """End the session, and then as the signal would have ended this process."""
        if self.is_over:
            return  # it is about to exit; supervisors often send SIGTERM more than once
        self.is_terminated = True
        self.end_in_time()
        _signal.signal(number, _signal.SIG_DFL)
        _signal.raise_signal(number)

    def open_after_fork(self) -> None:
        """Leave the session to the process that this one was forked from, and open its own."""
        session, self._session = self._session, None
        if session is not None:
            try:
                session.forget_after_fork()
            except BaseException as error:  # noqa: BLE001 - Python would print it, and go on
                self.refuse(error)
            self._open("fork")

    def _forked(self) -> None:
        self._lock, self._opener, self.is_fork = _thread.allocate_lock(), None, True
        self.address = f"{self.address}/fork" if self.address else "fork"
        os.environ[ADDRESS] = self.address


def _is_there(name: str) -> bool:
    """Return True if a package has been imported, or could be."""
    if name in sys.modules:
        return True
    finds = [getattr(finder, "find_spec", None) for finder in sys.meta_path]
    return any(find is not None and find(name, None) is not None for find in finds)


def _without_import_lock() -> int:
    """Release the lock that a finder is called with, and return how often it was held.

    Opening a session waits for threads that import modules, such as one that connects to where events go, and each
    module that is not loaded needs the lock. The module that is being imported has its own lock.
    """
    held = 0
    try:
        while True:
            _imp.release_lock()
            held += 1
    except RuntimeError:  # this thread has it no longer
        return held


def _waits_for_import(thread: int | None, importer: int) -> bool:
    """Return True if a thread waits until another one has imported a module, perhaps by way of further threads."""
    is_on = gc.isenabled()
    gc.disable()  # Python 3.11 may wait forever if it collects garbage while it lists its threads
    frames = sys._current_frames()  # noqa: SLF001 - documented
    if is_on:
        gc.enable()
    while thread is not None and thread != importer:
        frame = frames.pop(thread, None)
        if frame is None or frame.f_code.co_name != "acquire" or "importlib" not in frame.f_code.co_filename:
            return False
        thread = getattr(frame.f_locals.get("self"), "owner", None)
    return thread is not None


def _interrupted_again() -> None:
    """Let Python end by SIGINT, with 130 in shells, if it ends because of an unhandled interrupt.

    Python notes this when the code of the program is left by the interrupt, and forgets it as soon as other code that
    is given as text has run. Ending a session imports modules, and some of them run such code (`namedtuple` does).
    """
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        try:
            exec("raise KeyboardInterrupt")  # noqa: S102 - as text, or it would not be noted
        except KeyboardInterrupt:
            return


def _has_none(error: Exception) -> bool:
    """Return True if an import has failed because this Python has no AgentTape, or is too old for it."""
    if sys.version_info < (3, 11):  # noqa: UP036 - a command may start any Python
        return True
    return isinstance(error, ModuleNotFoundError) and error.name == "agenttape_core"


def _write(folder: str, paper: str, text: str) -> None:
    """Add a line to a file of a run."""
    descriptor = os.open(os.path.join(folder, paper), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)  # noqa: PTH118
    try:
        os.write(descriptor, f"{text}\n".encode(errors="replace"))
    finally:
        os.close(descriptor)


def note(text: str, paper: str) -> None:
    """Add a line to a file of the run that this process is part of."""
    run = os.environ[RUN]
    _write(run[len(OF_REPLAY) :] if run.startswith(OF_REPLAY) else run, paper, text)  # noqa: FURB188 - as below


def refuse(folder: str, error: BaseException) -> NoReturn:
    """End this process, as it cannot be set up, with the reason for the command that it belongs to."""
    code = _INTERRUPTED if isinstance(error, KeyboardInterrupt) else _WRONG
    try:
        what = label_of(_ARGV)
        reason = f"{what} was stopped, as AgentTape could not be set up in it: {type(error).__name__}: {error}"
        is_told = False
        try:
            _write(folder, NOT_RUN, reason.replace("\n", "\0"))
            is_told = True
        finally:
            if not is_told or os.environ.get(ADDRESS):  # the command says it at its end, and may wait for a child
                sys.stderr.write(f"agenttape: {reason}\n")
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
    finally:
        os._exit(code)


def begin() -> Callable[[], object]:
    """Begin, if this process is part of a run that is under way. If that fails, the process ends.

    Returns a function to be called when other start-up code has run.
    """
    run = os.environ.get(RUN, "")
    folder = run[len(OF_REPLAY) :] if run.startswith(OF_REPLAY) else run  # noqa: FURB188 - for an old Python, too
    try:
        process = _begin(folder, is_replay=folder != run)
    except BaseException as error:  # noqa: BLE001 - `site` would print it, and run the program
        refuse(folder, error)
    return process.check if process is not None else int


def _begin(folder: str, *, is_replay: bool) -> Process | None:
    try:
        with open(os.path.join(folder, BEGIN), encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH118, PTH123
            replayed, allow_hosts, watched, *command = file.read().split("\0")
    except FileNotFoundError:
        if is_replay:
            raise RuntimeError("the replay that started it has ended") from None
        if folder and os.path.exists(folder):  # noqa: PTH110 - pathlib is not loaded yet
            raise
        return None  # the run is over, and left its variables to what outlived it
    address = _address(folder, command)
    process = Process(folder, address, replayed=replayed, allow_hosts=allow_hosts.split(), watched=watched.split())
    process.begin()
    return process


def _address(folder: str, command: Sequence[str]) -> str:
    above = os.environ.get(ADDRESS)
    if above is None and is_main(_ARGV, command):
        try:
            os.close(os.open(os.path.join(folder, MAIN), os.O_CREAT | os.O_EXCL, 0o600))  # noqa: PTH118
        except FileExistsError:
            pass  # another process of the same command line was first
        else:
            return ""
    label = label_of(_ARGV)
    return f"{above}/{label}" if above else label
