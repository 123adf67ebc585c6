"""Sessions of LLMs and embedding models: identity, streams, embeddings."""

from __future__ import annotations

import asyncio
import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, TextBlock, ToolCallBlock
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.readers.base import BaseReader
from llama_index.core.schema import Document
from llama_index.core.storage.kvstore import SimpleKVStore
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import (
    CassetteMissError,
    ConfigurationError,
    UnrecordableValueError,
    UnrecordedCallError,
)
from agenttape_llamaindex import ReplayEmbedding, tape
from agenttape_llamaindex.requests import params_body

from .fakes import HELLO, Callbacks, FakeEmbedding, FakeImages, FakeSparse, LeafLLM, PromptLLM, as_async, events_of
from .scripted import World
from .services import KeyValueService

# -- Everything that a session can do, done to LLMs and embedding models of LlamaIndex ---------------------------------

OTHER = [ChatMessage(role="user", content="Other")]


@pytest.fixture
def recorded(tmp_path: Path, world: World) -> Path:
    """Return a cassette of a chat and an embedding."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        LeafLLM(world).chat(HELLO)
        FakeEmbedding(world).get_text_embedding("t")
    return tmp_path / "c.yaml"


def test_miss_is_returned_where_asked(recorded: Path) -> None:
    """With `on_miss="return"` a call without recording raises an error that a program can handle."""
    with use_cassette(recorded, on_miss="return", on_unused="ignore") as replay:
        with pytest.raises(UnrecordedCallError):
            LeafLLM(World()).chat(OTHER)
        with pytest.raises(UnrecordedCallError):
            list(LeafLLM(World()).stream_chat(OTHER))
    assert len(replay.report.unrecorded) == 2


def test_growing_history_is_stored_as_what_is_new(tmp_path: Path, world: World) -> None:
    """A conversation of twice the turns takes about twice the space, although each call sends all of it."""
    sizes = []
    for turns in (20, 40):
        history: list[ChatMessage] = []
        with use_cassette(tmp_path / f"{turns}.yaml", mode="all"):
            for turn in range(turns):
                history.append(ChatMessage(role="user", content=f"question {turn}"))
                history.append(LeafLLM(world).chat(history).message)
        sizes.append((tmp_path / f"{turns}.yaml").stat().st_size)
    assert sizes[1] < 2.3 * sizes[0]


def test_one_llm_inside_another(tmp_path: Path) -> None:
    """An LLM that asks another one is one call, the other's is inside of it, and neither happens on replay."""
    world = World()

    class Outer(LeafLLM):
        @llm_chat_callback()
        def chat(self, messages: Any, **kwargs: Any) -> ChatResponse:
            self._world.reach("outer")
            inner = PromptLLM(self._world).complete("inner question")
            return ChatResponse(message=ChatMessage(role="assistant", content=f"outer of {inner.text}"))

    answers = []
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "c.yaml", mode=mode):
            answers.append(Outer(world).chat(HELLO))
        world.gone = True
    assert answers[0] == answers[1]
    outer, inner = open_cassette(tmp_path / "c.yaml").records()
    assert (inner.parent, inner.address) == (outer.number, f"{outer.address}/PromptLLM.complete")


def test_raw_without_a_codec(tmp_path: Path) -> None:
    """A provider's object that cannot be written is refused, or kept as an opaque value with `accept={"opaque"}`."""

    class Unwritable:
        pass

    class Odd(LeafLLM):
        @llm_chat_callback()
        def chat(self, messages: Any, **kwargs: Any) -> ChatResponse:
            return ChatResponse(message=ChatMessage(role="assistant", content="x"), raw=Unwritable())

    with pytest.raises(UnrecordableValueError), use_cassette(tmp_path / "a.yaml", mode="all"):
        Odd(World()).chat(HELLO)
    with use_cassette(tmp_path / "b.yaml", mode="all", accept={"opaque"}):
        Odd(World()).chat(HELLO)
    with use_cassette(tmp_path / "b.yaml"):
        assert "Unwritable" in repr(Odd(World()).chat(HELLO).raw)


def test_header_names_the_framework(recorded: Path) -> None:
    """The header says with which versions of the framework a cassette was recorded."""
    packages = open_cassette(recorded).header.volatile.packages
    assert {"llama-index-core", "llama-index-workflows"} <= packages.keys()


# -- Two different models are never the same request, also if they do not describe themselves --------------------------


