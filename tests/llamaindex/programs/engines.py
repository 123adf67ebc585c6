"""Programs with engines: retrieval, routing, sub-questions, chat engines, ingestion."""

# Annotations are evaluated at once: tools find the context among their parameters by its class.
import asyncio
import re
from collections.abc import Sequence
from typing import Any

from llama_index.core import Document, SummaryIndex, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.chat_engine import CondenseQuestionChatEngine, ContextChatEngine, SimpleChatEngine
from llama_index.core.extractors import QuestionsAnsweredExtractor, SummaryExtractor, TitleExtractor
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import LLMRerank, SimilarityPostprocessor
from llama_index.core.query_engine import CitationQueryEngine, RouterQueryEngine, SubQuestionQueryEngine
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.selectors import LLMSingleSelector, PydanticSingleSelector
from llama_index.core.tools import QueryEngineTool

from ..scripted import Reply, ScriptedEmbedding, ScriptedLLM, World
from .agents import after_tools
from .registry import followed, program, shown_response

TEXTS = [
    "Paris is the capital of France. The Louvre is the largest museum of the city.",
    "Berlin is the capital of Germany. The Spree runs through it.",
    "Rome is the capital of Italy. It was not built in a day.",
]


def librarian(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
    """Answer the prompts that LlamaIndex's engines write."""
    text = messages[-1].content or ""
    if tools == ["SingleSelection"]:
        return [("SingleSelection", {"index": 1, "reason": "it fits"})]
    if "Relevance: 7" in text:
        return "Doc: 2, Relevance: 9\nDoc: 1, Relevance: 4"
    if "Some choices are given below" in text:
        return '[{"choice": 1, "reason": "it is about facts"}]'
    if "sub_question" in text:
        return (
            '```json\n{"items": [{"sub_question": "Where is the Louvre?", "tool_name": "facts"}, '
            '{"sub_question": "What is in Berlin?", "tool_name": "summary"}]}\n```>'
        )
    wanted = re.findall(r"(?:Query|Question|question): (.+)", text)
    return f"About {wanted[-1] if wanted else text.strip()[-40:]}: yes [1]."


def documents() -> list[Document]:
    """Return documents without ids of their own."""
    return [Document(text=text, metadata={"page": number}) for number, text in enumerate(TEXTS)]


def vector_index(world: World) -> VectorStoreIndex:
    """Return an index in memory."""
    return VectorStoreIndex.from_documents(
        documents(),
        embed_model=ScriptedEmbedding(world),
        transformations=[SentenceSplitter(chunk_size=64, chunk_overlap=0)],
    )


def engine_tools(world: World, llm: ScriptedLLM) -> list[QueryEngineTool]:
    """Return a query engine that finds and one that summarises, as tools."""
    rerank = LLMRerank(llm=llm, top_n=1)
    facts = vector_index(world).as_query_engine(llm=llm, similarity_top_k=2, node_postprocessors=[rerank])
    summary = SummaryIndex.from_documents(documents()).as_query_engine(llm=llm, response_mode="tree_summarize")
    return [
        QueryEngineTool.from_defaults(facts, name="facts", description="Facts of cities."),
        QueryEngineTool.from_defaults(summary, name="summary", description="Summaries."),
    ]


@program
async def rag(world: World) -> Any:
    """A vector index, a reranker and all ways to ask it."""
    llm = ScriptedLLM(world, librarian)
    engine = engine_tools(world, llm)[0].query_engine
    told = [shown_response(engine.query("Where is the Louvre?"))]
    told.append(shown_response(await engine.aquery("Where is the Louvre, again?")))
    index = vector_index(world)
    streaming = index.as_query_engine(llm=llm, streaming=True, similarity_top_k=1)
    response = streaming.query("What is in Rome?")
    assert isinstance(response, StreamingResponse)
    told.append(list(response.response_gen))
    later = await index.as_query_engine(llm=llm, streaming=True, use_async=True).aquery("What is in Berlin?")
    assert isinstance(later, AsyncStreamingResponse)
    told.append([token async for token in later.async_response_gen()])
    return told


@program
async def response_modes(world: World) -> Any:
    """Every mode of synthesis, synchronous and not."""
    llm, index = ScriptedLLM(world, librarian), vector_index(world)
    told = {}
    for mode in ("refine", "compact", "tree_summarize", "simple_summarize", "accumulate", "compact_accumulate"):
        engine = index.as_query_engine(llm=llm, response_mode=mode, similarity_top_k=3)
        told[mode] = [shown_response(engine.query(f"What of {mode}?"))]
        told[mode].append(shown_response(await engine.aquery(f"And of {mode}?")))
    return told


@program
async def concurrent_synthesis(world: World) -> Any:
    """Several model calls at once, made by the engine itself."""
    llm, index = ScriptedLLM(world, librarian), vector_index(world)
    engine = index.as_query_engine(llm=llm, response_mode="accumulate", use_async=True, similarity_top_k=3)
    return [shown_response(engine.query("What of each?")), shown_response(await engine.aquery("And of all?"))]


@program
async def router(world: World) -> Any:
    """A router, by a text selector and by a selector that calls a function."""
    llm = ScriptedLLM(world, librarian)
    tools = engine_tools(world, llm)
    told = []
    for selector in (LLMSingleSelector.from_defaults(llm=llm), PydanticSingleSelector.from_defaults(llm=llm)):
        engine = RouterQueryEngine.from_defaults(query_engine_tools=tools, llm=llm, selector=selector)
        told += [shown_response(engine.query("Where is the Louvre?")), shown_response(await engine.aquery("Really?"))]
    return told


@program
async def sub_questions(world: World) -> Any:
    """A question in parts, all answered at once."""
    llm = ScriptedLLM(world, librarian)
    engine = SubQuestionQueryEngine.from_defaults(
        query_engine_tools=engine_tools(world, llm),
        llm=llm,
        question_gen=LLMQuestionGenerator.from_defaults(llm=llm),
        use_async=True,
        verbose=False,
    )
    return [shown_response(engine.query("Compare the cities")), shown_response(await engine.aquery("Compare again"))]


async def streamed(response: Any) -> tuple[str, list[str]]:
    """Return which sort of response it is, and its tokens."""
    if isinstance(response, AsyncStreamingResponse):
        return "async", [token async for token in response.async_response_gen()]
    assert isinstance(response, StreamingResponse)
    return "sync", list(response.response_gen)


@program
async def streaming_router(world: World) -> Any:
    """A router whose engines stream."""
    llm = ScriptedLLM(world, librarian)
    facts = vector_index(world).as_query_engine(llm=llm, streaming=True, similarity_top_k=1)
    summary = SummaryIndex.from_documents(documents()).as_query_engine(
        llm=llm, streaming=True, response_mode="tree_summarize"
    )
    tools = [
        QueryEngineTool.from_defaults(facts, name="facts", description="Facts."),
        QueryEngineTool.from_defaults(summary, name="summary", description="Summaries."),
    ]
    selector = LLMSingleSelector.from_defaults(llm=llm)
    engine = RouterQueryEngine.from_defaults(query_engine_tools=tools, llm=llm, selector=selector)
    asked = [engine.query("Where is the Louvre?"), await engine.aquery("Really?")]
    return [await streamed(response) for response in asked]


@program
async def streaming_sub_questions(world: World) -> Any:
    """A question in parts, whose answer is streamed."""
    llm = ScriptedLLM(world, librarian)
    engine = SubQuestionQueryEngine.from_defaults(
        query_engine_tools=engine_tools(world, llm),
        llm=llm,
        question_gen=LLMQuestionGenerator.from_defaults(llm=llm),
        response_synthesizer=get_response_synthesizer(llm=llm, streaming=True),
        use_async=True,
        verbose=False,
    )
    return await streamed(engine.query("Compare the cities"))


@program
async def citations(world: World) -> Any:
    """An engine that cites."""
    llm, index = ScriptedLLM(world, librarian), vector_index(world)
    engine = CitationQueryEngine.from_args(index, llm=llm, similarity_top_k=2, citation_chunk_size=64)
    return shown_response(await engine.aquery("Where is the Louvre?"))


@program
async def chat_engines(world: World) -> Any:
    """Four turns with each chat engine, each with a memory; whole and streamed, synchronous and not."""
    llm, index = ScriptedLLM(world, librarian), vector_index(world)
    told = {}
    for name, engine in {
        "simple": SimpleChatEngine.from_defaults(llm=llm),
        "context": ContextChatEngine.from_defaults(
            llm=llm,
            retriever=index.as_retriever(similarity_top_k=1),
            memory=ChatMemoryBuffer.from_defaults(token_limit=3000),
            node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.1)],
        ),
        "condense": CondenseQuestionChatEngine.from_defaults(index.as_query_engine(llm=llm), llm=llm),
        "condense_plus_context": index.as_chat_engine(chat_mode="condense_plus_context", llm=llm),
    }.items():
        turns: list[Any] = [str(engine.chat("Where is the Louvre?"))]
        turns.append(str(await engine.achat("And the Spree?")))
        turns.append(list((await asyncio.to_thread(engine.stream_chat, "And Rome?")).response_gen))
        turns.append([token async for token in (await engine.astream_chat("Is that all?")).async_response_gen()])
        told[name] = [*turns, [(message.role.value, message.content) for message in engine.chat_history]]
    return told


