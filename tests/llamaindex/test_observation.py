"""A handler observes whole runs, in any thread and task, without disturbing them; what it wrote can be replayed."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, MockEmbedding, PromptTemplate, VectorStoreIndex
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.llms import CompletionResponse, MockLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.tools import FunctionTool
from llama_index_instrumentation.base import BaseEvent
from llama_index_instrumentation.dispatcher import instrument_tags
from tests.kit.world import gone

from agenttape_core import compare_cassettes, open_cassette, recover, use_cassette
from agenttape_core.cli.app import run
from agenttape_core.errors import UnrecordableValueError
from agenttape_llamaindex import TapeEventHandler

from .acceptance import FRAMEWORK_WARNINGS
from .observed import CALLS, SAID, Batches, Work, answers_of, drained, interactions, observing, place, steps
from .programs import PROGRAMS
from .scripted import Reply, ScriptedEmbedding, ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS


# -- A handler observes whole runs, in any thread and task, without disturbing them; what it wrote can be replayed -----

RUN_SPECIFIC = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{64}|[0-9a-f]{32}")


TIMES = re.compile(r"'(elapsed_alive|last_alive_stamp)': [\d.e-]+")
"""The times in a snapshot of a workflow: a handler freezes none."""


# -- whole programs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
async def test_observed_program_replays(name: str, tmp_path: Path) -> None:
    """Observed agents, engines and workflows replay without the world, with the same values in the same order."""

    def renamed(value: Any) -> str:
        """Return a value in full, its drawn ids numbered: a handler freezes none, each where it was."""
        numbers: dict[str, str] = {}
        text = RUN_SPECIFIC.sub(lambda found: numbers.setdefault(found[0], f"<{len(numbers)}>"), repr(value))
        return TIMES.sub(r"'\1': TIME", text)

    with observing(tmp_path / "seen.jsonl"):
        observed = await PROGRAMS[name](World())
    world = gone()
    with use_cassette(tmp_path / "seen.jsonl"):
        replayed = await PROGRAMS[name](world)
    assert world.trespasses == []
    assert renamed(replayed) == renamed(observed)


def engine(world: World) -> Any:
    """A query engine over two documents."""
    documents = [Document(text="The Louvre is in Paris.", id_="d1"), Document(text="The Spree is in Berlin.", id_="d2")]
    index = VectorStoreIndex.from_documents(documents, embed_model=ScriptedEmbedding(world))
    return index.as_query_engine(llm=ScriptedLLM(world), similarity_top_k=1)


def test_the_tree_of_a_query(handler: TapeEventHandler) -> None:
    """The spans around the calls are steps, and the outermost has what it was given and what it gave."""
    query = engine(World())
    with handler:
        query.query("What is in Paris?")
    outermost = next(step for step in steps(handler.path) if step.address == "RetrieverQueryEngine.query")
    assert outermost.kind == "chain"
    assert outermost.input == {"str_or_query_bundle": "What is in Paris?"}
    assert outermost.output is not None
    assert [step.name for step in steps(handler.path, "retriever")] == ["VectorIndexRetriever.retrieve"]
    header = open_cassette(handler.path).header
    assert header.input == outermost.input
    (gap,) = (step for step in open_cassette(handler.path).steps() if step.kind == "gap")
    assert "memory" in gap.data


def test_own_events_and_tags(handler: TapeEventHandler) -> None:
    """Events of the program's own are steps, and its instrumentation tags stand at the outermost span that has them."""

    class Paid(BaseEvent):
        amount: int

    with handler, instrument_tags({"customer": "c-7"}):
        get_dispatcher("shop").event(Paid(amount=3))
        MockLLM().predict(PromptTemplate("Say {x}"), x=1)
    (event,) = steps(handler.path, "event")
    assert event.name == "Paid"
    assert event.data["amount"] == 3
    (predict,) = steps(handler.path, "chain")
    assert predict.metadata == {"customer": "c-7"}
    assert [i.metadata for i in interactions(handler.path)] == [{}]


