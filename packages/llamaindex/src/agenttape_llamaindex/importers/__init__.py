"""Importers: they make cassettes of the recordings of other tools, and grade each interaction by its fidelity."""

from agenttape_core.integration.importing import Graded, ImportReport
from agenttape_llamaindex.importers.traces import import_otel
from agenttape_llamaindex.importers.traffic import import_agenttape01, import_vcr

__all__ = ["Graded", "ImportReport", "import_agenttape01", "import_otel", "import_vcr"]
