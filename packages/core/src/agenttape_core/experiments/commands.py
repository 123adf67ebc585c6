"""Commands as programs: each run is a new process under `agenttape replay`, judged by its exit code and its output."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError, counted
from agenttape_core.experiments.program import COMMAND, ExitError, Failure, ReportedSession, Run
from agenttape_core.guard.caller import is_library
from agenttape_core.lifecycle.chosen_order import Imposing
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.redaction import Redactor, new_key
from agenttape_core.session import Report
from agenttape_core.storage import open_cassette
from agenttape_core.tools.processes.command import Command, command_of
from agenttape_core.tools.processes.report import Outcome
from agenttape_core.tools.processes.run import path_of, run
from agenttape_core.tools.processes.run_folder import SessionEnd

_INTERRUPTED = 130
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'^ +File "([^"\n]+)", line (\d+), in (.+)$', re.MULTILINE)
_ERROR = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?$", re.MULTILINE)
_OURS = str(Path(__file__).parents[1])


def command_in(target: str) -> Command:
    """Return the command that a target of an experiment names."""
    words = shlex.split(target.removeprefix(COMMAND))
    if not words:
        raise ConfigurationError("expected a command after --, such as: -- python agent.py")
    return command_of(words)


class CommandProgram:
    """A command. What varies is its main process; its other processes are replayed."""

    source = None

    def __init__(self, given: str, options: Mapping[str, Any]) -> None:
        self.name = self.given = given
        self._command = command_in(given)
        self._options = options
        self._recording: Path | None = None
        self.cassette: Path | None = path_of(self._command.name)

    def function(self) -> str:
        """Replay it plainly, and return what it printed."""
        return str(self.run(Variation()).result)

    def run(self, variation: Variation) -> Run:
        """Run it once, and return how it ended."""
        path = Path(variation.cassette or self.cassette or "").absolute()
        self._recording = self._recording or path  # next to it are those of its other processes
        # Without the variations that this one announces.
        plain = Variation(**{one.name: getattr(variation, one.name) for one in fields(Variation)})
        to = variation.write_to.absolute() if variation.write_to is not None else None
        varied = replace(plain, cassette=path, write_to=to, options={**self._options, **variation.options})
        live = {"live": list(variation.live)} if variation.live else {}
        ended = run(self._command, mode="replay", cassette=str(self._recording), options=live, vary=varied)
        if ended.code == _INTERRUPTED:
            raise KeyboardInterrupt
        end = ended.end or SessionEnd(Report())
        redactor = Redactor(new_key())
        if isinstance(variation.order, Imposing) and ended.end is not None:
            variation.order.choices, variation.order.rows = end.choices, end.rows
            variation.order.redactor = redactor
        error = end.failure or (ExitError(_failure(ended)) if ended.code else None)
        session = ReportedSession(end.report, end.failure, open_cassette(path), path, to, redactor)
        failed = tuple(_others(ended, end.report, judges_unused=varied.options.get("on_unused") == "fail"))
        return Run(session, ended.output[0], error, failed, end.changes)


def _others(ended: Outcome, report: Report, *, judges_unused: bool) -> Iterator[str]:
    """Yield the failures that the main process's session doesn't have."""
    for each in ended.reports:
        yield from filter(None, [each.failed_blocks])
        if each.address:
            yield from (*each.missed, *each.unrecorded, *each.blocked)
    yield from (*ended.blocked, *ended.not_run)
    if judges_unused and not ended.code and report.judged:
        first = str(report.judged[0]).strip()
        yield f"the run didn't make {counted(len(report.judged), 'recorded call')}, such as {first}"


def _failure(ended: Outcome) -> Failure:
    """Return the failure of a command: the exception of its last traceback, or its exit code."""
    _, found, trace = ended.output[1].rpartition(_TRACEBACK)
    frames = [one for one in _FRAME.findall(trace) if not (one[0].startswith(("<", _OURS)) or is_library(one[0]))]
    error = _ERROR.search(trace)
    if not found or error is None:
        return Failure(f"exit code {ended.code}", "", 0, "", "")
    file, line, function = frames[-1] if frames else ("", 0, "")
    return Failure(error[1], file, int(line), function, error[2] or "")