def test_another_llm_is_missed(tmp_path: Any) -> None:
    """An LLM without a model name gets its own answers, and not those of another one."""

    class InHouse(CustomLLM):
        """An LLM as companies write it, which does not say its model in its metadata."""

        deployment_alias: str = "a"
        calls: int = 0

        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata()

        def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
            self.calls += 1
            return CompletionResponse(text=f"I am {self.deployment_alias}")

        def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
            raise NotImplementedError

    with use_cassette(tmp_path / "a.yaml", mode="all"):
        answers = [InHouse().complete("Who?").text, InHouse(calls=3).complete("You?").text]
    with use_cassette(tmp_path / "a.yaml"):
        assert [InHouse().complete("Who?").text, InHouse().complete("You?").text] == answers
    with (
        pytest.raises(CassetteMissError, match="deployment_alias differs"),
        use_cassette(tmp_path / "a.yaml", on_unused="ignore"),
    ):
        InHouse(deployment_alias="b").complete("Who?")


def test_another_embedding_is_missed(tmp_path: Any) -> None:
    """An embedding model without a name is told from others by its fields."""

    class InHouseEmbedding(BaseEmbedding):
        """An embedding model without a model name."""

        flavour: str = "a"

        def _get_text_embedding(self, text: str) -> list[float]:
            return [float(ord(self.flavour)), float(len(text))]

        def _get_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    with use_cassette(tmp_path / "a.yaml", mode="all"):
        InHouseEmbedding().get_query_embedding("one")
    with (
        pytest.raises(CassetteMissError, match="flavour differs"),
        use_cassette(tmp_path / "a.yaml", on_unused="ignore"),
    ):
        InHouseEmbedding(flavour="b").get_query_embedding("one")


def test_a_tool_that_says_something_else_is_another_request() -> None:
    """The tools of a request are what the provider would receive now, also if their class has changed in place."""

    class Place(BaseModel):
        city: str

    def go(city: str) -> str:
        return city

    def asked() -> Any:
        return params_body({"tools": [FunctionTool.from_defaults(go, description=says, fn_schema=Place)]})["tools"]

    says = "one"
    first, again = asked(), asked()
    assert first == again
    says = "two"
    assert [tool["function"]["description"] for tool in (*first, *asked())] == ["one", "two"]
    Place.model_fields["city"].description = "Where"
    Place.model_rebuild(force=True)
    assert asked()[0]["function"]["parameters"]["properties"]["city"]["description"] == "Where"


# -- Streams: closed early, broken midway, never read, and what of them is stored --------------------------------------


def first_two(llm: Any) -> list[Any]:
    """Return the first two chunks of a stream, and close it."""
    stream = llm.stream_chat(HELLO)
    chunks = [next(stream), next(stream)]
    stream.close()
    return chunks


async def afirst_two(llm: Any) -> list[Any]:
    """Return the first two chunks of an async stream, and close it."""
    stream = await llm.astream_chat(HELLO)
    chunks = [await anext(stream), await anext(stream)]
    await stream.aclose()
    return chunks


@pytest.mark.parametrize("read", [first_two, lambda llm: asyncio.run(afirst_two(llm))], ids=["sync", "async"])
def test_closed_early(tmp_path: Path, world: World, read: Any) -> None:
    """A stream that its reader closes is recorded as closed, and replays with the same events."""
    llm = tape(LeafLLM(world))
    with use_cassette(tmp_path / "c.yaml", mode="all"), events_of() as told:
        recorded = read(llm)
    world.gone = True
    with use_cassette(tmp_path / "c.yaml"), events_of() as again:
        assert read(llm) == recorded
    outcome = next(iter(open_cassette(tmp_path / "c.yaml").records())).outcome
    assert (outcome.status, outcome.ended, len(outcome.chunks)) == ("streamed", "closed", 2)
    assert [event[:2] for event in again] == [event[:2] for event in told]


@pytest.mark.parametrize("form", ["stream_chat", "astream_chat", "stream_complete", "astream_complete"])
def test_broken_midway(form: str, tmp_path: Path, world: World) -> None:
    """The chunks before an error arrive again, and then the error; each event and callback that began ends again."""
    got: list[list[Any]] = []

    async def read() -> None:
        stream = getattr(llm, form)("Once" if "complete" in form else HELLO)
        async for chunk in await stream if form.startswith("a") else as_async(stream):
            got[-1].append(chunk)

    llm, told, called = tape(LeafLLM(world, fails_after=2)), [], []
    for mode in ("all", "none"):
        got.append([])
        llm.callback_manager = CallbackManager([listener := Callbacks()])
        with use_cassette(tmp_path / "c.yaml", mode=mode), events_of() as events, pytest.raises(ConnectionError):
            asyncio.run(read())
        told.append([event[:2] for event in events])
        called.append(listener.told)
        world.gone = True
    assert got[0] == got[1]
    assert len(got[0]) == 2
    assert told[0] == told[1]
    assert called[0] == called[1]


