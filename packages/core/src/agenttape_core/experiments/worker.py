"""The one runner of programs in child processes, for revisions, mutants and `verify`.

A worker has imported the libraries of a project, and forks for each run. The forked process imports the project itself,
so that each edit or revision is there from the first import on. Where forking isn't safe, and where the environment of
the process itself varies, each run has a new process.
"""

from __future__ import annotations

import functools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import IO, Any, Self

from agenttape_core.errors import AgentTapeError, VerificationError
from agenttape_core.guard.caller import is_library
from agenttape_core.lifecycle.project import Project, confine_process
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import HASH_SEED
from agenttape_core.tools.hash_seeds import with_seed

_MAIN = "import sys; from agenttape_core.experiments.worker import main; main(int(sys.argv[1]))"
_ALONE = """\
import json, sys
request = json.loads(sys.stdin.buffer.read())
sys.path[:], sys.argv[:], channel = request["path"], request["argv"], int(sys.argv[1])
from agenttape_core.experiments.worker import run
run(request, channel)
"""
_OWN = "agenttape_"
_GRACE_S = 60.0  # seconds for the worker's own work: it imports the libraries of the runs
SECONDS = 600.0  # the seconds that a run may take, unless another number is given


class Workers:
    """Processes that run programs again and again, each time in a separate process. A context manager: it ends them."""

    def __init__(self, live: Sequence[str] = ()) -> None:
        self._live = list(live)
        self._idle: dict[int | None, list[_Worker]] = {}
        self._around = ExitStack()
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._around.close()

    def run(
        self,
        runner: str,
        program: Mapping[str, Any],
        *,
        hash_seed: int | None = None,
        folder: Path | None = None,
        path: Sequence[str] = (),
        seconds: float = SECONDS,
        cpu: float = SECONDS,
    ) -> dict[str, Any]:
        """Run a program once, in a worker that's free; if there is none, one is started.

        Returns the reply of `runner`, a module whose function `run` takes the program, with its `seconds` and `cpu`; or
        `ended`, if it was ended by force, or `problem`, without a reply. Raises `VerificationError` if the worker
        doesn't answer.
        """
        here = os.getcwd()  # noqa: PTH109 - an entry of the path is a text
        own = [here, *(os.path.join(here, one) for one in sys.path)]  # noqa: PTH118
        request = {
            "runner": runner,
            "program": program,
            "folder": str(folder or here),
            "live": self._live,
            "path": list(dict.fromkeys([*path, *own])),
            "argv": sys.argv[:1],
            "seconds": seconds,
            "cpu": cpu,
            "lingers": False,
        }
        with self._lock:
            idle = self._idle.setdefault(hash_seed, [])
            worker = idle.pop() if idle else self._around.enter_context(_Worker(hash_seed))
        reply = worker.run(request)  # one that was interrupted is not used again
        with self._lock:
            idle.append(worker)
        return reply

    def said(self, hash_seed: int | None = None) -> str:
        """Return the last lines that the runs have printed with a hash seed."""
        return "\n".join(line for worker in self._idle.get(hash_seed, ()) for line in worker.said())


