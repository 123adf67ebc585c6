"""numpy's random numbers are the same in every session, when numpy is imported at all."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

from .conftest import OpenSession, in_other_thread

np = pytest.importorskip("numpy")
rand = np.random.rand  # a name that was taken before any session

_scope: ContextVar[str] = ContextVar("scope", default="root")


def draws() -> list[Any]:
    """One of each sort."""
    items = list(range(8))
    np.random.shuffle(items)
    return [
        rand(2, 2).tolist(),
        *(float(draw()) for draw in (np.random.random, np.random.random_sample, np.random.ranf, np.random.sample)),
        np.random.randn(3).tolist(),
        int(np.random.randint(10**6)),
        np.random.choice(list("abcdef"), 3, replace=False).tolist(),
        np.random.permutation(9).tolist(),
        np.random.normal(2, 3, 2).tolist(),
        np.random.uniform(0, 9),
        np.random.bytes(5),
        items,
        np.random.mtrand.rand(),
    ]


def test_the_functions_are_frozen(session: OpenSession) -> None:
    """Every function draws the same in every session of a seed, and something else with another seed and outside."""
    rounds = []
    for _ in range(2):
        with session():
            rounds.append(draws())
    assert rounds[0] == rounds[1]
    with session(seed="other"):
        assert draws() != rounds[0]
    assert draws() != rounds[0]


def test_every_function_of_the_hidden_generator_is_covered(session: OpenSession) -> None:
    """None is known by name: whatever this version of numpy has is replaced, and nothing after."""
    hidden = np.random.mtrand._rand
    names = [name for name, value in vars(np.random).items() if getattr(value, "__self__", None) is hidden]
    reals = {name: getattr(np.random, name) for name in names}
    with session():
        assert {name for name in names if getattr(np.random, name) is reals[name]} == set()
    assert {name for name in names if getattr(np.random, name) is not reals[name]} == set()
    assert len(names) > 40


def test_the_state_of_the_process_does_not_change(session: OpenSession) -> None:
    """After a session that drew, seeded and set things, the global generator is where it was."""

    def global_state() -> list[Any]:
        """The state of the process's own generator, comparable."""
        return [part.tolist() if hasattr(part, "tolist") else part for part in np.random.get_state()]

    before = global_state()
    with session():
        draws()
        np.random.seed(3)
        np.random.set_state(np.random.RandomState(9).get_state())
        np.random.set_bit_generator(np.random.PCG64(4))
        draws()
    assert global_state() == before


def test_a_seed_of_the_user_wins(session: OpenSession) -> None:
    """Seeding gives the numbers that this seed always gives, by every way to seed."""
    with session():
        np.random.seed(42)
        assert np.random.rand() == np.random.RandomState(42).rand()
        np.random.set_state(np.random.RandomState(7).get_state())
        assert np.random.rand() == np.random.RandomState(7).rand()
        np.random.set_bit_generator(np.random.PCG64(4))
        assert isinstance(np.random.get_bit_generator(), np.random.PCG64)
        assert np.random.rand() == np.random.RandomState(np.random.PCG64(4)).rand()
        seeded = np.random.default_rng(5).random()
    assert seeded == np.random.default_rng(5).random()


@pytest.mark.process
def test_what_has_no_seed_gets_one(session: OpenSession) -> None:
    """Generators without a seed are equal in every session, and different from each other."""

    def unseeded() -> list[float]:
        """One of everything that takes no seed."""
        np.random.seed()
        return [
            np.random.default_rng().random(),
            np.random.default_rng().random(),
            np.random.default_rng(None).random(),
            np.random.Generator(np.random.PCG64()).random(),
            np.random.Generator(np.random.Philox(np.random.SeedSequence())).random(),
            np.random.RandomState().rand(),
            np.random.rand(),
            np.random.default_rng().spawn(1)[0].random() if hasattr(np.random.Generator, "spawn") else 0.0,
        ]

    rounds = []
    for _ in range(2):
        with session():
            rounds.append(unseeded())
    assert rounds[0] == rounds[1]
    assert len(set(rounds[0])) == len(rounds[0])
    assert not set(unseeded()) & set(rounds[0]) - {0.0}


def test_parallel_tasks_do_not_disturb_each_other(session: OpenSession) -> None:
    """What a scope draws does not depend on which of two tasks was faster."""

    def draw(scope: str) -> list[float]:
        _scope.set(scope)
        return [np.random.rand(), np.random.default_rng().random()]

    def both(order: str) -> dict[str, list[float]]:
        with session(scope=_scope.get):
            return {scope: copy_context().run(draw, scope) for scope in order}

    assert both("ab") == both("ba")


def test_other_threads_are_real(session: OpenSession) -> None:
    """A thread of nobody's draws from the process's own generator."""
    state = np.random.RandomState()
    state.set_state(np.random.get_state())
    drawn: list[float] = []
    with session():
        in_other_thread(lambda: drawn.append(np.random.rand()))
    assert drawn == [state.rand()]


def test_the_session_can_leave_numpy_real(session: OpenSession) -> None:
    """Without the kind the process's own generator serves."""
    state = np.random.RandomState()
    state.set_state(np.random.get_state())
    with session(kinds=["random"]):
        assert np.random.rand() == state.rand()
        assert np.random.default_rng().random() != np.random.default_rng().random()


@pytest.mark.process
def test_an_import_inside_is_frozen_at_once() -> None:
    """It is not imported for being frozen; imported inside, it is, and its own first seed is the system's."""
    imports_inside = textwrap.dedent("""
        import sys
        from agenttape_core.freeze import Frozen, freezing

        def lookup():
            return current[0]

        def run():
            current[0] = Frozen(kinds=["numpy"], seed="s", clock=0.0, scope=str)
            with freezing(lookup):
                import numpy as np
                drawn = [np.random.rand(), np.random.default_rng().random()]
            current[0] = None
            return drawn

        current = [None]
        with freezing(lookup):
            pass
        assert "numpy" not in sys.modules
        assert run() == run()
        import numpy as np
        assert type(np.random.rand).__name__ != "FrozenFunction"
        print(np.random.rand())
    """)

    outputs = [
        subprocess.run([sys.executable, "-c", imports_inside], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert outputs[0] != outputs[1]
