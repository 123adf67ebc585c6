"""Engines, transformations and their like: they run, unless a class of a user reaches outside by itself."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import QueryBundle
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import Response, StreamingResponse
from llama_index.core.chat_engine.types import AgentChatResponse, BaseChatEngine
from llama_index.core.evaluation import BaseEvaluator, EvaluationResult
from llama_index.core.extractors import BaseExtractor
from llama_index.core.indices.query.query_transform.base import BaseQueryTransform
from llama_index.core.memory.memory import BaseMemoryBlock
from llama_index.core.node_parser import NodeParser, SentenceSplitter
from llama_index.core.prompts import PromptTemplate
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import TextNode, TransformComponent
from llama_index.core.tools import ToolMetadata
from llama_index.core.types import BasePydanticProgram
from pydantic import BaseModel

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError, UnrecordedConnectionWarning
from agenttape_llamaindex import tape

from .acceptance import FRAMEWORK_WARNINGS
from .scripted import Reversing, ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS


class Outside:
    """What the parts ask: a service, a model, or nothing but themselves."""

    def __init__(self) -> None:
        self.world = World()
        self.way = "service"
        self.address: Any = None

    def ask(self, question: str) -> str:
        """Answer, with a number that no other answer has if anything is asked."""
        if self.way == "service":
            with socket.create_connection(self.address):
                return f"{question} {self.world.reach('service')}"
        if self.way == "model":
            return str(ScriptedLLM(self.world).chat([ChatMessage(role="user", content=question)]))
        return f"{question} computed"


OUTSIDE = Outside()


class Promptless:
    """Has no prompts; the framework asks most of its parts for theirs."""

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        pass


class Engine(BaseQueryEngine):
    """An engine of a user."""

    def __init__(self) -> None:
        super().__init__(None)

    def _get_prompt_modules(self) -> dict[str, Any]:
        return {}

    def _query(self, query_bundle: QueryBundle) -> Response:
        return Response(OUTSIDE.ask(query_bundle.query_str))

    async def _aquery(self, query_bundle: QueryBundle) -> Response:
        return self._query(query_bundle)


class Chat(BaseChatEngine):
    """A chat engine of a user."""

    @property
    def chat_history(self) -> list[ChatMessage]:
        return []

    def reset(self) -> None:
        pass

    def chat(self, message: str, chat_history: Any = None) -> AgentChatResponse:
        return AgentChatResponse(OUTSIDE.ask(message))

    async def achat(self, message: str, chat_history: Any = None) -> AgentChatResponse:
        return self.chat(message)

    def stream_chat(self, message: str, chat_history: Any = None) -> Any:
        raise NotImplementedError

    async def astream_chat(self, message: str, chat_history: Any = None) -> Any:
        raise NotImplementedError


class Extractor(BaseExtractor):
    """An extractor of a user."""

    async def aextract(self, nodes: Any) -> list[dict[str, Any]]:
        return [{"said": OUTSIDE.ask(node.text)} for node in nodes]


class Transformation(TransformComponent):
    """A transformation of a user."""

    def __call__(self, nodes: Any, **_: Any) -> Any:
        return [TextNode(id_=node.node_id, text=OUTSIDE.ask(node.text)) for node in nodes]


class Parser(NodeParser):
    """A node parser of a user."""

    def _parse_nodes(self, nodes: Any, show_progress: bool = False, **_: Any) -> Any:
        return [TextNode(id_=f"{node.node_id}-1", text=OUTSIDE.ask(node.text)) for node in nodes]


class Synthesizer(Promptless, BaseSynthesizer):
    """A synthesizer of a user."""

    def __init__(self) -> None:
        super().__init__(llm=ScriptedLLM(World()))

    def get_response(self, query_str: str, text_chunks: Any, **_: Any) -> str:
        return OUTSIDE.ask(query_str)

    async def aget_response(self, query_str: str, text_chunks: Any, **_: Any) -> str:
        return OUTSIDE.ask(query_str)


class Selector(Promptless, BaseSelector):
    """A selector of a user."""

    def _select(self, choices: Any, query: QueryBundle) -> SelectorResult:
        return SelectorResult(selections=[SingleSelection(index=0, reason=OUTSIDE.ask(query.query_str))])

    async def _aselect(self, choices: Any, query: QueryBundle) -> SelectorResult:
        return self._select(choices, query)


class Questions(Promptless, BaseQuestionGenerator):
    """A question generator of a user."""

    def generate(self, tools: Any, query: QueryBundle) -> list[SubQuestion]:
        return [SubQuestion(sub_question=OUTSIDE.ask(query.query_str), tool_name=tools[0].name)]

    async def agenerate(self, tools: Any, query: QueryBundle) -> list[SubQuestion]:
        return self.generate(tools, query)


class Evaluator(Promptless, BaseEvaluator):
    """An evaluator of a user."""

    async def aevaluate(self, query: Any = None, response: Any = None, **_: Any) -> EvaluationResult:
        return EvaluationResult(query=query, response=response, feedback=OUTSIDE.ask(query))


class Said(BaseModel):
    """A thing that was said."""

    text: str


class Program(BasePydanticProgram[Said]):
    """A program of a user."""

    @property
    def output_cls(self) -> type[Said]:
        return Said

    def __call__(self, *, topic: str, **_: Any) -> Said:
        return Said(text=OUTSIDE.ask(topic))


class Rewrite(Promptless, BaseQueryTransform):
    """A query transform of a user."""

    def _run(self, query_bundle: QueryBundle, metadata: Any) -> QueryBundle:
        return QueryBundle(OUTSIDE.ask(query_bundle.query_str))


class Block(BaseMemoryBlock[str]):
    """A memory block of a user."""

    async def _aget(self, messages: Any = None, **_: Any) -> str:
        return OUTSIDE.ask(str(messages[0].content))

    async def _aput(self, messages: Any) -> None:
        OUTSIDE.ask("put")


def _node() -> TextNode:
    return TextNode(id_="a", text="Oslo")


def _hello() -> list[ChatMessage]:
    return [ChatMessage(role="user", content="Oslo")]


async def _query(engine: Any) -> Any:
    return [str(engine.query("Oslo")), str(await engine.aquery("Rome"))]


async def _chat(engine: Any) -> Any:
    return [str(engine.chat("Oslo")), str(await engine.achat("Rome"))]


async def _extract(extractor: Any) -> Any:
    return [await extractor.aextract([_node()]), (await extractor.acall([_node()]))[0].metadata]


async def _transform(transformation: Any) -> Any:
    return [transformation([_node()])[0].text, (await transformation.acall([_node()]))[0].text]


async def _parse(parser: Any) -> Any:
    return [parser.get_nodes_from_documents([_node()])[0].text, (await parser.acall([_node()]))[0].text]


async def _synthesize(synthesizer: Any) -> Any:
    return [synthesizer.get_response("Oslo", ["a"]), await synthesizer.aget_response("Rome", ["a"])]


async def _select(selector: Any) -> Any:
    return [selector.select(["a", "b"], "Oslo"), await selector.aselect([ToolMetadata("b", name="a")], "Rome")]


async def _generate(questions: Any) -> Any:
    tools, query = [ToolMetadata("Finds.", name="find")], QueryBundle("Oslo")
    return [questions.generate(tools, query), await questions.agenerate(tools, query)]


async def _evaluate(evaluator: Any) -> Any:
    return [await evaluator.aevaluate(query="Oslo", response="a"), await evaluator.aevaluate("Rome", "b")]


async def _program(program: Any) -> Any:
    return [program(topic="Oslo"), program(topic="Rome")]


async def _rewrite(transform: Any) -> Any:
    return [transform.run("Oslo").query_str, transform.run("Rome", {}).query_str]


async def _remember(block: Any) -> Any:
    return [await block.aget(_hello()), await block.aput(_hello())]


PARTS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "query engine": (Engine, _query),
    "chat engine": (Chat, _chat),
    "extractor": (Extractor, _extract),
    "transformation": (Transformation, _transform),
    "node parser": (Parser, _parse),
    "synthesizer": (Synthesizer, _synthesize),
    "selector": (Selector, _select),
    "question generator": (Questions, _generate),
    "evaluator": (Evaluator, _evaluate),
    "program": (Program, _program),
    "query transform": (Rewrite, _rewrite),
    "memory block": (lambda: Block(name="block"), _remember),
}
SOME = ["query engine", "node parser", "memory block"]
"""Parts of three families: which kinds of parts are met doesn't depend on what they do."""


