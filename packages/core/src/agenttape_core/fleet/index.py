"""An index of recordings: a table with a row for each recorded call, kept in one Parquet file.

An index holds names and numbers, and no word of a message unless you ask for it. A Parquet file can't grow, so it is
written again with the rows of new recordings added, and replaced in one step: a reader sees the old
index or the new one. Its metadata lists the recordings with their versions.
"""

from __future__ import annotations

import base64
import io
import json
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

from agenttape_core.errors import CassetteError, CassetteNotFoundError, ConfigurationError, shown_path
from agenttape_core.fleet.items import files_of, name_of, trajectory_of
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Interaction, Timing
from agenttape_core.storage import Cassette, Location, Stored, location_of, read_ahead, read_cassette
from agenttape_core.storage.files import FOREIGN
from agenttape_core.storage.stores import store_of
from agenttape_core.tools.reading.messages import joined
from agenttape_core.tools.reading.prices import Prices, load_prices
from agenttape_core.tools.reading.provider_calls import MODELS, calls_in
from agenttape_core.tools.reading.summary import cached_tokens, cost_of, model_of
from agenttape_core.tools.upkeep.age import recorded_at

FORMAT = 1  # the version of the columns

COLUMNS: Mapping[str, tuple[str, str]] = {
    "run": ("string", "the path or URL of the recording"),
    "day": ("date32", "the day on which it was recorded, in UTC"),
    "trajectory": ("string", "the hash of the kinds and names of its calls, in order"),
    "number": ("int64", "the number of the call in the recording"),
    "parent": ("int64", "the number of the call around it"),
    "place": ("string", "its place in the run"),
    "kind": ("string", "its kind, such as chat or tool"),
    "name": ("string", "the name of the tool, or the class of the model"),
    "model": ("string", "the model"),
    "input_tokens": ("int64", "the tokens that the model read"),
    "output_tokens": ("int64", "the tokens that the model wrote"),
    "cached_tokens": ("int64", "the tokens that the model read from the provider's prompt cache"),
    "dollars": ("float64", "the cost of the call in US dollars; null if it isn't known"),
    "started": ("timestamp", "the moment at which the call began, in UTC"),
    "seconds": ("float64", "the duration of the call"),
    "status": ("string", "returned, raised, streamed, cancelled or refused"),
    "error": ("string", "the class of the error that the call raised"),
    "fingerprint": ("string", "the hash of the request"),
}
"""The columns of an index, each with its Arrow type and its content."""
MESSAGES: Mapping[str, tuple[str, str]] = {
    "request": ("string", "the request as JSON"),
    "answer": ("string", "the answer as JSON, or the message of the error"),
}
"""The further columns of an index with messages."""

_ABOUT = b"agenttape"  # the key of our part of the metadata
_LIMIT = 16 << 30  # the size of an index in bytes
_ROWS, _WITH_MESSAGES = 20_000, 1_000  # rows in memory before they are compressed


def _nothing() -> None: ...


@dataclass(frozen=True, slots=True)
class Indexed:
    """The result of an update of an index.

    Args:
        calls: The number of calls in it.
        recordings: The number of recordings in it.
        added: The number of recordings that this update has read.
        unreadable: The problem of each recording that can't be read. The next update tries it again.
    """

    calls: int
    recordings: int
    added: int
    unreadable: Mapping[str, str]


def update_index(
    output: str | Path,
    sources: Iterable[str | Path],
    *,
    with_messages: bool = False,
    on_recording: Callable[[], object] = _nothing,
) -> Indexed:
    """Add the calls of new and changed recordings to an index.

    The calls of recordings that are gone stay: to leave them out, delete the index and make it again.

    Args:
        output: The Parquet file, or its URL. It is made if it isn't there.
        sources: Folders, URLs or globs of recordings. Derived ones count only if they're named.
        with_messages: Whether requests and answers are added as JSON.
        on_recording: Is called after each recording.

    Raises:
        CassetteError: If a source can't be listed, or the index can't be read or written.
        ConfigurationError: If pyarrow isn't installed, or the file is another one than such an index.
    """
    location, schema = location_of(output), _schema(with_messages=with_messages)
    old = _opened(location)
    before = _recordings_in(old, location, schema) if old is not None else {}
    new = {name: each for name, each in _listed(sources).items() if before.get(name) != each.version}
    if old is not None and not new:
        return Indexed(old.metadata.num_rows, len(before), 0, {})
    left_out: dict[str, str] = {}  # with the problem of those that can't be read
    sink = needed("pyarrow").BufferOutputStream()
    with needed("pyarrow.parquet").ParquetWriter(sink, schema, compression="zstd") as file:
        for batch in chain(_without(old, new), _batches(new, schema, left_out, on_recording)):
            file.write_batch(batch)
        versions = {**before, **{name: each.version for name, each in new.items()}}
        recordings = {name: each for name, each in versions.items() if name not in left_out}
        file.add_key_value_metadata({_ABOUT: _about(recordings)})
    data = sink.getvalue().to_pybytes()
    store, key = store_of(location)
    store.save(key, data)
    unreadable = {name: problem for name, problem in left_out.items() if problem}
    return Indexed(_parquet(data).metadata.num_rows, len(recordings), len(new) - len(left_out), unreadable)


