"""`agenttape faults`: each recorded call of tests fails once in each way, and a matrix says what came of it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import click

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.output import print_json, print_text, verb
from agenttape_core.cli.running import NO_TESTS, run_pytest
from agenttape_core.errors import ConfigurationError
from agenttape_core.tools.faults import FaultMatrix, chosen_kinds, lines_of
from agenttape_core.tools.faults.matrix import FAILING
from agenttape_core.tools.reporting.forms import FORMS


@verb("agenttape faults tests/test_support.py --kinds timeout,cut_stream")
@click.argument("tests", nargs=-1, metavar="[TESTS...]")
@click.option("--kinds", default="all", metavar="KINDS", help="Such as timeout,empty; by default all kinds.")
@click.option("--junit", "junit_to", metavar="FILE", help="Write JUnit's XML.")
@click.option("--markdown", "markdown_to", metavar="FILE", help="Write Markdown.")
def faults(tests: tuple[str, ...], *, kinds: str, junit_to: str | None, markdown_to: str | None, as_json: bool) -> int:
    """Let each recorded call of tests fail once in each way, offline, and show what came of it.

    TESTS are files, folders or ids of tests, by default all that pytest finds. Each test that passes with its cassette
    is run again for each fault. Nothing is executed, and no file changes.

    Exits with 0 if all is well, and with 1 if a test passed although its agent did something else (SILENT), or was
    excluded because it fails without a fault.
    """
    if kinds != "all":
        chosen_kinds([name.strip() for name in kinds.split(",") if name.strip()])
    matrices = _matrices(tests, kinds)
    for path, suffix in ((junit_to, ".xml"), (markdown_to, ".md")):
        if path is not None:
            text = FORMS[suffix]([matrix.to_checked() for matrix in matrices])
            Path(path).write_text(text, encoding="utf-8", newline="\n")
    if as_json:
        print_json({"tests": [matrix.to_dict() for matrix in matrices]})
    else:
        print_text("\n".join(lines_of(matrices)))
    if not any(matrix.cells for matrix in matrices):
        return FINDINGS  # which says that none could be tried
    return FINDINGS if any(matrix.excluded or matrix.failing(FAILING) for matrix in matrices) else OK


def _matrices(tests: tuple[str, ...], kinds: str) -> list[FaultMatrix]:
    with tempfile.TemporaryDirectory(prefix="agenttape-") as folder:
        file = Path(folder) / "faults.json"
        ended = run_pytest(tests, [f"--faults={kinds}", f"--faults-report={file}"], quietly=True)
        if ended.returncode not in {OK, FINDINGS} or not file.exists():
            why = "found no tests" if ended.returncode == NO_TESTS else f"ended with {ended.returncode}"
            raise ConfigurationError(f"pytest {why}\n{ended.stdout.strip()}\n{ended.stderr.strip()}".strip())
        plain = json.loads(file.read_text(encoding="utf-8"))["tests"]
    return [FaultMatrix.from_dict(one) for one in plain]
