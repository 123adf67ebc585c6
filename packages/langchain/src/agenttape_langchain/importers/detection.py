"""The importers of this package, for the command `agenttape import`."""

from agenttape_core.integration.importing import (
    Importer,
    is_of_agenttape01,
    is_of_langsmith,
    is_of_traces,
    is_of_vcrpy,
    outline_of,
)
from agenttape_langchain.importers.langsmith import import_langsmith
from agenttape_langchain.importers.langsmith_service import is_run_id
from agenttape_langchain.importers.traces import import_otel
from agenttape_langchain.importers.traffic import import_agenttape01, import_vcr

__all__ = ["agenttape01", "langsmith", "otel", "outline_of", "vcrpy"]

vcrpy = Importer(is_of_vcrpy, import_vcr)
langsmith = Importer(is_of_langsmith, import_langsmith, names=is_run_id)
agenttape01 = Importer(is_of_agenttape01, import_agenttape01)
otel = Importer(is_of_traces, import_otel)
