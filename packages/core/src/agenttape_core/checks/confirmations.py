"""The check that a person confirmed a call before a tool was called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agenttape_core.checks.checking import Check
from agenttape_core.checks.limits import is_interrupt
from agenttape_core.checks.run import Call, Run
from agenttape_core.errors import ConfigurationError
from agenttape_core.schema import MODEL_KINDS
from agenttape_core.tools.reporting import Finding

_NAMES = ("name", "action", "action_name", "tool", "tool_name")
"""The keys by which the questions of frameworks name a tool."""


def confirmed(tool: str, /) -> Check:
    """Return the check that each call of a tool comes after an interrupt that was answered.

    An interrupt that names tools, such as LangChain's human in the loop, confirms only those. It's valid for the
    calls until a model answers again.

    Args:
        tool: The tool.
    """
    if not isinstance(tool, str) or not tool:
        raise ConfigurationError(f"confirmed: expected the name of a tool, found {tool!r}")

    def judge(run: Run) -> Iterator[Finding]:
        asked: str | None = None
        used = False
        for call in run.happened:
            if _asks_about(call, tool):
                asked, used = call.address.partition("/")[0] if call.is_step and call.kind == "node" else "", False
            elif call.kind in MODEL_KINDS and used:
                asked = None
            elif call.kind == "tool" and call.name == tool:
                # A graph goes on in another invocation when it has its answer.
                if asked is None or (asked and call.address.partition("/")[0] == asked):
                    yield run.finding(f"{tool} was called without having been confirmed", call, found=str(call))
                used = True

    return Check("confirmed", f"confirmed {tool}", judge, ("calls", "steps"))


def _asks_about(call: Call, tool: str) -> bool:
    if call.kind != "interrupt" and not (call.is_step and is_interrupt(call.error)):
        return False
    named = set(_named(call.data))
    return not named or tool in named


def _named(data: Any) -> Iterator[str]:
    """Yield the tools that the data of an interrupt names."""
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            yield from (value[key] for key in _NAMES if isinstance(value.get(key), str))
            waiting += [item for item in value.values() if isinstance(item, Mapping | list)]
        elif isinstance(value, list):
            waiting += [item for item in value if isinstance(item, Mapping | list)]
