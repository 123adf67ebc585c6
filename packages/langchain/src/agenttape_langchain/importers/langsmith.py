"""LangSmith exports: the runs of `client.list_runs()` or of its web page, as JSON or JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langsmith import Client

from agenttape_core import Rule, UnrecordableValueError
from agenttape_core.integration.importing import (
    Graded,
    Importing,
    ImportReport,
    NotImportableError,
    parse_json,
    read_source,
)
from agenttape_langchain.importers.langsmith_calls import import_run
from agenttape_langchain.importers.langsmith_runs import ForeignRun, runs_of
from agenttape_langchain.importers.langsmith_service import fetched_run, is_run_id

_KIND_OF = {"llm": "chat", "tool": "tool", "retriever": "retrieval", "embedding": "embeddings"}
_NO_EMBEDDINGS = "LangSmith exports of embeddings have neither the class of the model nor the shape of the call"


def import_langsmith(
    source: str | Path,
    target: str | Path,
    *,
    overwrite: bool = False,
    redact: bool | Sequence[Rule] = True,
    tags: Sequence[str] = (),
    client: Client | None = None,
) -> ImportReport:
    """Make a cassette of the runs in a LangSmith export, or of a run that LangSmith holds.

    The tree of runs gives each call its address, so a replay of the same program finds it in its place.

    Args:
        source: The file: a list of runs, JSON lines, or a mapping with the list under `runs`; also compressed by gzip.
            Or the id of a run, if there is no such file: it is read from LangSmith with all runs below it.
        target: The cassette: a bare name under the cassette folder, or a path.
        overwrite: Whether to replace a cassette that is there already.
        redact: Rules beyond the built-in ones, or `False` to keep secrets as they are.
        tags: Words for the header.
        client: The client that reads a run; by default one that the environment describes.

    Returns:
        The report, with a grade for each run of a model, a tool or a retriever. All others run again on replay.

    Raises:
        CassetteFormatError: If the source is no export of runs.
        CassetteNotFoundError: If there is none.
        ConfigurationError: If the target is there already, an option is not valid, or LangSmith cannot be read.
    """
    path = Path(source)
    is_stored = is_run_id(str(source)) and not path.exists()
    data = fetched_run(str(source), client) if is_stored else parse_json(path, read_source(path))
    with Importing(target, overwrite=overwrite, redact=redact, tags=tags) as importing:
        items = graded_runs(importing, path, data)
    return ImportReport(path, importing.path, tuple(items))


def graded_runs(importing: Importing, path: Path, data: Any) -> list[Graded]:
    """Record the runs of an export, and return the grade of each that reaches outside.

    Args:
        importing: The cassette.
        path: The file, for errors.
        data: Its content: a list of runs, or a mapping with the list under `runs`.

    Raises:
        CassetteFormatError: If it is no export of runs.
    """
    return [_graded(importing, run) for run in runs_of(path, data, importing.root) if run.kind in _KIND_OF]


def _graded(importing: Importing, run: ForeignRun) -> Graded:
    what = f"{run.kind} {run.name}"
    try:
        loss = _imported(importing, run)
    except NotImportableError as error:
        importing.missing(_KIND_OF[run.kind], f"{what}: {error}")
        return Graded(run.place, what, "missing", str(error))
    return Graded(run.place, what, "lossy" if loss else "exact", loss)


def _imported(importing: Importing, run: ForeignRun) -> str:
    if run.kind == "embedding":
        raise NotImportableError(_NO_EMBEDDINGS)
    try:
        return import_run(importing, run)
    except UnrecordableValueError as error:
        raise NotImportableError(f"it cannot be recorded: {error}") from error
