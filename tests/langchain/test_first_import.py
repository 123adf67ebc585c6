"""The first import of a program that is recorded with its HTTP requests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.process
def test_a_part_of_the_framework_is_imported_first(tmp_path: Path) -> None:
    """The framework imports an HTTP client in the middle of its own import, which connects both integrations."""
    program = (
        "from agenttape_core import use_cassette\n"
        "with use_cassette('first', mode='all', http=True):\n"
        "    from langchain_core.documents.base import Blob\n"
        "    print(Blob.__name__)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stdout == "Blob\n", ran.stderr


@pytest.mark.process
@pytest.mark.parametrize("package", ["agenttape_langchain", "agenttape_langgraph", "agenttape_llamaindex"])
def test_our_package_is_imported_first(tmp_path: Path, package: str) -> None:
    """A program whose first import in a session is that of an integration gets all of its names."""
    program = (
        "from agenttape_core import use_cassette\n"
        f"import {package} as package\n"
        "with use_cassette('first', mode='all'):\n"
        "    print([getattr(package, name) for name in package.__all__] != [])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert ran.stdout == "True\n", ran.stderr
