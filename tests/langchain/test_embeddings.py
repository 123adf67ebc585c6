"""Embedding models are recorded, and replayed without being reached."""

from __future__ import annotations

import asyncio
import math
import random
import struct
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_openai import OpenAIEmbeddings

from agenttape_core import use_cassette
from agenttape_core.errors import ConfigurationError, UnreadableValueError
from agenttape_core.integration import value_codec
from agenttape_core.integration.codecs import packed
from agenttape_langchain import tape

from ..kit.replaying import Twice
from .conftest import RealExchanges
from .fakes import World
from .parts import PlainEmbeddings


class Cached(Embeddings):
    """Embeds by another model, each text once."""

    def __init__(self, inner: Embeddings) -> None:
        self.inner = inner
        self.known: dict[str, list[float]] = {}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        missing = [text for text in dict.fromkeys(texts) if text not in self.known]
        self.known |= dict(zip(missing, self.inner.embed_documents(missing), strict=True))
        return [self.known[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def test_request_says_what_the_provider_is_asked(world: World, tmp_path: Path) -> None:
    """The request is the texts, the model and the dimensions; a query and a document are different requests."""
    model = PlainEmbeddings(world)
    with use_cassette(tmp_path / "e.yaml", mode="all") as recording:
        model.embed_query("a")
        model.embed_documents(texts=["a"])
    settings = {"dimensions": 4, "model": "embed-1"}
    assert [row.request for row in recording.interactions] == [
        {**settings, "input": "a"},
        {**settings, "input": ["a"]},
    ]
    assert len({row.fingerprint for row in recording.interactions}) == 2


def test_model_inside_a_model_is_part_of_it(world: World, twice: Twice) -> None:
    """A model that embeds by another one is recorded once, by its own name."""
    twice(lambda: Cached(PlainEmbeddings(world)).embed_documents(["a", "b", "a"]))
    assert [row.name for row in twice.recording.interactions] == ["Cached"]


def test_only_the_taped_inner_model_is_recorded(world: World, twice: Twice) -> None:
    """If only the inner model is taped, its calls are recorded."""
    twice(lambda: Cached(tape(PlainEmbeddings(world))).embed_documents(["a", "b", "a"]), auto=False)
    assert [row.request["input"] for row in twice.recording.interactions] == [["a", "b"]]


async def test_parallel_calls_that_go_on_in_threads_find_their_own(world: World, twice: Twice) -> None:
    """Equal calls that the framework makes in threads each get their own answer, whichever thread begins first."""

    class Backwards(ThreadPoolExecutor):
        """Begins with what it was given last, once it was given so many things."""

        def __init__(self, count: int) -> None:
            super().__init__(1)
            self._count = count
            self._waiting: list[Callable[[], None]] = []

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            """Keep it until all are there."""
            future: Future[Any] = Future()

            def begin() -> None:
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

            self._waiting.append(begin)
            if len(self._waiting) == self._count:
                for begin in reversed(self._waiting):
                    super().submit(begin)
            return future

    model = PlainEmbeddings(world)
    asyncio.get_running_loop().set_default_executor(Backwards(4))
    recorded = await twice.awaited(lambda: asyncio.gather(*(model.aembed_query("a") for _ in range(4))))
    assert recorded == sorted(recorded, reverse=True)


def test_threads(world: World, twice: Twice) -> None:
    """Calls of plain threads are recorded and replayed, too."""
    model, texts = PlainEmbeddings(world), [f"text {n}" for n in range(16)]

    def run() -> list[Any]:
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(model.embed_query, texts))

    twice(run)


def test_branches_of_a_chain_find_their_own(world: World, twice: Twice) -> None:
    """The branch distinguishes equal calls in the branches of a map."""
    model = PlainEmbeddings(world)

    def embed(text: str) -> list[float]:
        return model.embed_query(text)

    chain = RunnableParallel({key: RunnableLambda(embed) for key in ("x", "y", "z")})
    twice(lambda: chain.invoke("a"))
    assert len({row.address for row in twice.recording.interactions}) == 3


# -- alias and ambience --------------------------------------------------------------------------------------------


def test_state_in_slots_is_refused_and_met_by_automatic_sessions(world: World, twice: Twice) -> None:
    """A class with slots cannot have an alias, and needs none in an automatic session."""

    class Slotted(Embeddings):
        """Keeps its state where it cannot be shared."""

        __slots__ = ("world",)

        def __init__(self, world: World) -> None:
            self.world = world

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [[float(self.world.reach("embeddings"))] for _ in texts]

        def embed_query(self, text: str) -> list[float]:
            return [float(self.world.reach("embeddings"))]

    with pytest.raises(ConfigurationError, match="__slots__"):
        tape(Slotted(world))
    twice(lambda: Slotted(world).embed_query("a"))


def test_class_defined_inside_a_session_is_met(world: World, tmp_path: Path) -> None:
    """Automatic sessions also tape objects of classes that are defined after they began."""
    path = tmp_path / "e.yaml"
    with use_cassette(path, mode="all") as recording:

        class Late(PlainEmbeddings):
            def embed_query(self, text: str) -> list[float]:
                return super().embed_query(text)

        Late(world).embed_query("a")
    assert [row.name for row in recording.interactions] == ["Late"]


def test_method_of_a_mixin_is_met(world: World, tmp_path: Path) -> None:
    """The method that a class has of a class outside the framework is taped as well, and left alone there."""

    class Mixin:
        def embed_query(self, text: str) -> list[float]:
            return [float(world.reach("embeddings"))]

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [self.embed_query(text) for text in texts]

    class Mixed(Mixin, Embeddings):
        pass

    before = dict(vars(Mixin))
    with use_cassette(tmp_path / "e.yaml", mode="all") as recording:
        Mixed().embed_documents(["a", "b"])
        assert dict(vars(Mixin)) == before
        Mixin().embed_query("a")
    assert [row.name for row in recording.interactions] == ["Mixed"]
    assert "embed_query" not in vars(Mixed)


def test_what_others_patched_meanwhile_stays(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that someone replaces during a session is not put back over it."""
    with use_cassette(tmp_path / "e.yaml", mode="all"):
        monkeypatch.setattr(PlainEmbeddings, "embed_query", lambda self, text: [0.0])
    assert PlainEmbeddings(world).embed_query("a") == [0.0]
    monkeypatch.undo()
    assert PlainEmbeddings(world).embed_query("a")[0] > 0
    assert len(world.reached) == 1


def test_real_client(real_exchanges: Callable[[str], RealExchanges], tmp_path: Path) -> None:
    """The vectors of OpenAI's service come back number by number; the request holds neither the key nor the address."""
    path, text = tmp_path / "e.yaml", "disallowed special token '<|endoftext|>'"
    with real_exchanges("langchain_openai_embeddings_equivalent_to_raw") as service:
        model = OpenAIEmbeddings(base_url=service.base_url, api_key="sk-secret", check_embedding_ctx_length=False)
        with use_cassette(path, mode="all") as recording:
            recorded = [model.embed_query(text), model.embed_documents([text])[0]]
    assert len(recorded[0]) == 1536
    assert [row.request for row in recording.interactions] == [
        {"input": text, "model": "text-embedding-ada-002"},
        {"input": [text], "model": "text-embedding-ada-002"},
    ]
    assert path.stat().st_size < 20_000
    with use_cassette(path):
        assert [model.embed_query(text), model.embed_documents([text])[0]] == recorded


# -- vectors in the file -------------------------------------------------------------------------------------------


def singles(count: int) -> list[float]:
    """Numbers as a provider sends them in base64, each exact in four bytes."""
    drawn = random.Random(1)
    return [struct.unpack("f", struct.pack("f", drawn.gauss(0, 0.03)))[0] for _ in range(count)]


@pytest.mark.parametrize(("numbers", "form", "at_most"), [(singles(1536), "f4", 8_400), ([0.1] * 1536, "f8", 16_600)])
def test_long_vector_is_one_line(numbers: list[float], form: str, at_most: int, tmp_path: Path) -> None:
    """A vector of the usual length takes one line of four or eight bytes a number."""

    class Fixed(PlainEmbeddings):
        def embed_query(self, text: str) -> list[float]:
            return numbers

    path = tmp_path / "e.yaml"
    with use_cassette(path, mode="all"):
        assert Fixed(None).embed_query("a") is numbers  # type: ignore[arg-type]
    (line,) = (line for line in path.read_text().splitlines() if len(line) > 200)
    assert len(line) < at_most
    assert f"{form}:" in path.read_text()
    with use_cassette(path):
        assert Fixed(None).embed_query("a") == numbers  # type: ignore[arg-type]


@given(st.lists(st.floats(width=32) | st.floats(), min_size=65, max_size=70))
def test_floats_survive(numbers: list[float]) -> None:
    """Every float comes back bit by bit."""
    again = value_codec().decode(value_codec().encode(packed(numbers)))
    assert struct.pack(f"{len(numbers)}d", *again) == struct.pack(f"{len(numbers)}d", *numbers)
    assert all(type(number) is float for number in again)


def test_short_and_mixed_lists_stay_readable() -> None:
    """A short list, or one of other values than floats, is written as it is."""
    for value in ([0.5, 1.5], [1] * 100, [1.0] * 99 + [1], [], "text", [["a"], [1.0]]):
        assert packed(value) == value


@pytest.mark.parametrize("cls", [np.float16, np.float32, np.float64])
def test_numbers_of_numpy_keep_their_class(cls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of numpy's numbers comes back as such, or as floats where numpy is not loaded."""
    numbers = [cls(n / 7) for n in range(65)]
    plain = value_codec().encode(packed(numbers))
    again = value_codec().decode(plain)
    assert again == numbers
    assert {type(number) for number in again} == {cls}
    monkeypatch.delitem(sys.modules, "numpy")
    assert value_codec().decode(plain) == list(map(float, numbers))


@pytest.mark.parametrize("body", [{}, {"f4": "text"}, {"f2": {"$bytes": ""}}, {"f8": {"$bytes": "AAAA"}}, []])
def test_malformed_vectors_are_refused(body: Any) -> None:
    """Malformed vectors raise an error of ours."""
    with pytest.raises(UnreadableValueError, match="floats"):
        value_codec().decode({"$floats": body})


def test_redaction_leaves_vectors_alone(world: World, tmp_path: Path) -> None:
    """The bytes of vectors are not taken for secrets."""
    drawn = random.Random(7)
    vectors = [[drawn.gauss(0, 0.05) for _ in range(400)] for _ in range(40)]

    class Fixed(PlainEmbeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return vectors

    path = tmp_path / "e.jsonl"
    with use_cassette(path, mode="all"):
        Fixed(world).embed_documents(["a"])
    with use_cassette(path):
        replayed = Fixed(world).embed_documents(["a"])
    assert replayed == vectors
    assert not any(math.isnan(number) for vector in replayed for number in vector)


def test_methods_that_a_test_replaces_and_puts_back(world: World, tmp_path: Path) -> None:
    """What a test replaced in a session, and puts back after it, does not pile up on the class."""
    real = PlainEmbeddings.embed_query
    for number in range(3):
        with pytest.MonkeyPatch.context() as replacing, use_cassette(tmp_path / f"{number}.yaml", mode="all"):
            replacing.setattr(PlainEmbeddings, "embed_query", lambda self, text: [0.0])
        with use_cassette(tmp_path / "after.yaml", mode="all") as session:
            PlainEmbeddings(world).embed_query("a")
        assert [item.name for item in session.interactions] == ["PlainEmbeddings"]
        assert PlainEmbeddings.embed_query is real
