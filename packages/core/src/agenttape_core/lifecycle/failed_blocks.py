"""Failures of blocks with a cassette, told to those who watch: the program around a block may catch one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agenttape_core.session import Session


class FailedBlock(NamedTuple):
    """A block with a cassette that has failed, or could not begin.

    Args:
        cassette: The cassette.
        session: The session of the block; `None` if it could not be opened.
        error: The failure, whether or not somebody catches it.
    """

    cassette: str
    session: Session | None
    error: BaseException


_watchers: list[Callable[[FailedBlock], None]] = []


def watch_failed_blocks(watcher: Callable[[FailedBlock], None]) -> None:
    """Call this with each block of this process that fails from now on, before its error reaches the program."""
    _watchers.append(watcher)


def tell_failed(cassette: object, session: Session | None, error: BaseException) -> None:
    """Tell those who watch that a block has failed."""
    for watcher in _watchers:
        watcher(FailedBlock(str(cassette), session, error))