def calls(*sources: str | Path, with_messages: bool = False) -> Any:
    """Return the calls of recordings as an Arrow table, which pandas, Polars and DuckDB can read.

    A recording that can't be read is left out, with a warning.

    Args:
        sources: Folders, URLs or globs of recordings. Derived ones count only if they're named.
        with_messages: Whether requests and answers are added as JSON.

    Raises:
        CassetteError: If a source can't be listed.
        ConfigurationError: If pyarrow isn't installed.
    """
    schema, left_out = _schema(with_messages=with_messages), dict[str, str]()
    table = needed("pyarrow").Table.from_batches(_batches(_listed(sources), schema, left_out), schema)
    for problem in filter(None, left_out.values()):
        warnings.warn(problem, stacklevel=2)
    return table


def read_index(path: str | Path) -> Any:
    """Return the Arrow table in an index.

    Args:
        path: The Parquet file, or its URL.

    Raises:
        CassetteError: If there is none, or it can't be read.
        ConfigurationError: If pyarrow isn't installed, or the file is another one than an index of this version.
    """
    location = location_of(path)
    file = _opened(location)
    if file is None:
        raise CassetteNotFoundError(
            location,
            "no such index",
            remedy=f"make it:  agenttape fleet index FOLDER -o {shown_path(location)}",
        )
    _recordings_in(file, location)
    return file.read()


def needed(module: str) -> Any:
    """Return a module of the extra `fleet`. Raises `ConfigurationError` if it isn't installed."""
    try:
        return import_module(module)
    except ImportError:
        raise ConfigurationError(
            f"an index needs {module.partition('.')[0]}, which isn't installed\n  pip install 'agenttape-core[fleet]'"
        ) from None


# -- The file.


def _schema(*, with_messages: bool) -> Any:
    arrow = needed("pyarrow")
    types = {**{name: getattr(arrow, name)() for name in ("string", "date32", "int64", "float64")},
             "timestamp": arrow.timestamp("ms")}  # fmt: skip
    columns = {**COLUMNS, **(MESSAGES if with_messages else {})}
    return arrow.schema([(name, types[kind]) for name, (kind, _) in columns.items()])


def _parquet(data: bytes) -> Any:
    return needed("pyarrow.parquet").ParquetFile(needed("pyarrow").BufferReader(data))


def _opened(location: Location) -> Any:
    """Return the Parquet file at a location; `None` if there is none."""
    store, key = store_of(location)
    try:
        return _parquet(store.fetch(key, _LIMIT))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CassetteError(location, f"the index can't be read: {error.strerror or error}") from error
    except ValueError:  # pyarrow's own error is one
        raise _no_index(location, "it isn't a whole Parquet file") from None


def _recordings_in(file: Any, location: Location, schema: Any = None) -> dict[str, str]:
    """Return the recordings of an index with their versions. Raises `ConfigurationError` if it isn't one."""
    about = file.metadata.metadata or {}
    if _ABOUT not in about:
        raise _no_index(location, "it isn't an index of agenttape")
    plain = json.loads(zlib.decompress(base64.b64decode(about[_ABOUT])))
    if plain["format"] != FORMAT:
        raise _no_index(location, f"it is an index of format {plain['format']}, and this version reads {FORMAT}")
    if schema is not None and file.schema_arrow.names != schema.names:
        has = "has messages" if len(file.schema_arrow.names) > len(schema.names) else "has no messages"
        raise ConfigurationError(f"{shown_path(location)}: this index {has}\n  keep the other kind in another file: -o")
    recordings: dict[str, str] = plain["recordings"]
    return recordings


def _about(recordings: Mapping[str, str]) -> bytes:
    plain = {"format": FORMAT, "recordings": dict(sorted(recordings.items()))}
    return base64.b64encode(zlib.compress(json.dumps(plain).encode()))


def _no_index(location: Location, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"{shown_path(location)}: {problem}\n  name another file, or delete it, and run  agenttape fleet index  again"
    )


