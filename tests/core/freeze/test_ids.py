"""`uuid1` and `uuid4` are frozen wherever they are referred to; `random` by its module-level functions."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import pickle
import random
import secrets
import sys
import time
import types
import uuid
from random import randint
from typing import TYPE_CHECKING, Any
from uuid import uuid1, uuid4

import pytest
from pydantic import BaseModel, Field

from agenttape_core.errors import ConfigurationError
from agenttape_core.freeze import Frozen, ids, register_seam

from .conftest import OpenSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenttape_core.freeze import Frozen


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


# -- makers of other packages ---------------------------------------------------------------------------------


uuid_utils = pytest.importorskip("uuid_utils")
compat = importlib.import_module("uuid_utils.compat")

taken_before = uuid_utils.uuid7
NAMES = ["uuid1", "uuid4", "uuid6", "uuid7"]


@pytest.mark.parametrize("module", [uuid_utils, compat], ids=["uuid_utils", "compat"])
@pytest.mark.parametrize("name", NAMES)
def test_each_maker_is_frozen(session: OpenSession, module: Any, name: str) -> None:
    """Ids are of the module's own type and version, equal in every session, different within it, real outside."""
    rounds = []
    for _ in range(2):
        with session():
            rounds.append([getattr(module, name)() for _ in range(3)])
    first, second = rounds
    assert first == second
    assert len(set(first)) == 3
    assert {type(made) for made in first} == {module.UUID}
    assert {made.version for made in first} == {int(name[-1])}
    assert getattr(module, name)() not in first


@pytest.mark.parametrize("module", [uuid_utils, compat], ids=["uuid_utils", "compat"])
@pytest.mark.parametrize("name", ["uuid6", "uuid7"])
def test_ids_with_time_sort(session: OpenSession, module: Any, name: str) -> None:
    """Ids that have a time sort in the order in which they were made."""
    with session():
        made = [getattr(module, name)() for _ in range(50)]
    assert made == sorted(made)
    assert len(set(made)) == 50


def test_names_taken_before_are_covered(session: OpenSession) -> None:
    """A global of another module and a default factory of before the session are frozen in it."""

    @dataclasses.dataclass
    class Data:
        id: uuid.UUID = dataclasses.field(default_factory=compat.uuid7)

    rounds = []
    for _ in range(2):
        with session():
            rounds.append((taken_before(), Data().id))
    assert rounds[0] == rounds[1]
    assert Data().id != rounds[0][1]


def test_makers_do_not_disturb_each_other(session: OpenSession) -> None:
    """The same name in two modules is two makers, each with its own count."""
    with session():
        assert len({uuid.uuid4().int, uuid_utils.uuid4().int, compat.uuid4().int}) == 3


def test_a_given_time_is_kept(session: OpenSession) -> None:
    """An id for a chosen moment is an id of that moment, in every session the same."""
    moment = {"timestamp": 1_600_000_000, "nanos": 5_000_000}
    if "nanoseconds" in inspect.signature(compat.uuid7).parameters:
        moment = {"nanoseconds": 1_600_000_000_005_000_000}
    rounds = []
    for _ in range(2):
        with session():
            rounds.append((compat.uuid7(**moment), uuid_utils.uuid7(**moment).int))
    assert rounds[0] == rounds[1]
    assert rounds[0][0].int >> 80 == rounds[0][1] >> 80 == 1_600_000_000_005


def test_the_session_can_leave_ids_real(session: OpenSession) -> None:
    """Without the kind the makers make real ids, with the arguments they are given."""
    with session(kinds=["clock"]):
        first, one = compat.uuid4(), uuid_utils.uuid1(5, 9)
    with session(kinds=["clock"]):
        assert compat.uuid4() != first
    assert (one.node, one.clock_seq) == (5, 9)


