"""The engine: an experiment is a generator of variations, and a driver runs a program with each of them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments.program import FunctionProgram, Program, Run
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.tools.reporting.findings import Checked

Found = TypeVar("Found")


class Result(Protocol):
    """The result of an experiment: a table as text, the same as plain data, and findings for the reporters of checks.

    From these, `agenttape lab` and pytest make reports in all forms.
    """

    @property
    def ok(self) -> bool:
        """True if nothing was found that has to be mended."""

    @property
    def is_whole(self) -> bool:
        """True if it came to its end, and was not interrupted."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""

    def to_checked(self) -> list[Checked]:
        """Return its findings."""


_FREE = "it only replays, which costs nothing"
SHARED: Mapping[str, str] = {
    "runs": "how often it replays follows from what is recorded, or from the samples",
    "samples": "its replays of one variation are alike, so one is enough",
    "seed": "it draws nothing at random",
    "max_usd": "it calls no model",
    "jobs": "its replays follow one another",
    "dry_run": _FREE,
    "resume": f"{_FREE}: run it again",
}
"""The options that experiments share, each with the reason why one may have no use for it."""
_OWN_REASONS: Mapping[tuple[str, str], str] = {
    ("flaky", "resume"): "its parts are compared within one run",
    ("mutants", "dry_run"): "it replays, and calls nothing but what live names",
}


def words_of(function: Callable[..., Any]) -> dict[str, str]:
    """Return the options of an experiment, with their types in words.

    Args:
        function: The experiment.
    """
    apart = {"target", "cassette", "on_run", "options", "keep", "known"}
    return {
        one.name: str(one.annotation)
        for one in inspect.signature(function).parameters.values()
        if one.name not in apart and isinstance(one.annotation, str)
    }


def refusal(name: str, word: str, shown: str) -> str:
    """Return why an experiment has no use for an option that others have.

    Args:
        name: The experiment.
        word: The option.
        shown: The option as it was given.
    """
    return f"{name} takes no {shown}: {_OWN_REASONS.get((name, word), SHARED[word])}"


Experiment = Generator[Variation, Run, Found]
"""Yields what to run next, gets the run, and returns the result. It runs nothing itself, so it knows neither whether
the program is a function or a test, nor how its session is opened."""


def drive(program: Program, experiment: Experiment[Found], on_run: Callable[[], object] | None = None) -> Found:
    """Run a program with each variation of an experiment, and return the result.

    An interruption by the keyboard is raised in the experiment where it yields, which may return what it has found.

    Args:
        program: The program.
        experiment: Yields the variations.
        on_run: Called after each run.

    Raises:
        KeyboardInterrupt: If the experiment doesn't return a result for an interruption.
    """
    try:
        variation = next(experiment)
        while True:
            try:
                run = program.run(variation)
                if on_run is not None:
                    on_run()
            except KeyboardInterrupt as interrupted:
                variation = experiment.throw(interrupted)
                continue
            variation = experiment.send(run)
    except StopIteration as ended:
        found: Found = ended.value
        return found


async def adrive(
    program: FunctionProgram, experiment: Experiment[Found], on_run: Callable[[], object] | None = None
) -> Found:
    """Do what `drive` does in the running event loop, whose runner cancels it for an interruption.

    Args:
        program: A function that returns something to await.
        experiment: Yields the variations.
        on_run: Called after each run.
    """
    try:
        variation = next(experiment)
        while True:
            run = await program.arun(variation)
            if on_run is not None:
                on_run()
            variation = experiment.send(run)
    except StopIteration as ended:
        found: Found = ended.value
        return found


def earlier(report: str | Path, key: str, read: Callable[[Any], Found]) -> list[Found]:
    """Return the parts of the report of an earlier run, which a later one takes over.

    Args:
        report: Its file, as JSON.
        key: The key of the list of parts.
        read: Makes a part of plain data.

    Raises:
        ConfigurationError: If it isn't such a report.
    """
    try:
        return [read(one) for one in json.loads(Path(report).read_text(encoding="utf-8"))[key]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{report}: not a report of this experiment as JSON: {error}") from None
