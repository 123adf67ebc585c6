"""Questions about recorded calls: SQL over the table `calls`, and ten questions by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.fleet.index import needed
from agenttape_core.named_tuples import NamedTuple


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
