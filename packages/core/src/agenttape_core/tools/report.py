"""The report on changed recordings: which runs took another path, with which tool calls, for how much more."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from agenttape_core.errors import CassetteError, counted
from agenttape_core.matching import Ignored
from agenttape_core.schema import PURE_KINDS, Interaction
from agenttape_core.storage import Cassette
from agenttape_core.tools.compare import Comparison
from agenttape_core.tools.reading.prices import Prices
from agenttape_core.tools.reading.provider_calls import MODELS, model_call
from agenttape_core.tools.reading.summary import cost_of, tokens_of
from agenttape_core.tools.reporting.forms import cell, code, escaped, fenced

__all__ = ["Change", "Totals", "Trajectory", "change_of", "comment", "markdown", "trajectory_of"]


# -- The path that a run took: its calls, one after another, tools with their arguments.


_LONGEST = 120


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The path of a run, and its cost."""

    # Its calls in the order of the file, in words: `chat ChatOpenAI`, `look_up(city="Paris")`. Embeddings are left
    # out: which run makes them depends on what another one has made.
    calls: tuple[str, ...] = ()
    tokens: int = 0  # the tokens that its models have read and written, if they were counted
    dollars: float = 0.0  # the cost of its calls in US dollars, as far as their models have a known price


def trajectory_of(cassette: Cassette, prices: Prices) -> Trajectory:
    """Return the path of a recorded run. Raises `CassetteFormatError` if a record is malformed."""
    return path_of(cassette.interactions(), prices)


def path_of(interactions: Iterable[Interaction], prices: Prices) -> Trajectory:
    """Return the path that the calls of a recorded run make."""
    calls, tokens, dollars = [], 0, 0.0
    items = list(interactions)
    models = {item.number for item in items if item.kind in MODELS}
    for call in (model_call(item, models) for item in items):
        if call.kind not in PURE_KINDS:
            calls.append(_said(call))
        if call.kind in MODELS:
            tokens += sum(tokens_of(call))
            dollars += cost_of(call, prices) or 0.0
    return Trajectory(tuple(calls), tokens, round(dollars, 6))


def _said(item: Interaction) -> str:
    failed = " raised" if item.outcome.error is not None else " refused" if item.outcome.status == "refused" else ""
    if item.kind != "tool":
        return f"{item.kind} {item.name}{failed}"
    given = item.request.get("arguments", item.request)
    said = ", ".join(f"{key}={_short(value)}" for key, value in given.items()) if isinstance(given, Mapping) else ""
    return f"{item.name}({said}){failed}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


# -- The change of one recording: another path, other words, new or gone.


State = Literal["same", "words", "path", "new", "gone", "unreadable"]
"""The change of a recording: `path` if the run makes other calls, `words` if only texts in them differ."""

_WORDS = 3
_CONTEXT = 2


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one recording."""

    path: str  # the file
    state: State
    # The difference of the paths, a line each: `- ` before a call that went, `+ ` before a new one.
    calls: tuple[str, ...] = ()
    # The first places where calls differ: the call, the place, before and now.
    words: tuple[tuple[str, str, str, str], ...] = ()
    changed: int = 0  # the number of calls that differ
    before: Trajectory = field(default_factory=Trajectory)  # the run before
    now: Trajectory = field(default_factory=Trajectory)  # the run now
    problem: str = ""  # the reason why a file cannot be read

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        plain = asdict(self)
        plain["words"] = [dict(zip(("call", "place", "before", "now"), each, strict=True)) for each in self.words]
        return plain


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of several changes."""

    recordings: int  # the number of recordings that were compared
    changed: int  # how many of them changed
    paths: int  # how many of those took another path
    tokens: tuple[int, int]  # the tokens before and now
    dollars: tuple[float, float]  # the cost before and now, in US dollars

    @classmethod
    def of(cls, changes: Iterable[Change]) -> Totals:
        """Return the sums."""
        several = list(changes)
        return cls(
            recordings=len(several),
            changed=sum(one.state != "same" for one in several),
            paths=sum(one.state == "path" for one in several),
            tokens=(sum(one.before.tokens for one in several), sum(one.now.tokens for one in several)),
            dollars=(
                round(sum(one.before.dollars for one in several), 6),
                round(sum(one.now.dollars for one in several), 6),
            ),
        )


def change_of(
    path: str, before: Callable[[], Cassette] | None, now: Callable[[], Cassette] | None, prices: Prices
) -> Change | None:
    """Return the change of a recording; `None` if there is no cassette at this path, neither before nor now.

    `before` and `now` open the old and the present recording.
    """
    problems = []
    runs: list[tuple[Cassette, Trajectory] | None] = []
    for opens in (before, now):
        try:
            runs.append(_read(opens, prices))
        except CassetteError as error:
            problems.append(str(error).splitlines()[0])
            runs.append(None)
    if problems:
        # What was never a cassette is another YAML file; what was one, or is one, is broken.
        return Change(path, "unreadable", problem=problems[0]) if any(runs) else None
    first, other = runs
    if first is None or other is None:
        gone = first[1] if first is not None else Trajectory()
        new = other[1] if other is not None else Trajectory()
        state: State = "new" if first is None else "gone"
        lines = [f"+ {call}" for call in new.calls] + [f"- {call}" for call in gone.calls]
        return Change(path, state, calls=tuple(lines), before=gone, now=new)
    return _compared(path, first, other)


