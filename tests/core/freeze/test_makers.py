"""Third-party makers of ids are frozen like those of the standard library, when somebody imported them."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
import types
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core.freeze import ids

from .conftest import OpenSession

if TYPE_CHECKING:
    from collections.abc import Callable


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
