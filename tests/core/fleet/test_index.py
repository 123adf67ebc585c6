"""The index of a fleet, without a word of a message, and questions about its calls."""

from __future__ import annotations

import gzip
import json
import random
import re
import sys
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from agenttape_core import use_cassette
from agenttape_core.cli.app import run
from agenttape_core.errors import CassetteNotFoundError, ConfigurationError
from agenttape_core.fleet.index import (
    COLUMNS,
    MESSAGES,
    QUESTIONS,
    _about,
    _schema,
    ask,
    calls,
    read_index,
    update_index,
)
from agenttape_core.fleet.items import trajectory_of

from ..session.world import call
from . import desk

CANARY = desk.SECRET


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder, with a folder of two recordings and a file that is none."""
    monkeypatch.chdir(tmp_path)
    for name in ("runs/one.yaml", "runs/deep/two.jsonl"):
        record(Path(name))
    Path("runs/docker.yaml").write_text("services: {}\n")
    yield tmp_path
    fsspec.filesystem("memory").store.clear()


def record(path: Path, question: str = f"Rain? {CANARY}") -> None:
    """Record a run of three calls, one of which fails."""
    with use_cassette(path, mode="all"):
        call("answer", lambda: "Yes.", "chat", model="gpt-5", messages=[{"role": "user", "content": question}])
        desk.look_up("Paris")
        with pytest.raises(LookupError):
            desk.look_up("Atlantis")


def rows(path: str = "index.parquet") -> list[dict[str, Any]]:
    """Return the rows of an index."""
    found: list[dict[str, Any]] = read_index(path).to_pylist()
    return found


def test_a_row_for_each_call(runs: Path) -> None:
    """A call has its place, names, tokens, times, outcome and hashes, and all calls of a run its trajectory and day."""
    done = update_index("index.parquet", ["runs"])
    assert (done.calls, done.recordings, done.added, done.unreadable) == (6, 2, 2, {})
    assert [row["run"] for row in rows()] == ["runs/deep/two.jsonl"] * 3 + ["runs/one.yaml"] * 3
    model, tool, failed = rows()[3:]
    assert (model["kind"], model["name"], model["model"], model["status"]) == ("chat", "answer", "gpt-5", "returned")
    assert (tool["kind"], tool["name"], tool["model"], tool["number"]) == ("tool", "look_up", None, 2)
    assert (failed["status"], failed["error"]) == ("raised", "builtins:LookupError")
    assert {row["trajectory"] for row in rows()} == {
        trajectory_of([("chat", "answer"), ("tool", "look_up"), ("tool", "look_up")])
    }
    assert model["started"].date() == model["day"]
    assert tool["seconds"] >= 0
    assert len({row["fingerprint"] for row in rows()}) == 3


def test_new_recordings_only(runs: Path) -> None:
    """An update reads new and changed recordings alone, and keeps the rows of the others, even of deleted ones."""
    update_index("index.parquet", ["runs"])
    unchanged = Path("index.parquet").read_bytes()
    assert update_index("index.parquet", ["runs"]).added == 0
    assert Path("index.parquet").read_bytes() == unchanged
    record(Path("runs/three.yaml"))
    record(Path("runs/one.yaml"), "Snow?")
    Path("runs/deep/two.jsonl").unlink()
    done = update_index("index.parquet", ["runs/*"])
    assert (done.calls, done.recordings, done.added) == (9, 3, 2)
    assert len({(row["run"], row["number"]) for row in rows()}) == 9


def test_same_recordings_same_bytes(runs: Path) -> None:
    """Two indexes of the same recordings have the same bytes."""
    update_index("index.parquet", ["runs"])
    update_index("again.parquet", ["runs/deep", "runs"])
    update_index("again.parquet", ["runs"])
    assert Path("index.parquet").read_bytes() == Path("again.parquet").read_bytes()


def test_no_word_of_a_message(runs: Path) -> None:
    """No byte of a message, an argument, a result or the text of an error is in an index, even unpacked."""
    update_index("index.parquet", ["runs"])
    assert CANARY not in json.dumps(rows(), default=str)
    assert CANARY.encode() not in Path("index.parquet").read_bytes()


def test_messages_on_demand(runs: Path) -> None:
    """With messages, a row has the request and the answer; one index has them or not."""
    update_index("full.parquet", ["runs"], with_messages=True)
    asked, told, failed, *_ = found = rows("full.parquet")
    assert set(asked) == {*COLUMNS, *MESSAGES}
    assert json.loads(asked["request"])["messages"][0]["content"] == f"Rain? {CANARY}"
    assert json.loads(told["answer"]) == f"Paris: sunny, {CANARY}"
    assert json.loads(failed["answer"]) == f"{CANARY} has sunk"
    assert json.dumps(found, default=str).count(CANARY) == 2 * 3
    with pytest.raises(ConfigurationError, match=r"full\.parquet: this index has messages"):
        update_index("full.parquet", ["runs"])


def test_a_damaged_recording(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A recording that can't be read is named, the others are in the index, and the next update tries it again."""
    whole = Path("runs/one.yaml").read_bytes()
    Path("runs/one.yaml").write_bytes(whole[:-100])
    assert run(["fleet", "index", "runs"]) == 3
    out = capsys.readouterr().out
    assert out.startswith("runs/one.yaml")
    assert out.endswith("index.parquet: 3 calls of 1 recordings, 1 of them new, 1 cassette could not be read\n")
    with pytest.warns(UserWarning, match=r"runs/one\.yaml"):
        assert calls("runs").num_rows == 3
    Path("runs/one.yaml").write_bytes(whole)
    assert run(["fleet", "index", "runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "index": "index.parquet", "calls": 6, "recordings": 2, "added": 1, "unreadable": {}
    }  # fmt: skip


def test_urls(runs: Path) -> None:
    """Recordings and the index may be behind URLs, and packed."""
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/runs/2026-11-30/a.yaml.gz", gzip.compress(Path("runs/one.yaml").read_bytes()))
    memory.pipe_file("/runs/2026-12-01/b.yaml", Path("runs/one.yaml").read_bytes())
    update_index("memory://indexes/index.parquet", ["memory://runs/2026-11-*/*"])
    assert {row["run"] for row in rows("memory://indexes/index.parquet")} == {"memory://runs/2026-11-30/a.yaml.gz"}
    assert calls("memory://runs", "runs").num_rows == 12


def test_other_files(runs: Path, tmp_path: Path) -> None:
    """A file that isn't an index of this version is refused, and stays as it is."""
    Path("text.parquet").write_text("no table")
    table = calls("runs")
    parquet.write_table(table, "foreign.parquet")
    update_index("index.parquet", ["runs"])
    for name, problem in {"text": "isn't a whole Parquet file", "foreign": "isn't an index of agenttape"}.items():
        before = Path(f"{name}.parquet").read_bytes()
        with pytest.raises(ConfigurationError, match=problem):
            update_index(f"{name}.parquet", ["runs"])
        assert Path(f"{name}.parquet").read_bytes() == before
    Path("index.parquet").write_bytes(Path("index.parquet").read_bytes()[:-9])
    with pytest.raises(ConfigurationError, match="isn't a whole Parquet file"):
        read_index("index.parquet")
    with pytest.raises(CassetteNotFoundError, match=r"agenttape fleet index FOLDER -o none\.parquet"):
        read_index("none.parquet")
    with pytest.raises(CassetteNotFoundError, match="no recording here"):
        update_index("other.parquet", ["runs", "runs/*.jsonl"])


def test_a_store_that_cannot_be_listed(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A store that isn't there ends with 3, and no index is written."""
    assert run(["fleet", "index", "memory://nowhere"]) == 3
    assert "memory://nowhere" in capsys.readouterr().err
    assert not Path("index.parquet").exists()


@pytest.mark.slow
def test_many_calls(runs: Path) -> None:
    """An index of 2,400 calls takes at most a fiftieth of the 10 MB that 120,000 calls may take."""
    text = Path("runs/one.yaml").read_text()
    chance = random.Random(1)
    for number in range(800):
        one = re.sub('(?<=fingerprint: )"?[0-9a-f]{32}"?', lambda _: f'"{chance.getrandbits(128):032x}"', text)
        path = Path(f"many/2026-11-{number % 30 + 1:02}/run{number:05}.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(one)
    assert update_index("index.parquet", ["many"]).calls == 2400
    assert Path("index.parquet").stat().st_size <= 200_000


@pytest.mark.parametrize("module", ["pyarrow", "duckdb"])
def test_without_the_extra(
    module: str, runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a library of the extra, the command names it and how to install it."""
    update_index("index.parquet", ["runs"])
    monkeypatch.setitem(sys.modules, module, None)
    assert run(["fleet", "query", "select 1"]) == 2
    assert f"needs {module}, which isn't installed\n  pip install 'agenttape-core[fleet]'" in capsys.readouterr().err


RUNS = 12


def row_of(run: int, number: int, **given: Any) -> dict[str, Any]:
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
        rows.append(row_of(number, 1, **model))
        if number:
            rows.append(row_of(number, 2, kind="tool", name="look_up", seconds=0.5))
    rows.append(row_of(11, 3, kind="tool", name="pay", seconds=9.0, status="raised", error="builtins:ValueError"))
    rows.append(row_of(11, 4, kind="tool", name="look_up", seconds=0.5, fingerprint="11-2"))
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
