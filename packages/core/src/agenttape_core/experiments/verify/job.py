"""The job of a child process: the function, the cassette, and the settings that make it a Python like this one."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments.verify.environment import Surroundings
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.settings import load_settings
from agenttape_core.storage import cassette_path
from agenttape_core.tools.target import Target

_PROGRAM = """\
import json, sys
job = json.loads(sys.stdin.buffer.read())
sys.path[:], sys.argv[:], channel = job["path"], job["argv"], int(sys.argv[1])
from agenttape_core.experiments.verify.child import main
main(job, channel)
"""
_NOT_HANDED_ON = ("PYTEST_", "AGENTTAPE_LIVE", "LANGUAGE")
_REFUSED = ("mode", "live")


@dataclass(frozen=True, slots=True)
class Job:
    """A function to replay.

    Args:
        target: The function.
        cassette: The path or URL of the cassette to open around it, or nothing.
        options: Those of `use_cassette`.
        project: The folder whose settings hold, and that relative paths of cassettes start from.
    """

    target: Target
    cassette: str | None
    options: Mapping[str, Any]
    project: Path

    def stdin(self, surroundings: Surroundings) -> bytes:
        """Return what a child reads from its standard input."""
        here = str(self.project)
        job = {
            "target": list(self.target),
            "cassette": self.cassette,
            "options": self.options,
            "project": here,
            "switch_interval": surroundings.switch_interval,
            "memory": surroundings.memory,
            "schedule": surroundings.schedule,
            "earlier_replays": surroundings.earlier_replays,
            "completion_order": surroundings.completion_order,
            "path": [str(Path(here, entry)) for entry in sys.path],
            "argv": sys.argv[:1],
        }
        return json.dumps(job).encode()

    def environment(self, surroundings: Surroundings) -> dict[str, str]:
        """Return the variables of a child: those of this process, but for what is varied and what would record."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_HANDED_ON)}
        return {**kept, "AGENTTAPE_MODE": "replay", **surroundings.environment}


@functools.cache
def _unshuffled() -> tuple[str, ...]:
    """Return the command under which a process has its memory at the same addresses each time, if there is one."""
    found = shutil.which("setarch")
    if found is None:
        return ()
    # S603: where the command is depends on the system. Containers may forbid it.
    tried = subprocess.run([found, "-R", sys.executable, "-c", ""], capture_output=True, check=False)  # noqa: S603
    return () if tried.returncode else (found, "-R")


def command() -> list[str]:
    """Return the command of a child: this interpreter with its options, but for those that ignore the environment.

    Where the system can do so, children have their memory at the same addresses, so that only a seed moves objects, and
    moves them again when it is tried again.
    """
    flags = [f"-X{name}" if value is True else f"-X{name}={value}" for name, value in sys._xoptions.items()]  # noqa: SLF001 - documented
    flags += [f"-W{filtered}" for filtered in sys.warnoptions]
    if sys.flags.optimize:
        flags.append(f"-{'O' * sys.flags.optimize}")
    return [*_unshuffled(), sys.executable, *flags, "-c", _PROGRAM]


def job_for(target: Target, cassette: str | Path | None, options: Mapping[str, Any]) -> Job:
    """Return the job of replaying a function.

    Raises:
        ConfigurationError: If an option is not valid, or cannot be handed to a child.
    """
    project = Path.cwd()
    if cassette is None:
        if options:
            raise ConfigurationError(
                f"verify: {', '.join(options)} is for the cassette to open, and none was given\n"
                "  name the cassette, or give the options where the function opens its own"
            )
        return Job(target, None, {}, project)
    if refused := [option for option in _REFUSED if option in options]:
        raise ConfigurationError(f"verify: {', '.join(refused)} cannot be chosen: a verification only ever replays")
    try:
        use_cassette(cassette, **options)  # checks them; opens nothing
    except TypeError as error:
        raise ConfigurationError(f"verify: {error}") from None
    folder = options.get("cassette_dir", load_settings().cassette_dir)
    path = cassette_path(cassette, folder)
    handed = {name: _handed(name, value) for name, value in options.items() if name != "cassette_dir"}
    return Job(target, str(path), handed, project)


def _handed(name: str, value: Any) -> Any:
    plain = sorted(value) if isinstance(value, set | frozenset) else value
    try:
        json.dumps(plain)
    except TypeError:
        raise ConfigurationError(
            f"verify: {name}= holds what cannot be handed to a child process\n"
            "  open the cassette inside the function: with use_cassette(...), and verify(function) without one"
        ) from None
    return plain