def _without(file: Any, runs: Iterable[str]) -> Iterator[Any]:
    """Yield the rows of an index in batches, without some runs."""
    if file is None:
        return
    compute, arrow = needed("pyarrow.compute"), needed("pyarrow")
    for batch in file.iter_batches():
        yield batch.filter(compute.invert(compute.is_in(batch["run"], arrow.array(sorted(runs), arrow.string()))))


# -- The rows.


def _listed(sources: Iterable[str | Path]) -> dict[str, Stored]:
    """Return the recordings that sources mean, by their names."""
    found: dict[str, Stored] = {}
    for source in sources:
        listed = {name_of(each.location): each for each in files_of(source)}
        if not listed:
            raise CassetteNotFoundError(source, "no recording here", remedy="'*' is a part of a name, '**' any folders")
        found |= listed
    return found


def _batches(
    recordings: Mapping[str, Stored],
    schema: Any,
    left_out: dict[str, str],
    on_recording: Callable[[], object] = _nothing,
) -> Iterator[Any]:
    """Yield the calls of recordings in batches; note the problems of those that can't be read, "" for other files."""
    arrow, with_messages = needed("pyarrow"), len(schema.names) > len(COLUMNS)
    prices, rows = load_prices(project_settings().prices), list[dict[str, Any]]()
    for name, (_, read) in zip(recordings, read_ahead(recordings.values()), strict=True):
        try:
            cassette = read_cassette(io.BytesIO(read()), name=name, attached=False)
            rows += _rows(name, cassette, prices, with_messages=with_messages)
        except CassetteError as error:
            left_out[name] = "" if error.problem == FOREIGN else str(error)
        on_recording()
        if len(rows) >= (_WITH_MESSAGES if with_messages else _ROWS):
            yield arrow.RecordBatch.from_pylist(rows, schema)
            rows = []
    if rows:
        yield arrow.RecordBatch.from_pylist(rows, schema)


def _rows(run: str, cassette: Cassette, prices: Prices, *, with_messages: bool) -> list[dict[str, Any]]:
    """Return the rows of a recording. Raises `CassetteError` if it can't be read."""
    volatile = cassette.header.volatile
    if (created := recorded_at(volatile.created)) is not None:
        created = created.astimezone(UTC).replace(tzinfo=None)  # the columns have no zone
    shared = {
        "run": run,
        "day": created.date() if created is not None else None,
        "trajectory": trajectory_of((row.kind, row.name) for row in cassette.entries),
    }
    return [
        {
            **shared,
            **_row(item, volatile.timings.get(item.number), created, prices),
            **(_messages(item) if with_messages else {}),
        }
        for item in calls_in(cassette)
    ]


def _row(item: Interaction, timing: Timing | None, created: datetime | None, prices: Prices) -> dict[str, Any]:
    is_model, outcome = item.kind in MODELS, item.outcome
    started = timing.start_ms if timing is not None else None
    return {
        "number": item.number,
        "parent": item.parent,
        "place": item.address,
        "kind": item.kind,
        "name": item.name,
        "model": model_of(item) if is_model else None,
        "input_tokens": outcome.usage.input_tokens if outcome.usage is not None else None,
        "output_tokens": outcome.usage.output_tokens if outcome.usage is not None else None,
        "cached_tokens": cached_tokens(item) if is_model else None,
        "dollars": cost_of(item, prices) if is_model else None,
        "started": created + timedelta(milliseconds=started) if created is not None and started is not None else None,
        "seconds": timing.duration_ms / 1000 if timing is not None else None,
        "status": outcome.status,
        "error": outcome.error.type if outcome.error is not None else None,
        "fingerprint": item.fingerprint,
    }


def _messages(item: Interaction) -> dict[str, Any]:
    error = item.outcome.error
    answer = joined(item.outcome) if error is None else error.message
    return {"request": _json(item.request), "answer": _json(answer)}


def _json(plain: Any) -> str:
    return json.dumps(plain, ensure_ascii=False, sort_keys=True, default=str)


# -- Questions about recorded calls: SQL over the table `calls`, and ten questions by name.


class Question(NamedTuple):
    """A question with a name."""

    text: str
    sql: str


_SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # a name in a query never means a variable of Python
    "temp_directory": "",  # what doesn't fit into memory isn't written to a disk
}

