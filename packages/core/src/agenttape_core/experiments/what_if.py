"""Replay a run with changed answers, and compare it with the recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError, shown_path
from agenttape_core.experiments.program import FunctionProgram, Run
from agenttape_core.experiments.result import cut
from agenttape_core.interventions import Changes, OnNewCall
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.schema import PURE_KINDS
from agenttape_core.session import CallRecord, Report
from agenttape_core.session.report import Divergence, ReachedChange

_SHOWN = 10
_LONG = 200


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The result of a replay with changed answers.

    Args:
        cassette: The cassette.
        changes: The changes in words, by the number of the recorded call.
        report: The report of the session: the fate of each call.
        reached: The attempts that were replayed otherwise, in the order of the run.
        changed: The calls whose request differs from the recording at their location, which they still got.
        new: The calls that had no recording: they were stopped (`missed`) or `executed`.
        unused: The recordings that weren't used, and aren't inside of a replayed call.
        retried: The recordings that answered a further attempt, of a changed call or of others around it.
        written: The derived cassette; `None` if none was written.
        result: What the run returned; `None` if it raised.
        raised: What the run raised; `None` if it returned.
        failed: The failures of sessions that the run opened itself, a line each, also those that it caught.
    """

    cassette: Path | str
    changes: Mapping[int, str]
    report: Report
    reached: tuple[ReachedChange, ...]
    changed: tuple[Divergence, ...]
    new: tuple[Divergence, ...]
    unused: tuple[CallRecord, ...]
    retried: tuple[CallRecord, ...]
    written: Path | str | None = None
    result: Any = None
    raised: BaseException | None = None
    failed: tuple[str, ...] = ()

    @property
    def unreached(self) -> tuple[int, ...]:
        """The numbers of the calls that were to be changed, and were not made: the run shows nothing about those."""
        reached = {one.number for one in self.reached}
        return tuple(number for number in self.changes if number not in reached)

    @property
    def first_divergence(self) -> Divergence | None:
        """The first call of the run that was not as recorded; `None` if all calls that it made were.

        A run that ends early, or is answered otherwise, diverges nowhere if it makes no other call.
        """
        return next(iter(self.report.divergences), None)

    @property
    def is_same(self) -> bool:
        """True if the run made the calls that were recorded, no other and all of them, besides further attempts."""
        return not (self.report.divergences or self.unused or self.failed)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data; the result and the error as texts."""
        first = self.first_divergence
        return {
            "cassette": shown_path(self.cassette),
            "changes": {str(number): words for number, words in self.changes.items()},
            "result": None if self.raised is not None else _text(self.result),
            "raised": None if self.raised is None else _error(self.raised),
            "reached": [_plain(one) for one in self.reached],
            "unreached": list(self.unreached),
            "changed": [_divergence(one) for one in self.changed],
            "new": [_divergence(one) for one in self.new],
            "unused": [_plain(one) for one in self.unused],
            "failed": list(self.failed),
            "retried": [_plain(one) for one in self.retried],
            "first_divergence": None if first is None else _divergence(first),
            "written": None if self.written is None else shown_path(self.written),
        }

    def __str__(self) -> str:
        counts = [f"{len(self.reached)} reached"]
        named = [(word, getattr(self, word)) for word in ("retried", "changed", "new", "unused", "failed")]
        counts += [f"{len(items)} {word}" for word, items in named if items]
        end = f"raised     {_error(self.raised)}" if self.raised is not None else f"returned   {_text(self.result)}"
        lines = [f"{shown_path(self.cassette)}: {', '.join(counts)}", *_lines("reached", self.reached)]
        lines += [f"no landing {number:>4}  {self.changes[number]}" for number in islice(self.unreached, _SHOWN)]
        for word, items in named:
            lines += _lines(word, items)
        return "\n  ".join([*lines, end])


def result_of(run: Run) -> WhatIf:
    """Return the result of a run."""
    report = run.session.report
    seen: set[int] = set()
    retried = []
    for one in report.replayed:
        if one.number in seen and one.kind not in PURE_KINDS:
            retried.append(one)
        seen.add(one.number)
    return WhatIf(
        cassette=run.session.path,
        changes=dict(sorted(run.changes.items())),
        report=report,
        reached=report.reached,
        changed=tuple(one for one in report.divergences if one.what == "changed"),
        new=tuple(one for one in report.divergences if one.what != "changed"),
        unused=report.judged,
        retried=tuple(retried),
        written=run.session.written,
        result=run.result if run.error is None else None,
        raised=run.error,
        failed=run.failed,
    )


def _lines(word: str, items: Sequence[object]) -> list[str]:
    more = [f"{word:<10}      and {len(items) - _SHOWN} more"] if len(items) > _SHOWN else []
    return [*(f"{word:<10} {item}" for item in items[:_SHOWN]), *more]


def _plain(one: CallRecord | ReachedChange) -> dict[str, Any]:
    plain = {"number": one.number, "kind": one.kind, "name": one.name, "address": one.address}
    return {**plain, "change": one.change} if isinstance(one, ReachedChange) else plain


def _divergence(one: Divergence) -> dict[str, Any]:
    differences = [{"path": path, "recorded": old, "asked": new} for path, old, new in one.differences]
    plain = {"what": one.what, "kind": one.kind, "name": one.name, "address": one.address, "number": one.number}
    return {**plain, "differences": differences}


def _text(value: Any) -> str:
    return cut(" ".join(repr(value).split()), _LONG)


def _error(error: BaseException) -> str:
    first = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def what_if(
    cassette: str | Path,
    function: Callable[[], Any],
    changes: Changes,
    *,
    on_new_call: OnNewCall = "stop",
    to: str | Path | None = None,
    **options: Any,
) -> WhatIf:
    """Replay a run with changed answers, and return how it differs from the recording.

    It begins as a strict replay, and without a change it is one. A change is made where the run makes the call: the
    first attempt gets it, and the next one what was recorded. No call is executed whose kind or name is not in
    `on_new_call`.

    Args:
        cassette: The recorded run, as `use_cassette` takes it.
        function: Makes the run again, without arguments; a coroutine function is run to its end.
        changes: What comes of recorded calls, by the number, address, kind or name of the call, or a pattern of places.
        on_new_call: The answer to a call without a recording, once a change was reached: `"stop"` raises a miss,
            `"address"` takes the recording at its address, and kinds or names are made for real.
        to: The derived cassette to write; by default one is written only if something may be executed.
        options: More options of `use_cassette`.

    Raises:
        CassetteError: If the cassette is not there, or cannot be read.
        ConfigurationError: If a change selects no call, or cannot be made.
    """
    program = FunctionProgram(function, options={"to": to, **options}, warns=True)
    return _judged(program.run(_variation(cassette, changes, on_new_call, options)))


async def awhat_if(
    cassette: str | Path,
    function: Callable[[], Any],
    changes: Changes,
    *,
    on_new_call: OnNewCall = "stop",
    to: str | Path | None = None,
    **options: Any,
) -> WhatIf:
    """Do what `what_if` does, for a function that returns something to await."""
    program = FunctionProgram(function, options={"to": to, **options}, warns=True)
    return _judged(await program.arun(_variation(cassette, changes, on_new_call, options)))


def _variation(cassette: str | Path, changes: Changes, on_new_call: OnNewCall, options: Mapping[str, Any]) -> Variation:
    """Return the replay: a run that raises is an outcome, too, and without a change it's a strict one."""
    kept = {name: options[name] for name in ("on_unused", "live", "on_error", "mode") if name in options}
    if not changes and options.get("on_miss") != "return":
        kept.setdefault("on_unused", "fail")
    return Variation(cassette, {"on_error": "keep", **kept}, changes, on_new_call=on_new_call)


def _judged(run: Run) -> WhatIf:
    if isinstance(run.session.failure, ConfigurationError):
        raise run.session.failure
    return result_of(run)
