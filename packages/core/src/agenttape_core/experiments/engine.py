"""The engine: an experiment is a generator of variations, and a driver runs a program with each of them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from agenttape_core.experiments.program import Program, Run, Variation

Found = TypeVar("Found")

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
            except KeyboardInterrupt as interrupted:
                variation = experiment.throw(interrupted)
                continue
            if on_run is not None:
                on_run()
            variation = experiment.send(run)
    except StopIteration as ended:
        found: Found = ended.value
        return found
