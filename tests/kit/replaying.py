"""A program that is recorded, and is the same in each of its replays."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from agenttape_core import Session, use_cassette

from .world import World

T = TypeVar("T")


class Outside(Protocol):
    """The outside of a program."""

    gone: bool


def recorded_as_replayed(path: Path, run: Callable[[], T], times: int = 2, outside: Outside | None = None) -> T:
    """Record a program and replay it so often: each replay is equal, and reports nothing; return what it returned.

    Args:
        path: The cassette.
        run: The program.
        times: How often to replay it.
        outside: What is gone in the replays.
    """
    with use_cassette(path, mode="all"):
        recorded = run()
    if outside is not None:
        outside.gone = True
    for _ in range(times):
        with use_cassette(path) as replay:
            found = run()
        assert found == recorded
        assert replay.report.nondeterminism == replay.report.entropy == replay.report.unobserved == ()
    return recorded


class Twice:
    """Records a run, and replays it when the world is gone: the results are equal, and each call finds its recording.

    Args:
        path: The cassette.
        world: The world that the run reaches.
    """

    recording: Session
    replay: Session

    def __init__(self, path: Path, world: World) -> None:
        self.path = path
        self.world = world

    @contextmanager
    def records(self, **options: Any) -> Iterator[Session]:
        """Record what is inside, and take the world away."""
        with use_cassette(self.path, mode="all", **options) as self.recording:
            yield self.recording
        self.world.gone = True

    def replays(self, **options: Any) -> Any:
        """Replay what is inside."""
        return use_cassette(self.path, **options)

    def record(self, run: Callable[[], T], *, auto: bool = True) -> T:
        """Record a run, and take the world away; return what it returned."""
        with self.records(auto=auto):
            return run()

    def __call__(self, run: Callable[[], T], *, auto: bool = True, **replaying: Any) -> T:
        """Run it twice, and return what it returned. `replaying` are further options of the replay."""
        recorded = self.record(run, auto=auto)
        with self.replays(auto=auto, **replaying) as self.replay:
            assert run() == recorded
        self._assert_exact()
        return recorded

    async def awaited(self, run: Callable[[], Awaitable[T]], *, auto: bool = True, **replaying: Any) -> T:
        """Do the same with a run that is awaited."""
        with self.records(auto=auto):
            recorded = await run()
        with self.replays(auto=auto, **replaying) as self.replay:
            assert await run() == recorded
        self._assert_exact()
        return recorded

    def _assert_exact(self) -> None:
        expected = {"exact"} if self.recording.report.recorded else set()
        assert {call.match_rule for call in self.replay.report.replayed} == expected
