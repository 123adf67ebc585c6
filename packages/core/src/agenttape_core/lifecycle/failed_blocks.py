"""Failures of blocks with a cassette, reported to watchers: the program around a block may catch one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agenttape_core.errors import AgentTapeError, AgentTapeHalt, CassetteNotFoundError
from agenttape_core.lifecycle.running_test import FailedBlock, this_test

if TYPE_CHECKING:
    from agenttape_core.session import Session


_watchers: list[Callable[[FailedBlock], None]] = []


def watch_failed_blocks(watcher: Callable[[FailedBlock], None]) -> None:
    """Call this with each block of this process that fails from now on, before its error reaches the program."""
    _watchers.append(watcher)


@contextmanager
def watching_failed_blocks(watcher: Callable[[FailedBlock], None]) -> Iterator[None]:
    """Call a function with each block of this process that fails for the duration of a block of code."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def tell_failed(cassette: object, session: Session | None, error: BaseException, *, is_within: bool = True) -> None:
    """Tell those who watch, and the test that runs, that a block has failed, if the failure is one of ours.

    Called on the stack of the block. `session` is `None` if it could not be opened. With `is_within`, the nearest code
    that isn't ours holds the block: a stand-in is called by its framework.
    """
    test = this_test()
    if not isinstance(error, AgentTapeError | AgentTapeHalt) or (test is None and not _watchers):
        return
    from agenttape_core.guard.caller import caller as nearest_of_the_user
    from agenttape_core.lifecycle.remedy import caller

    place = caller() if is_within else nearest_of_the_user()
    missing = None
    if isinstance(error, CassetteNotFoundError) and isinstance(error.path, Path):
        missing = error.path.resolve()  # the program may leave this folder
    block = FailedBlock(str(cassette), session, str(error), place.rpartition(":")[0], missing)
    if test is not None:
        test.failed.append(block._replace(session=None))  # which would live as long as the test
    for watcher in tuple(_watchers):
        watcher(block)
