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
