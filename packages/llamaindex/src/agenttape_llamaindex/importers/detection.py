"""The importers of this package, for the command `agenttape import`."""

from agenttape_core.integration.importing import Importer, is_of_agenttape01, is_of_traces, is_of_vcrpy
from agenttape_llamaindex.importers.traces import import_otel
from agenttape_llamaindex.importers.traffic import import_agenttape01, import_vcr

__all__ = ["agenttape01", "otel", "vcrpy"]

vcrpy = Importer(is_of_vcrpy, import_vcr)
agenttape01 = Importer(is_of_agenttape01, import_agenttape01)
otel = Importer(is_of_traces, import_otel)
