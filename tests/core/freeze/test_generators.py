"""Generators of one's own: those without a seed are frozen, those with one are what they always are."""

from __future__ import annotations

import copy
import importlib
import pickle
import random
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import OpenSession, in_other_thread

if TYPE_CHECKING:
    from collections.abc import Callable


def test_without_a_seed_they_are_frozen(session: OpenSession) -> None:
    """What would ask the system for noise is equal in every session, and real outside."""

    class Loaded(random.Random):
        """A subclass that does more when it is made."""

        def __init__(self) -> None:
            super().__init__()
            self.extra = 1

    def draws() -> list[float]:
        """One of everything that has no seed."""
        again = random.Random(5)
        again.seed()
        random.seed()
        return [
            random.Random().random(),
            random.Random(None).random(),
            Loaded().random(),
            again.random(),
            random.random(),
        ]

    rounds = []
    for _ in range(2):
        with session():
            rounds.append(draws())
    assert rounds[0] == rounds[1]
    assert len(set(rounds[0])) == 5
    assert not set(draws()) & set(rounds[0])
    with session(seed="other"):
        assert not set(draws()) & set(rounds[0])


@pytest.mark.parametrize("seed", [0, 5, "x", b"y", 2.5])
def test_a_seed_wins(session: OpenSession, seed: Any) -> None:
    """With a seed the numbers are those of the seed, inside as outside."""
    outside = random.Random(seed).random()
    with session():
        assert random.Random(seed).random() == outside


def test_one_made_before_goes_on(session: OpenSession) -> None:
    """A generator of before the session is not touched by it."""
    generator = random.Random(5)
    expected = random.Random(5)
    with session():
        assert generator.random() == expected.random()


def test_one_made_inside_is_a_value(session: OpenSession) -> None:
    """It goes on after the session, and can be copied and pickled at any time."""
    with session():
        generator = random.Random()
        twins = [copy.copy(generator), copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    assert {twin.random() for twin in twins} == {generator.random()}


def test_other_threads_are_real(session: OpenSession) -> None:
    """A thread of nobody's gets noise, and takes none of the session's seeds."""
    made: list[float] = []
    with session():
        in_other_thread(lambda: made.append(random.Random().random()))
        made.append(random.Random().random())
    with session():
        assert random.Random().random() == made[1] != made[0]


def test_the_names_of_temporary_files_are_real(session: OpenSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that record the same run must not want the same files, nor anybody guess them."""
    names = []
    for _ in range(2):
        monkeypatch.setattr(tempfile, "_name_sequence", None)
        with session(), tempfile.TemporaryDirectory() as folder:
            names.append(folder)
    assert names[0] != names[1]


def test_a_generator_of_a_module_is_the_processs(session: OpenSession, write_module: Callable[[str, str], str]) -> None:
    """One made while a module is imported inside gets noise: it serves later sessions too, which do not make it."""
    name = write_module("has_generator", "import random\ngenerator = random.Random()\n")
    with session():
        module: Any = importlib.import_module(name)
        first = random.Random().random()
    with session():
        assert random.Random().random() == first
        assert importlib.reload(module).generator.random() != first


def test_nothing_stays_behind(session: OpenSession) -> None:
    """The class has its own method again, after an error too; a patch of somebody else stays."""
    real = vars(random.Random)["seed"]
    with pytest.raises(ZeroDivisionError), session():
        assert vars(random.Random)["seed"] is not real
        _ = 1 / 0
    assert vars(random.Random)["seed"] is real
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random.Random, "seed", lambda *_args: None)
        mine = vars(random.Random)["seed"]
        with session():
            random.Random()
        assert vars(random.Random)["seed"] is mine
    assert vars(random.Random)["seed"] is real
