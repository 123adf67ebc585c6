"""The collector of garbage beside imports."""

from __future__ import annotations

import gc
import subprocess
import sys
import types
from collections.abc import Iterator
from textwrap import dedent

import pytest

from agenttape_core.garbage import collecting_late, collecting_late_before, looking_at_all_seldom

USUAL = (701, 11, 9)
BEFORE_TESTS: list[int] = []
"""How many collections of the middle generation came before one of the oldest when each test began."""


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    """Give the process thresholds that nobody else has."""
    before = gc.get_threshold()
    BEFORE_TESTS.append(before[2])
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


@pytest.mark.process
def test_nothing_is_kept_alive_by_the_block() -> None:
    """The garbage of the block counts as old: a full collection ends it. What the block freezes stays frozen."""
    afterwards = dedent("""
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
    """)

    done = subprocess.run([sys.executable, "-c", afterwards], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[True, False, True, True]"


@pytest.mark.process
def test_all_is_looked_at_once() -> None:
    """What a full collection found alive is set aside until it is put back; what a program has frozen stays frozen."""
    looked_at = dedent("""
        import gc
        from agenttape_core.garbage import OneLook

        before, found = gc.get_freeze_count(), []
        for generation in (1, 2):
            look = OneLook()
            with look.made_in():
                gc.collect(generation)
            found.append(gc.get_freeze_count() > before + 2_000)
            look.put_back()
            found.append(gc.get_freeze_count() <= before)
        gc.freeze()
        frozen = gc.get_freeze_count()
        with look.made_in():
            gc.collect()
        look.put_back()
        print([*found, gc.get_freeze_count() == frozen])
    """)

    done = subprocess.run([sys.executable, "-c", looked_at], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[False, True, True, True, True]"


@pytest.mark.process
@pytest.mark.parametrize(("collects", "stays"), [(True, False), (False, True)])
def test_garbage_of_blocks_does_not_add_up(collects: bool, stays: bool) -> None:
    """What is garbage only after its block is collected between others, unless the program has switched that off."""
    program = dedent(f"""
        import gc
        from agenttape_core.garbage import ASIDE

        class Loop:
            def __init__(self):
                self.itself = self

        if not {collects}:
            gc.disable()
        before, held = len(gc.get_objects()), []
        for _ in range(2_000):
            assert ASIDE.begin()
            held = [Loop() for _ in range(50)]  # the ones before are old, and garbage from now on
            with ASIDE.ended() as is_last:
                assert is_last
        print(len(gc.get_objects()) > 4 * before)
    """)

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(stays)


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


def test_all_is_looked_at_seldom_in_the_block() -> None:
    """In the block the oldest objects are looked at ten times less often, the younger as ever; then as before."""
    gc.set_threshold(*USUAL[:2], 10)
    with looking_at_all_seldom():
        within = gc.get_threshold()
        gc.set_threshold(700, *within[1:])  # what the program chooses meanwhile stays
    assert (within, gc.get_threshold()) == ((*USUAL[:2], 100), (700, USUAL[1], 10))


@pytest.mark.parametrize("inside", [False, True])
def test_what_a_program_has_chosen_for_old_objects_stays(inside: bool) -> None:
    """Who has said how often the oldest objects are looked at gets that, whether before the block or in it."""
    gc.set_threshold(*USUAL[:2], 10 if inside else USUAL[2])
    with looking_at_all_seldom():
        if inside:
            gc.set_threshold(*USUAL)
    assert gc.get_threshold() == USUAL


def test_tests_run_with_few_looks_at_all_objects(pytestconfig: pytest.Config) -> None:
    """The plugin lets the tests of a run look at all objects ten times less often than Python does."""
    assert pytestconfig.pluginmanager.hasplugin("agenttape")
    assert BEFORE_TESTS[-1:] == [100]
