"""What holds for every part of an agent that is recorded: embeddings, retrievers, stores, histories, text models."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError, UnrecordedCallError
from agenttape_langchain import tape

from ..kit.replaying import Twice
from ..kit.world import World
from .parts import PARTS, Part, PlainRetriever, PydanticEmbeddings, RemoteVectorStore

each_part = pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
each_class = pytest.mark.parametrize(
    ("part", "cls"),
    [pytest.param(part, cls, id=cls.__name__) for part in PARTS.values() for cls in part.classes],
)

each_first_and_last = pytest.mark.parametrize(
    ("part", "cls"),
    [
        pytest.param(part, cls, id=cls.__name__)
        for part in PARTS.values()
        for cls in (part.classes[0], part.classes[-1])
    ],
)


@pytest.mark.sweep
@pytest.mark.parametrize("way", ["automatic", "taped", "both"])
@each_class
async def test_each_call_is_recorded_once_and_replayed(
    part: Part, cls: Any, way: str, world: World, twice: Twice
) -> None:
    """However a class implements its interface, each call is recorded once, as it is without a session, and replays."""
    automatic = way != "taped"

    def made() -> Any:
        return cls(world=world) if way == "automatic" else tape(cls(world=world))

    recorded = await twice.awaited(lambda: part.use(made()), auto=automatic)
    assert recorded == await part.use(cls(world=World()))
    assert tuple(row.kind for row in twice.recording.interactions) == part.kinds
    assert {row.name for row in twice.recording.interactions} == {cls.__name__}
    assert "never-recorded" not in twice.path.read_text()
    assert [replayed.match_rule for replayed in twice.replay.report.replayed] == ["exact"] * len(part.kinds)


@each_first_and_last
async def test_sync_serves_async_and_back(part: Part, cls: Any, world: World, twice: Twice) -> None:
    """A recording of a method serves its asynchronous twin, and the other way round."""
    with twice.records():
        recorded = [part.ask(cls(world=world), "a"), await part.aask(cls(world=world), "b")]
    with twice.replays():
        assert [await part.aask(cls(world=world), "a"), part.ask(cls(world=world), "b")] == recorded


@each_first_and_last
async def test_parallel_equal_calls_find_their_own(part: Part, cls: Any, world: World, twice: Twice) -> None:
    """Of six equal calls in parallel each gets the answer that it got when it was recorded."""
    made = cls(world=world)

    async def six() -> list[Any]:
        return await asyncio.gather(*(part.aask(made, "a") for _ in range(6)))

    recorded = await twice.awaited(six)
    assert len({repr(each) for each in recorded}) == (1 if part is PARTS["history"] else 6)
    assert [replayed.match_rule for replayed in twice.replay.report.replayed] == ["exact"] * 6


class Counted(list[str]):
    """Texts that are read once, and whose number is known."""

    def __next__(self) -> str:
        return self.pop(0)


def test_the_number_of_items_of_an_iterator_stays_known(world: World, twice: Twice) -> None:
    """The real code of a call may ask for the length of an iterator that has one."""

    class Counting(RemoteVectorStore):
        def add_texts(self, texts: Any, *args: Any, **kwargs: Any) -> list[str]:
            return [f"id-{self.world.reach('add')} of {len(texts)}", *texts]

    recorded = twice.record(lambda: Counting(world).add_texts(Counted("ab")))
    assert recorded == ["id-1 of 2", "a", "b"]


OTHERS = [(name, {key: value}, "a") for name, part in PARTS.items() for key, value in part.settings.items()]
OTHERS += [(name, {}, "b") for name in PARTS if name != "history"]


@pytest.mark.parametrize(("name", "settings", "text"), OTHERS)
def test_another_part_or_request_misses(
    name: str, settings: dict[str, Any], text: str, world: World, twice: Twice
) -> None:
    """A recording isn't replayed for a part with other settings, nor for another request."""
    part = PARTS[name]
    twice.record(lambda: part.ask(part.classes[0](world=world), "a"))
    with pytest.raises(CassetteMissError), twice.replays():
        part.ask(part.classes[0](world=world, **settings), text)


