"""A `sitecustomize` that lets a process go through all the ways in which its set-up can fail.

It comes before that of a command, and watches the calls of functions and the bodies of modules of AgentTape while a
process is set up. At each that is new, the process is forked, and the fork raises there. So each step is tried in the
very state in which it is taken, without a list of steps and without starting a process for each.
"""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

_WITHIN, _ONLY, _EVERY, _INTO, _LOG = (f"INJECT_{name}" for name in ("WITHIN", "ONLY", "EVERY", "INTO", "LOG"))


_RELEASE = "_Locks.methods.<locals>.release"
"""What releases a lock in a session: an error there leaves it locked, and the process waits for it forever."""


class Injected(NamedTuple):
    """What became of the forks of a process, and of the process.

    Args:
        codes: Their exit codes, by the step at which each raised.
        ran: The steps at which the program ran all the same; of the process itself, an empty text.
        ended: The process that was started.
    """

    codes: dict[str, int]
    ran: list[str]
    ended: subprocess.CompletedProcess[str]


Ending: TypeAlias = "Callable[[tuple[str, ...], Path, dict[str, str]], subprocess.CompletedProcess[str]]"


def _in_a_process(command: tuple[str, ...], folder: Path, environment: dict[str, str]) -> Any:
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def injected(
    folder: Path,
    *command: str,
    into: str,
    within: str,
    only: str = "/agenttape_",
    every: int = 1,
    run: Ending = _in_a_process,
) -> Injected:
    """Run a command whose programs write `os.environ["INJECTED"]` to the file `ran`, and inject errors into its set-up.

    Args:
        folder: The folder to run it in.
        command: Its words.
        into: A word of the command line of the processes that errors are injected into.
        within: The functions that set a process up, `file.py:name` with commas between.
        only: A part of the paths of the files whose steps are tried.
        every: Every how many steps one is tried.
        run: Runs the command in a folder and an environment.
    """
    site = folder / "injecting"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
    log, ran = folder / "injected.log", folder / "ran"
    log.write_text("")
    ran.write_text("")
    given = {_WITHIN: within, _ONLY: only, _EVERY: str(every), _INTO: into, _LOG: str(log)}
    environment = {**os.environ, "PYTHONPATH": str(site), **given}
    ended = run(command, folder, environment)
    lines = [line.split(" ", 1) for line in log.read_text().splitlines()]
    return Injected({step: int(code) for code, step in lines}, ran.read_text().splitlines(), ended)


class _Injecting:
    """The injection into this process."""

    def __init__(self) -> None:
        self._within = frozenset(os.environ[_WITHIN].split(","))
        self._only = os.environ[_ONLY].replace("/", os.sep)
        self._every = int(os.environ[_EVERY])
        self._log = os.environ[_LOG]
        self._passed: dict[int, CodeType] = {}  # by id, as a code object's hash goes through all of its constants
        self._steps = 0
        self._fork = ctypes.PyDLL(
            None
        ).fork  # without the hooks of Python: the fork is to be in the state of its parent

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or id(code := frame.f_code) in self._passed:
            return
        is_ours = self._only in code.co_filename and "/agenttape_" in code.co_filename
        # Errors in annotations, which are functions on Python 3.14, are passed over by who looks at them.
        if not is_ours or code.co_qualname == _RELEASE or code.co_name == "__annotate__":
            self._passed[id(code)] = code
            return
        if not self._is_set_up(frame.f_back):
            return
        if any(getattr(callback, "__code__", None) is code for callback in gc.callbacks):
            return  # the collector comes at any time, and Python passes over what its callbacks raise
        self._passed[id(code)] = code
        self._steps += 1
        if self._steps % self._every:
            return
        step = f"{_name(code)}:{code.co_firstlineno}"
        pid = self._fork()
        if pid == 0:
            sys.setprofile(None)
            threading.setprofile(None)
            os.environ["INJECTED"] = step
            raise RuntimeError(f"injected at {step}")
        _, status = os.waitpid(pid, 0)
        with open(self._log, "a", encoding="utf-8") as log:  # noqa: PTH123 - imports as little as it can
            log.write(f"{os.waitstatus_to_exitcode(status)} {step}\n")

    def _is_set_up(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if _name(frame.f_code) in self._within:
                return True
            frame = frame.f_back
        return False


def _name(code: CodeType) -> str:
    return f"{os.path.basename(code.co_filename)}:{code.co_qualname}"  # noqa: PTH119 - as above


def _inject() -> None:
    here = os.path.dirname(__file__)  # noqa: PTH120 - as above
    sys.path[:] = [entry for entry in sys.path if entry != here]
    ours = sys.modules.pop("sitecustomize")
    if os.environ.get(_INTO, "") in sys.orig_argv:
        injecting = _Injecting()
        threading.setprofile(injecting)
        sys.setprofile(injecting)
    try:
        import sitecustomize  # type: ignore[import-not-found] # noqa: F401 - that of the command, if there is one
    except ModuleNotFoundError:
        sys.modules["sitecustomize"] = ours


if __name__ == "sitecustomize":
    _inject()
