"""Keep Python's garbage collector from scanning imported modules.

Nearly all that modules make stays, and the collector looks at all objects there are whenever a quarter more have come:
for an agent's framework, that is a tenth of the time of a small suite.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from agenttape_core.locks import Lock

_LATE = 1_000_000
"""The objects that may come before the collector looks: more than large frameworks make. It is not switched off, so
that modules which make garbage all the time cannot fill the memory."""

_USUALLY, _SELDOM = 10, 10
"""The collections of the middle generation before one of the oldest, as Python has it, and how many times that."""

_FREEZING = 2_000
"""The frozen objects, if the program has frozen its objects itself; Python 3.12 puts those there that never end."""

_BLOCKS, _MORE = 64, 2
"""The blocks between two counts of the objects that are set aside, and how many times as many make a collection due."""

_has_frozen: list[int] = []
"""The number of objects of a program that has frozen them itself. They are counted once: Python walks over all."""


@contextmanager
def collecting_late(*, stays: bool = True) -> Iterator[None]:
    """Treat all objects made in the block as old, as if they had survived a collection; this keeps none of them alive.

    Blocks may nest and overlap in any threads. Thresholds that the block sets stay in effect, and objects that it
    freezes stay frozen. If not `stays`, the objects of the block are gone at its end, and there are none to treat as
    old.
    """
    usual = gc.get_threshold()
    if not 0 < usual[0] < _LATE:  # switched off, or within such a block
        yield
        return
    late, frozen = (_LATE, *usual[1:]), _frozen()
    gc.set_threshold(*late)
    try:
        yield
    finally:
        if gc.get_threshold() == late:
            gc.set_threshold(*usual)
            if stays and frozen < _FREEZING and gc.get_freeze_count() == frozen:
                gc.freeze()
                gc.unfreeze()  # what was frozen comes to the old objects, without a look at any of it


@contextmanager
def looking_at_all_seldom() -> Iterator[None]:
    """Let the collector look at all objects there are ten times less often than usual during the block.

    For a run of tests with a framework: one scan takes as long as ten tests, and the first comes after few of them,
    because the collector doesn't count imported objects as old. Younger objects are looked at as ever, and where a
    program has chosen how often all of them are, that stays.
    """
    usual = gc.get_threshold()
    seldom = (*usual[:2], _USUALLY * _SELDOM)
    if usual[2] != _USUALLY:
        yield
        return
    gc.set_threshold(*seldom)
    try:
        yield
    finally:
        if gc.get_threshold()[2] == seldom[2]:
            gc.set_threshold(*gc.get_threshold()[:2], usual[2])


class OneLook:
    """The objects that a full collection has found alive, set aside, so that one which follows does not look at them.

    pytest makes two full collections when it ends, one straight after the other. It must be reset: when Python exits,
    the collector still looks for objects to finalize.
    """

    def __init__(self) -> None:
        self._is_aside = False

    @contextmanager
    def made_in(self) -> Iterator[None]:
        """Set all objects aside if the block has made a full collection; not where a program has done so itself."""
        before = _full_collections()
        yield
        if _full_collections() > before and _frozen() < _FREEZING:
            gc.freeze()
            self._is_aside = True

    def put_back(self) -> None:
        """Let the collector look at everything again."""
        if self._is_aside:
            self._is_aside = False
            gc.unfreeze()


class Aside:
    """The objects that were there before some blocks began, set aside: what lists all objects lists those since.

    Blocks may overlap in any threads; each has what came since the first of those that overlap. Thread-safe.

    What is set aside is old from then on, and the collector, which works within blocks, doesn't see it. So the garbage
    of thousands of blocks is collected here, between two of them, when twice as many objects are there.
    """

    def __init__(self) -> None:
        self.is_on = False
        """True while objects are set aside."""
        self.blocks = 0
        """The number of blocks that run."""
        self._lock = Lock()
        self._begun = 0  # the blocks since the last collection here
        self._usual = 0  # the objects then
        self._is_due = False  # true if they have doubled

    def begin(self) -> bool:
        """Begin a block; return false where the program has frozen its objects itself, so that none is begun."""
        if self._is_due and not self.is_on and gc.isenabled():
            self._begun, self._is_due = 0, False
            gc.collect()  # without the lock, as it may run code of the program
        with self._lock:
            if not self.is_on:
                if _frozen() >= _FREEZING:
                    return False
                self.is_on = True  # before they are frozen, and until after: `_frozen` doesn't count what is ours
                gc.freeze()
                self._count()
            self.blocks += 1
            return True

    def _count(self) -> None:
        """Look now and then whether a collection is due: Python walks over all objects to count them."""
        if self._begun % _BLOCKS == 0:
            there = gc.get_freeze_count()
            self._usual = self._usual if self._begun else there
            self._is_due = there > _MORE * self._usual
        self._begun += 1

    @contextmanager
    def ended(self) -> Iterator[bool]:
        """End a block that was begun; yield whether no other one runs, before the objects are put back."""
        with self._lock:
            self.blocks -= 1
            is_last = not self.blocks
        try:
            yield is_last
        finally:
            with self._lock:
                if self.is_on and not self.blocks:
                    gc.unfreeze()
                    self.is_on = False


ASIDE = Aside()
"""Those of this process."""


def _full_collections() -> int:
    return int(gc.get_stats()[-1]["collections"])


def _frozen() -> int:
    if ASIDE.is_on:
        return _FREEZING
    if not _has_frozen:
        frozen = gc.get_freeze_count()
        if frozen < _FREEZING:
            return frozen
        _has_frozen.append(frozen)
    return _has_frozen[0]


def collecting_late_before(module: str) -> AbstractContextManager[None]:
    """Treat the objects of the block as old if it is the first to import a module, including all that comes with it."""
    return nullcontext() if module in sys.modules else collecting_late()
