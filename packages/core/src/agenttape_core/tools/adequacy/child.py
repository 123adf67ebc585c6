"""One run in a process of its own: the project is imported anew, with an edit or without."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, Protocol

from agenttape_core.guard.caller import is_library
from agenttape_core.lifecycle.project import Project, confine_process
from agenttape_core.tools.adequacy.facts import Facts
from agenttape_core.tools.adequacy.loading import Loading
from agenttape_core.tools.adequacy.reached import Reached

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
        request: The request of `agenttape_core.tools.adequacy.worker`.
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