def _read(opens: Callable[[], Cassette] | None, prices: Prices) -> tuple[Cassette, Trajectory] | None:
    if opens is None:
        return None
    cassette = opens()
    return cassette, trajectory_of(cassette, prices)


def _compared(path: str, first: tuple[Cassette, Trajectory], other: tuple[Cassette, Trajectory]) -> Change:
    (old, before), (new, now) = first, other
    changes = [one for one in Comparison(old, new, Ignored(), steps=False).changes if one.what == "interaction"]
    state: State = "path" if before.calls != now.calls else "words" if changes else "same"
    words = [
        (f"{one.kind} {one.name} at {one.address}", part.path, part.recorded, part.asked)
        for one in changes
        for part in one.differences[:1]
    ]
    return Change(path, state, _difference(before, now), tuple(words[:_WORDS]), len(changes), before, now)


def _difference(before: Trajectory, now: Trajectory) -> tuple[str, ...]:
    if before.calls == now.calls:
        return ()
    lines = difflib.unified_diff(before.calls, now.calls, n=_CONTEXT, lineterm="")
    return tuple(f"{line[0]} {line[1:]}" for line in lines if not line.startswith(("---", "+++", "@@")))


# -- The report as Markdown, for the summary of a job and the comment on a pull request.


MARK = "<!-- agenttape-report -->"  # the first line of a comment, by which a job finds its own

_SAID = {"path": "another path", "words": "other words", "new": "new", "gone": "gone", "unreadable": "unreadable"}
_MOST = 65_000  # the most characters of a comment: GitHub takes 65,536


def markdown(changes: Sequence[Change], base: str) -> str:
    """Return the report. `changes` includes recordings that are the same; `base` is the earlier revision."""
    totals = Totals.of(changes)
    different = [one for one in changes if one.state != "same"]
    lines = [f"### AgentTape: {_headline(totals)}", ""]
    if not different:
        return "\n".join([*lines, f"Compared with {code(base)}: {counted(totals.recordings, 'recording')}."]) + "\n"
    lines += ["| recording | change | calls | tokens | money |", "|---|---|---|---|---|"]
    order = list(_SAID)
    different.sort(key=lambda one: (order.index(one.state), one.path))
    for one in different:
        numbers = [
            _moved(len(one.before.calls), len(one.now.calls)),
            _moved(one.before.tokens, one.now.tokens),
            _money(one.before.dollars, one.now.dollars),
        ]
        lines.append(f"| {cell(one.path)} | {_SAID[one.state]} | {' | '.join(numbers)} |")
    sums = [_moved(*totals.tokens), _money(*totals.dollars)]
    lines += [f"| **all {totals.recordings}** | | | {' | '.join(sums)} |", ""]
    for one in different:
        lines += _details(one)
    lines.append(f"Compared with {code(base)}. `agenttape diff` shows all of it.")
    return "\n".join(lines) + "\n"


def comment(text: str) -> str:
    """Return a report as the body of a comment, cut to the limit of the code host."""
    body = f"{MARK}\n{text}"
    if len(body) <= _MOST:
        return body
    kept = body[:_MOST].rpartition("\n<details>")[0]
    return f"{kept}\n\nThe rest is too long for a comment; see the summary of the job.\n"


def _headline(totals: Totals) -> str:
    if not totals.changed:
        return "no recording changed"
    took = f", {totals.paths} took another path" if totals.paths else ", none took another path"
    return f"{totals.changed} of {counted(totals.recordings, 'recording')} changed{took}"


def _details(change: Change) -> list[str]:
    shown = [*change.calls]
    for call, place, before, now in change.words:
        shown += [*([""] if shown else []), f"  {call}", f"  {place}", f"- {before}", f"+ {now}"]
    if change.changed > len(change.words) and change.words:
        shown += ["", f"  {counted(change.changed, 'call')} differ"]
    if change.problem:
        shown.append(change.problem)
    return [
        "<details><summary>" + escaped(change.path) + "</summary>",
        "",
        *fenced(shown, "diff"),
        "",
        "</details>",
        "",
    ]


def _moved(before: int, now: int) -> str:
    return f"{now:,}" if before == now else f"{before:,} → {now:,}"


def _money(before: float, now: float) -> str:
    if not before and not now:
        return ""
    return f"${now:.4f}" if before == now else f"${before:.4f} → ${now:.4f}"
