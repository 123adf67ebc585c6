"""Every way of calling a chat model, by every way in: recorded, then replayed with the service gone.

The outcome of each cell stands in the table of `docs/identical.md`. To write the table anew after a change:
`pytest tests/langchain/test_matrix.py --update-examples`.
"""

# ruff: noqa: D103 - their names say what they do

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelFallbackMiddleware, ModelRetryMiddleware
from langchain_core._api.beta_decorator import LangChainBetaWarning
from langchain_core.messages import BaseMessage
from langchain_openai import ChatOpenAI
from openai import RateLimitError
from pydantic import BaseModel

from agenttape_core import use_cassette
from agenttape_langchain import ReplayChatModel, TapeCallbackHandler, TapeMiddleware, tape

from .conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

    from examples.weather_agent.server import OpenAILoopback

pytestmark = [
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),  # langchain-openai, streaming a parsed object
    pytest.mark.filterwarnings(f"ignore::{LangChainBetaWarning.__module__}.LangChainBetaWarning"),  # events v3
]

# -- the rows ------------------------------------------------------------------------------------------------------

QUESTION = "how are you?"
QUESTIONS = [f"how is number {number}?" for number in range(4)]


class Mood(BaseModel):
    """The mood of a person."""

    answer: str
    stars: int


class Alone:
    """A chat model by itself."""

    def __init__(self, model: Any) -> None:
        self.runnable = model

    def ask(self, question: str) -> Any:
        return question

    def stream(self, question: str) -> Any:
        return self.runnable.stream(question)

    def astream(self, question: str) -> Any:
        return self.runnable.astream(question)

    def structured(self) -> Any:
        return self.runnable.with_structured_output(Mood)

    def fallbacks(self) -> Any:
        return self.runnable.with_fallbacks([self.runnable])

    def retry(self) -> Any:
        types = (RateLimitError,)
        return self.runnable.with_retry(
            retry_if_exception_type=types, wait_exponential_jitter=False, stop_after_attempt=2
        )


