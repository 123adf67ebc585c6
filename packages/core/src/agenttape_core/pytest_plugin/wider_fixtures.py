"""Fixtures that serve several tests: if a run has only some of them, the fixture's session isn't used up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_OPEN: pytest.StashKey[int] = pytest.StashKey()
"""The number of fixtures of classes, modules or the whole run that are being set up, one within the other."""
_IS_CUT: pytest.StashKey[bool] = pytest.StashKey()  # true if some of the collected tests do not run


@contextmanager
def setting_up(config: pytest.Config) -> Iterator[None]:
    """Note in the block that a fixture for several tests is set up."""
    before = config.stash.get(_OPEN, 0)
    config.stash[_OPEN] = before + 1
    try:
        yield
    finally:
        config.stash[_OPEN] = before


def note_deselected(config: pytest.Config) -> None:
    """Note that some of the collected tests do not run."""
    config.stash[_IS_CUT] = True


def is_part(config: pytest.Config) -> bool:
    """Return whether a fixture of several tests is set up, some of which were left out, or run in another process.

    A worker of pytest-xdist does not know which tests the others run.
    """
    if not config.stash.get(_OPEN, 0):
        return False
    is_cut = config.stash.get(_IS_CUT, False) or any("::" in argument for argument in config.args)
    return is_cut or hasattr(config, "workerinput")
