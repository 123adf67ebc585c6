"""Every way of calling a chat model, by every way in: recorded, then replayed with the service gone.

The outcome of each cell stands in the table of `docs/identical.md`. To write the table anew after a change:
`pytest tests/langchain/test_matrix.py --update-examples`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from langchain_core._api.beta_decorator import LangChainBetaWarning
from langchain_core.messages import BaseMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from agenttape_core import use_cassette
from agenttape_langchain import ReplayChatModel, TapeCallbackHandler, tape

from .conftest import ROOT
from .matrix import ROWS, Alone, InAgent, Subject

if TYPE_CHECKING:
    from pathlib import Path

    from examples.weather_agent.server import OpenAILoopback

pytestmark = [
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),  # langchain-openai, streaming a parsed object
    pytest.mark.filterwarnings(f"ignore::{LangChainBetaWarning.__module__}.LangChainBetaWarning"),  # events v3
]

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