@pytest.fixture(autouse=True)
def _outside() -> Iterator[None]:
    OUTSIDE.__init__()  # type: ignore[misc]  # a new world
    with socket.create_server(("127.0.0.1", 0)) as server:
        OUTSIDE.address = server.getsockname()
        yield


async def _recorded_and_replayed(kind: str, path: Path, *, auto: bool) -> Any:
    """Record and replay a part; return the session of the replay, which has reached nothing and has equal results."""
    make, use = PARTS[kind]
    with use_cassette(path, mode="all", auto=auto):
        recorded = await use(make() if auto else tape(make()))
    OUTSIDE.world.gone = True
    with use_cassette(path, auto=auto) as replay:
        assert await use(make() if auto else tape(make())) == recorded
    assert OUTSIDE.world.trespasses == []
    return replay


@pytest.mark.sweep
@pytest.mark.parametrize("auto", [True, False])
@pytest.mark.parametrize("kind", PARTS)
async def test_a_part_that_reaches_outside_is_replayed(kind: str, tmp_path: Path, *, auto: bool) -> None:
    """A class of a user that asks a service is recorded as one call, and nothing is asked on replay."""
    replay = await _recorded_and_replayed(kind, tmp_path / "c.yaml", auto=auto)
    assert len(OUTSIDE.world.reached) == 2
    assert {(item.kind, item.acts[0].what) for item in replay.interactions} == {("call", "reached 127.0.0.1")}
    assert len(replay.report.replayed) == 2


