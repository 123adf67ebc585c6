"""Checks of the calls of a run: how often, with which arguments, in which order; of its whole path, and its answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agenttape_core.checks.checking import Check
from agenttape_core.checks.limits import is_interrupt
from agenttape_core.checks.run import Call, Run
from agenttape_core.checks.values import compiled, differing_arguments, forms_of, problems_of, shown, validator
from agenttape_core.errors import ConfigurationError, counted
from agenttape_core.matching import spelled
from agenttape_core.schema import MODEL_KINDS
from agenttape_core.tools.reporting import Finding

_SUPERSTEP = re.compile(r"@(\d+)(?:\[\d+\])?$")  # the superstep of a task, at the end of a part of an address
STEPS = frozenset({"node"})  # the kinds that are steps, and no interactions


def called(
    name: str,
    /,
    *,
    times: int | None = None,
    kind: str = "tool",
    arguments: Mapping[str, Any] | None = None,
    **further: Any,
) -> Check:
    """Return the check that something is called.

    Args:
        name: The tool.
        times: How often; by default once or more.
        kind: Its kind, unless it's a tool: `node`, `chat`, `retrieval`, ….
        arguments: The arguments of the calls that count; those that are not named may be anything. A value may be a
            regular expression.
        further: Arguments by their names.

    Raises:
        ConfigurationError: If an option is malformed.
    """
    wanted = {**(arguments or {}), **further}
    _refuse_no_name("called", name)
    if times is not None and (not isinstance(times, int) or isinstance(times, bool) or times < 1):
        raise ConfigurationError(f"called: times is a number of calls from 1 on, found {times!r}; see never")

    def judge(run: Run) -> Iterator[Finding]:
        made = [call for call in run.of_kind(kind) if call.name == name]
        fitting = [call for call in made if not differing_arguments(run, wanted, call.arguments)]
        if (times is None and fitting) or len(fitting) == times:
            return
        said = (
            f"{name} was called {counted(len(fitting), 'time')}, and not {times},"
            if fitting
            else f"{name} was not called"
        )
        nearest = made[0] if wanted and made and not fitting else None
        differences = tuple(differing_arguments(run, wanted, nearest.arguments)) if nearest is not None else ()
        yield run.finding(
            f"{said}{' with these arguments' if wanted else ''}".removesuffix(","),
            nearest or (fitting[-1] if fitting else None),
            found="" if differences else _listed(run.of_kind(kind)),
            differences=differences,
        )

    often = f" {counted(times, 'time')}" if times is not None else ""
    return Check("called", f"called {_said(name, kind, wanted)}{often}", judge, _needs(kind))


def never(name: str, /, *, kind: str = "tool", arguments: Mapping[str, Any] | None = None, **further: Any) -> Check:
    """Return the check that a tool is never called, and that no model requests it.

    Args:
        name: The tool.
        kind: Its kind, unless it's a tool.
        arguments: The arguments of the calls that count, as in `called`.
        further: Arguments by their names.
    """
    wanted = {**(arguments or {}), **further}
    _refuse_no_name("never", name)

    def judge(run: Run) -> Iterator[Finding]:
        def fits(call: Call) -> bool:
            return call.name == name and not differing_arguments(run, wanted, call.arguments)

        made = [call for call in run.of_kind(kind) if fits(call)]
        for call in made:
            yield run.finding(f"{name} was called", call, found=str(call))
        if kind == "tool" and not made:
            for call in filter(fits, run.asked):
                yield run.finding(f"a model asked for {name}, which was not called", call, found=str(call))

    return Check("never", f"never {_said(name, kind, wanted)}", judge, _needs(kind))


def before(first: str, then: str, /, *, kind: str = "tool") -> Check:
    """Return the check that one thing is called before another: no call of that may come without one of this.

    Calls of one superstep of a graph run beside each other: neither is before the other.

    Args:
        first: The tool that must come first.
        then: The tool that must not come without it.
        kind: Their kind, unless they're tools.
    """
    _refuse_no_name("before", first, then)

    def judge(run: Run) -> Iterator[Finding]:
        made = run.of_kind(kind)
        late = next((at for at, call in enumerate(made) if call.name == then), None)
        if late is None:
            return
        earlier = [call for call in made[:late] if call.name == first]
        if any(not _beside(call, made[late]) for call in earlier):
            return
        why = f"beside {first}, not after it" if earlier else f"without {first} before it"
        yield run.finding(f"{then} was called {why}", made[late], found=_listed(made))

    return Check("before", f"{first} before {then}", judge, _needs(kind))


def after(first: str, then: str, /, *, within: int | None = None, kind: str = "tool") -> Check:
    """Return the check that one thing is followed by another, whenever it is called.

    Args:
        first: The tool that needs something after it.
        then: The tool that must follow.
        within: The number of calls, of the same kind, after which it must have come; by default any.
        kind: Their kind, unless they're tools.

    Raises:
        ConfigurationError: If `within` isn't a number of calls.
    """
    _refuse_no_name("after", first, then)
    if within is not None and (not isinstance(within, int) or isinstance(within, bool) or within < 1):
        raise ConfigurationError(f"after: within is a number of calls from 1 on, found {within!r}")

    def judge(run: Run) -> Iterator[Finding]:
        made = run.of_kind(kind)
        for at, call in enumerate(made):
            following = made[at + 1 :] if within is None else made[at + 1 : at + 1 + within]
            if call.name == first and not any(other.name == then for other in following):
                limit = f" within {counted(within, 'call')}" if within is not None else ""
                yield run.finding(f"{first} was not followed by {then}{limit}", call, found=_listed(made))

    limit = f" within {counted(within, 'call')}" if within is not None else ""
    return Check("after", f"after {first}, {then}{limit}", judge, _needs(kind))


def arguments(name: str, /, *, json_schema: Mapping[str, Any] | None = None, **expected: Any) -> Check:
    """Return the check of the arguments of a tool, in every call of it.

    Args:
        name: The tool.
        json_schema: The JSON Schema that they must fit; needs the extra `checks`.
        expected: The values that they must have; those that are not named may be anything. A value may be a regular
            expression.

    Raises:
        ConfigurationError: If there are no values to compare with, or the schema is invalid.
    """
    _refuse_no_name("arguments", name)
    if json_schema is None and not expected:
        raise ConfigurationError("arguments: expected values, or a json_schema")
    schema = validator(json_schema, "arguments") if json_schema is not None else None

    def judge(run: Run) -> Iterator[Finding]:
        for call in run.of_kind("tool"):
            if call.name != name:
                continue
            found = differing_arguments(run, expected, call.arguments)
            if schema is not None:
                found += problems_of(run, schema, call.arguments)
            if found:
                yield run.finding(f"the arguments of {name} are not the expected ones", call, differences=tuple(found))

    said = [
        *(["fit a schema"] if schema is not None else []),
        *(f"{key}={shown(item)}" for key, item in expected.items()),
    ]
    return Check("arguments", f"arguments of {name}: {', '.join(said)}", judge, ("calls",))


def _beside(call: Call, other: Call) -> bool:
    """Return True if two calls belong to tasks of one superstep, such as `a@3` and `b@3`, or `tools@3[0]` and `[1]`."""
    ours, theirs = call.address.split("/"), other.address.split("/")
    parting = next((pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]), ("", ""))
    first, second = map(_SUPERSTEP.search, parting)
    return first is not None and second is not None and first[1] == second[1]


def _listed(calls: Sequence[Call]) -> str:
    return ", ".join(map(str, calls)) or "no calls"


def _said(name: str, kind: str, wanted: Mapping[str, Any]) -> str:
    given = f"({', '.join(f'{key}={shown(value)}' for key, value in wanted.items())})" if wanted else ""
    return f"{'' if kind == 'tool' else f'{kind} '}{name}{given}"


def _needs(kind: str) -> tuple[str, ...]:
    return ("steps",) if kind in STEPS else ("calls",)


def _refuse_no_name(rule: str, *names: Any) -> None:
    for name in names:
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"{rule}: expected the name of a tool, found {name!r}")


# -- Checks of the last answer of a run.


def output(
    *,
    equals: str | None = None,
    contains: str | Sequence[str] | None = None,
    regex: Any = None,
    json_schema: Mapping[str, Any] | None = None,
) -> Check:
    """Return the check of the text of the last answer of a model.

    Args:
        equals: The whole text.
        contains: A part of it, or several.
        regex: A regular expression that is found in it.
        json_schema: The JSON Schema that it fits, read as JSON; needs the extra `checks`.

    Raises:
        ConfigurationError: If no option is given, or one is malformed.
    """
    expectations = [
        *([_equals(equals)] if equals is not None else []),
        *([_contains(part) for part in _parts(contains)] if contains is not None else []),
        *([_fits(compiled(regex, "output"))] if regex is not None else []),
        *([_fits_schema(validator(json_schema, "output"))] if json_schema is not None else []),
    ]
    if not expectations:
        raise ConfigurationError("output: expected one of equals, contains, regex, json_schema")

    def judge(run: Run) -> Iterator[Finding]:
        last = next((call for call in reversed(run.happened) if call.kind in MODEL_KINDS), None)
        for _, find in expectations:
            yield from find(run, last)

    return Check("output", f"output {', '.join(said for said, _ in expectations)}", judge, ("output",))


_Expectation = tuple[str, Callable[[Run, Call | None], Iterator[Finding]]]
"""An expectation in words, and the function that finds where it is not met."""


def _equals(text: Any) -> _Expectation:
    if not isinstance(text, str):
        raise ConfigurationError(f"output: equals is a text, found {text!r}")

    def find(run: Run, last: Call | None) -> Iterator[Finding]:
        forms = forms_of(run, text)
        if run.answer not in forms:
            yield run.finding("the output is another one", last, differences=(spelled("", forms[-1], run.answer),))

    return f"equals {shown(text)}", find


def _contains(part: str) -> _Expectation:
    def find(run: Run, last: Call | None) -> Iterator[Finding]:
        if not any(form in run.answer for form in forms_of(run, part)):
            yield run.finding("the output lacks a text", last, expected=part, found=shown(run.answer))

    return f"contains {shown(part)}", find


def _fits(pattern: re.Pattern[str]) -> _Expectation:
    def find(run: Run, last: Call | None) -> Iterator[Finding]:
        if not any(form.search(run.answer) for form in forms_of(run, pattern)):
            yield run.finding("the output does not fit", last, expected=shown(pattern), found=shown(run.answer))

    return f"fits {shown(pattern)}", find


def _fits_schema(schema: Any) -> _Expectation:
    def find(run: Run, last: Call | None) -> Iterator[Finding]:
        try:
            value = json.loads(run.answer)
        except ValueError as error:
            yield run.finding(f"the output isn't JSON: {error}", last, found=shown(run.answer))
            return
        if found := problems_of(run, schema, value):
            yield run.finding("the output does not fit the schema", last, differences=tuple(found))

    return "fits a schema", find


def _parts(contains: Any) -> list[str]:
    parts = [contains] if isinstance(contains, str) else contains
    if not isinstance(parts, Sequence) or not parts or not all(isinstance(part, str) and part for part in parts):
        raise ConfigurationError(f"output: contains is a text or a list of texts, found {contains!r}")
    return list(parts)


# -- The check that a person confirmed a call before a tool was called.


_NAMES = ("name", "action", "action_name", "tool", "tool_name")
"""The keys by which the questions of frameworks name a tool."""


def confirmed(tool: str, /) -> Check:
    """Return the check that each call of a tool comes after an interrupt that was answered.

    An interrupt that names tools, such as LangChain's human in the loop, confirms only those. It's valid for the
    calls until a model answers again.

    Args:
        tool: The tool.
    """
    _refuse_no_name("confirmed", tool)

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


# -- Checks of the whole path of a run, in agentevals' words: strict, unordered, subset, superset.


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
    return Check("exactly", f"exactly {_path(wanted)}{order}", judge, _needs(kind))


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
    return Check("trajectory", f"trajectory {way} {_path(wanted)}", _judge(way, wanted, kind), _needs(kind))


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
        yield run.finding(message, call, expected=_path(wanted), found=_listed(made))
        return


def _of_any_order(run: Run, made: Sequence[Call], wanted: Sequence[Wanted], way: str) -> Iterator[Finding]:
    """Yield calls that are missing or too many. Each expected call matches one."""
    free = list(range(len(made)))
    missing = []
    for want in sorted(wanted, key=lambda each: -len(each[1])):  # those with arguments choose first
        fitting = next((at for at in free if _matches(run, want, made[at])), None)
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
                expected=_path(wanted),
                found=_listed(made),
                differences=differences,
            )
    if way in {"unordered", "subset"}:
        for at in free:
            yield run.finding(
                f"{made[at].name} is one call too many",
                made[at],
                expected=_path(wanted),
                found=str(made[at]),
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


def _matches(run: Run, want: Wanted, call: Call) -> bool:
    return call.name == want[0] and not differing_arguments(run, want[1], call.arguments)


def _path(wanted: Sequence[Wanted]) -> str:
    return _listed([Call("tool", name, given or None) for name, given in wanted])
