"""The engine: an experiment is a generator of variations, and a driver runs a program with each of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import closing
from contextvars import Context, copy_context
from dataclasses import dataclass, fields
from itertools import chain
from threading import Semaphore
from typing import Generic, Protocol, Self, TypeVar

from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments.program import FunctionProgram, Run
from agenttape_core.lifecycle.variation import Variation

Found = TypeVar("Found")
Item = TypeVar("Item")
Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)


SEED = 7  # the seed of all that is drawn at random, unless another one is given
_FREE = "it only replays, which costs nothing"
SHARED: Mapping[str, str] = {
    "runs": "how often it replays follows from what is recorded, or from the samples",
    "samples": "its replays of one variation are alike, so one is enough",
    "seed": "it draws nothing at random",
    "max_usd": "it calls no model",
    "jobs": "each replay decides what the next one varies",
    "dry_run": _FREE,
    "resume": f"{_FREE}: run it again",
}
"""The options that experiments share, each with the reason why one may have no use for it."""
_OWN_REASONS: Mapping[tuple[str, str], str] = {
    ("flaky", "resume"): "its parts are compared within one run",
    ("mutants", "dry_run"): "it replays, and calls nothing but what live names",
}


def refusal(name: str, word: str, shown: str) -> str:
    """Return why an experiment has no use for an option that others have."""
    return f"{name} takes no {shown}: {_OWN_REASONS.get((name, word), SHARED[word])}"


Experiment = Generator[Variation, Run, Found]
"""Yields what to run next, gets the run, and returns the result. It runs no program itself, so it's the same whether
the program is a function or a test, nor how its session is opened."""


class Runs(Protocol[Answer_co]):
    """A program to `drive`: one that replays in this process, or in new ones."""

    def run(self, variation: Variation, /) -> Answer_co:
        """Run it once, and return what the experiment gets for it."""


@dataclass(frozen=True, slots=True)
class _Leading(Variation):
    """A variation that announces others, none of which depends on the run of another."""

    following: tuple[Variation, ...] = ()


def independent(variations: Iterable[Variation]) -> list[Variation]:
    """Return variations that an experiment yields in this order, whatever comes of each: `drive` may overlap them.

    Args:
        variations: The variations. One with `write_to` needs its own file.
    """
    made = list(variations)
    if made:
        first = {each.name: getattr(made[0], each.name) for each in fields(Variation)}
        made[0] = _Leading(**first, following=tuple(made[1:]))
    return made


class Jobs:
    """Work in parallel, in threads. At the end of the block, what hasn't begun is given up, and the rest awaited."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, "agenttape-jobs") if count > 1 else None
        self._count, self._free, self._is_over = count, Semaphore(count), False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            # A thread that the pool was starting when Ctrl-C came isn't known to it: wait for its work, too.
            self._is_over = True
            for _permit in range(self._count):
                self._free.acquire()
            self._free.release(self._count)

    def _do(self, context: Context, work: Callable[[Item], Answer], one: Item) -> Answer:
        with self._free:
            if self._is_over:
                raise CancelledError
            return context.run(work, one)

    def each(self, work: Callable[[Item], Answer], items: Iterable[Item]) -> Iterator[Answer]:
        """Return the answers of a function for several items, in their order."""
        if self._pool is None:
            return map(work, items)
        begun = [self._pool.submit(self._do, copy_context(), work, one) for one in items]
        return (one.result() for one in begun)


class _Overlapping(Generic[Answer]):
    """Runs a program with each variation that it's given; those that are announced run at the same time."""

    def __init__(self, program: Runs[Answer], jobs: Jobs | None) -> None:
        self._program, self._jobs = program, jobs
        self._ahead: list[Variation] = []
        self._answers: Iterator[Answer] = iter(())

    def run(self, variation: Variation) -> Answer:
        if self._jobs is not None and isinstance(variation, _Leading):
            self._ahead = [variation, *variation.following]
            # The first replay of a coroutine function finds out where its session is opened.
            first = [self._program.run(self._ahead[0])] if getattr(self._program, "is_undecided", False) else []
            self._answers = chain(first, self._jobs.each(self._program.run, self._ahead[len(first) :]))
        if not (self._ahead and self._ahead[0] is variation):
            return self._program.run(variation)
        del self._ahead[0]
        return next(self._answers)


def drive(
    program: Runs[Answer],
    experiment: Generator[Variation, Answer, Found],
    on_run: Callable[[], object] | None = None,
    jobs: int = 1,
) -> Found:
    """Run a program with each variation of an experiment, and return the result.

    An interruption by the keyboard is raised in the experiment where it yields, which may return what it has found.

    Args:
        program: The program.
        experiment: Yields the variations.
        on_run: Called after each run.
        jobs: How many variations that are `independent` run at the same time, each in a thread with its own session.

    Raises:
        ConfigurationError: If several were to run at the same time, and the program is a test.
        KeyboardInterrupt: If the experiment doesn't return a result for an interruption.
    """
    refuse_jobs(jobs, is_test=getattr(program, "function", program) is None)
    try:
        with Jobs(jobs) as pool, closing(experiment):  # which ends its processes before the pool waits for them
            running = _Overlapping(program, pool if jobs > 1 else None)
            variation = next(experiment)
            while True:
                try:
                    run = running.run(variation)
                    if on_run is not None:
                        on_run()
                except KeyboardInterrupt as interrupted:
                    variation = experiment.throw(interrupted)
                    continue
                variation = experiment.send(run)
    except StopIteration as ended:
        found: Found = ended.value
        return found


def refuse_below_one(**numbers: object) -> None:
    """Refuse options that aren't a number from 1 on."""
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigurationError(f"{name}={value!r}: expected a number, at least 1")


def refuse_jobs(jobs: int, *, is_test: bool) -> None:
    """Refuse a number of jobs that isn't one, or several for a test."""
    refuse_below_one(jobs=jobs)
    if jobs > 1 and is_test:
        raise ConfigurationError(
            f"jobs={jobs}: pytest runs the replays of a test one after another\n"
            f"  run several tests at a time with pytest-xdist:  pytest -n {jobs} --cassette-lab=..."
        )


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
