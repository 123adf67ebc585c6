"""Stand-ins are in place for as long as any session is open, and nothing stays behind."""

from __future__ import annotations

import asyncio
import datetime as dt
import importlib
import random
import sys
import time
import types
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core.errors import SessionStateError
from agenttape_core.freeze import DEFAULT_KINDS, Frozen, freezing, gc_state, install

from ...kit.left_behind import left_behind
from .conftest import OpenSession, in_other_thread

if TYPE_CHECKING:
    from collections.abc import Callable


MOMENT = 1_700_000_000.25
IMPORTS = "from time import time\nfrom datetime import datetime as moment\nfrom random import random as rnd\n"


def test_modules_of_before_are_covered(
    session: OpenSession, loaded_module: Callable[[str, str], types.ModuleType]
) -> None:
    """Names that a module took before the session are frozen in it, in the first session and in the next."""
    module: Any = loaded_module("taken_before", IMPORTS)
    for _ in range(2):
        with session():
            assert (module.time(), module.moment.now().timestamp()) == (MOMENT, MOMENT)
        assert module.time() > MOMENT
    assert left_behind() == []


def test_modules_imported_during_a_session_are_covered(
    session: OpenSession, write_module: Callable[[str, str], str]
) -> None:
    """A module that is imported inside is frozen inside, restored after, and frozen again in the next session."""
    name = write_module("taken_during", IMPORTS)
    with session():
        module = importlib.import_module(name)
        assert (module.time(), module.moment.now().timestamp()) == (MOMENT, MOMENT)
    assert left_behind() == []
    assert module.time is time.time
    assert module.moment is dt.datetime
    with session():
        assert module.time() == MOMENT


def test_names_added_to_a_loaded_module_are_restored(
    session: OpenSession, loaded_module: Callable[[str, str], types.ModuleType]
) -> None:
    """A global that an old module gets inside does not keep its stand-in."""
    module: Any = loaded_module("grows", "")
    with session():
        module.clock = time.time
    assert module.clock is time.time


def test_a_module_that_was_replaced_is_restored(
    session: OpenSession, loaded_module: Callable[[str, str], types.ModuleType]
) -> None:
    """The object that left `sys.modules` inside gets its names back too."""
    old: Any = loaded_module("twice", IMPORTS)
    with session():
        new: Any = loaded_module("twice", IMPORTS)
    assert old.time is new.time is time.time


