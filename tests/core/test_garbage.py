"""The collector of garbage beside imports."""

from __future__ import annotations

import gc
import subprocess
import sys
import types
from collections.abc import Iterator

import pytest

from agenttape_core.garbage import collecting_late, collecting_late_before

USUAL = (701, 11, 9)


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    """Give the process thresholds that nobody else has."""
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize("stays", [True, False])
def test_nothing_is_collected_in_the_block(stays: bool) -> None:
    """No collection runs within the block; after it the thresholds are as before."""
    seen: list[str] = []

    def note(phase: str, _: object) -> None:
        seen.append(phase)

    gc.collect()
    gc.callbacks.append(note)
    try:
        with collecting_late(stays=stays):
            kept = [[] for _ in range(20 * USUAL[0])]
            within = list(seen)
    finally:
        gc.callbacks.remove(note)
    assert (within, gc.get_threshold(), len(kept)) == ([], USUAL, 20 * USUAL[0])


AFTERWARDS = """
import gc, weakref
from agenttape_core.garbage import collecting_late

class Loop:
    def __init__(self):
        self.itself = self

before = gc.get_freeze_count()
with collecting_late():
    garbage = weakref.ref(Loop())
found = [gc.get_freeze_count() <= before]
for generation in (1, 2):
    gc.collect(generation)
    found.append(garbage() is None)
with collecting_late():
    gc.freeze()
print([*found, gc.get_freeze_count() > before + 2_000])
"""


@pytest.mark.process
def test_nothing_is_kept_alive_by_the_block() -> None:
    """The garbage of the block counts as old: a full collection ends it. What the block freezes stays frozen."""
    done = subprocess.run([sys.executable, "-c", AFTERWARDS], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[True, False, True, True]"


def test_blocks_may_overlap() -> None:
    """The last of blocks that overlap leaves the thresholds of before the first."""
    first, second = collecting_late(), collecting_late()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == USUAL


@pytest.mark.parametrize("chosen", [(0, 10, 10), (5_000_000, 10, 10)])
def test_what_the_program_has_chosen_stays(chosen: tuple[int, int, int]) -> None:
    """A collector that is switched off, or seldom runs, is left as it is, before the block and within it."""
    with collecting_late():
        gc.set_threshold(*chosen)
    assert gc.get_threshold() == chosen
    with collecting_late():
        assert gc.get_threshold() == chosen
    assert gc.get_threshold() == chosen


def test_only_the_first_import_of_a_module_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that imports nothing new is as if it were not there."""
    monkeypatch.delitem(sys.modules, "imported_once", raising=False)
    with collecting_late_before("imported_once"):
        assert gc.get_threshold() != USUAL
    monkeypatch.setitem(sys.modules, "imported_once", types.ModuleType("imported_once"))
    with collecting_late_before("imported_once"):
        assert gc.get_threshold() == USUAL
