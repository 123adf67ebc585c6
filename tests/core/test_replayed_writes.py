"""After a write was replayed, nothing is executed on the object: it does not hold what the recording says."""

from __future__ import annotations

import gc
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import ref

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import IncompleteObjectError
from agenttape_core.session import stale_objects

if TYPE_CHECKING:
    from pathlib import Path


class Cart:
    """A shop's cart somewhere else."""

    def __init__(self) -> None:
        self.items: list[str] = []

    @boundary("memory")
    def add(self, item: str) -> None:
        """Add an item."""
        self.items.append(item)

    @boundary("memory", writes=False)
    def has(self, item: str) -> bool:
        """Look for an item."""
        return item in self.items

    @boundary("retrieval")
    def total(self) -> int:
        """Count the items."""
        return len(self.items)


class Slotted:
    """Takes no weak reference, and has no hash."""

    __slots__ = ("items",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self.items: list[str] = []

    def __eq__(self, other: object) -> bool:
        return True

    @boundary("memory")
    def add(self, item: str) -> None:
        """Add an item."""
        self.items.append(item)


class Weak(Slotted):
    """Takes weak references, and has no `__dict__`."""

    __slots__ = ("__weakref__",)


def replayed_add(path: Path, make: Any) -> Any:
    """An object of which a write has been replayed."""
    with use_cassette(path, mode="all"):
        make().add("a")
    value = make()
    with use_cassette(path):
        value.add("a")
    return value


def test_an_episode_is_not_recorded_from_an_object_that_lacks_the_ones_before(tmp_path: Path) -> None:
    """`add` serves a write and would count without it: the run stops, and the cassette stays as it was."""
    path = tmp_path / "cart.yaml"

    def run(*, more: bool) -> int | None:
        cart = Cart()
        cart.add("a")
        return cart.total() if more else None

    with use_cassette(path, mode="once"):
        run(more=False)
    before = path.read_text()
    with (
        pytest.raises(IncompleteObjectError, match=r"Can't record Cart\.total: this Cart is incomplete"),
        use_cassette(path, mode="new_episodes"),
    ):
        run(more=True)
    assert path.read_text() == before


def test_no_handler_eats_it(tmp_path: Path) -> None:
    """It is no `Exception`, and the session fails with it even if everything was caught."""
    cart = replayed_add(tmp_path / "cart.yaml", Cart)
    with pytest.raises(IncompleteObjectError), use_cassette(tmp_path / "other.yaml", mode="all"):
        try:
            cart.total()
        except Exception:
            pytest.fail("it was caught")
        except BaseException:
            pass
    assert not (tmp_path / "other.yaml").exists()


def test_a_replayed_read_changes_nothing(tmp_path: Path) -> None:
    """Methods that only read say so, and those of other kinds do; both are refused after a write."""
    path, cart = tmp_path / "cart.yaml", Cart()
    with use_cassette(path, mode="all"):
        assert not cart.has("a")
        assert cart.total() == 0
    with use_cassette(path, mode="new_episodes") as session:
        assert not cart.has("a")
        assert not cart.has("b")
        assert cart.total() == 0
        cart.add("a")
    assert (len(session.report.replayed), len(session.report.recorded)) == (2, 2)
    with pytest.raises(IncompleteObjectError), use_cassette(tmp_path / "other.yaml", mode="all"):
        replayed_add(tmp_path / "another.yaml", Cart).has("a")


def test_live_calls_are_refused_too(tmp_path: Path) -> None:
    """A live read after a replayed write would answer from an object that lacks it; live writes arrive."""
    path = tmp_path / "cart.yaml"
    with use_cassette(path, mode="all"):
        cart = Cart()
        cart.add("a")
        cart.total()
    with pytest.raises(IncompleteObjectError), use_cassette(path, live={"Cart.total"}):
        cart = Cart()
        cart.add("a")
        cart.total()
    with use_cassette(path, live={"Cart.add", "Cart.total"}):
        cart = Cart()
        cart.add("a")
        assert cart.total() == 1


@pytest.mark.parametrize("cls", [Cart, Weak, Slotted])
def test_objects_are_told_apart_by_identity(cls: Any, tmp_path: Path) -> None:
    """Whatever they compare equal to, and whether or not they have a hash or take weak references."""
    value, other = replayed_add(tmp_path / "c.yaml", cls), cls()
    with use_cassette(tmp_path / "other.yaml", mode="all"):
        other.add("b")
    with pytest.raises(IncompleteObjectError), use_cassette(tmp_path / "third.yaml", mode="all"):
        value.add("b")
    assert other.items == ["b"]


@pytest.mark.parametrize("cls", [Cart, Weak])
def test_objects_are_not_kept(cls: Any, tmp_path: Path) -> None:
    """The note lives as long as the object."""
    before = set(stale_objects._others._notes)
    value = replayed_add(tmp_path / "c.yaml", cls)
    seen = ref(value)
    del value
    gc.collect()
    assert seen() is None
    assert set(stale_objects._others._notes) <= before


def test_objects_without_weak_references_are_kept_until_nobody_else_does(tmp_path: Path) -> None:
    """They are let go when the next one is noted, so they do not pile up."""
    kept = [replayed_add(tmp_path / f"{n}.yaml", Slotted) for n in range(4)]
    assert len(stale_objects._others._notes) == 4
    del kept[2:]
    kept.append(replayed_add(tmp_path / "last.yaml", Slotted))
    assert len(stale_objects._others._notes) == 3
    kept.clear()
    replayed_add(tmp_path / "again.yaml", Slotted)
    assert len(stale_objects._others._notes) == 1


def test_a_copy_lacks_the_write_too(tmp_path: Path) -> None:
    """What shares or copies the state of an object is as it is, also in another process."""
    again = pickle.loads(pickle.dumps(replayed_add(tmp_path / "c.yaml", Cart)))
    with pytest.raises(IncompleteObjectError, match="was replayed from"), use_cassette(tmp_path / "d.yaml", mode="all"):
        again.total()


def test_functions_and_bound_methods(tmp_path: Path) -> None:
    """A function has no object that it changes; a method that was bound before has the one it is bound to."""

    class Client:
        def __init__(self) -> None:
            self.facts: list[str] = []

        def remember(self, fact: str) -> None:
            self.facts.append(fact)

    @boundary("memory")
    def note(fact: str) -> str:
        return fact

    @dataclass
    class Callable:
        said: str = ""

        def __call__(self, text: str) -> None:
            self.said = text

    client, speaker = Client(), Callable()
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        note("a")
        boundary("memory")(client.remember)("a")
        boundary("memory")(speaker)("a")
    with use_cassette(tmp_path / "c.yaml"):
        note("a")
        boundary("memory")(client.remember)("a")
        boundary("memory")(speaker)("a")
    with use_cassette(tmp_path / "d.yaml", mode="all"):
        note("b")
    for refused in (client.remember, speaker):
        with pytest.raises(IncompleteObjectError), use_cassette(tmp_path / "e.yaml", mode="all"):
            boundary("memory")(refused)("b")
