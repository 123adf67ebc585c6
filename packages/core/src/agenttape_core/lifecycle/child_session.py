"""The session of a process that `multiprocessing` has spawned within a replay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agenttape_core.lifecycle.entropy_of_children import watch_draws
from agenttape_core.lifecycle.failures_of_children import FAILURES, FailuresOfChildren
from agenttape_core.lifecycle.open_cassette import CassetteInUse
from agenttape_core.lifecycle.open_session import open_session
from agenttape_core.lifecycle.project import Project, confine_process
from agenttape_core.lifecycle.request import SessionRequest

_begun: list[CassetteInUse] = []
"""The session of this process, which ends with it."""


def begin(options: Mapping[str, Any]) -> None:
    """Open the session, for the rest of this process. Its calls are replayed or missed, and none is made for real.

    Args:
        options: Those of `SessionRequest` that the parent has given, and where failures are kept for it.

    Raises:
        CassetteError: If the cassette cannot be read; the process does not begin then.
    """
    confine_process(Project(Path.cwd(), replays_only=True))  # for the sessions that its code opens itself
    request = {name: value for name, value in options.items() if name != "failures"}
    opened = open_session(SessionRequest(**request, may_be_missing=True))
    opened.session.extend(FAILURES, FailuresOfChildren(*options["failures"]))
    watch_draws(opened.session, is_new=True)
    in_use = CassetteInUse(opened)
    in_use.enter()
    _begun.append(in_use)
