"""Checks of the cost of a run, and of its errors."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from agenttape_core.checks.checking import Check
from agenttape_core.checks.run import CACHE_FIGURES, FACTS, Run
from agenttape_core.errors import ConfigurationError, counted
from agenttape_core.tools.reporting import Finding

_WHY = {
    "tokens": "counted no tokens",
    "uncached_tokens": "counted no tokens, or have no known prompt cache",
    "cache_miss_dollars": "have no known prompt cache, counted tokens or known price",
    "dollars": "had no counted tokens or known price: install agenttape-core[prices], or name a table as `prices`",
}
_SHOWN = 3


def at_most(
    *,
    calls: int | None = None,
    tokens: int | None = None,
    seconds: float | None = None,
    dollars: float | None = None,
    steps: int | None = None,
    uncached_tokens: int | None = None,
    cache_miss_dollars: float | None = None,
    uncounted: Collection[str] = (),
) -> Check:
    """Return the check that a run takes no more than it may.

    A limit of tokens or dollars fails if a call of a model had none that were counted: it may have taken any number.
    A call that raised, and a request that was answered with an error, count as free.

    Args:
        calls: Its recorded calls, as in `agenttape ls`.
        tokens: The tokens that its models read and write.
        seconds: The recorded time of its calls; parallel calls add up.
        dollars: Their cost in US dollars, by the prices of the project.
        steps: The nodes of graphs, or steps of workflows, that ran.
        uncached_tokens: The tokens of requests that weren't read from the provider's prompt cache, by its count; where
            it doesn't say, by its rules. The first request of a prompt counts in full.
        cache_miss_dollars: What a prompt cache would have saved, in US dollars, if each request had continued the
            prefix of an earlier one that holds the same text; see `agenttape show --cache`. An estimate.
        uncounted: The names of models that may go uncounted, as the failure shows them: `OpenAIEmbeddings`,
            `api.openai.com/v1/chat/completions`. The limit is then judged by the others, with a warning.

    Raises:
        ConfigurationError: If no limit is given, or one isn't a number.
    """
    given = {"calls": calls, "tokens": tokens, "seconds": seconds, "dollars": dollars, "steps": steps,
             "uncached_tokens": uncached_tokens, "cache_miss_dollars": cache_miss_dollars}  # fmt: skip
    limits = {what: limit for what, limit in given.items() if limit is not None}
    if not limits:
        raise ConfigurationError(f"at_most: expected a limit: {', '.join(given)}")
    for what, limit in limits.items():
        _refuse_no_number(what, limit)
    if isinstance(uncounted, str):
        raise ConfigurationError(f"at_most: uncounted is a list of names, found {uncounted!r}")

    def judge(run: Run) -> Iterator[Finding]:
        for what, limit in limits.items():
            found, unknown = measured(run, what), why_unknown(run, what, uncounted)
            if found > limit and FACTS.get(what, what) not in run.lacking:
                yield run.finding(f"{shown(what, found)}, and at most {shown(what, limit)}")
            elif unknown:
                yield run.finding(f"{what} cannot be judged: {unknown}")
            elif allowed := why_unknown(run, what):
                yield run.finding(f"{allowed}; {what} are a lower bound", level="warning")

    text = ", ".join(shown(what, limit) for what, limit in limits.items())
    return Check("at_most", f"at most {text}", judge)


def why_unknown(run: Run, what: str, allowed: Collection[str] = ()) -> str:
    """Return the reason why the cost of a run is unknown, as a sentence; empty if it's known.

    `what` is `calls`, `tokens`, `seconds`, `dollars` or `steps`; calls of models in `allowed` may go uncounted.
    """
    if (fact := FACTS.get(what, what)) in run.lacking:
        return run.lacking[fact]
    several: dict[str, Sequence[str]] = {"tokens": run.uncounted, "dollars": run.unpriced}
    if what in CACHE_FIGURES:
        several[what] = run.caching().unjudged.get(what, ())
    names = [name for name in several.get(what, ()) if name not in allowed]
    if not names:
        return ""
    shown_names = list(dict.fromkeys(names))
    more = [f"{len(shown_names) - _SHOWN} more"] if len(shown_names) > _SHOWN else []
    said = ", ".join([*shown_names[:_SHOWN], *more])
    return f"{len(names)} of {counted(run.models, 'call')} of models {_WHY[what]} ({said})"


def measured(run: Run, what: str) -> float:
    """Return the cost of a run. `what` is as in `why_unknown`."""
    if what in CACHE_FIGURES:
        return float(getattr(run.caching(), what))
    return {
        "calls": run.interactions,
        "tokens": run.tokens,
        "seconds": run.seconds,
        "dollars": run.dollars,
        "steps": len(run.of_kind("node")),
    }[what]


def shown(what: str, value: float) -> str:
    """Return a measure with its unit: `6 calls`, `$0.0102`."""
    if what == "dollars":
        return f"${value:.4f}"
    if what == "cache_miss_dollars":
        return f"${value:.4f} for what a prompt cache would have saved"
    if what == "uncached_tokens":
        return f"{value:,.0f} uncached tokens"
    if what == "seconds":
        return f"{value:.3f} seconds"
    return counted(round(value), what.removesuffix("s")) if value < 1000 else f"{value:,.0f} {what}"  # noqa: PLR2004


def no_errors(*, allow: Collection[str] = ()) -> Check:
    """Return the check that no call and no node failed, and that no tool returned an error.

    Args:
        allow: The names of those that may.
    """
    if isinstance(allow, str):
        raise ConfigurationError(f"no_errors: allow is a list of names, found {allow!r}")

    def judge(run: Run) -> Iterator[Finding]:
        failed = [call for call in run.happened if call.error and call.kind != "interrupt"]
        inside = [call.address for call in failed if not call.is_step]
        for call in failed:
            is_cause = not call.is_step or not any(at.startswith(f"{call.address}/") for at in inside)
            if is_cause and call.name not in allow and not is_interrupt(call.error):
                yield run.finding(f"{call.kind} {call.name} failed", call, found=call.error)

    but = f" but of {', '.join(allow)}" if allow else ""
    return Check("no_errors", f"no errors{but}", judge, ("calls",))


def is_interrupt(error: str) -> bool:
    """Return True for the error by which a graph stops to wait for an answer."""
    return error.partition(":")[0].endswith("Interrupt")


def _refuse_no_number(what: str, limit: Any) -> None:
    whole = what in {"calls", "tokens", "steps", "uncached_tokens"}
    kinds: Any = int if whole else int | float
    if isinstance(limit, bool) or not isinstance(limit, kinds) or not 0 <= limit < math.inf:
        raise ConfigurationError(f"at_most: {what} is a {'whole ' if whole else ''}number from 0 on, found {limit!r}")