def test_never_read(tmp_path: Path, world: World) -> None:
    """A stream that is never read is a call too, and its replay reaches nothing."""
    llm = tape(LeafLLM(world))
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            llm.stream_chat(HELLO)
        world.gone = True
    assert [replayed.kind for replayed in session.report.replayed] == ["chat"]
    assert world.trespasses == []


def test_storage_grows_with_what_is_new(tmp_path: Path) -> None:
    """A stream of twice the chunks takes about twice the space, although each chunk says all there is so far."""

    def long_stream(pieces: int) -> Any:
        """Return an LLM whose stream has so many chunks, each with all so far: text, and a growing tool call."""

        def generate(messages: Any, **_: Any) -> Any:
            for number in range(1, pieces + 1):
                call = ToolCallBlock(tool_call_id="c", tool_name="write", tool_kwargs='{"text": "' + "word " * number)
                yield ChatMessage(role="assistant", blocks=[TextBlock(text="word " * number), call])

        return tape(MockFunctionCallingLLM(response_generator=generate))

    sizes, streams = [], []
    for pieces in (100, 200):
        llm = long_stream(pieces)
        with use_cassette(tmp_path / f"{pieces}.jsonl", mode="all"):
            recorded = list(llm.stream_chat(HELLO))
        with use_cassette(tmp_path / f"{pieces}.jsonl"):
            streams.append(list(llm.stream_chat(HELLO)) == recorded)
        outcome = next(iter(open_cassette(tmp_path / f"{pieces}.jsonl").records())).outcome
        sizes.append(len(str(outcome.chunks)))
    assert streams == [True, True]
    assert sizes[1] < 2.5 * sizes[0]


def test_plain_text_is_stored_as_text(tmp_path: Path) -> None:
    """A chunk that only adds text is stored as that text."""

    def generate(messages: Any, **_: Any) -> Any:
        text = ""
        for piece in ("Hel", "lo", " you"):
            text += piece
            yield ChatMessage(role="assistant", content=text)

    class Pieces(MockFunctionCallingLLM):
        def stream_chat(self, messages: Any, **kwargs: Any) -> Any:
            before = ""
            for message in generate(messages):
                yield ChatResponse(message=message, delta=message.content[len(before) :])
                before = message.content

    llm = tape(Pieces())
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = list(llm.stream_chat(HELLO))
    with use_cassette(tmp_path / "c.yaml"):
        assert list(llm.stream_chat(HELLO)) == recorded
    outcome = next(iter(open_cassette(tmp_path / "c.yaml").records())).outcome
    assert outcome.chunks == [{"$chat_chunk": piece} for piece in ("Hel", "lo", " you")]


def test_raw_chunks_keep_the_order_of_their_fields(tmp_path: Path) -> None:
    """A provider's objects of several classes come back equal as text, too."""

    class First(BaseModel):
        """What a provider sends first."""

        kind: str = "first"
        text: str = ""
        number: int = 0

    class Then(BaseModel):
        """What it sends then: some of the same fields, in another order."""

        number: int = 1
        extra: str = "x"
        kind: str = "then"

    class Raw(MockFunctionCallingLLM):
        model: str = "raw"

        def stream_chat(self, messages: Any, **kwargs: Any) -> Any:
            for raw in (First(text="a"), Then(), First(number=2), {"b": 1, "a": 2}, {"a": 2, "b": 1}, {"a": 2, "c": 3}):
                yield ChatResponse(message=ChatMessage(role="assistant", content="a"), raw=raw)

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = [chunk.model_dump_json() for chunk in tape(Raw()).stream_chat(HELLO)]
    with use_cassette(tmp_path / "c.yaml"):
        assert [chunk.model_dump_json() for chunk in tape(Raw()).stream_chat(HELLO)] == recorded


def test_secret_that_is_split_between_chunks(tmp_path: Path) -> None:
    """A secret is redacted that arrives in pieces, although each chunk says all there is so far."""
    secret = "sk-" + "proj-" + "a1B2c3D4e5F6g7H8i9J0k1L2"

    def generate(messages: Any, **_: Any) -> Any:
        for end in range(4, len(secret) + 4, 4):
            arguments = '{"key": "' + secret[:end]
            call = ToolCallBlock(tool_call_id="c", tool_name="save", tool_kwargs=arguments)
            yield ChatMessage(role="assistant", blocks=[TextBlock(text=f"It is {secret[:end]}"), call])

    llm = tape(MockFunctionCallingLLM(response_generator=generate))
    asked = [ChatMessage(role="user", content=f"Save {secret}")]
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = list(llm.stream_chat(asked))
    text = (tmp_path / "c.yaml").read_text("utf-8")
    pieces = [secret[n : n + 4] for n in range(4, len(secret), 4)]
    assert secret not in text
    assert [piece for piece in pieces if f'"{piece}"' in text or f" {piece}\n" in text] == []
    with use_cassette(tmp_path / "c.yaml"):
        replayed = list(llm.stream_chat(asked))
    assert replayed[-1].message == recorded[-1].message


