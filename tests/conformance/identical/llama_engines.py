"""Programs of LlamaIndex: indexes, engines, evaluations, and objects out of text."""

# Annotations are evaluated at once: tools find their parameters by them.
import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

from llama_index.core import (
    DocumentSummaryIndex,
    KeywordTableIndex,
    PropertyGraphIndex,
    Settings,
    SQLDatabase,
    SummaryIndex,
    TreeIndex,
    VectorStoreIndex,
)
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.evaluation import BatchEvalRunner, CorrectnessEvaluator, FaithfulnessEvaluator, RelevancyEvaluator
from llama_index.core.indices.property_graph import LLMSynonymRetriever, SimpleLLMPathExtractor, VectorContextRetriever
from llama_index.core.indices.query.query_transform import HyDEQueryTransform, StepDecomposeQueryTransform
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import HierarchicalNodeParser, SemanticSplitterNodeParser, get_leaf_nodes
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.postprocessor.rankGPT_rerank import RankGPTRerank
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import (
    MultiStepQueryEngine,
    NLSQLTableQueryEngine,
    RetrieverQueryEngine,
    RetryQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer
from llama_index.core.retrievers import AutoMergingRetriever, QueryFusionRetriever, RecursiveRetriever
from llama_index.core.schema import Document, IndexNode
from llama_index.core.storage import StorageContext
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore
from pydantic import BaseModel
from sqlalchemy import create_engine, text

from agenttape_core.testing import Capture

from ...llamaindex.programs import documents, librarian
from ...llamaindex.scripted import Reply, ScriptedEmbedding, ScriptedLLM
from .llama import PROMPTS, SlowEmbedding, body
from .outside import Outside
from .rows import LARGE_RACES, ONCE_OR_TWICE


def model(world: Outside, script: Any = librarian, **options: Any) -> ScriptedLLM:
    """Return a model that takes its time."""
    return ScriptedLLM(world, script, wait=world.apause, **options)


def index(world: Outside) -> VectorStoreIndex:
    """Return an index of three documents."""
    return VectorStoreIndex.from_documents(documents(), embed_model=SlowEmbedding(world))


@body(ONCE_OR_TWICE)
async def response_modes_that_stream(world: Outside, capture: Capture) -> Any:
    """Streams answers in every mode of synthesis that can, by engines that are synchronous and not."""
    llm, found, whole = model(world), index(world), []
    Settings.llm = llm  # of the modes that ask nobody
    for mode in ResponseMode:
        for is_async in (False, True):
            engine = found.as_query_engine(
                llm=llm, response_mode=mode, similarity_top_k=3, streaming=True, use_async=is_async
            )
            try:
                response = await engine.aquery(f"{mode}?") if is_async else engine.query(f"{mode}?")
            except (NotImplementedError, ValueError) as error:
                whole.append([mode, str(error)])
                continue
            if hasattr(response, "async_response_gen"):
                async for token in response.async_response_gen():
                    capture.add("stream", token)
            elif hasattr(response, "response_gen"):
                for token in response.response_gen:
                    capture.add("stream", token)
            whole.append([mode, response])
    return whole


@body(LARGE_RACES, seeded=PROMPTS)
async def fusion(world: Outside, capture: Capture) -> Any:
    """Writes queries, retrieves by all of them at once, and ranks what came."""
    llm = model(world, lambda messages, tools: "where\nwhen\nwho" if "search queries" in str(messages) else "found")
    retrievers = [index(world).as_retriever(similarity_top_k=2), index(world).as_retriever(similarity_top_k=1)]
    fused = QueryFusionRetriever(retrievers, llm=llm, num_queries=3, mode="reciprocal_rerank", use_async=True)
    told = [await fused.aretrieve("Where is the Louvre?"), fused.retrieve("And the Spree?")]
    return [*told, await RetrieverQueryEngine.from_args(fused, llm=llm).aquery("Rome?")]


@body(ONCE_OR_TWICE, seeded=PROMPTS)
async def transformed_queries(world: Outside, capture: Capture) -> Any:
    """Asks by a made-up document, and in steps."""
    llm = model(world)
    engine = index(world).as_query_engine(llm=llm, similarity_top_k=1)
    hyde = TransformQueryEngine(engine, HyDEQueryTransform(llm=llm, include_original=True))
    steps = MultiStepQueryEngine(
        engine,
        StepDecomposeQueryTransform(llm=llm),
        response_synthesizer=get_response_synthesizer(llm=llm),
        index_summary="Cities.",
        num_steps=2,
    )
    return [await hyde.aquery("Where is the Louvre?"), hyde.query("Again?"), await steps.aquery("Compare the cities")]


def judge(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
    """Judge the first two answers badly."""
    said = str(messages)
    if "new question" in said.lower():
        return "Where is the Louvre really?"
    return "4.5\nIt is right." if "score" in said.lower() else "YES"


@body(LARGE_RACES, seeded=PROMPTS)
async def evaluations(world: Outside, capture: Capture) -> Any:
    """Judges three answers by three evaluators, two at once."""
    llm = model(world, judge)
    runner = BatchEvalRunner(
        {
            "faithful": FaithfulnessEvaluator(llm=llm),
            "relevant": RelevancyEvaluator(llm=llm),
            "correct": CorrectnessEvaluator(llm=llm),
        },
        workers=2,
    )
    answers = [f"answer {n}" for n in range(3)]
    contexts = [["It is in Paris."], ["It is in Berlin."], ["It is in Rome."]]
    given: dict[str, Any] = {"queries": ["Where?"] * 3, "response_strs": answers, "contexts_list": contexts}
    return await runner.aevaluate_response_strs(**given)


@body(ONCE_OR_TWICE, seeded=PROMPTS)
async def retried_answers(world: Outside, capture: Capture) -> Any:
    """Asks again with what an evaluator said, until it is content."""
    verdicts = iter(("NO", "YES"))
    grading = model(world, lambda *_: next(verdicts))
    Settings.llm = model(world)
    engine = index(world).as_query_engine(similarity_top_k=1)
    return RetryQueryEngine(engine, RelevancyEvaluator(llm=grading), max_retries=2).query("Where is the Louvre?")


def grapher(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
    """Write triplets and synonyms, and answer."""
    said = messages[-1].content or ""
    if "triplets" in said:
        cities = re.findall(r"(Paris|Berlin|Rome) is the capital of (\w+)", said)
        return "\n".join(f"({city}, capital of, {land})\n({city}, lies in, Europe)" for city, land in cities[-1:])
    return "Paris^Louvre^Europe" if "synonyms" in said else f"by the graph: {said[-60:]}"


@body(LARGE_RACES, seeded=PROMPTS)
async def property_graph(world: Outside, capture: Capture) -> Any:
    """Makes a property graph of documents, several at once, and asks it by synonyms and by vectors."""
    llm, embedding = model(world, grapher), SlowEmbedding(world)
    graph = await asyncio.to_thread(  # it runs an event loop of its own
        PropertyGraphIndex,
        nodes=documents(),
        llm=llm,
        embed_model=embedding,
        kg_extractors=[SimpleLLMPathExtractor(llm=llm, num_workers=2)],
    )
    retrievers = [
        LLMSynonymRetriever(graph.property_graph_store, llm=llm),
        VectorContextRetriever(graph.property_graph_store, embed_model=embedding, vector_store=graph.vector_store),
    ]
    engine = graph.as_query_engine(llm=llm, sub_retrievers=retrievers)
    return [await engine.aquery("Where is Paris?"), graph.property_graph_store.get_triplets(entity_names=["Paris"])]


@body(ONCE_OR_TWICE, seeded=PROMPTS)
async def sql(world: Outside, capture: Capture) -> Any:
    """Asks a database in memory, by queries that a model writes."""
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        connection.execute(text("create table city (name text, people integer)"))
        connection.execute(text("insert into city values ('Paris', 2), ('Rome', 3)"))

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        last = messages[-1].content or ""
        return f"they are {last[-40:]}" if "SQL Response" in last else "select name from city where people > 2 --"

    asked = NLSQLTableQueryEngine(
        SQLDatabase(engine, include_tables=["city"]),
        llm=model(world, script),
        embed_model=ScriptedEmbedding(world),
        tables=["city"],
    )
    try:
        return [asked.query("Which is large?"), await asked.aquery("And which else?")]
    finally:
        engine.dispose()


@body(ONCE_OR_TWICE, seeded=PROMPTS)
async def other_indexes(world: Outside, capture: Capture) -> Any:
    """Asks indexes of summaries and of trees, which models make."""

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        said = messages[-1].content or ""
        return "ANSWER: 1" if "choices" in said.lower() else f"a summary of {len(said)}"

    llm = model(world, script)
    summaries = DocumentSummaryIndex.from_documents(documents(), llm=llm, embed_model=SlowEmbedding(world))
    tree = TreeIndex.from_documents(documents(), llm=llm, num_children=2)
    return [await each.as_query_engine(llm=llm).aquery("Where is the Louvre?") for each in (summaries, tree)]


@body(ONCE_OR_TWICE, seeded=PROMPTS, missed="PYTHONHASHSEED")
async def keywords(world: Outside, capture: Capture) -> Any:
    """Asks an index of keywords, which LlamaIndex keeps in sets."""

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        said = messages[-1].content or ""
        return "KEYWORDS: paris, louvre, rome, berlin," if "KEYWORDS:" in said else f"found {said}"

    llm = model(world, script)
    return await KeywordTableIndex.from_documents(documents(), llm=llm).as_query_engine(llm=llm).aquery("Which cities?")


@body(ONCE_OR_TWICE)
async def nested_retrieval(world: Outside, capture: Capture) -> Any:
    """Merges found leaves into their parents, and follows nodes to the engines behind them."""
    llm, embedding = model(world), SlowEmbedding(world)
    nodes = HierarchicalNodeParser.from_defaults(chunk_sizes=[64, 24], chunk_overlap=0).get_nodes_from_documents(
        documents()
    )
    storage = StorageContext.from_defaults(docstore=SimpleDocumentStore())
    storage.docstore.add_documents(nodes)
    leaves = VectorStoreIndex(get_leaf_nodes(nodes), storage_context=storage, embed_model=embedding)
    merging = AutoMergingRetriever(leaves.as_retriever(similarity_top_k=6), storage, verbose=False)
    engines = {f"city {n}": SummaryIndex([node]).as_query_engine(llm=llm) for n, node in enumerate(nodes[:2])}
    pointers = [IndexNode(text=f"about {name}", index_id=name) for name in engines]
    top = VectorStoreIndex(pointers, embed_model=embedding).as_retriever(similarity_top_k=2)
    recursive = RecursiveRetriever("top", {"top": top}, query_engine_dict=engines, verbose=False)
    return [await merging.aretrieve("Paris?"), recursive.retrieve("Which city?"), await recursive.aretrieve("Again?")]


@body(ONCE_OR_TWICE, seeded=PROMPTS)
async def rerankers(world: Outside, capture: Capture) -> Any:
    """Ranks what was found by two kinds of rerankers."""

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        return "[2] > [1] > [3]" if "RankGPT" in str(messages) else librarian(messages, tools)

    llm, found = model(world, script), index(world)
    told = []
    for rerank in (LLMRerank(llm=llm, top_n=2, choice_batch_size=2), RankGPTRerank(llm=llm, top_n=2)):
        engine = found.as_query_engine(llm=llm, similarity_top_k=3, node_postprocessors=[rerank])
        told.append(await engine.aquery("Where is the Louvre?"))
    return told


@body(LARGE_RACES)
async def upserts(world: Outside, capture: Capture) -> Any:
    """Ingests documents, and again after one has changed; three pipelines at once."""

    async def pipeline(n: int) -> Any:
        store = SimpleDocumentStore()
        made = IngestionPipeline(
            transformations=[SlowEmbedding(world)],
            docstore=store,
            docstore_strategy=DocstoreStrategy.UPSERTS,
            vector_store=SimpleVectorStore(),
        )
        first = await made.arun(documents=[Document(id_=f"{n} {at}", text=f"text {at}") for at in range(2)])
        second = await made.arun(documents=[Document(id_=f"{n} {at}", text=f"text {at * 2}") for at in range(2)])
        return [first, second, sorted(store.docs)]

    return await asyncio.gather(*(pipeline(n) for n in range(3)))


@body(ONCE_OR_TWICE)
async def splits_by_meaning(world: Outside, capture: Capture) -> Any:
    """Splits texts where their meaning changes."""
    splitter = SemanticSplitterNodeParser(
        embed_model=SlowEmbedding(world),
        breakpoint_percentile_threshold=50,
        sentence_splitter=lambda text: text.split(". "),
    )
    return [splitter.get_nodes_from_documents(documents()), await splitter.aget_nodes_from_documents(documents())]


class Trip(BaseModel):
    """A trip."""

    city: str
    days: int = 1


def clerk(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
    """Fill in a trip."""
    days = len(messages[-1].content or "")
    return [(tools[0], {"city": "Oslo", "days": days})] if tools else json.dumps({"city": "Oslo", "days": days})


@body()
async def objects_at_once(world: Outside, capture: Capture) -> Any:
    """Reads objects out of texts, whole and as they grow, five at once."""
    calling, writing = model(world, clerk), model(world, clerk, function_calling=False)
    prompt = PromptTemplate("A trip: {text}")

    async def grown(llm: ScriptedLLM, text: str) -> None:
        async for each in await llm.astream_structured_predict(Trip, prompt, text=text):
            await asyncio.sleep(0.001)
            capture.add("stream", [text, each])

    whole = [each.astructured_predict(Trip, prompt, text="two") for each in (calling, writing)]
    said = [ChatMessage(role="user", content="three")]
    return await asyncio.gather(
        grown(calling, "a"), grown(writing, "b"), *whole, calling.as_structured_llm(Trip).achat(said)
    )


@body(LARGE_RACES, seeded=PROMPTS)
async def conversations_at_once(world: Outside, capture: Capture) -> Any:
    """Streams two conversations about an index at once, two turns each."""
    llm, found = model(world), index(world)

    async def talk(n: int) -> Any:
        engine = ContextChatEngine.from_defaults(llm=llm, retriever=found.as_retriever(similarity_top_k=1))
        for turn in ("Where is the Louvre?", "Why is the Louvre in Paris?"):
            async for token in (await engine.astream_chat(f"{turn} {n}")).async_response_gen():
                await asyncio.sleep(0.001)
                capture.add("stream", [n, token])
        return engine.chat_history

    return await asyncio.gather(*(talk(n) for n in range(2)))