class InAgent:
    """A chat model inside an agent that `TapeMiddleware` tapes."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.runnable = self._agent()

    def _agent(self, *middleware: Any, **options: Any) -> Any:
        return create_agent(self._model, [], middleware=[*middleware, TapeMiddleware()], **options)

    def ask(self, question: str) -> Any:
        return {"messages": [("user", question)]}

    def stream(self, question: str) -> Any:
        return self.runnable.stream(self.ask(question), stream_mode="messages")

    def astream(self, question: str) -> Any:
        return self.runnable.astream(self.ask(question), stream_mode="messages")

    def structured(self) -> Any:
        return self._agent(response_format=Mood)

    def fallbacks(self) -> Any:
        return self._agent(ModelFallbackMiddleware(self._model))

    def retry(self) -> Any:
        return self._agent(ModelRetryMiddleware(max_retries=1, retry_on=(RateLimitError,), initial_delay=0))


Subject: TypeAlias = Alone | InAgent
"""A call of the matrix: the model or the agent, and what becomes of it with options."""


async def invoke(subject: Subject) -> Any:
    return subject.runnable.invoke(subject.ask(QUESTION))


async def ainvoke(subject: Subject) -> Any:
    return await subject.runnable.ainvoke(subject.ask(QUESTION))


async def stream(subject: Subject) -> Any:
    return list(subject.stream(QUESTION))


async def astream(subject: Subject) -> Any:
    return [part async for part in subject.astream(QUESTION)]


async def batch(subject: Subject) -> Any:
    return subject.runnable.batch([subject.ask(question) for question in QUESTIONS])


async def equal_batch(subject: Subject) -> Any:
    return subject.runnable.batch([subject.ask(question) for question in [*QUESTIONS, QUESTION, QUESTION]])


async def abatch(subject: Subject) -> Any:
    return await subject.runnable.abatch([subject.ask(question) for question in [*QUESTIONS, QUESTION, QUESTION]])


async def gather(subject: Subject) -> Any:
    asked = [subject.ask(question) for question in [*QUESTIONS, QUESTION, QUESTION]]
    return await asyncio.gather(*(subject.runnable.ainvoke(question) for question in asked))


async def threads(subject: Subject) -> Any:
    def pooled() -> list[Any]:
        with ThreadPoolExecutor(len(QUESTIONS)) as pool:
            return list(pool.map(lambda question: subject.runnable.invoke(subject.ask(question)), QUESTIONS))

    return await asyncio.to_thread(pooled)  # where no event loop runs, as in the threaded code of a user


async def early_close(subject: Subject) -> Any:
    with closing(subject.stream(QUESTION)) as parts:
        return [next(parts) for _ in range(3)]


async def error_midway(subject: Subject) -> Any:
    return collected(subject.stream(QUESTION))


async def structured_output(subject: Subject) -> Any:
    return subject.structured().invoke(subject.ask(QUESTION))


async def fallbacks(subject: Subject) -> Any:
    return subject.fallbacks().invoke(subject.ask(QUESTION))


async def retry(subject: Subject) -> Any:
    return await subject.retry().ainvoke(subject.ask(QUESTION))


async def events_v2(subject: Subject) -> Any:
    return [event async for event in subject.runnable.astream_events(subject.ask(QUESTION), version="v2")]


async def events_v3(subject: Subject) -> Any:
    events = list(subject.runnable.stream_events(subject.ask(QUESTION), version="v3"))
    begun = await subject.runnable.astream_events(subject.ask(QUESTION), version="v3")
    async with begun:  # the run ends after the last event, with the context
        return [events, [event async for event in begun]]


def collected(parts: Iterable[Any]) -> list[Any]:
    """The chunks of a stream, and the error that it ended with."""
    got: list[Any] = []
    try:
        for part in parts:
            got.append(part)  # noqa: PERF402 - what came before the error counts
    except Exception as error:
        got.append((type(error), str(error)))
    return got


def nothing(server: OpenAILoopback) -> None:
    """Leave the service as it is."""


ROWS: dict[str, tuple[Callable[[Subject], Awaitable[Any]], Callable[[OpenAILoopback], None]]] = {
    "`invoke`": (invoke, nothing),
    "`ainvoke`": (ainvoke, nothing),
    "`stream`": (stream, nothing),
    "`astream`": (astream, nothing),
    "`batch`": (batch, nothing),
    "`batch` of equal questions": (equal_batch, nothing),
    "`abatch`": (abatch, nothing),
    "`asyncio.gather`": (gather, nothing),
    "a pool of threads": (threads, nothing),
    "a stream closed early": (early_close, nothing),
    "an error midway": (error_midway, lambda server: server.cut_next_stream(after=4)),
    "structured output": (structured_output, nothing),
    "fallbacks": (fallbacks, lambda server: server.fail_next(500)),
    "retries": (retry, lambda server: server.fail_next(429)),
    "`astream_events` v2": (events_v2, nothing),
    "`stream_events` v3": (events_v3, nothing),
}
"""The calls, and the instructions for the service before each."""


# -- the columns, and the table ------------------------------------------------------------------------------------

PAGE = ROOT / "docs" / "identical.md"
HEAD = "| | `tape` | automatic | `TapeMiddleware` | observed, then replayed | `ReplayChatModel` |"
Outcomes: TypeAlias = dict[tuple[str, str], str]
"""The cells, by row and column."""
IN_ANY_ORDER = ("`batch` of equal questions", "observed, then replayed")
"""Threads ask, and no callback receives the place of a question in its batch: equal ones come as they began."""
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Column:
    """A way in.

    Args:
        recording: Opens what records; gives the model to call, of a factory of models and a path.
        replaying: Likewise.
        subject: Makes of a model what is called.
    """

    recording: Callable[..., Any]
    replaying: Callable[..., Any]
    subject: Callable[[Any], Subject] = Alone


def in_session(path: Path, mode: str, *, auto: bool) -> Any:
    """A session."""
    return use_cassette(path, mode=mode, auto=auto)


COLUMNS: dict[str, Column] = {
    "`tape`": Column(
        lambda chat, path: (in_session(path, "all", auto=False), tape(chat())),
        lambda chat, path: (in_session(path, "none", auto=False), tape(chat())),
    ),
    "automatic": Column(
        lambda chat, path: (in_session(path, "all", auto=True), chat()),
        lambda chat, path: (in_session(path, "none", auto=True), chat()),
    ),
    "`TapeMiddleware`": Column(
        lambda chat, path: (in_session(path, "all", auto=False), chat()),
        lambda chat, path: (in_session(path, "none", auto=False), chat()),
        InAgent,
    ),
    "observed, then replayed": Column(
        lambda chat, path: (nullcontext(), chat(callbacks=[TapeCallbackHandler(path)])),
        lambda chat, path: (in_session(path, "none", auto=True), chat()),
    ),
    "`ReplayChatModel`": Column(
        lambda chat, path: (in_session(path, "all", auto=True), chat()),
        lambda _, path: (nullcontext(), ReplayChatModel(path)),
    ),
}


def seen(value: Any) -> Any:
    """All that can be seen of a result, as data that can be compared."""
    if isinstance(value, BaseMessage | BaseModel):
        return type(value).__name__, seen(value.model_dump())
    if isinstance(value, dict):
        return {str(key): seen(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [seen(item) for item in value]
    return value if isinstance(value, str | int | float | None) else repr(value)


def but_ids(value: Any) -> Any:
    """The same without the uuids that the framework draws."""
    if isinstance(value, dict):
        return {key: but_ids(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [but_ids(item) for item in value]
    return UUID.sub("uuid", value) if isinstance(value, str) else value


def without(value: Any, *keys: str) -> Any:
    """The same without some keys of its dicts."""
    if isinstance(value, dict):
        return {key: without(item, *keys) for key, item in value.items() if key not in keys}
    return [without(item, *keys) for item in value] if isinstance(value, list) else value


def verdict(recorded: Any, replayed: Any) -> str:
    """The degree of equality of two results, in a word for the table."""
    left, right = seen(recorded), seen(replayed)
    if left == right:
        return "equal"
    left, right = but_ids(left), but_ids(right)
    if left == right:
        return "equal ¹"
    if without(left, "chunk_position") == without(right, "chunk_position"):
        return "equal ²"
    assert without(left, "name", "metadata") == without(right, "name", "metadata")
    return "equal ³"


@pytest.fixture(scope="module")
def updating(request: pytest.FixtureRequest) -> bool:
    """True if the table is to be rewritten."""
    return bool(request.config.getoption("update_examples"))


@pytest.fixture(scope="module")
def outcomes(updating: bool) -> Iterator[Outcomes]:
    """The outcomes of the cells; written to the page on request."""
    outcomes: Outcomes = {}
    yield outcomes
    if updating:
        lines = [HEAD, "|---" * (len(COLUMNS) + 1) + "|"]
        lines += [f"| {row} | {' | '.join(outcomes[row, column] for column in COLUMNS)} |" for row in ROWS]
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(page.replace("\n".join(table(page)), "\n".join(lines)), encoding="utf-8")


def table(page: str) -> list[str]:
    """The lines of the table in the page."""
    lines = page.splitlines()
    return list(takewhile(lambda line: line.startswith("|"), lines[lines.index(HEAD) :]))


def documented() -> Outcomes:
    """The cells on the page."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table(PAGE.read_text(encoding="utf-8"))]
    return {(row[0], column): cell for row in cells[2:] for column, cell in zip(COLUMNS, row[1:], strict=True)}


