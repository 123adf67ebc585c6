"""The process that runs mutants: it has imported the libraries of the project, and forks for each run.

A process that is forked imports the project itself, so that each edit is there from the first import on. Where
forking is not safe, each run has a new process.
"""

from __future__ import annotations

import functools
import importlib.machinery
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import warnings
from contextlib import suppress
from importlib import import_module
from importlib.util import decode_source
from pathlib import Path
from typing import Any, NoReturn, Protocol

from agenttape_core.errors import AgentTapeError
from agenttape_core.experiments.strategies.mutants.edits import mutated
from agenttape_core.experiments.strategies.mutants.facts import Facts
from agenttape_core.experiments.strategies.mutants.reached import Reached
from agenttape_core.guard.caller import is_library
from agenttape_core.lifecycle.project import Project, confine_process
from agenttape_core.lifecycle.use_cassette import use_cassette


class Loading:
    """The import of one file with an edit, in this process from now on.

    Args:
        file: The file.
        name: Its name in ids.
        mutant: The id of the mutant.
        is_test: Whether it holds tests.
    """

    def __init__(self, file: Path, name: str, mutant: str, *, is_test: bool) -> None:
        self._file = file.resolve()
        self._name = name
        self._mutant = mutant
        self._is_test = is_test
        self.is_loaded = False
        """True once the file was imported."""

    def install(self) -> None:
        """Let the loader of Python files compile the edited file, wherever it is imported from."""
        kind: Any = importlib.machinery.SourceFileLoader
        before = kind.get_code
        loading = self

        @functools.wraps(before)
        def get_code(self: Any, fullname: str) -> types.CodeType | None:
            if Path(self.path).resolve() == loading._file:
                return loading.code()
            found: types.CodeType | None = before(self, fullname)
            return found

        kind.get_code = get_code

    def code(self) -> types.CodeType:
        """Return the code of the file with the edit."""
        source = decode_source(self._file.read_bytes())
        tree = mutated(source, self._mutant, file=self._name, is_test=self._is_test)
        self.is_loaded = True
        code: types.CodeType = compile(tree, str(self._file), "exec", dont_inherit=True)
        return code


_OWN = "agenttape_"


class Runner(Protocol):
    """Runs a program: the face of the modules that a request names."""

    def __call__(self, program: dict[str, Any], *, begin: Any, stops: bool) -> dict[str, Any]:
        """Run it once.

        Args:
            program: The program, as its module defines it.
            begin: Called with the name of each part when it begins.
            stops: Whether to stop at the first part that does not pass.

        Returns:
            `facts` by the parts, `files` that hold tests, and `problem` if nothing could be run.
        """


def run(request: dict[str, Any], descriptor: int) -> NoReturn:
    """Do what a request says, write the reply to a descriptor as JSON, and end the process.

    Args:
        request: The request of `agenttape_core.experiments.strategies.mutants.worker`.
        descriptor: The write end of a pipe.
    """
    code = 1
    try:
        _limit(request["cpu"])
        _write(descriptor, _reply(request))
        code = 0
    finally:
        os._exit(code)  # what the program has left running ends with it


def _reply(request: dict[str, Any]) -> dict[str, Any]:
    sys.dont_write_bytecode = True
    confine_process(Project(replays_only=True, live=tuple(request["live"])))
    loading = _loading(request)
    reached = Reached(Path(request["root"])) if request["trace"] else None
    began, used = time.perf_counter(), time.process_time()
    runner: Runner = import_module(request["runner"]).run
    begin = reached.begin if reached is not None else _nothing
    if reached is not None:
        reached.start()
    try:
        found = runner(request["program"], begin=begin, stops=loading is not None)
    finally:
        if reached is not None:
            reached.stop()
    facts: dict[str, Facts] = found["facts"]
    return {
        "facts": {name: each.to_dict() for name, each in facts.items()},
        "problem": found["problem"],
        "files": found["files"],
        "is_loaded": loading is None or loading.is_loaded,
        "lines": reached.lines if reached is not None else {},
        "modules": _libraries() if loading is None else [],
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - used,
    }