@pytest.mark.sweep
@pytest.mark.parametrize("auto", [True, False])
@pytest.mark.parametrize("kind", SOME)
async def test_a_part_that_calls_others_runs(kind: str, tmp_path: Path, *, auto: bool) -> None:
    """A class of a user that works by a model is program, also taped: the calls inside are replayed."""
    OUTSIDE.way = "model"
    replay = await _recorded_and_replayed(kind, tmp_path / "c.yaml", auto=auto)
    assert [(item.kind, item.name) for item in replay.interactions] == [("chat", "ScriptedLLM")] * 2


@pytest.mark.parametrize("kind", SOME)
async def test_a_part_that_computes(kind: str, tmp_path: Path) -> None:
    """A class of a user that only computes runs; what is taped by hand is never left out of the cassette."""
    OUTSIDE.way = "itself"
    assert (await _recorded_and_replayed(kind, tmp_path / "a.yaml", auto=True)).interactions == []
    taped = await _recorded_and_replayed(kind, tmp_path / "t.yaml", auto=False)
    assert {item.kind for item in taped.interactions} == {"call"}
    assert taped.report.replayed


def test_only_some_calls_reach_outside(tmp_path: Path) -> None:
    """Of a class that reaches outside, a call that did not before runs again, and one that is new is a miss."""

    def say(*questions: str) -> list[str]:
        said = []
        for question in questions:
            OUTSIDE.way = "service" if question == "far" else "itself"
            said.append(str(Engine().query(question)))
        return said

    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        recorded = say("near", "far", "later")
    with use_cassette(path) as replay:
        assert say("near", "far", "later") == recorded
    assert [item.request["arguments"]["query_bundle"]["query_str"] for item in replay.interactions] == ["far", "later"]
    with pytest.raises(CassetteMissError, match="Engine was called with a request"), use_cassette(path):
        say("another")


@pytest.mark.parametrize("asks", ["service", "model"])
async def test_parts_that_overlap_answer_in_the_recorded_order(asks: str, tmp_path: Path) -> None:
    """Awaited calls keep their place among all that the loop waits for, whether they are replayed or run."""

    class Overlapping(Engine):
        """An engine whose answers come in the reverse of the order in which they were asked for."""

        def __init__(self, wait: Reversing, asks: str) -> None:
            super().__init__()
            self.wait, self.asks = wait, asks

        async def _aquery(self, query_bundle: QueryBundle) -> Response:
            if self.asks == "model":
                asked = [ChatMessage(role="user", content=query_bundle.query_str)]
                return Response(str(await ScriptedLLM(OUTSIDE.world, wait=self.wait).achat(asked)))
            _, writer = await asyncio.open_connection(*OUTSIDE.address)
            writer.close()
            await self.wait()
            return Response(f"{query_bundle.query_str} {OUTSIDE.world.reach('service')}")

    async def answers() -> list[str]:
        engine, answers = Overlapping(Reversing(3), asks), []

        async def ask(question: str) -> None:
            answers.append(str(await engine.aquery(question)))

        await asyncio.gather(*map(ask, "abc"))
        return answers

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = await answers()
    OUTSIDE.world.gone = True
    with use_cassette(tmp_path / "c.yaml") as replay:
        assert await answers() == recorded
    assert "c" in recorded[0]
    assert {item.kind for item in replay.interactions} == {"call" if asks == "service" else "chat"}


