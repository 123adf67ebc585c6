"""Record what an agent does in the shell that `ShellToolMiddleware` keeps open from one call of its tool to the next.

A node begins the shell, outside of every call of a tool, and each command acts wherever it pleases. So both are calls:
a replay starts no process, and a command has the output that it had. What the tool makes of it, as redacting it or
saying that it took too long, is program. The end of a shell is no call: one that was not begun has nothing to end.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agenttape_core.integration import Boundary, Call, Crossing, PatchedOnImport, begin, current_session, plain
from agenttape_langchain.requests import method_body

SHELL = Boundary("call")
_MODULE = "langchain.agents.middleware.shell_tool"


def _cross(shell: Any, method: str, **arguments: Any) -> Crossing | None:
    session = current_session()
    if session is None or not session.ambient:
        return None
    return begin(SHELL, shell, type(shell).__name__, lambda _: method_body(method, arguments, {}), writes=True)


def _starting(real: Callable[..., None]) -> Callable[..., None]:
    def describe(shell: Any, /) -> Call:
        return Call(_cross(shell, "start"), lambda: real(shell))

    return plain(real, describe)


def _executing(real: Callable[..., Any]) -> Callable[..., Any]:
    def describe(shell: Any, /, command: str, *, timeout: float) -> Call:
        crossing = _cross(shell, "execute", command=command)
        return Call(crossing, lambda: real(shell, command, timeout=timeout), pack=dataclasses.asdict, unpack=_result)

    return plain(real, describe)


def _result(recorded: dict[str, Any]) -> Any:
    return sys.modules[_MODULE].CommandExecutionResult(**recorded)


_SEAMS = (
    PatchedOnImport(_MODULE, "ShellSession.start", _starting),
    PatchedOnImport(_MODULE, "ShellSession.execute", _executing),
)


@contextmanager
def shells_taped() -> Iterator[None]:
    """Record what is done in such shells, while inside."""
    start, execute = _SEAMS
    with start(), execute():
        yield