@program
async def agentic_rag(world: World) -> Any:
    """An agent with query engines as tools."""
    llm = ScriptedLLM(world, librarian)
    script = after_tools([("facts", {"input": "Where is the Louvre?"}), ("summary", {"input": "All of it"})])
    return await followed(FunctionAgent(llm=ScriptedLLM(world, script), tools=engine_tools(world, llm)).run("Ask both"))


@program
async def ingestion(world: World) -> Any:
    """A pipeline with extractors, and a query of its nodes."""
    llm, embedding = ScriptedLLM(world, librarian), ScriptedEmbedding(world)
    pipeline = IngestionPipeline(
        transformations=[
            SentenceSplitter(chunk_size=64, chunk_overlap=0),
            TitleExtractor(llm=llm, nodes=2, show_progress=False),
            SummaryExtractor(llm=llm, summaries=["self", "prev"], show_progress=False),
            QuestionsAnsweredExtractor(llm=llm, questions=1, show_progress=False),
            embedding,
        ]
    )
    nodes = await pipeline.arun(documents=documents())
    again = pipeline.run(documents=documents())  # of the cache
    index = VectorStoreIndex(nodes, embed_model=embedding)
    return [
        [(node.node_id, node.metadata, node.embedding) for node in nodes],
        [node.node_id for node in again],
        shown_response(index.as_query_engine(llm=llm).query("Rome?")),
    ]