def test_an_answer_that_cannot_be_recorded_is_reported(tmp_path: Path) -> None:
    """The recording goes on, and its report names what a replay cannot serve."""

    class Streaming(Engine):
        """An engine whose answer is a stream that cannot be recorded."""

        def _query(self, query_bundle: QueryBundle) -> Any:
            return StreamingResponse(iter([OUTSIDE.ask(query_bundle.query_str)]))

    with (
        pytest.warns(UnrecordedConnectionWarning, match="reached 127.0.0.1"),
        use_cassette(tmp_path / "c.yaml", mode="all") as session,
    ):
        assert "".join(Streaming().query("Oslo").response_gen) == "Oslo 1"
    assert session.interactions == []


def test_calls_inside_of_a_replayed_part_belong_to_it(tmp_path: Path) -> None:
    """A model that such a part asks is recorded inside of it, and not missed on replay."""

    class Both(Engine):
        """An engine that asks a model, and then a service."""

        def _query(self, query_bundle: QueryBundle) -> Response:
            OUTSIDE.way = "model"
            asked = OUTSIDE.ask(query_bundle.query_str)
            OUTSIDE.way = "service"
            return Response(OUTSIDE.ask(asked))

    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        recorded = str(Both().query("Oslo"))
    with use_cassette(path) as replay:
        assert str(Both().query("Oslo")) == recorded
    assert {(item.kind, item.parent) for item in replay.interactions} == {("call", None), ("chat", 1)}
    assert str(replay.report) == "1 replayed, 0 recorded"


def test_a_part_of_the_framework_is_program(tmp_path: Path) -> None:
    """A class that derives from one of LlamaIndex's own that works by itself runs."""

    class Splitter(SentenceSplitter):
        def split_text_metadata_aware(self, text: str, metadata_str: str) -> list[str]:
            return [OUTSIDE.ask(text)]

    with (
        pytest.warns(UnrecordedConnectionWarning, match="reached 127.0.0.1"),
        use_cassette(tmp_path / "c.yaml", mode="all") as session,
    ):
        Splitter()([_node()])
    assert session.interactions == []


@pytest.mark.parametrize("way", ["service", "model"])
async def test_an_llm_may_ask_for_objects_by_itself(way: str, tmp_path: Path) -> None:
    """An object that does not come by a leaf call is recorded where it asks a service; another prompt is a miss."""

    class Objects(ScriptedLLM):
        """An LLM of a user that asks for objects by a method of its own."""

        def structured_predict(self, output_cls: Any, prompt: Any, llm_kwargs: Any = None, **given: Any) -> Any:
            return output_cls(text=OUTSIDE.ask(prompt.format(**given)))

        async def astructured_predict(self, output_cls: Any, prompt: Any, llm_kwargs: Any = None, **given: Any) -> Any:
            return self.structured_predict(output_cls, prompt, **given)

    OUTSIDE.way = way

    async def program(place: str = "Oslo") -> list[Any]:
        llm = Objects(World())
        whole = llm.as_structured_llm(Said).complete("Rome").raw
        return [whole, await llm.astructured_predict(Said, PromptTemplate("Of {place}"), place=place)]

    with use_cassette(tmp_path / "c.yaml", mode="all") as recording:
        recorded = await program()
    assert len(recording.report.recorded) == 2
    OUTSIDE.world.gone = True
    with use_cassette(tmp_path / "c.yaml") as replay:
        assert await program() == recorded
    assert replay.report.nondeterminism == ()
    with pytest.raises(CassetteMissError, match="Bergen"), use_cassette(tmp_path / "c.yaml"):
        await program("Bergen")


def test_a_taped_llm_asks_for_objects_by_its_own_leaf_calls(tmp_path: Path) -> None:
    """Of a taped LLM the leaf call is recorded, also where nothing else takes part and the object has no codec."""

    class Asking(ScriptedLLM):
        """An LLM of a user whose own method for objects ends in a leaf call."""

        def structured_predict(self, output_cls: Any, prompt: Any, llm_kwargs: Any = None, **given: Any) -> Any:
            return output_cls(text=str(self.chat(prompt.format_messages(**given)).message.content))

    world = World()

    class Local(BaseModel):
        text: str

    def program() -> str:
        return str(tape(Asking(world)).structured_predict(Local, PromptTemplate("Of {place}"), place="Oslo").text)

    with use_cassette(tmp_path / "c.yaml", mode="all", auto=False) as recording:
        recorded = program()
    assert [call.kind for call in recording.report.recorded] == ["chat"]
    world.gone = True
    with use_cassette(tmp_path / "c.yaml", auto=False):
        assert program() == recorded
