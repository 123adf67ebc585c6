"""Checks of the whole path of a run, in agentevals' words: strict, unordered, subset, superset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agenttape_core.checks.checking import Check
from agenttape_core.checks.run import Call, Run
from agenttape_core.checks.values import differing_arguments
from agenttape_core.errors import ConfigurationError
from agenttape_core.tools.reporting import Finding

Expected = Sequence[str | Mapping[str, Any]]
"""The calls of a trajectory: names, or `{"tool": name, "arguments": {...}}` to compare arguments as well."""

Wanted = tuple[str, Mapping[str, Any]]
_KEYS = {"tool", "arguments"}


def exactly(calls: Expected, /, *, strict: bool = True, kind: str = "tool") -> Check:
    """Return the check that exactly these tools are called, as often as they're named.

    Args:
        calls: The calls.
        strict: Whether their order counts.
        kind: Their kind, unless they're tools: `exactly(["plan", "act"], kind="node")`.

    Raises:
        ConfigurationError: If a call is malformed.
    """
    wanted = _wanted(calls, "exactly")
    order = "" if strict else " in any order"
    judge = _judge("strict" if strict else "unordered", wanted, kind)
    return Check("exactly", f"exactly {_said(wanted)}{order}", judge, _needs(kind))


def trajectory(
    *,
    strict: Expected | None = None,
    unordered: Expected | None = None,
    subset: Expected | None = None,
    superset: Expected | None = None,
    kind: str = "tool",
) -> Check:
    """Return the check of a run's calls against a reference, in agentevals' words.

    Args:
        strict: The run makes the same calls in the same order.
        unordered: It makes the same calls in any order.
        subset: It makes no calls but these.
        superset: It makes at least these.
        kind: Their kind, unless they're tools.

    Raises:
        ConfigurationError: If not exactly one of the four is given, or a call is malformed.
    """
    given = {"strict": strict, "unordered": unordered, "subset": subset, "superset": superset}
    chosen = {way: calls for way, calls in given.items() if calls is not None}
    if len(chosen) != 1:
        raise ConfigurationError(
            f"trajectory: expected one of strict, unordered, subset, superset; found {len(chosen)}"
        )
    ((way, calls),) = chosen.items()
    wanted = _wanted(calls, "trajectory")
    return Check("trajectory", f"trajectory {way} {_said(wanted)}", _judge(way, wanted, kind), _needs(kind))


def _judge(way: str, wanted: Sequence[Wanted], kind: str) -> Any:
    def judge(run: Run) -> Iterator[Finding]:
        made = run.of_kind(kind)
        yield from _in_order(run, made, wanted) if way == "strict" else _of_any_order(run, made, wanted, way)

    return judge


def _in_order(run: Run, made: Sequence[Call], wanted: Sequence[Wanted]) -> Iterator[Finding]:
    """Yield the first place where the calls part from the expected ones."""
    for at in range(max(len(made), len(wanted))):
        call = made[at] if at < len(made) else None
        want = wanted[at] if at < len(wanted) else None
        if call is not None and want is not None and call.name == want[0]:
            differences = tuple(differing_arguments(run, want[1], call.arguments))
            if not differences:
                continue
            yield run.finding(f"call {at + 1}, of {call.name}, has other arguments", call, differences=differences)
            return
        if call is None:
            assert want is not None
            message = f"the calls end before {want[0]}"
        else:
            message = f"call {at + 1} is {call.name}" + (
                f", and not {want[0]}" if want is not None else ", which is one more"
            )
        yield run.finding(message, call, expected=_said(wanted), found=", ".join(map(str, made)) or "no calls")
        return


def _of_any_order(run: Run, made: Sequence[Call], wanted: Sequence[Wanted], way: str) -> Iterator[Finding]:
    """Yield calls that are missing or too many. Each expected call matches one."""
    free = list(range(len(made)))
    missing = []
    for want in sorted(wanted, key=lambda each: -len(each[1])):  # those with arguments choose first
        fitting = next((at for at in free if _fits(run, want, made[at])), None)
        if fitting is None:
            missing.append(want)
        else:
            free.remove(fitting)
    if way in {"unordered", "superset"}:
        for want in missing:
            alike = next((made[at] for at in free if made[at].name == want[0]), None)
            differences = tuple(differing_arguments(run, want[1], alike.arguments)) if alike is not None else ()
            yield run.finding(
                f"{want[0]} is missing" + (" with these arguments" if want[1] else ""),
                alike,
                expected=_said(wanted),
                found=", ".join(map(str, made)) or "no calls",
                differences=differences,
            )
    if way in {"unordered", "subset"}:
        for at in free:
            yield run.finding(
                f"{made[at].name} is one call too many", made[at], expected=_said(wanted), found=str(made[at])
            )


def _wanted(calls: Any, rule: str) -> list[Wanted]:
    if isinstance(calls, str) or not isinstance(calls, Sequence):
        raise ConfigurationError(f"{rule}: expected a list of calls, found {calls!r}")
    return [_want(call, rule) for call in calls]


def _want(call: Any, rule: str) -> Wanted:
    if isinstance(call, str) and call:
        return call, {}
    arguments = call.get("arguments", {}) if isinstance(call, Mapping) else None
    if (
        isinstance(call, Mapping)
        and set(call) <= _KEYS
        and isinstance(call.get("tool"), str)
        and isinstance(arguments, Mapping)
    ):
        return call["tool"], arguments
    raise ConfigurationError(
        f'{rule}: {call!r} is not a call\n  expected a name, or {{"tool": name, "arguments": {{...}}}}'
    )


def _fits(run: Run, want: Wanted, call: Call) -> bool:
    return call.name == want[0] and not differing_arguments(run, want[1], call.arguments)


def _said(wanted: Sequence[Wanted]) -> str:
    return ", ".join(str(Call("tool", name, given or None)) for name, given in wanted) or "no calls"


def _needs(kind: str) -> tuple[str, ...]:
    return ("steps",) if kind == "node" else ("calls",)
