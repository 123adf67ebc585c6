"""Runs of LangSmith by their id, read with LangSmith's own client."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any
from uuid import UUID

from langsmith import Client
from langsmith.utils import LangSmithError, LangSmithNotFoundError

from agenttape_core.errors import CassetteNotFoundError, ConfigurationError

_REMEDY = "check the id, LANGSMITH_API_KEY and LANGSMITH_ENDPOINT, or export the runs to a file and import that"


def is_run_id(text: str) -> bool:
    """Return whether a text can be the id of a run: a UUID."""
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def fetched_run(run_id: str, client: Client | None) -> list[dict[str, Any]]:
    """Return a run and all runs below it, as an export has them.

    `client` is by default one that the environment describes. Raises `CassetteNotFoundError` if there's no such run,
    and `ConfigurationError` if LangSmith cannot be reached, or refuses.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a method for which there is no other one that reads a whole trace
            run = (client or Client()).read_run(run_id, load_child_runs=True)
    except LangSmithNotFoundError:
        raise CassetteNotFoundError(Path(run_id), "LangSmith has no such run", remedy=_REMEDY) from None
    except (LangSmithError, TypeError, ValueError) as error:  # the latter of an answer that is no run
        reason = str(error).partition("\n")[0]
        raise ConfigurationError(f"LangSmith did not give the run {run_id}: {reason}\n  {_REMEDY}") from error
    return [run.model_dump(mode="json")]
