"""Tables of rules: a row for each way in which text gives a secret away, with an example of it."""

from __future__ import annotations

from agenttape_core.redaction.detection.tables.code import CODE
from agenttape_core.redaction.detection.tables.command_lines import COMMAND_LINES
from agenttape_core.redaction.detection.tables.databases import DATABASES
from agenttape_core.redaction.detection.tables.network import DEVICES, PROTOCOLS, URLS
from agenttape_core.redaction.detection.tables.row import Tables
from agenttape_core.redaction.detection.tables.sentences import SENTENCES

TABLES = Tables(CODE + COMMAND_LINES + DATABASES + PROTOCOLS + DEVICES + URLS + SENTENCES)
"""All rows of all tables."""