QUESTIONS: Mapping[str, Question] = {
    "cached-tokens": Question(
        "How much of what each model reads comes from the provider's prompt cache?",
        """
        select model, count(*) as calls, sum(input_tokens)::bigint as input_tokens,
            sum(cached_tokens)::bigint as cached_tokens,
            round(100 * sum(cached_tokens) / nullif(sum(input_tokens), 0), 1) as percent
        from calls where model is not null group by model order by input_tokens desc nulls last, model
        """,
    ),
    "cost-by-day": Question(
        "What does each day cost?",
        """
        select day, count(distinct run) as runs, count(*) as calls, round(sum(dollars), 4) as dollars,
            round(sum(dollars) / count(distinct run), 6) as dollars_per_run
        from calls group by day order by day desc nulls last
        """,
    ),
    "cost-by-model": Question(
        "What does each model cost?",
        """
        select model, count(distinct run) as runs, count(*) as calls, sum(input_tokens)::bigint as input_tokens,
            sum(output_tokens)::bigint as output_tokens, round(sum(dollars), 4) as dollars
        from calls where model is not null group by model order by dollars desc nulls last, model
        """,
    ),
    "errors": Question(
        "Which calls fail, how often, and with which error?",
        """
        with totals as (select kind, name, count(*) as total from calls group by all)
        select kind, name, coalesce(error, status) as error, count(*) as calls, count(distinct run) as runs,
            round(100 * count(*) / any_value(total), 2) as percent
        from calls join totals using (kind, name) where error is not null or status in ('cancelled', 'refused')
        group by kind, name, coalesce(error, status) order by calls desc, kind, name, error
        """,
    ),
    "longest-runs": Question(
        "Which runs make the most calls?",
        """
        select run, count(*) as calls, count(*) filter (kind = 'tool') as tools,
            count(*) filter (model is not null) as models, round(sum(dollars), 6) as dollars
        from calls group by run order by calls desc, run
        """,
    ),
    "most-expensive-runs": Question(
        "Which runs cost the most?",
        """
        select run, round(sum(dollars), 6) as dollars, sum(input_tokens)::bigint as input_tokens,
            sum(output_tokens)::bigint as output_tokens, count(*) as calls
        from calls group by run order by sum(dollars) desc nulls last, run
        """,
    ),
    "rare-trajectories": Question(
        "Which runs take a path that few others take?",
        """
        with paths as (select trajectory, count(distinct run) as runs from calls group by trajectory)
        select run, runs as runs_like_it, trajectory, count(*) as calls, round(sum(dollars), 6) as dollars
        from calls join paths using (trajectory) group by run, runs, trajectory order by runs, run
        """,
    ),
    "repeated-requests": Question(
        "Which requests does a run make again, and what do the repetitions cost?",
        """
        with repeated as (
            select run, kind, name, fingerprint, count(*) - 1 as again, sum(dollars) - max(dollars) as dollars
            from calls group by all having count(*) > 1)
        select kind, name, sum(again)::bigint as repetitions, count(distinct run) as runs,
            round(sum(dollars), 6) as dollars
        from repeated group by kind, name order by repetitions desc, kind, name
        """,
    ),
    "slowest-runs": Question(
        "Which runs take longest?",
        """
        select run, round(sum(seconds), 3) as seconds, count(*) as calls, round(max(seconds), 3) as longest_call
        from calls where parent is null group by run order by sum(seconds) desc nulls last, run
        """,
    ),
    "slowest-tools": Question(
        "Which tools are slow?",
        """
        select name, count(*) as calls, round(median(seconds), 3) as median,
            round(quantile_cont(seconds, 0.95), 3) as p95, round(max(seconds), 3) as longest,
            round(sum(seconds), 3) as total
        from calls where kind = 'tool' group by name order by p95 desc nulls last, name
        """,
    ),
}
"""The questions by their names. Answers are sorted, so that the first rows matter most."""


def ask(question: str, calls: Any) -> Any:
    """Return the answer to a question about calls, as an Arrow table.

    A query sees the table `calls` alone: it can't read a file, reach the network or write anything.

    Args:
        question: A `select` of DuckDB's SQL over the table `calls`, or the name of one of `QUESTIONS`.
        calls: The Arrow table of `calls` or `read_index`.

    Raises:
        ConfigurationError: If it isn't one `select` statement, it fails, or DuckDB isn't installed.
    """
    sql = QUESTIONS[question].sql if question in QUESTIONS else question
    duckdb = needed("duckdb")
    with duckdb.connect(":memory:", config=_SETTINGS) as database:
        try:
            statements = database.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise ConfigurationError(f"a query is one select statement, and this isn't: {sql.strip()}")
            database.register("calls", calls)
            database.execute("set enable_external_access = false; set lock_configuration = true")
            return database.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            raise ConfigurationError(f"the query fails: {error}") from None
