"""Embedding models: texts, queries, batches, images, sparse ones."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.storage.kvstore import SimpleKVStore

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_llamaindex import ReplayEmbedding, tape

from .fakes import FakeEmbedding, FakeImages, FakeSparse, events_of
from .scripted import World


async def everything(model: Any) -> list[Any]:
    """Ask an embedding model in every way."""
    return [
        model.get_query_embedding("question"),
        await model.aget_query_embedding("question"),
        model.get_text_embedding("text"),
        await model.aget_text_embedding("other text"),
        model.get_text_embedding_batch(["a", "bb", "ccc"]),
        await model.aget_text_embedding_batch(["dddd", "eeeee"]),
    ]


async def everything_with_images(model: Any) -> list[Any]:
    """Ask for images, too."""
    return [
        *await everything(model),
        model.get_image_embedding("cat.png"),
        await model.aget_image_embedding(io.BytesIO(b"\x89PNG")),
        model.get_image_embedding_batch(["cat.png", "dog.png"]),
    ]


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("make", "ask"),
    [
        (FakeEmbedding, everything),
        (lambda world: FakeEmbedding(world, dimensions=300, embed_batch_size=2), everything),
        (lambda world: FakeEmbedding(world, embeddings_cache=SimpleKVStore()), everything),
        (FakeImages, everything_with_images),
        (FakeSparse, everything),
    ],
    ids=["texts", "long", "cached", "images", "sparse"],
)
@pytest.mark.parametrize("auto", [True, False], ids=["automatic", "taped"])
def test_replay_equals_the_recording(
    tmp_path: Path, make: Callable[[World], Any], ask: Callable[[Any], Any], *, auto: bool
) -> None:
    """Every call gives the same value and fires the same events unrecorded, recorded and replayed."""
    world, seen = World(), []
    with events_of() as events:
        seen.append((asyncio.run(ask(make(World()))), [event[:2] for event in events]))
    for mode in ("all", "none"):
        model = make(world) if auto else tape(make(world))  # a cache of its own for each
        with use_cassette(tmp_path / "c.yaml", mode=mode, auto=auto), events_of() as events:
            seen.append((asyncio.run(ask(model)), [event[:2] for event in events]))
        world.gone = True
    assert seen[1] == seen[2]
    assert seen[0][1] == seen[1][1]
    assert world.trespasses == []


def test_request_and_name(tmp_path: Path, world: World) -> None:
    """A request holds the model, its settings and the texts: one for a query, a list for texts."""
    model = tape(FakeEmbedding(world, dimensions=4))
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        model.get_query_embedding("q")
        model.get_text_embedding("t")
    records = list(open_cassette(tmp_path / "c.yaml").records())
    assert [(record.kind, record.name) for record in records] == [("embeddings", "FakeEmbedding")] * 2
    assert [record.request for record in records] == [
        {"model": "embed-1", "dimensions": 4, "input": "q"},
        {"model": "embed-1", "dimensions": 4, "input": ["t"]},
    ]


def test_a_text_alone_or_in_a_batch_of_one(tmp_path: Path, world: World) -> None:
    """A batch of one text asks what the text alone asks."""
    model = tape(FakeEmbedding(world))
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = model.get_text_embedding("t")
    world.gone = True
    with use_cassette(tmp_path / "c.yaml"):
        assert model.get_text_embedding_batch(["t"]) == [recorded]


def test_each_batch_has_a_place(tmp_path: Path, world: World) -> None:
    """The batches of one call have addresses of their own, and so have the calls that a delegating class makes."""
    with use_cassette(tmp_path / "c.yaml", mode="all") as cassette:
        FakeEmbedding(world, embed_batch_size=2).get_text_embedding_batch(["a", "b", "c"])
        FakeEmbedding(world).get_query_embedding("q")
    assert [interaction.address for interaction in cassette.interactions] == [
        "FakeEmbedding.get_text_embedding_batch/FakeEmbedding",
        "FakeEmbedding.get_text_embedding_batch/FakeEmbedding#2",
        "FakeEmbedding.get_query_embedding/FakeEmbedding._get_query_embedding",
    ]


def test_vectors_are_stored_as_bytes(tmp_path: Path, world: World) -> None:
    """A long vector takes one line."""
    model = tape(FakeEmbedding(world, dimensions=1536))
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        model.get_text_embedding("t")
    assert len((tmp_path / "c.yaml").read_text("utf-8").splitlines()) < 60


@pytest.mark.parametrize(("make", "ask"), [(FakeEmbedding, everything), (FakeImages, everything_with_images)])
def test_made_of_a_cassette(
    tmp_path: Path, world: World, make: Callable[[World], Any], ask: Callable[[Any], Any]
) -> None:
    """A stand-in made of a cassette embeds what was embedded, also below an automatic session, and nothing else."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = asyncio.run(ask(make(world)))
    model = ReplayEmbedding(tmp_path / "c.yaml")
    assert model.model_name == "embed-1"
    with use_cassette(tmp_path / "other.yaml", mode="all", on_unused="ignore") as other:
        assert asyncio.run(ask(model)) == recorded
    assert other.interactions == []
    with pytest.raises(CassetteMissError):
        model.get_text_embedding("never embedded")
