"""The process that runs mutants: it has imported the libraries of the project, and forks for each run.

A process that is forked imports the project itself, so that each edit is there from the first import on. Where
forking is not safe, each run has a new process.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from agenttape_core.errors import AgentTapeError
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.tools.adequacy.child import run

_ALONE = """\
import json, sys
from agenttape_core.tools.adequacy.child import run
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