def test_a_lazy_module_is_not_asked(session: OpenSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for names never runs a module's `__getattr__`, nor anything of what is no module."""

    class Trap:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

    class Lazy(types.ModuleType):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

    monkeypatch.setitem(sys.modules, "trap", Trap())
    monkeypatch.setitem(sys.modules, "lazy", Lazy("lazy"))
    with session():
        assert time.time() == MOMENT


def test_skipped_modules_keep_their_references(
    session: OpenSession, loaded_module: Callable[[str, str], types.ModuleType]
) -> None:
    """What could hang on a standing clock is left alone."""
    module: Any = loaded_module("asyncio.made_up", IMPORTS)
    with session():
        assert module.time() > MOMENT


def test_skipped_modules_that_come_during_a_session_are_restored(
    session: OpenSession, loaded_module: Callable[[str, str], types.ModuleType]
) -> None:
    """A skipped module that is imported inside takes stand-ins; they are gone after, and never come again."""
    with session():
        module: Any = loaded_module("asyncio.made_up_later", IMPORTS)
    assert (module.time, module.moment) == (time.time, dt.datetime)
    assert left_behind() == []
    with session():
        assert module.time() > MOMENT


def test_a_function_is_one_key_inside_and_after(session: OpenSession) -> None:
    """A registry that is made inside finds its functions after, and one of before finds them inside."""
    functions = [time.time, random.random, random.choice]
    before = dict.fromkeys(functions)
    with session():
        inside = dict.fromkeys([time.time, random.random, random.choice])
        assert [function in before for function in inside] == [True] * 3
        assert time.time not in dict.fromkeys([time.time_ns, random.random])
    assert [function in inside for function in functions] == [True] * 3


def test_a_module_that_takes_functions_apart_finds_the_real_ones(
    session: OpenSession, write_module: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As time-machine's does, in C: the session's are out while it is imported, and in again after that."""
    source = "import datetime, time\nfound = {type(time.time), type(datetime.datetime.now)}\n"
    monkeypatch.setattr(install, "_IN_C", {write_module("takes_apart", source)})
    with session():
        assert importlib.import_module("takes_apart").found == {type(len)}
        assert (time.time(), dt.datetime.now().timestamp()) == (MOMENT, MOMENT)  # noqa: DTZ005
    assert left_behind() == []


def test_a_mock_inside_is_left_alone(session: OpenSession) -> None:
    """Whoever replaces a name while it is frozen keeps it."""
    with pytest.MonkeyPatch.context() as patch:
        with session():
            patch.setattr(time, "time", lambda: 5.0)
            assert time.time() == 5.0
        assert time.time() == 5.0
    # What the mock puts back is the stand-in it found; it calls the real clock, and the next session clears it away.
    assert time.time() > MOMENT
    with session():
        assert time.time() == MOMENT
    assert left_behind() == []


def test_the_last_one_out_restores(session: OpenSession) -> None:
    """Sessions may nest; the outer one is frozen until its own end."""
    with session(clock=1.0):
        with session(clock=2.0):
            assert time.time() == 2.0
        assert time.time() == 1.0
    assert left_behind() == []


def test_blocks_may_overlap(session: OpenSession) -> None:
    """The first in may be the first out."""
    one, two = ExitStack(), ExitStack()
    lookup = Frozen(kinds=DEFAULT_KINDS, seed="s", clock=3.0, scope=str)

    def look() -> Frozen:
        return lookup

    one.enter_context(freezing(look))
    two.enter_context(freezing(look))
    one.close()
    assert time.time() == 3.0
    two.close()
    assert left_behind() == []


def test_another_lookup_is_refused(session: OpenSession) -> None:
    """Two ways to find the session cannot both be right."""
    with session(), pytest.raises(SessionStateError, match="same lookup"), freezing(lambda: None):
        pass
    assert left_behind() == []


async def test_sessions_in_one_event_loop_do_not_disturb_each_other(session: OpenSession) -> None:
    """Each task sees its own clock, ids and numbers, also while the other is in the middle of its session."""
    turn = [asyncio.Event(), asyncio.Event()]

    async def run(index: int) -> list[object]:
        seen: list[object] = []
        with session(clock=float(index), seed=str(index)):
            for _ in range(3):
                seen += [time.time(), uuid.uuid4(), random.random()]
                turn[1 - index].set()
                await turn[index].wait()
                turn[index].clear()
            turn[1 - index].set()
        return seen

    both = await asyncio.gather(run(0), run(1))
    for index, seen in enumerate(both):
        assert seen[0] == seen[3] == seen[6] == float(index)
        with session(clock=float(index), seed=str(index)):
            assert seen == [make() for _ in range(3) for make in (time.time, uuid.uuid4, random.random)]
    assert left_behind() == []


def test_a_thread_without_a_session_is_real(session: OpenSession) -> None:
    """The stand-ins of one session show the real world to everyone else."""
    seen: list[float] = []
    with session():
        in_other_thread(lambda: seen.append(time.time()))
    assert seen[0] > MOMENT


def test_lookup_and_scope_may_ask_the_time_themselves() -> None:
    """While the session layer is asked, its own clock and ids are real: no recursion."""
    told: list[float] = []

    def tell() -> str:
        told.append(time.time())
        return uuid.uuid4().hex[:0]

    frozen = Frozen(kinds=DEFAULT_KINDS, seed="s", clock=MOMENT, scope=tell)

    def look() -> Frozen:
        tell()
        return frozen

    with freezing(look):
        assert uuid.uuid4() == Frozen(kinds=DEFAULT_KINDS, seed="s", clock=MOMENT, scope=str).next_uuid("uuid.uuid4", 4)
        assert time.time() == MOMENT
    assert min(told) > MOMENT


def test_everything_is_restored_after_an_error(session: OpenSession) -> None:
    """A body that raises leaves nothing behind."""
    with pytest.raises(ZeroDivisionError), session():
        _ = 1 / 0
    assert left_behind() == []


def test_an_installation_that_is_interrupted(session: OpenSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C before anything is in place gets out as it is, and the next session is as any other."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(gc_state, "swap_in", interrupt)  # the first step
        with pytest.raises(KeyboardInterrupt), session():
            pass
    assert left_behind() == []
    with session():
        assert time.time() == MOMENT
