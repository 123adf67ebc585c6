"""A process that has loaded what takes long, and forks itself for each command: `python forks.py SOCKET MODULE …`.

The shims that `commands` writes stand for installed commands. Such a command runs the script that it stands for, in its
own folder, environment and streams, as a new process would; only that the modules are loaded, no certificates are, and
that what is loaded is not taken down object by object at the end. The command `python` runs `sitecustomize` and then a
script, with `-m` a module, or with `-P -c` or `-u -c` the text with which AgentTape starts itself or pytest-xdist a
worker; with another option, or if such a text has a hash seed, it's the real one. Its hash seed is the server's, and
signals don't reach the script: a test about either starts the real one. Where the environment names it in
`FORKED_PYTHON`, it is the `sys.executable` of commands, so that what they start begins as a fork, too.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import shlex
import site
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

SESSION = (
    *("pydantic", "importlib.metadata", "asyncio", "concurrent.futures", "multiprocessing", "pickle", "ssl", "csv"),
    *("agenttape_core.on_demand", "agenttape_core.lifecycle.request", "agenttape_core.redaction.scanner"),
    *("agenttape_core.storage.journal", "agenttape_core.guard"),
)
"""Modules that a session imports; none of those whose import opens one, nor what freezes or schedules a program."""

SHIM = """#!/bin/sh
case {name}$1$PYTHONHASHSEED in python-m*|python-[Pu]) ;; python-*) exec {script} "$@" ;; esac
exec {python} -ISE {client} {script} "$@"
"""
"""Not a script of Python itself: AgentTape refuses those whose options keep it out."""

CLIENT = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    about = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(about).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(about)
    os._exit((server.recv(1) or b"\\xff")[0])
"""


@contextmanager
def commands(folder: Path, loaded: tuple[str, ...], *names: str) -> Iterator[Path]:
    """Give a folder with a shim of each command, which begins with modules loaded; it ends with the block.

    Args:
        folder: A folder for the shims and the socket; it is made where there is none.
        loaded: The modules.
        names: The installed commands.
    """
    address = str(folder / "socket")
    shims(folder / "bin", address, *names)
    pipe = subprocess.PIPE  # also for errors: streams of a file could be sought, and those of the commands cannot
    command = [sys.executable, __file__, address, *loaded]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert first == "ready\n", first + process.stdout.read()
            yield folder / "bin"
        finally:
            process.terminate()


def shims(folder: Path, address: str, *names: str) -> None:
    """Write a command of each name into the folder; it has the process at the address run the installed one."""
    folder.mkdir(parents=True)
    client = Path(f"{address}.py")
    client.write_text(CLIENT.format(address=address), encoding="utf-8")
    for name in names:
        script = Path(sys.executable).with_name(name)
        words = {"name": name, "python": sys.executable, "client": client, "script": script}
        shim = folder / name
        shim.write_text(SHIM.format_map({key: shlex.quote(str(word)) for key, word in words.items()}), encoding="utf-8")
        shim.chmod(0o755)


def next_command(address: str) -> list[str]:
    """Wait for commands; return in a fork for each of them, and never in the process itself, until it is terminated."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                break
            connection.close()
            while os.waitpid(-1, os.WNOHANG)[0]:
                """Let those go that have ended."""
    with connection:
        size, streams, *_ = socket.recv_fds(connection, 4, 3)
        with connection.makefile("rb") as sent:
            argv, folder, environment = json.loads(sent.read(int.from_bytes(size, "big")))
        command = os.fork()
        if command:
            for stream in (*streams, 0, 1, 2):
                os.close(stream)  # or a reader at the other end of a pipe waits for this process, too
            connection.sendall(bytes([os.waitstatus_to_exitcode(os.waitpid(command, 0)[1]) & 0xFF]))
            os._exit(0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    return list(argv)


def begin_python() -> None:
    """Do what Python does before it runs the script that its first argument names."""
    sys.orig_argv = list(sys.argv)
    del sys.argv[0]
    if sys.argv[0].startswith("-m"):
        sys.argv[:1] = filter(None, ["-m", sys.argv[0].removeprefix("-m")])
    sys.path[:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    site.execsitecustomize()
    if name := os.environ.get("FORKED_IMPORT"):  # loaded already, so import hooks have to be told
        sys.meta_path[0].find_spec(name, None)
    if sys.argv[0] == "-u":
        sys.path.insert(0, "")
    elif sys.argv[0] != "-P":
        sys.path.insert(0, str(Path().absolute() if sys.argv[0] == "-m" else Path(sys.argv[0]).absolute().parent))


def exit_code_of_command() -> int:
    """Run the script or module of the arguments until all that it began has ended; the exit code, as Python has it."""
    code: object = 0
    try:
        if sys.argv[0] == "-m":
            del sys.argv[0]
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        elif sys.argv[0] in {"-P", "-u"}:
            del sys.argv[0]
            exec(sys.argv.pop(1), {"__name__": "__main__"})
        else:
            runpy.run_path(str(Path(sys.argv[0]).absolute()), run_name="__main__")
    except SystemExit as error:
        code = error.code
    except BaseException:  # as in any process, it ends there
        sys.excepthook(*sys.exc_info())
        code = 1
    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code or 0


if __name__ == "__main__":
    for module in sys.argv[2:]:
        import_module(module)
    ssl.SSLContext.load_verify_locations = lambda *_, **__: None  # nothing here is encrypted
    gc.freeze()  # what is loaded stays, in each fork
    sys.argv = next_command(sys.argv[1])
    sys.executable = os.environ.get("FORKED_PYTHON", sys.executable)
    if Path(sys.argv[0]).name == "python":
        begin_python()
    else:
        sys.path[:1] = [str(Path(sys.argv[0]).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    os._exit(exit_code_of_command() & 0xFF)