class _Worker:
    """A process that has imported the libraries of the programs that it runs."""

    def __init__(self, hash_seed: int | None) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the exit
        self._replies, writing = os.pipe()
        others = ("AGENTTAPE_LIVE", "PYTEST_XDIST", "PYTEST_CURRENT_TEST")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
        around = {HASH_SEED: "0", **kept, **with_seed(hash_seed), "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = _started([sys.executable, "-c", _MAIN], writing, self._said, self._said, around)
        os.close(writing)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._process)
        self._process.wait()
        with suppress(BrokenPipeError):
            self._process.stdin.close()  # type: ignore[union-attr]
        os.close(self._replies)
        self._said.close()

    def run(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it is found below that there is no reply
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        data, _ = _line(self._replies, request["seconds"] + _GRACE_S)
        if not data.endswith(b"\n"):
            said = "\n".join(self.said())
            raise VerificationError(f"the process that runs the program does not answer\n{said}")
        reply: dict[str, Any] = json.loads(data)
        return reply

    def said(self) -> list[str]:
        self._said.seek(0)
        return self._said.read().decode(errors="replace").strip().splitlines()[-20:]


def main(descriptor: int) -> None:
    """Answer the requests on standard input, a line each, until there are no more."""
    os.set_inheritable(descriptor, False)
    # Python 3.12 warns of threads that native libraries have; they know how to be forked.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    known: set[str] = set()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        request["known"] = sorted(known)
        sys.path[:] = request["path"]
        reply = _answered(request)
        if names := reply.pop("modules", []):
            for name in names:  # so that the processes of later runs have them
                if name not in sys.modules:
                    with suppress(BaseException):  # some can only be imported by others
                        import_module(name)
            if not known:  # the first session of a process looks at all that is imported: the runs need not do so then
                with tempfile.TemporaryDirectory(prefix="agenttape-") as folder:
                    first = use_cassette(Path(folder) / "first.yaml", mode="record")
                    with suppress(AgentTapeError), first:
                        pass
            known.update(names)
        _write(descriptor, reply)


def run(request: dict[str, Any], descriptor: int) -> None:
    """Run a program once, write the reply to a descriptor as JSON, and end the process unless it lingers."""
    os.set_inheritable(descriptor, False)
    code = 1
    try:
        if not request["lingers"]:
            _limit(request["cpu"])
        _write(descriptor, _reply(request))
        os.close(descriptor)
        code = 0
    finally:
        if not request["lingers"]:
            os._exit(code)  # what the program has left running ends with it


def _reply(request: dict[str, Any]) -> dict[str, Any]:
    sys.path[:] = request["path"]
    sys.dont_write_bytecode = True
    os.chdir(request["folder"])
    if not request["lingers"]:
        confine_process(Project(replays_only=True, live=tuple(request["live"])))
    began, used = time.perf_counter(), time.process_time()
    reply: dict[str, Any] = import_module(request["runner"]).run(request["program"])
    if request["lingers"]:
        return reply
    known = set(request["known"])
    return {
        **reply,
        "modules": [name for name in _libraries() if name not in known],
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - used,
    }


def _limit(seconds: float) -> None:
    """Let the process end when it has computed for so long, as in an endless loop."""
    with suppress(ImportError):  # not on Windows
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        wanted = int(time.process_time() + seconds) + 1
        if most == resource.RLIM_INFINITY or wanted < most:
            resource.setrlimit(resource.RLIMIT_CPU, (wanted, most))


def _libraries() -> list[str]:
    """Return the names of the imported modules that are not the project's, in the order of their import."""
    found = []
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        origin = getattr(spec, "origin", None) or ""
        is_whole = name != "__main__" and spec is not None and spec.name == name
        if is_whole and (name.startswith(_OWN) or origin in {"built-in", "frozen"} or is_library(origin)):
            found.append(name)
    return found


def _write(descriptor: int, reply: dict[str, Any]) -> None:
    data = json.dumps(reply).encode() + b"\n"
    while data:
        data = data[os.write(descriptor, data) :]


def _answered(request: dict[str, Any]) -> dict[str, Any]:
    """Return the reply of a separate process to a request."""
    if hasattr(os, "fork") and sys.platform != "darwin" and threading.active_count() == 1:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            # A run finds the end of its standard input, which is for the worker.
            os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
            run(request, writing)
        os.close(writing)
        return _received(reading, child, request["seconds"])
    with Children() as children:
        ended = children.run(request, os.environ, Path(request["folder"]), request["seconds"])
    sys.stdout.buffer.write(ended.stdout + ended.stderr)
    sys.stdout.flush()
    return _reply_of(ended.report, ended.code, is_late=ended.code is None)


def _received(reading: int, child: int, seconds: float) -> dict[str, Any]:
    """Return the reply of a process, and end it."""
    data, is_late = b"", False
    try:
        data, is_late = _line(reading, seconds)
    finally:
        os.close(reading)
        if is_late:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    return _reply_of(data, os.waitstatus_to_exitcode(status), is_late=is_late)


def _line(descriptor: int, seconds: float) -> tuple[bytes, bool]:
    """Read a line, or what comes of it in time; return it, and whether the time was over."""
    until, data = time.monotonic() + seconds, b""
    while not data.endswith(b"\n"):
        left = until - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return data, True
        if not (part := os.read(descriptor, 1 << 20)):
            break
        data += part
    return data, False


def _reply_of(data: bytes, code: int | None, *, is_late: bool) -> dict[str, Any]:
    """Return the reply of a process, or why it has none."""
    if data.endswith(b"\n"):
        reply: dict[str, Any] = json.loads(data)
        return reply
    if is_late or code == -signal.SIGXCPU:
        return {"ended": "it did not end in time"}
    return {"problem": f"the process ended with {code} and said nothing"}


class ChildResult(NamedTuple):
    """The end of a child process."""

    report: bytes  # the bytes that it wrote to its own descriptor
    stdout: bytes
    stderr: bytes
    code: int | None  # the exit code, negative for a signal; `None` if it was killed because its time was over


class Children:
    """New processes that run a program once. At the end of the block, those that are still running are killed."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            for child in self._running:
                _end(child)

    def run(
        self, request: Mapping[str, Any], environment: Mapping[str, str], folder: Path, timeout: float
    ) -> ChildResult:
        """Run a program once, in a new process."""
        with ExitStack() as around:
            # Files, as a process that has left the group may hold a pipe open. A program that opens one again appends.
            report, stdout, stderr = (around.enter_context(tempfile.TemporaryFile("a+b", buffering=0)) for _ in "123")
            with self._lock:
                if self._closed:
                    raise InterruptedError("it was given up")
                child = _started(_python(), report.fileno(), stdout, stderr, environment, folder)
                self._running.add(child)
            is_late = False
            try:
                child.communicate(json.dumps(request).encode(), timeout)
            except subprocess.TimeoutExpired:
                is_late = True
                _end(child)
                child.wait()
            finally:
                with self._lock:
                    self._running.discard(child)
            code = None if is_late else child.returncode
            return ChildResult(_content(report), _content(stdout), _content(stderr), code)


def _started(  # noqa: PLR0917 - private
    command: Sequence[str],
    descriptor: int,
    stdout: IO[bytes],
    stderr: IO[bytes],
    environment: Mapping[str, str],
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process that reads requests, and writes its replies to a descriptor."""
    return subprocess.Popen(  # noqa: S603 - this very interpreter, with arguments of ours
        [*command, str(descriptor)],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        env=environment,
        cwd=folder,
        pass_fds=[descriptor],
        start_new_session=True,  # so that it can be ended with all that it started
    )


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _end(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # it ended by itself
        os.killpg(child.pid, signal.SIGKILL)


@functools.cache
def _unshuffled() -> tuple[str, ...]:
    """Return the command under which a process has its memory at the same addresses each time, if there is one."""
    found = shutil.which("setarch")
    if found is None:
        return ()
    # S603: where the command is depends on the system. Containers may forbid it.
    tried = subprocess.run([found, "-R", sys.executable, "-c", ""], capture_output=True, check=False)  # noqa: S603
    return () if tried.returncode else (found, "-R")


def _python() -> list[str]:
    """Return the command of a child: this interpreter, with its options except those that ignore the environment.

    Where the system can, children have their memory at the same addresses: only a seed moves objects then, and it moves
    them again when it's tried again.
    """
    flags = [f"-X{name}" if value is True else f"-X{name}={value}" for name, value in sys._xoptions.items()]  # noqa: SLF001 - documented
    flags += [f"-W{filtered}" for filtered in sys.warnoptions]
    if sys.flags.optimize:
        flags.append(f"-{'O' * sys.flags.optimize}")
    return [*_unshuffled(), sys.executable, *flags, "-c", _ALONE]
