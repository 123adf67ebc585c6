"""Every way of calling an LLM, by every way in: recorded, then replayed with the world gone.

The outcome of each cell stands in the table of `docs/identical.md`. To write the table anew after a change:
`pytest tests/llamaindex/test_matrix.py --update-examples`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import SummaryIndex
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel

from agenttape_core import use_cassette
from agenttape_core.testing import PartDifference, compare_runs, raw
from agenttape_llamaindex import ReplayLLM, TapeEventHandler, tape

from ..kit.databases import closed_databases
from .acceptance import FRAMEWORK_WARNINGS
from .programs import documents
from .scripted import Reply, ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS

PAGE = Path(__file__).parents[2] / "docs" / "identical.md"
HEAD = "| | `tape` | automatic | observed, then replayed | `ReplayLLM` |"
SAID = [ChatMessage(role="user", content="How are you?")]
PROMPT = PromptTemplate("Rate {what}")
Outcomes = dict[tuple[str, str], str]
"""The cells, by row and column."""


class Mood(BaseModel):
    """A mood."""

    answer: str
    stars: int


def script(messages: Any, tools: Any) -> Reply:
    """Answer; fill in what is asked for; look twice at once where that is possible."""
    said = str(messages[-1].content)
    if "Action Input" in str(messages[0].content):
        return "Thought: I can answer without using any more tools.\nAnswer: fine"
    if tools == ["Mood"]:
        return [("Mood", {"answer": "fine", "stars": 5})]
    if tools and messages[-1].role != "tool":
        return [("look", {"where": where}) for where in ("left", "right")]
    return '{"answer": "fine", "stars": 5}' if "schema" in said.lower() else f"fine: {said[:40]}"


def look(where: str) -> str:
    """Look somewhere; of a pure function, so that it runs with a stand-in, too."""
    return f"nothing {where}"


async def alook(where: str) -> str:
    """Look in a task: without a session, nothing keeps an order of threads."""
    return look(where)


LOOK = FunctionTool.from_defaults(look)
LOOK_IN_A_TASK = FunctionTool.from_defaults(look, async_fn=alook)


async def drained(stream: Any) -> list[Any]:
    """Read a stream to its end."""
    return [each async for each in await stream]


async def run_agent(agent: Any) -> Any:
    """Run an agent, and return what it streams and its answer."""
    handler = agent.run("How are you?")
    return [[event async for event in handler.stream_events()], await handler]


async def _stopped(llm: Any) -> Any:
    stream = llm.stream_chat(SAID)
    first = [next(stream), next(stream)]
    stream.close()
    return first


async def _images(llm: Any) -> Any:
    blocks = [TextBlock(text="What is it?"), ImageBlock(image=b"png", image_mimetype="image/png")]
    return await llm.achat([ChatMessage(role="user", blocks=blocks)])


async def _at_once(llm: Any) -> Any:
    return await asyncio.gather(*(llm.acomplete(f"number {n}") for n in range(4)))


async def _query(llm: Any) -> Any:
    engine = SummaryIndex.from_documents(documents()).as_query_engine(llm=llm, response_mode="tree_summarize")
    return [str(engine.query("Where?")), str(await engine.aquery("Where?"))]


async def _chat_engine(llm: Any) -> Any:
    engine = SimpleChatEngine.from_defaults(llm=llm)
    first = str(await engine.achat("Hello"))
    return [first, [token async for token in (await engine.astream_chat("And?")).async_response_gen()]]


async def _sync(call: Callable[[], Any]) -> Any:
    return call()


ROWS: dict[str, Callable[[Any], Any]] = {
    "`chat`, `complete`": lambda llm: _sync(lambda: [llm.chat(SAID), llm.complete("How?")]),
    "`achat`, `acomplete`": lambda llm: asyncio.gather(llm.achat(SAID), llm.acomplete("How?")),
    "`stream_chat`, `stream_complete`": lambda llm: _sync(
        lambda: [list(llm.stream_chat(SAID)), list(llm.stream_complete("How?"))]
    ),
    "`astream_chat`, `astream_complete`": lambda llm: asyncio.gather(
        drained(llm.astream_chat(SAID)), drained(llm.astream_complete("How?"))
    ),
    "a stream that is left early": _stopped,
    "four calls at once": _at_once,
    "`predict`, `apredict`": lambda llm: asyncio.gather(
        _sync(lambda: llm.predict(PROMPT, what="tea")), llm.apredict(PROMPT, what="rain")
    ),
    "`structured_predict` and its other forms": lambda llm: asyncio.gather(
        _sync(lambda: llm.structured_predict(Mood, PROMPT, what="tea")),
        llm.astructured_predict(Mood, PROMPT, what="rain"),
        drained(llm.astream_structured_predict(Mood, PROMPT, what="sun")),
    ),
    "`as_structured_llm`": lambda llm: llm.as_structured_llm(Mood).achat(SAID),
    "`chat_with_tools`, two calls in an answer": lambda llm: llm.achat_with_tools(
        [LOOK], "Look", allow_parallel_tool_calls=True
    ),
    "`predict_and_call`": lambda llm: llm.apredict_and_call([LOOK], "Look", allow_parallel_tool_calls=True),
    "images": _images,
    "`FunctionAgent`, with two tools at once": lambda llm: run_agent(FunctionAgent(llm=llm, tools=[LOOK_IN_A_TASK])),
    "`ReActAgent`": lambda llm: run_agent(ReActAgent(llm=llm, tools=[LOOK])),
    "a query engine": _query,
    "a chat engine with a memory": _chat_engine,
}


@dataclass(frozen=True)
class Column:
    """A way in.

    Args:
        recording: Opens what records, and gives the LLM to call, of an LLM and a path.
        replaying: Likewise.
    """

    recording: Callable[[Any, Path], tuple[Any, Any]]
    replaying: Callable[[Any, Path], tuple[Any, Any]]


def _session(path: Path, mode: str, *, auto: bool = True) -> Any:
    return use_cassette(path, mode=mode, auto=auto)


def _stand_in(_: Any, path: Path) -> tuple[Any, Any]:
    return nullcontext(), ReplayLLM(path)


COLUMNS = {
    "tape": Column(
        lambda llm, path: (_session(path, "all", auto=False), tape(llm)),
        lambda llm, path: (_session(path, "none", auto=False), tape(llm)),
    ),
    "automatic": Column(
        lambda llm, path: (_session(path, "all"), llm), lambda llm, path: (_session(path, "none"), llm)
    ),
    "observed": Column(
        lambda llm, path: (TapeEventHandler(path), llm), lambda llm, path: (_session(path, "none"), llm)
    ),
    "ReplayLLM": Column(lambda llm, path: (_session(path, "all"), llm), _stand_in),
}


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Iterator[Outcomes]:
    """Collect the cells, and write them down if they are to be updated."""
    found: Outcomes = {}
    yield found
    if request.config.getoption("update_examples") and len(found) == len(ROWS) * len(COLUMNS):
        lines = [HEAD, "|---" * (len(COLUMNS) + 1) + "|"]
        lines += [f"| {row} | {' | '.join(found[row, column] for column in COLUMNS)} |" for row in ROWS]
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(text.replace("\n".join(table(text)), "\n".join(lines)), encoding="utf-8")


def table(page: str) -> list[str]:
    """Return the lines of the table in the page."""
    lines = page.splitlines()
    return list(takewhile(lambda line: line.startswith("|"), lines[lines.index(HEAD) :]))


def documented() -> Outcomes:
    """Return the cells on the page."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table(PAGE.read_text(encoding="utf-8"))]
    return {(row[0], column): cell for row in cells[2:] for column, cell in zip(COLUMNS, row[1:], strict=True)}