@each_part
async def test_errors_are_raised_again(part: Part, world: World, tmp_path: Path) -> None:
    """A part that fails fails again with the same error, and isn't reached for that."""

    class Down(World):
        def reach(self, what: str) -> int:
            raise ConnectionError("down")

    for mode, where in (("all", Down()), ("none", world)):
        made, world.gone = part.classes[0](world=where), True
        with use_cassette(tmp_path / "c.yaml", mode=mode):
            with pytest.raises(ConnectionError, match="down"):
                part.ask(made, "a")
            with pytest.raises(ConnectionError, match="down"):
                await part.aask(made, "b")


@each_part
def test_unrecorded_call_is_an_error(part: Part, world: World, twice: Twice) -> None:
    """A run that continues after misses gets an error: no vector and no document means that there is none."""
    with twice.records():
        pass
    with twice.replays(on_miss="return") as replay, pytest.raises(UnrecordedCallError):
        part.ask(part.classes[0](world=world), "a")
    assert len(replay.report.unrecorded) == 1


@each_part
def test_replayed_values_are_fresh(part: Part, world: World, tmp_path: Path) -> None:
    """A program that changes what it got changes no later answer."""
    path, made = tmp_path / "c.yaml", part.classes[0](world=world)
    with use_cassette(path, mode="all"):
        recorded = part.ask(made, "a")
    with use_cassette(path, on_repeat="last"):
        changed = part.ask(made, "a")
        if isinstance(changed, list):
            for document in changed:
                getattr(document, "metadata", {}).clear()
            changed.clear()
        assert part.ask(made, "a") == recorded


@each_class
async def test_taped_part_is_what_it_was(part: Part, cls: Any, world: World) -> None:
    """A taped part is of its class, shares the state of the original, is taped once, and works outside sessions."""
    real = cls(world=world)
    taped = tape(real)
    assert isinstance(taped, cls)
    assert (type(taped).__name__, type(taped).__module__) == (cls.__name__, cls.__module__)
    assert tape(taped) is taped
    real.world = other = World()
    part.ask(taped, "a")
    assert (len(world.reached), len(other.reached)) == (0, 1)
    assert len(await part.use(taped)) == len(await part.use(real))


@pytest.mark.parametrize("made", [PydanticEmbeddings(world=None, dimensions=3), PlainRetriever(world=None, k=5)])
def test_pickled_part_is_taped(made: Any) -> None:
    """A taped part survives pickling."""
    again = pickle.loads(pickle.dumps(tape(made)))
    assert again.model_dump() == made.model_dump()
    assert tape(again) is again


def test_classes_are_left_as_they_were(twice: Twice) -> None:
    """After the last session no class of the framework or of a provider has changed."""
    classes = {base for part in PARTS.values() for cls in part.classes for base in cls.__mro__}
    before = {cls: dict(vars(cls)) for cls in classes if cls.__module__.startswith(("langchain", __package__))}
    changed = twice.record(lambda: {cls for cls, was in before.items() if dict(vars(cls)) != was})
    assert [name for name, part in PARTS.items() if changed.isdisjoint(part.classes[0].__mro__)] == []
    assert {cls: dict(vars(cls)) for cls in before} == before


# -- stand-ins made of a cassette ----------------------------------------------------------------------------------


@each_part
async def test_stand_in_answers_as_the_recorded_part_did(part: Part, world: World, twice: Twice) -> None:
    """Every call of a stand-in gives what the recorded object gave, once each."""
    with twice.records() as recording:
        recorded = await part.use(part.classes[0](world=world))
    stand_in = part.stand_in(twice.path)
    assert await part.use(stand_in) == recorded
    assert len(stand_in.report.replayed) == len(recording.interactions)
    with pytest.raises(CassetteMissError):
        await part.use(stand_in)
    assert await part.use(pickle.loads(pickle.dumps(stand_in))) == recorded  # as in another process, from the start