# -- many at once -----------------------------------------------------------------------------------------------------


def test_threads_and_tasks(handler: TapeEventHandler) -> None:
    """Runs in threads and in tasks are observed at once, each call with its own answer."""
    world = World()
    llm = ScriptedLLM(world)

    async def many(tag: str) -> None:
        await asyncio.gather(*(llm.acomplete(f"{tag} {number}") for number in range(5)))

    def work(tag: str) -> None:
        asyncio.run(many(tag))
        drained(llm.stream_complete(f"{tag} streamed"))

    with handler:
        threads = [threading.Thread(target=work, args=(f"thread {number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = interactions(handler.path)
    assert len(found) == len(world.reached) == 24
    for interaction in found:
        prompt = interaction.request["prompts"][0]
        assert f"You said: {prompt}" in str(interaction.outcome).replace("'} {", " ") or interaction.outcome.chunks
    assert len({i.request["prompts"][0] for i in found}) == 24


@pytest.mark.parametrize("call", ["complete", "stream_chat", "delegated", "tool", "own async retriever", "own batch"])
def test_several_handlers_see_the_same(call: str, tmp_path: Path) -> None:
    """Two handlers at once write two cassettes of one run, also beside a session that records, which feels nothing."""
    with use_cassette(tmp_path / "alone.yaml", mode="all"):
        CALLS[call](World())
    with (
        use_cassette(tmp_path / "recorded.yaml", mode="all"),
        TapeEventHandler(tmp_path / "one.yaml") as one,
        TapeEventHandler(tmp_path / "two.yaml") as two,
    ):
        CALLS[call](World())
    assert one.errors == two.errors == []
    assert (
        answers_of(one.path)
        == answers_of(two.path)
        == answers_of(tmp_path / "recorded.yaml")
        == answers_of(tmp_path / "alone.yaml")
    )
    metadata = [[i.metadata for i in interactions(tmp_path / f"{name}.yaml")] for name in ("alone", "recorded", "one")]
    assert metadata[0] == metadata[1] == metadata[2]


def test_a_replayed_run_is_observed_too(tmp_path: Path) -> None:
    """A replay can be observed: what is replayed looks as it did when it was executed."""
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "recorded.yaml", mode=mode), TapeEventHandler(tmp_path / f"{mode}.yaml"):
            drained(ScriptedLLM(World()).stream_chat(SAID))
    assert answers_of(tmp_path / "all.yaml") == answers_of(tmp_path / "none.yaml") != Counter()


# -- attaching --------------------------------------------------------------------------------------------------------


def test_attaching_is_idempotent_and_leaves_nothing(handler: TapeEventHandler) -> None:
    """Attaching twice observes once; detaching leaves the dispatcher as it was, and later calls unseen."""

    def nothing_open() -> Any:
        """Return the number of handlers of the root dispatcher."""
        root = get_dispatcher()
        return len(root.event_handlers), len(root.span_handlers)

    before = nothing_open()
    handler.attach()
    handler.attach()
    assert nothing_open() == (before[0] + 1, before[1] + 1)
    MockLLM().complete("a")
    handler.detach()
    handler.detach()
    assert nothing_open() == before
    MockLLM().complete("b")
    handler.close()
    assert [i.request["prompts"] for i in interactions(handler.path)] == [["a"]]


def test_one_dispatcher_only(handler: TapeEventHandler) -> None:
    """A handler that is attached to one dispatcher receives its events and no others."""
    handler.attach(get_dispatcher("llama_index.core.base.embeddings.base"))
    MockLLM().complete("a")
    ScriptedEmbedding(World()).get_text_embedding_batch(["a"])
    handler.close()
    assert {step.name for step in steps(handler.path)} == {"ScriptedEmbedding.get_text_embedding_batch"}


def test_both_handlers_by_hand(handler: TapeEventHandler) -> None:
    """The framework's own way of adding handlers does as well as `attach`."""
    dispatcher = get_dispatcher()
    dispatcher.add_event_handler(handler)
    dispatcher.add_span_handler(handler.span_handler)
    drained(MockLLM(max_tokens=2).stream_complete("a b"))
    handler.detach(dispatcher)
    handler.close()
    assert [len(i.outcome.chunks or ()) for i in interactions(handler.path)] == [2]


# -- what goes wrong --------------------------------------------------------------------------------------------------


class Opaque:
    """A value without a codec."""


def test_errors_of_ours_never_reach_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A value that cannot be written is logged, kept in `errors` and marked as missing, and the run goes on."""

    def _opaque() -> Opaque:
        """Return one."""
        return Opaque()

    with TapeEventHandler(tmp_path / "seen.yaml") as handler:
        output = FunctionTool.from_defaults(_opaque, name="opaque").call()
        MockLLM().complete("a")
    assert isinstance(output.raw_output, Opaque)
    assert [type(error) for error in handler.errors] == [UnrecordableValueError]
    assert "could not record a call" in caplog.text
    assert [i.kind for i in interactions(handler.path)] == ["completion"]
    (step,) = steps(handler.path, "tool")
    assert "could not be recorded" in step.fidelity_note


def test_an_argument_that_is_read_once(tmp_path: Path) -> None:
    """An observer does not read what only the call may read; it says that the call is missing."""
    seen = []

    class Reads(BaseRetriever):
        def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
            seen.extend(query_bundle)
            return []

    with TapeEventHandler(tmp_path / "seen.yaml"):
        Reads()._retrieve(iter(["a", "b"]))
    assert seen == ["a", "b"]
    (step,) = steps(tmp_path / "seen.yaml")
    assert "read only once" in step.fidelity_note


def test_a_cache_hides_what_was_asked(tmp_path: Path) -> None:
    """A call that a cache of the framework may have answered is missing; nothing is invented."""
    from llama_index.core.storage.kvstore import SimpleKVStore

    embedding = Batches(World(), embeddings_cache=SimpleKVStore())
    with TapeEventHandler(tmp_path / "seen.yaml"):
        embedding.get_text_embedding_batch(["a", "e"])
    assert interactions(tmp_path / "seen.yaml") == []
    (step,) = steps(tmp_path / "seen.yaml")
    assert step.fidelity == "missing"
    assert "cache" in step.fidelity_note


def test_secrets_never_reach_the_file(tmp_path: Path) -> None:
    """Secrets in prompts, answers, tags and inputs are pseudonyms in the file, also where chunks have cut them."""
    secret = "sk-" + "proj-" + "Zx9" * 12
    with TapeEventHandler(tmp_path / "seen.jsonl"), instrument_tags({"note": secret}):
        drained(MockLLM(max_tokens=9).stream_complete(f"My key is {secret}"))
        MockLLM().predict(PromptTemplate("Say {x}"), x=secret)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert secret.encode() not in written
    assert b"[REDACTED:" in written


@pytest.mark.process
def test_a_crash_loses_nothing(tmp_path: Path) -> None:
    """After a kill, everything that had ended can be recovered from the journal."""
    code = (
        "import os\n"
        "from llama_index.core.llms import MockLLM\n"
        "from agenttape_llamaindex import TapeEventHandler\n"
        "TapeEventHandler('seen.yaml').attach()\n"
        "MockLLM().complete('a')\n"
        "stream = MockLLM().stream_complete('b')\n"
        "next(stream)\n"
        "MockLLM().complete('c')\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False, cwd=tmp_path)
    (journal,) = tmp_path.glob(".*.journal")
    found = [*interactions(tmp_path / "seen.yaml"), *interactions(recover(journal))]
    assert [i.request["prompts"] for i in found] == [["a"], ["c"]]


def test_closing_cuts_off_what_goes_on(tmp_path: Path) -> None:
    """A stream that is still read when the handler closes is marked as missing, and the reader goes on undisturbed."""
    handler = TapeEventHandler(tmp_path / "seen.yaml").attach()
    stream = MockLLM(max_tokens=3).stream_complete("a b c")
    next(stream)
    handler.close()
    assert len(drained(stream)) == 2
    (step,) = steps(handler.path)
    assert step.status == "open"
    assert "when the observation was closed" in step.fidelity_note


def test_the_file_grows_as_the_run_does(tmp_path: Path) -> None:
    """A thousand calls take about ten times the bytes of a hundred, and leave nothing behind in the handler."""

    @get_dispatcher().span
    def ask(times: int) -> None:
        """Ask so many questions in one run."""
        for number in range(times):
            MockLLM(max_tokens=1).complete(f"question {number}")

    sizes = []
    for count in (100, 1000):
        with TapeEventHandler(tmp_path / f"{count}.jsonl") as handler:
            ask(count)
        sizes.append((tmp_path / f"{count}.jsonl").stat().st_size)
        assert not handler._observing.open_runs
        assert not handler._observing._streams._frames
    assert sizes[1] < sizes[0] * 11


# -- An observed call is the interaction that a session would have recorded --------------------------------------------


@pytest.mark.parametrize("call", CALLS)
def test_every_call_is_what_a_session_records(call: str, handler: TapeEventHandler, tmp_path: Path) -> None:
    """An observed call has the request, the address and the outcome of a recorded one; tasks at once are counted."""
    with handler:
        CALLS[call](World())
    with use_cassette(tmp_path / "recorded.yaml", mode="all"):
        CALLS[call](World())
    seen, recorded = interactions(handler.path), interactions(tmp_path / "recorded.yaml")
    assert seen
    assert [(place(i), i.fingerprint, i.request, i.outcome, i.metadata, i.fidelity) for i in seen] == [
        (place(i), i.fingerprint, i.request, i.outcome, i.metadata, i.fidelity) for i in recorded
    ]
    assert [i.parent for i in seen] == [i.parent for i in recorded]


FAILURES: dict[str, Work] = {
    "chat": lambda world: ScriptedLLM(world, _fail).chat(SAID),
    "achat": lambda world: asyncio.run(ScriptedLLM(world, _fail).achat(SAID)),
    "stream at once": lambda world: ScriptedLLM(world, _fail).stream_chat(SAID),
    "stream midway": lambda _: drained(Breaking(max_tokens=3).stream_complete("a b c d")),
    "delegated": lambda _: Dissatisfied(max_tokens=3).complete("a b c d"),
    "embedding": lambda _: BrokenEmbedding(embed_dim=2).get_query_embedding("q"),
    "own batch": lambda _: BrokenEmbedding(embed_dim=2, embed_batch_size=1).get_text_embedding_batch(["ok", "no"]),
    "tool": lambda _: FunctionTool.from_defaults(_divide, name="divide").call(by=0),
    "retriever": lambda _: BrokenShelf().retrieve("rain"),
}


def _fail(*_: Any) -> str:
    raise ValueError("the model is down")


def _divide(by: int) -> float:
    """Divide."""
    return 1 / by


class Breaking(MockLLM):
    """Breaks its streams midway."""

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        def broken() -> Iterator[Any]:
            yield CompletionResponse(text="a", delta="a")
            raise ValueError("the line is cut")

        return broken()


class Dissatisfied(MockLLM):
    """Asks its base class, and is not content with the answer."""

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        super().complete(prompt, formatted=formatted, **kwargs)
        raise ValueError("the answer is no good")


class BrokenEmbedding(MockEmbedding):
    """Knows only one text."""

    def _get_query_embedding(self, query: str) -> list[float]:
        raise ValueError("no such text")

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        if texts != ["ok"]:
            raise ValueError("no such text")
        return [[1.0, 0.0]]


class BrokenShelf(BaseRetriever):
    """Finds nothing."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        raise ValueError("the shelf is empty")


@pytest.mark.parametrize("call", FAILURES)
def test_failures_are_what_a_session_records(call: str, handler: TapeEventHandler, tmp_path: Path) -> None:
    """A call that fails is recorded with its error, as a session does, and the caller gets the error."""
    outcomes = []
    for recording in (handler, use_cassette(tmp_path / "recorded.yaml", mode="all", on_error="keep")):
        with pytest.raises((ValueError, ZeroDivisionError)), recording:
            FAILURES[call](World())
        found = interactions(recording.path if recording is handler else tmp_path / "recorded.yaml")
        outcomes.append([(i.address, i.fingerprint, i.request, i.outcome) for i in found])
    assert outcomes[0] == outcomes[1]
    assert outcomes[0]


def test_cancelled_call(handler: TapeEventHandler) -> None:
    """A cancelled call is recorded as that."""

    class Slow(MockLLM):
        async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            await asyncio.Event().wait()

    async def run() -> None:
        task = asyncio.create_task(Slow().acomplete("a"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with handler:
        asyncio.run(run())
    assert [call.outcome.status for call in interactions(handler.path)] == ["cancelled"]


# -- The tree of an observed workflow reads as that of a recorded one: who acts, and what is handed off to whom --------


def _script(messages: Any, tools: Any) -> Reply:
    if "handoff" in tools and messages[-1].role != "tool":
        return [("handoff", {"to_agent": "writer", "reason": "it is about rain"})]
    return "It rains"


async def _desk() -> str:
    llm = ScriptedLLM(World(), _script)
    planner = FunctionAgent(name="planner", description="Plans", llm=llm, can_handoff_to=["writer"])
    writer = FunctionAgent(name="writer", description="Writes", llm=llm)
    return str(await AgentWorkflow(agents=[planner, writer], root_agent="planner").run("Rain?"))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An observed and a recorded run of one program."""
    folder = tmp_path_factory.mktemp("desk")
    with observing(folder / "seen.yaml"):
        asyncio.run(_desk())
    with use_cassette(folder / "recorded.yaml", mode="all"):
        asyncio.run(_desk())
    return folder / "seen.yaml", folder / "recorded.yaml"


def _printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert not run(list(arguments))
    return capsys.readouterr().out


@pytest.mark.parametrize("which", [0, 1])
def test_the_acting_agent(which: int, seen: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Each step of an agent says which one it is, below the workflow, whoever recorded it."""
    shown = _printed(capsys, "show", str(seen[which]))
    first, second = (next(line for line in shown.splitlines() if f"run_agent_step{n}" in line) for n in ("  ", "#2"))
    assert "[planner]" in first
    assert "[writer]" in second
    workflow = next(line for line in shown.splitlines() if "agent AgentWorkflow.run" in line)
    assert first.index("node") == second.index("node") > workflow.index("agent")


def test_a_hand_off_can_be_read(seen: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A tool of the framework, which runs on replay, is shown with its name, its arguments and its result."""
    shown = _printed(capsys, "show", str(seen[0]))
    assert "FunctionTool.call  handoff" in shown
    assert "> to_agent='writer', reason='it is about rain'" in shown
    assert "< Agent writer is now handling the request" in shown


@pytest.mark.parametrize("subcommand", ["show", "show --timeline"])
def test_ticks_are_left_out(subcommand: str, seen: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """The ticks of a workflow do not stand between its steps."""
    shown = _printed(capsys, *subcommand.split(), str(seen[0]))
    assert "checkpoint AgentWorkflow" not in shown
    assert ("checkpoints, shown one by one by --step N" in shown) is (subcommand == "show")


def test_what_was_not_seen_is_named(seen: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """The gap says which calls no handler sees."""
    assert "not seen: memory, http, call; the run was recorded by an event handler" in _printed(
        capsys, "show", str(seen[0])
    )


@pytest.mark.parametrize("order", [1, -1])
def test_observed_and_recorded_calls_have_one_place(order: int, seen: tuple[Path, Path]) -> None:
    """A comparison of both calls nothing moved, and all calls the same; it lists no step that only one of them sees."""
    comparison = compare_cassettes(*seen[::order])
    assert comparison.identical, str(comparison)
    counts = comparison.counts
    assert counts["moved"] == counts["changed"] == counts["only in other" if order == 1 else "only in first"] == 0
