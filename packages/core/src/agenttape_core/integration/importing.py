"""Importers: making a cassette of a recording that another tool has made."""

from agenttape_core.lifecycle.imported import CallFacts, Graded, Importer, Importing, ImportReport

__all__ = ["CallFacts", "Graded", "ImportReport", "Importer", "Importing"]
