"""The conformance suite passes on a correct integration without a test runner; the files beside this use pytest."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttape_core.errors import ConfigurationError
from agenttape_core.testing import IntegrationConformance, run_conformance
from agenttape_core.testing.running import checks_of

from .reference import ClientConformance


@pytest.mark.process
def test_without_a_test_runner() -> None:
    """`run_conformance` runs every check, says what each of them is, and all hold for the reference integration."""
    results = run_conformance(ClientConformance)
    assert [str(result) for result in results if result.outcome != "passed"] == []
    assert len({result.check for result in results}) == len(results) > 30
    assert all(result.says.endswith(".") for result in results)


def test_points_by_name() -> None:
    """`run_conformance` runs the checks that are named, and refuses names that are none."""
    (result,) = run_conformance(ClientConformance, {"test_usage_is_recorded"})
    assert str(result) == "passed   test_usage_is_recorded"
    with pytest.raises(ConfigurationError, match="has no check test_nothing"):
        run_conformance(ClientConformance, {"test_nothing"})


@pytest.mark.parametrize("shapes", [(), ("sync",), "call"])
def test_unknown_shapes(shapes: Any) -> None:
    """A suite that names no shape, or a shape that there is not, fails at every check and says why."""
    results = run_conformance(type("Misspelled", (ClientConformance,), {"shapes": shapes}))
    assert {result.outcome for result in results} == {"failed"}
    assert "expected one or more of acall, astream, call, stream" in str(results[0].error)


def test_checks_are_documented() -> None:
    """The page about the suite lists each check, with the words of its docstring, in order."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "conformance.md").read_text(encoding="utf-8")
    table = page.partition("## The checks\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(test_\w+)` \| (.*) \|$", table, re.MULTILINE)
    checks = checks_of(IntegrationConformance)
    assert listed == [(check, getattr(IntegrationConformance, check).__doc__) for check in checks]


@pytest.mark.process
def test_imports() -> None:
    """Importing core does not import the suite, and importing the suite imports no test runner."""
    program = (
        "import sys, agenttape_core; assert 'agenttape_core.testing' not in sys.modules;"
        "import agenttape_core.testing; assert not {'pytest', '_pytest', 'hypothesis'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