def _loading(request: dict[str, Any]) -> Loading | None:
    mutant = request["mutant"]
    if mutant is None:
        return None

    made = Loading(Path(mutant["path"]), mutant["file"], mutant["id"], is_test=mutant["is_test"])
    made.install()
    return made


def _nothing(_: str) -> None:
    pass


def _limit(seconds: float) -> None:
    """Let the process end when it has computed for so long: nobody waits for an endless calculation."""
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


_ALONE = """\
import json, sys
from agenttape_core.experiments.strategies.mutants.worker import run
request = json.loads(sys.stdin.buffer.read())
sys.path[:] = request["path"]
run(request, int(sys.argv[1]))
"""


def main(descriptor: int) -> None:
    """Answer the requests on standard input, a line each, until there are no more.

    Args:
        descriptor: The write end of a pipe for the replies, a line each.
    """
    os.set_inheritable(descriptor, False)
    # Python 3.12 warns of threads that native libraries have; they know how to be forked.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        sys.path[:] = request["path"]
        reply = _answered(request)
        if names := reply.pop("modules", []):
            _import(names)
            _enter_once()
        data = json.dumps(reply).encode() + b"\n"
        while data:
            data = data[os.write(descriptor, data) :]


def _answered(request: dict[str, Any]) -> dict[str, Any]:
    """Return the reply of a process of its own to a request."""
    reading, writing = os.pipe()
    if can_fork():
        child = os.fork()
        if not child:
            os.close(reading)
            _read_nothing()
            run(request, writing)
        os.close(writing)
        return _received(reading, child, request["seconds"])
    os.set_inheritable(writing, True)
    process = subprocess.Popen(  # noqa: S603 - this very interpreter
        [sys.executable, "-c", _ALONE, str(writing)], stdin=subprocess.PIPE, pass_fds=[writing]
    )
    os.close(writing)
    assert process.stdin is not None
    process.stdin.write(json.dumps(request).encode())
    process.stdin.close()
    return _received(reading, process.pid, request["seconds"])


def _read_nothing() -> None:
    """Let a run find the end of its standard input: what comes there is for the worker."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)


def can_fork() -> bool:
    """Return whether this process can be forked: it has one thread, and the system knows how."""
    return hasattr(os, "fork") and sys.platform != "darwin" and threading.active_count() == 1


def _received(reading: int, child: int, seconds: float) -> dict[str, Any]:
    """Return the reply of a process, and end it."""
    until, data, is_late = time.monotonic() + seconds, b"", False
    try:
        while not data.endswith(b"\n"):
            left = until - time.monotonic()
            is_late = left <= 0 or not select.select([reading], [], [], left)[0]
            part = b"" if is_late else os.read(reading, 1 << 20)
            if not part:
                break
            data += part
    finally:
        os.close(reading)
        if not data.endswith(b"\n") and is_late:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if data.endswith(b"\n"):
        reply: dict[str, Any] = json.loads(data)
        return reply
    if is_late or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return {"ended": "it did not end in time"}
    return {"problem": f"the process ended with {os.waitstatus_to_exitcode(status)} and said nothing", "facts": {}}


def _enter_once() -> None:
    """Enter a session, as the first one of a process looks at all that is imported: the runs need not do so then."""
    with tempfile.TemporaryDirectory(prefix="agenttape-") as folder:
        block = use_cassette(Path(folder) / "first.yaml", mode="all")
        with suppress(AgentTapeError), block:
            pass


def _import(names: list[str]) -> None:
    """Import libraries, so that the processes of later runs have them."""
    for name in names:
        if name not in sys.modules:
            with suppress(BaseException):  # some can only be imported by others
                import_module(name)