def verdict(column: str, found: list[PartDifference]) -> str:
    """Return what the page says of a cell: only in a session do answers wait until nothing else can continue."""
    if column == "ReplayLLM" and found and all(each.verdict == "order" for each in found):
        return "equal but for orders"
    return "differs" if found else "equal"


async def called(row: Callable[[Any], Any], subject: Any) -> Any:
    """Make a call, and return all that its caller sees."""
    return raw(await row(subject))


@pytest.mark.sweep
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("row", ROWS)
def test_cell(row: str, column: str, outcomes: Outcomes, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """What is recorded comes back without the world, as equal as the page says: all fields of all parts."""
    world, path = World(), tmp_path / "matrix.jsonl"
    way, llm = COLUMNS[column], ScriptedLLM(world, script)
    opened, subject = way.recording(llm, path)
    with closed_databases():
        with opened:
            recorded = asyncio.run(called(ROWS[row], subject))
        assert world.reached
        world.gone = True
        opened, subject = way.replaying(llm, path)
        with opened as session:
            replayed = asyncio.run(called(ROWS[row], subject))
    report = (session or subject).report
    assert (report.recorded, report.unused) == ((), ())
    outcomes[row, column] = verdict(column, compare_runs({"all": [recorded]}, {"all": [replayed]}))
    if not pytestconfig.getoption("update_examples"):
        assert outcomes[row, column] == documented()[row, column]


def test_table_is_complete() -> None:
    """The page shows exactly the rows and columns that are tested."""
    assert list(documented()) == [(row, column) for row in ROWS for column in COLUMNS]