def test_nothing_stays_behind(session: OpenSession) -> None:
    """Code, signature and globals are the originals again, after an error too."""
    code, real = compat.uuid7.__code__, uuid_utils.uuid7
    signature = inspect.signature(compat.uuid7)
    with pytest.raises(ZeroDivisionError), session():
        assert compat.uuid7.__code__ is not code
        assert inspect.signature(compat.uuid7) == signature
        _ = 1 / 0
    assert compat.uuid7.__code__ is code
    assert "__signature__" not in vars(compat.uuid7)
    assert uuid_utils.uuid7 is taken_before is real


def test_a_module_of_its_own_type_is_frozen(session: OpenSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are of the maker's class; a maker whose arguments are not understood stays what it is."""

    def fake_module(name: str) -> types.ModuleType:
        """A package `uuid6` as it is published: makers in Python, and a class of ids of its own."""
        module = types.ModuleType(name)
        exec(
            "import uuid\n"
            "class UUID(uuid.UUID): pass\n"
            "def uuid6(node=None, clock_seq=None): return UUID(int=6 << 76)\n"
            "def uuid7(): return UUID(int=7 << 76)\n"
            "def uuid1(surprise): return UUID(int=surprise)\n",
            module.__dict__,
        )
        return module

    module: Any = fake_module("uuid6")
    monkeypatch.setitem(sys.modules, "uuid6", module)
    with session():
        made = [module.uuid6(), module.uuid6(7, clock_seq=3), module.uuid7()]
        assert module.uuid1(5).int == 5
    assert {type(made_) for made_ in made} == {module.UUID}
    assert [made_.version for made_ in made] == [6, 6, 7]
    assert (made[1].node, made[1].clock_seq_low) == (7, 3)
    assert module.uuid7().int == 7 << 76


def test_a_module_imported_inside_is_frozen(
    session: OpenSession, write_module: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not imported for being frozen; when the session's code imports it, it is frozen at once."""
    monkeypatch.delitem(sys.modules, "uuid6", raising=False)
    source = "import uuid\nfrom uuid import UUID\ndef uuid7():\n    return UUID(int=7 << 76)\n"
    write_module("uuid6", source)
    made = []
    with session():
        assert "uuid6" not in sys.modules
        make: Any = importlib.import_module("uuid6").uuid7
        made.append(make())
    with session():
        made.append(make())
    assert made[0] == made[1] != make()


def test_a_module_that_was_searched_before_is_searched_again(
    session: OpenSession, loaded_module: Callable[[str, str], types.ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A maker in C that turns out to be one only later is frozen wherever modules hold it already."""
    monkeypatch.delitem(sys.modules, "uuid6", raising=False)
    holder: Any = loaded_module("holds_a_maker", "from uuid_utils import _uuid4_int as maker\n")
    real = holder.maker
    with session():
        assert holder.maker is real
    late: Any = types.ModuleType("uuid6")
    late.UUID, late.uuid7 = uuid.UUID, real
    monkeypatch.setitem(sys.modules, "uuid6", late)
    made = []
    for _ in range(2):
        with session():
            made.append(holder.maker())
    assert made[0] == made[1]
    assert holder.maker is late.uuid7 is real


def test_a_module_that_is_loaded_again_is_frozen(
    session: OpenSession, write_module: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new function is frozen at once, and both are themselves again after the session."""
    monkeypatch.delitem(sys.modules, "uuid6", raising=False)
    write_module("uuid6", "from uuid import UUID\ndef uuid7():\n    return UUID(int=7 << 76)\n")
    with session():
        module: Any = importlib.import_module("uuid6")
        first = module.uuid7
        second = importlib.reload(module).uuid7
        assert second is not first
        assert second().int != 7 << 76
    assert first().int == second().int == 7 << 76
    assert first.__code__ == second.__code__


def test_a_mock_is_left_alone(session: OpenSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever replaced a maker before the session keeps it; when it is gone, the maker is frozen again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uuid_utils, "uuid4", lambda: "mine")
        with session():
            assert uuid_utils.uuid4() == "mine"
    with session():
        first = uuid_utils.uuid4()
    with session():
        assert uuid_utils.uuid4() == first


def test_the_makers_are_named() -> None:
    """The modules that are looked at are known by name, and none is imported by looking."""
    assert set(ids.MODULES) == {"uuid", "uuid_utils", "uuid_utils.compat", "uuid6"}


# -- makers that integrations name ----------------------------------------------------------------------------


SOURCE = "def make():\n    return 'real'\n"


def as_frozen(frozen: Frozen, real: Callable[..., Any]) -> Callable[..., Any]:
    """Shows both what is real and what is frozen."""
    return lambda: f"{real()} {frozen.next_uuid('seam', 7).version}"


def test_a_loaded_module_is_covered(
    session: OpenSession, loaded_module: Callable[[str, str], types.ModuleType]
) -> None:
    """The seam of a loaded module is replaced inside and restored after."""
    module: Any = loaded_module("seam_loaded", SOURCE)
    register_seam("seam_loaded", "make", "uuid", as_frozen)
    real = module.make
    with session():
        assert module.make() == "real 7"
    with session(kinds=["clock"]):
        assert module.make() == "real"
    assert module.make is real


def test_a_module_imported_later_is_covered(session: OpenSession, write_module: Callable[[str, str], str]) -> None:
    """A seam is filled when its module is imported inside; nothing is imported because of it."""
    name = write_module("seam_later", SOURCE)
    register_seam(name, "make", "uuid", as_frozen)
    with session():
        assert name not in sys.modules
        module = importlib.import_module(name)
        assert module.make() == "real 7"
        assert module.__spec__ is not None
        assert module.__loader__ is module.__spec__.loader
        assert type(module.__loader__).__module__ != "agenttape_core.freeze.install"
    assert module.make() == "real"
    assert importlib.reload(module).make() == "real"


def test_a_seam_can_be_registered_inside(
    session: OpenSession, loaded_module: Callable[[str, str], types.ModuleType]
) -> None:
    """An integration that is loaded in the middle of a session takes part at once."""
    module: Any = loaded_module("seam_inside", SOURCE)
    with session():
        register_seam("seam_inside", "make", "uuid", as_frozen)
        assert module.make() == "real 7"
        register_seam("seam_inside", "make", "uuid", lambda frozen, real: lambda: f"{real()} again")
        assert module.make() == "real again"
    assert module.make() == "real"


def test_a_seam_that_spread_is_restored(
    session: OpenSession,
    loaded_module: Callable[[str, str], types.ModuleType],
    write_module: Callable[[str, str], str],
) -> None:
    """A module imported inside that took the stand-in by name gets the real maker after."""
    loaded: Any = loaded_module("seam_source", SOURCE)
    register_seam("seam_source", "make", "uuid", as_frozen)
    name = write_module("seam_taker", "from seam_source import make\n")
    with session():
        taker = importlib.import_module(name)
        assert taker.make() == "real 7"
    assert taker.make is loaded.make
    assert taker.make() == "real"


def test_a_seam_goes_before_what_is_covered_anyway(
    session: OpenSession, loaded_module: Callable[[str, str], types.ModuleType]
) -> None:
    """A module's own `time` can be given another meaning than everyone's."""
    module: Any = loaded_module("seam_clock", "from time import time\n")
    register_seam("seam_clock", "time", "clock", lambda frozen, real: lambda: frozen.clock + 1)
    real = module.time
    for _ in range(2):
        with session(clock=5.0):
            assert module.time() == 6.0
        assert module.time is real


def test_what_is_missing_is_left_alone(
    session: OpenSession, loaded_module: Callable[[str, str], types.ModuleType]
) -> None:
    """A version of a framework without the attribute, or not installed at all, is no error."""
    loaded_module("seam_empty", "make = None\n")
    register_seam("seam_empty", "make", "uuid", as_frozen)
    register_seam("seam_empty", "other", "uuid", as_frozen)
    register_seam("seam_nowhere", "make", "uuid", as_frozen)
    with session(), pytest.raises(ModuleNotFoundError):
        importlib.import_module("seam_nowhere")


def test_an_unknown_kind_is_refused() -> None:
    """A seam belongs to one of the kinds."""
    with pytest.raises(ConfigurationError, match="weather"):
        register_seam("any", "make", "weather", as_frozen)
