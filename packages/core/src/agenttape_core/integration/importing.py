"""Importers: making a cassette of a recording that another tool has made."""

from agenttape_core.lifecycle.imported import Graded, Importer, Importing, ImportReport, Told

__all__ = ["Graded", "ImportReport", "Importer", "Importing", "Told"]