@pytest.mark.sweep
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("row", ROWS)
async def test_cell(
    row: str, column: str, *, loopback: OpenAILoopback, outcomes: Outcomes, updating: bool, tmp_path: Path
) -> None:
    """The results of a recording come back without the service, as equal as the page says."""
    way, (shape, prepare) = COLUMNS[column], ROWS[row]

    def chat(**options: Any) -> ChatOpenAI:
        return ChatOpenAI(
            model="gpt-5-mini", base_url=loopback.base_url, api_key="x", max_retries=0, stream_usage=True, **options
        )

    opened, model = way.recording(chat, tmp_path / "matrix.yaml")
    prepare(loopback)
    with opened:
        recorded = await shape(way.subject(model))
    assert loopback.calls
    loopback.stop()
    opened, model = way.replaying(chat, tmp_path / "matrix.yaml")
    with opened as session:
        replayed = await shape(way.subject(model))
    report = (session or model).report
    assert (report.recorded, report.unused) == ((), ())
    if (row, column) == IN_ANY_ORDER:
        recorded, replayed = (sorted(each, key=lambda answer: str(answer.content)) for each in (recorded, replayed))
    outcomes[row, column] = verdict(recorded, replayed) + " ⁴" * ((row, column) == IN_ANY_ORDER)
    if not updating:
        assert outcomes[row, column] == documented()[row, column]


def test_table_is_complete() -> None:
    """The page shows exactly the rows and columns that are tested."""
    assert list(documented()) == [(row, column) for row in ROWS for column in COLUMNS]
