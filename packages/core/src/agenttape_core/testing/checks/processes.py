"""Replay in another process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import SkipTest

from agenttape_core.errors import ConfigurationError
from agenttape_core.testing.bench import QUESTION, Bench
from agenttape_core.testing.children import Child
from agenttape_core.testing.running import expect
from agenttape_core.testing.world import World
from agenttape_core.tools.target import Target, target_of

_shared: list[Child] = []
"""The child processes that serve all checks for a while, the latest last."""


@contextmanager
def one_child() -> Iterator[None]:
    """Have one child process serve the checks of all suites in this block: most of its time is imports."""
    with _child() as child:
        _shared.append(child)
        try:
            yield
        finally:
            _shared.remove(child)


def _child() -> Child:
    return Child("1" if os.environ.get("PYTHONHASHSEED") != "1" else "2")


class ProcessChecks(Bench):
    """The check about other processes; skipped for a class that a child process cannot import."""

    def test_another_process_finds_the_recordings(self) -> None:
        """A process with another hash seed finds the recordings, and replays the same."""
        target = self._target()
        with self.record():
            live = [self.says(shape, self.subject(World()), QUESTION) for shape in self.shapes]
        with ExitStack() as stack:
            child = _shared[-1] if _shared else stack.enter_context(_child())
            served = child.replay(target, self.folder)
        expect(live == served, f"recorded {live}, a process with PYTHONHASHSEED={child.seed} replayed {served}")

    def _target(self) -> Target:
        if type(self).__module__ == "__main__":
            raise SkipTest("is defined in a script, not in a module that a child process can import")
        try:
            return target_of(type(self))
        except ConfigurationError as error:
            raise SkipTest("is not at the top level of a module, where a child process finds it") from error
