"""`uuid1` and `uuid4` are frozen wherever they are referred to; `random` by its module-level functions."""

from __future__ import annotations

import dataclasses
import inspect
import os
import pickle
import random
import secrets
import time
import uuid
from random import randint
from typing import TYPE_CHECKING
from uuid import uuid1, uuid4

import pytest
from pydantic import BaseModel, Field

from .conftest import OpenSession

if TYPE_CHECKING:
    from collections.abc import Callable


def by_default(make: Callable[[], uuid.UUID] = uuid4) -> uuid.UUID:
    """A default argument that was taken before any session."""
    return make()


def test_ids_are_the_same_in_every_session(session: OpenSession) -> None:
    """The n-th id of a scope is the same, through any reference, those of before the session included."""

    class Model(BaseModel):
        id: uuid.UUID = Field(default_factory=uuid4)

    @dataclasses.dataclass
    class Data:
        id: uuid.UUID = dataclasses.field(default_factory=uuid.uuid4)

    makers: list[Callable[[], uuid.UUID]] = [uuid.uuid4, uuid4, by_default, lambda: Model().id, lambda: Data().id]
    with session():
        first = [make() for make in makers]
    with session():
        second = [make() for make in makers]
    assert first == second
    assert len(set(first)) == len(makers)
    assert {made.version for made in first} == {4}


def test_uuid1_is_frozen_with_its_arguments(session: OpenSession) -> None:
    """The node and the sequence that a caller gives are kept."""
    with session():
        made, plain = uuid1(7, clock_seq=3), uuid1()
    with session():
        assert (uuid1(7, clock_seq=3), uuid1()) == (made, plain)
    assert (made.node, made.clock_seq, made.version) == (7, 3, 1)


def test_the_makers_are_themselves_again(session: OpenSession) -> None:
    """Outside, ids are random; signature and pickle never change."""
    code = uuid4.__code__
    with session():
        assert str(inspect.signature(uuid4)) == "()"
        assert pickle.loads(pickle.dumps(uuid4)) is uuid4
    assert uuid4.__code__ is code
    assert by_default() != by_default()


def test_ids_are_real_when_not_frozen(session: OpenSession) -> None:
    """Freezing the clock alone leaves ids random."""
    with session(kinds=["clock"]):
        first, one = uuid4(), uuid1(5)
    with session(kinds=["clock"]):
        assert uuid4() != first
    assert (first.version, one.version, one.node) == (4, 1, 5)


def test_module_level_random_is_frozen(session: OpenSession) -> None:
    """All functions share the scope's generator, which is the same in every session."""

    def draw() -> list[object]:
        items = list(range(10))
        random.shuffle(items)
        return [random.random(), randint(0, 99), random.choice("abc"), random.gauss(0, 1), items, random.getrandbits(9)]

    with session():
        first = draw()
    with session():
        assert draw() == first
    with session(seed="other"):
        assert draw() != first
    assert draw() != first


def test_seeding_stays_in_the_session(session: OpenSession) -> None:
    """`seed` and `setstate` act on the session's generator; the process's own goes on as if nothing was."""
    random.seed(5)
    expected = random.Random(5).random()
    with session():
        random.seed(7)
        assert random.random() == random.Random(7).random()
        state = random.getstate()
        drawn = random.random()
        random.setstate(state)
        assert random.random() == drawn
    assert random.random() == expected


def test_own_generators_and_secrets_are_real(session: OpenSession) -> None:
    """What is explicit or secret is never frozen."""
    with session():
        assert random.Random(5).random() == random.Random(5).random()
        first = secrets.token_hex(), random.SystemRandom().random(), os.urandom(8)
    with session():
        assert not set(first) & {secrets.token_hex(), random.SystemRandom().random(), os.urandom(8)}


@pytest.mark.parametrize("name", ["time.time", "random.randint", "random.random"])
def test_functions_keep_their_face(session: OpenSession, name: str) -> None:
    """A stand-in has the name, the text and, if pickled by name, the identity that its function has."""
    home, _, attribute = name.partition(".")
    module = {"time": time, "random": random}[home]
    real = getattr(module, attribute)
    with session():
        stand_in = getattr(module, attribute)
        assert (stand_in.__name__, repr(stand_in), stand_in.__doc__) == (real.__name__, repr(real), real.__doc__)
        if home == "time":
            assert pickle.loads(pickle.dumps(stand_in)) is stand_in
