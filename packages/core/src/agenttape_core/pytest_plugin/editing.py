"""`--cassette-lab=mutants`: the edits that none of the tests notices which have passed, after the last of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from agenttape_core.errors import AgentTapeError


def lines_of(config: pytest.Config, tests: Sequence[str]) -> list[str]:
    """Return the result as the summary shows it: the score, the survivors, or why there is none.

    Args:
        config: The configuration of the run.
        tests: The ids of the tests that were served, as pytest names them.
    """
    from agenttape_core.experiments import mutants

    here, root = Path.cwd(), config.rootpath
    named = [os.path.relpath(root / file, here) + colons + rest for file, colons, rest in map(_parted, tests)]
    try:
        return mutants(named, **config.option.adequacy).lines()
    except AgentTapeError as error:
        return str(error).splitlines()


def _parted(test: str) -> tuple[str, str, str]:
    return test.partition("::")
