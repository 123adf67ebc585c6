"""A recorded run as a command: `python -m agenttape_core.tools.processes.restart_api SPEC` begins it again."""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from agenttape_core.asgi.client import Answered
from agenttape_core.errors import AgentTapeError, ConfigurationError
from agenttape_core.lifecycle.remedy import remedy_for_key
from agenttape_core.lifecycle.replay_source import finished, run_to_its_end
from agenttape_core.lifecycle.restarting import Source, begin_of, source_of
from agenttape_core.session import current_session, plain_value
from agenttape_core.storage import open_cassette
from agenttape_core.tools.processes.startup.agenttape_startup import ANSWERED_OTHERWISE, note
from agenttape_core.tools.target import load_program

SESSION = "agenttape_core.tools.processes.restart_session"  # the module whose import opens the session of the process
_USAGE = 2


@dataclass(frozen=True, slots=True)
class RestartSpec:
    """A recorded run that is to begin again, as a process gets it."""

    source: str  # the path of its recording
    app: str = ""  # the program, as `module:name` or `path/to/file.py:name`; empty for a server
    asgi: str = ""  # the ASGI application of a server, named in the same way; empty for a program
    thread_id: str | None = None  # the thread to run again, where the recording holds several
    given: str = ""  # an input to use instead of the recorded one, as JSON; empty for none
    headers: tuple[str, ...] = ()  # headers to send in addition to the recorded ones, as `Name: value`
    is_live: bool = False  # whether calls are live, so a different answer isn't a failure

    @property
    def program(self) -> str:
        """The name of the program or of the server."""
        return self.app or self.asgi

    def words(self) -> tuple[str, ...]:
        """Return the command that begins it again."""
        return (sys.executable, "-m", "agenttape_core.tools.processes.restart_api", json.dumps(asdict(self)))


def main(words: str) -> int:
    """Begin a run again, and print its answer.

    Returns 2 if it can't begin; and 1 if a server answered differently than in the recording, or, if calls are live,
    with a status of 500 or more.
    """
    spec = RestartSpec(**json.loads(words))
    try:
        program = load_program(spec.program)
        source = source_of(
            open_cassette(Path(spec.source)),
            thread_id=spec.thread_id,
            given=json.loads(spec.given) if spec.given else None,
            headers=spec.headers,
        )
        answer = asyncio.run(_inside(program, source)) if source.entry.inside else _around(program, source)
    except (ImportError, ConfigurationError) as error:
        remedy = f"  {said}\n" if (said := remedy_for_key(error)) else ""
        sys.stderr.write(f"agenttape: cannot run {spec.program} again: {error}\n{remedy}")
        return _USAGE
    if isinstance(answer, Answered):
        sys.stdout.write(f"{answer.text}\n")
        sys.stderr.writelines(f"agenttape: {line}\n" for line in answer.differences)
        if spec.is_live and answer.differences:
            _note(answer.differences)
        return int(answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR if spec.is_live else bool(answer.differences))
    sys.stdout.write(f"{_shown(answer)}\n")
    return 0


def _note(differences: Sequence[str]) -> None:
    """Hand lines of an answer to the command: they go to files, so without secrets."""
    session = current_session()
    if session is not None:
        note("\0".join(map(session.redactor.text, differences)), ANSWERED_OTHERWISE)


def _shown(answer: Any) -> str:
    """Return an answer as text, or as JSON, with what JSON does not know as cassettes have it."""
    if isinstance(answer, str):
        return answer
    try:
        return json.dumps(answer, indent=2, ensure_ascii=False, default=plain_value)
    except (TypeError, ValueError):  # keys that JSON does not know, or an object that holds itself
        return json.dumps(plain_value(answer), indent=2, ensure_ascii=False)


def _around(program: Any, source: Source) -> Any:
    importlib.import_module(SESSION)
    return run_to_its_end(begin_of(program, source), is_awaited=source.entry.awaited)


async def _inside(program: Any, source: Source) -> Any:
    importlib.import_module(SESSION)
    return await finished(begin_of(program, source))


if __name__ == "__main__":
    given, sys.argv[1:] = sys.argv[1], []  # a program's own code may read its arguments, and there are none
    try:
        code = main(given)
    except AgentTapeError as error:
        sys.stderr.write(f"agenttape: {error}\n")
        code = 1
    gc.collect()  # what is garbage only would seem to outlive the session
    sys.exit(code)
