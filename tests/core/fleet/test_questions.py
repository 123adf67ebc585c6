"""Questions about the calls of a fleet: a query sees one table, and ten questions have names."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from agenttape_core.cli.app import run
from agenttape_core.errors import ConfigurationError
from agenttape_core.fleet.index import COLUMNS, QUESTIONS, _about, _schema, ask

RUNS = 12


def call(run: int, number: int, **given: Any) -> dict[str, Any]:
    """Return a row."""
    shared = {
        "run": f"runs/{run:02}.yaml",
        "day": date(2026, 11, 1 + run % 2),
        "trajectory": "long" if run else "short",
    }
    row = {**dict.fromkeys(COLUMNS), **shared, "number": number, "started": datetime(2026, 11, 1), "status": "returned"}  # noqa: DTZ001 - an index has UTC without a zone
    return {**row, "fingerprint": f"{run}-{number}", **given}


@pytest.fixture(scope="module")
def table() -> Any:
    """Twelve runs of a model and a tool; the first makes fewer calls, and the last fails and repeats itself."""
    rows = []
    for number in range(RUNS):
        model = {"kind": "chat", "name": "Model", "model": "gpt-5", "input_tokens": 100, "output_tokens": 10,
                 "cached_tokens": 25, "dollars": number / 100, "seconds": 1.0 + number}  # fmt: skip
        rows.append(call(number, 1, **model))
        if number:
            rows.append(call(number, 2, kind="tool", name="look_up", seconds=0.5))
    rows.append(call(11, 3, kind="tool", name="pay", seconds=9.0, status="raised", error="builtins:ValueError"))
    rows.append(call(11, 4, kind="tool", name="look_up", seconds=0.5, fingerprint="11-2"))
    return pa.Table.from_pylist(rows, _schema(with_messages=False))


FIRST: dict[str, dict[str, Any]] = {
    "cached-tokens": {"model": "gpt-5", "calls": 12, "input_tokens": 1200, "cached_tokens": 300, "percent": 25.0},
    "cost-by-day": {"day": date(2026, 11, 2), "runs": 6, "calls": 14, "dollars": 0.36, "dollars_per_run": 0.06},
    "cost-by-model": {"model": "gpt-5", "runs": 12, "calls": 12, "input_tokens": 1200, "output_tokens": 120,
                      "dollars": 0.66},
    "errors": {"kind": "tool", "name": "pay", "error": "builtins:ValueError", "calls": 1, "runs": 1, "percent": 100.0},
    "longest-runs": {"run": "runs/11.yaml", "calls": 4, "tools": 3, "models": 1, "dollars": 0.11},
    "most-expensive-runs": {"run": "runs/11.yaml", "dollars": 0.11, "input_tokens": 100, "output_tokens": 10,
                            "calls": 4},
    "rare-trajectories": {"run": "runs/00.yaml", "runs_like_it": 1, "trajectory": "short", "calls": 1, "dollars": 0.0},
    "repeated-requests": {"kind": "tool", "name": "look_up", "repetitions": 1, "runs": 1, "dollars": None},
    "slowest-runs": {"run": "runs/11.yaml", "seconds": 22.0, "calls": 4, "longest_call": 12.0},
    "slowest-tools": {"name": "pay", "calls": 1, "median": 9.0, "p95": 9.0, "longest": 9.0, "total": 9.0},
}  # fmt: skip
"""The first row of the answer to each question."""


@pytest.mark.parametrize("name", sorted(QUESTIONS))
def test_named_questions(name: str, table: Any) -> None:
    """Each question with a name is answered, what matters most first."""
    assert ask(name, table).to_pylist()[0] == FIRST[name]


def test_ten_questions() -> None:
    """There are ten questions with names, each a sentence."""
    assert len(QUESTIONS) == len(FIRST) == 10
    assert all(question.text.endswith("?") for question in QUESTIONS.values())


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_text('{file}')",
        "select * from read_csv('{file}')",
        "select * from '{file}'",
        "select * from glob('{folder}/*')",
        "select * from 'https://example.invalid/table.parquet'",
        "select * from duckdb_secrets()",
        "select * from table",
        "select getenv('HOME')",
    ],
)
def test_a_query_sees_one_table(query: str, table: Any, tmp_path: Path) -> None:
    """A query reads no file, lists no folder, reaches no server and sees no variable of Python."""
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(ConfigurationError, match=r"^the query fails: (Permission|Catalog|Parser) Error"):
        ask(query.format(file=file, folder=tmp_path), table)


@pytest.mark.parametrize(
    "query",
    [
        "copy calls to '{file}'",
        "attach '{file}'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "create table other as select 1",
        "select 1; copy calls to '{file}'",
        "insert into calls select * from calls",
        "pragma database_list",
        "",
    ],
)
def test_a_query_only_reads(query: str, table: Any, tmp_path: Path) -> None:
    """A query is one select statement; any other is refused before it runs, and writes nothing."""
    file = tmp_path / "made.csv"
    with pytest.raises(ConfigurationError, match="a query is one select statement"):
        ask(query.format(file=file), table)
    assert not file.exists()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: Any) -> None:
    """The table in the index of the working folder."""
    monkeypatch.chdir(tmp_path)
    parquet.write_table(table.replace_schema_metadata({"agenttape": _about({})}), "index.parquet")


@pytest.mark.usefixtures("index")
def test_a_table_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    """An answer is printed as a table, cut off after twenty rows, or whole as JSON."""
    assert run(["fleet", "query", "select run, number from calls order by all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["run", "number"]
    assert (len(lines), lines[-1]) == (22, "… and 5 more rows: --limit N")
    assert run(["fleet", "query", "--named", "slowest-tools", "--limit", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["pay", "1", "9.0", "9.0", "9.0", "9.0"]
    assert run(["fleet", "query", "select count(*) as calls from calls", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"columns": ["calls"], "rows": [{"calls": 25}]}


@pytest.mark.usefixtures("index")
def test_list_of_questions(capsys: pytest.CaptureFixture[str]) -> None:
    """`--named list` shows each question, and each column with its meaning."""
    assert run(["fleet", "query", "--named", "list"]) == 0
    out = capsys.readouterr().out
    assert all(question.text in out for question in QUESTIONS.values())
    assert all(meaning in out for _, meaning in COLUMNS.values())


@pytest.mark.usefixtures("index")
def test_a_bad_query(capsys: pytest.CaptureFixture[str]) -> None:
    """A query that fails ends with 2 and the reason, and so does none or two."""
    assert run(["fleet", "query", "select cost from calls"]) == 2
    assert 'Referenced column "cost" not found' in capsys.readouterr().err
    assert run(["fleet", "query"]) == 2
    assert run(["fleet", "query", "select 1", "--named", "errors"]) == 2
