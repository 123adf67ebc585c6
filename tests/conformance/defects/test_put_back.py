"""Old defects that are put back are found by the test of what corrected them."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from .put_back import DEFECTS, VARIABLE, owner_of, table

_ROOT = Path(__file__).parents[3]
_FAILED = 1
"""The exit code of pytest where tests have failed; others say that it could not run them."""


@pytest.mark.process
@pytest.mark.parametrize("name", DEFECTS)
def test_what_is_put_back_is_found(name: str, pytestconfig: pytest.Config) -> None:
    """The test of a correction fails where the correction is undone."""
    if pytestconfig.getoption("replays") < 20:
        pytest.skip("run by make identical: each starts a run of pytest")
    defect = DEFECTS[name]
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AGENTTAPE_", "PYTEST_"))}
    options = ["-q", "-x", "-n0", "-p", "no:cacheprovider", "-p", f"{__package__}.put_back", "-k", defect.words]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, defect.found_by],
        cwd=_ROOT,
        env={**kept, VARIABLE: name},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=150,
    )
    assert ended.returncode == _FAILED, ended.stdout + ended.stderr


@pytest.mark.parametrize("name", [name for name, defect in DEFECTS.items() if isinstance(defect.undoes, partial)])
def test_what_is_put_back_has_its_place(name: str) -> None:
    """Today's code has the attribute that a defect is put in the place of."""
    undoes = DEFECTS[name].undoes
    assert isinstance(undoes, partial)
    owner_of(*undoes.args[:2])


def test_the_page_has_the_table() -> None:
    """It lists each defect, with the tests that find it."""
    assert table() in (_ROOT / "docs" / "identical.md").read_text(encoding="utf-8")