# -- Embedding models: texts, queries, batches, images, sparse ones ----------------------------------------------------


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


class FileReader(BaseReader):
    """Reads the files that it gets, alone or in a tuple, in one call."""

    def load_data(self, *files: Any) -> list[Document]:
        flat = [one for each in files for one in (each if isinstance(each, tuple) else (each,))]
        return [Document(text=str(len(file.read()))) for file in flat]

    def lazy_load_data(self, *files: Any) -> list[Document]:
        return self.load_data(*files)


FILE_CALLS: dict[str, Callable[[World, Any], Any]] = {
    "one": lambda world, file: FakeImages(world).get_image_embedding(file)[1],
    "awaited": lambda world, file: asyncio.run(FakeImages(world).aget_image_embedding(file))[1],
    "batch": lambda world, file: FakeImages(world).get_image_embedding_batch([file])[0][1],
    "reader": lambda _, file: FileReader().load_data(file)[0].text,
    "lazy": lambda _, file: FileReader().lazy_load_data(file)[0].text,
    "in a tuple": lambda _, file: FileReader().load_data((file,))[0].text,
}


def named() -> Any:
    """Return a file that is an object around another one."""
    file = tempfile.NamedTemporaryFile()  # noqa: SIM115 - the test closes it
    file.write(b"PNG a\nb")
    file.flush()
    return file


@pytest.mark.sweep
@pytest.mark.parametrize("ask", FILE_CALLS.values(), ids=FILE_CALLS)
@pytest.mark.parametrize(
    "make", [lambda: io.BytesIO(b"PNG a\nb"), lambda: io.StringIO("PNG a\nb"), named], ids=["bytes", "text", "named"]
)
def test_the_real_code_gets_an_open_file(
    tmp_path: Path, world: World, ask: Callable[[World, Any], Any], make: Callable[[], Any]
) -> None:
    """It gets the file at its position, and a replay leaves that where a program without a session has it."""

    def read() -> tuple[float, int]:
        with make() as file:
            file.seek(4)
            return float(ask(world, file)), file.tell()

    for mode in ("all", "none"):
        with use_cassette(tmp_path / "c.yaml", mode=mode):
            assert read() == (3.0, 7)
        world.gone = True
    with make() as file, pytest.raises(CassetteMissError), use_cassette(tmp_path / "c.yaml"):
        ask(world, file)  # from its beginning


def test_a_file_that_cannot_be_rewound_is_refused(tmp_path: Path) -> None:
    """A pipe, and a text file in the middle of an iteration, are refused while recording: two would be one request."""
    end, other = os.pipe()
    os.close(other)
    (tmp_path / "text").write_text("a\nb\n", encoding="utf-8")
    with os.fdopen(end, "rb") as pipe, (tmp_path / "text").open(encoding="utf-8") as text:
        next(text)
        for file in (pipe, text):
            refused = pytest.raises(ConfigurationError, match="can't be read and rewound")
            with refused, use_cassette(tmp_path / "c.yaml", mode="all"):
                FileReader().load_data(file)


def test_other_leaves_and_tools_get_their_files(tmp_path: Path) -> None:
    """A store and a tool get the very file that they are given, and another content is another request."""
    got = list[Any]()

    class Files(KeyValueService):
        def put(self, key: str, val: Any, collection: str = "files") -> None:
            got.append(val)

    def size(file: Any) -> int:
        """Return the size of a file."""
        got.append(file)
        return len(file.read())

    def use(content: bytes) -> int:
        store, file = Files(World()), io.BytesIO(content)
        tape(store).put("key", val=file)
        assert file.tell() == 0
        tool = tape(FunctionTool.from_defaults(size))
        return int(tool(file=file).raw_output) + int(tool(file=file).raw_output)

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        assert use(b"a\nb") == 3
    assert [type(file) for file in got] == [io.BytesIO] * 3
    with use_cassette(tmp_path / "c.yaml"):
        assert use(b"a\nb") == 3
    with pytest.raises(CassetteMissError), use_cassette(tmp_path / "c.yaml", on_unused="ignore"):
        use(b"c\nd")
    with use_cassette(tmp_path / "tool.yaml", mode="all"):
        tape(FunctionTool.from_defaults(size))(file=io.BytesIO(b"a\nb"))
    with pytest.raises(CassetteMissError), use_cassette(tmp_path / "tool.yaml"):
        tape(FunctionTool.from_defaults(size))(file=io.BytesIO(b"c\nd"))


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
