"""The forms of reports by the suffixes of files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from agenttape_core.tools.reporting.findings import Checked
from agenttape_core.tools.reporting.junit import junit
from agenttape_core.tools.reporting.markdown import markdown
from agenttape_core.tools.reporting.sarif import sarif
from agenttape_core.tools.reporting.trx import trx

FORMS: Mapping[str, Callable[[Sequence[Checked]], str]] = {
    ".md": markdown,
    ".sarif": lambda checked: sarif(checked, version("agenttape-core")),
    ".trx": lambda checked: trx(checked, datetime.now(UTC)),
    ".xml": junit,
}
"""The functions that make a report of runs, by the suffix of its file."""
