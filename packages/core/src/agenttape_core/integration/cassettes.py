"""Cassettes as files: for the parts of an integration that read a recorded run, fork it, or write another one."""

from agenttape_core.lifecycle.derived import deriving
from agenttape_core.lifecycle.header import redactor_for
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.matching import (
    Asked,
    IdMap,
    Ignored,
    Matcher,
    Selector,
    Way,
    differences,
    rank_name,
    recorded_request,
)
from agenttape_core.redaction import Redactor
from agenttape_core.redaction.pseudonyms import holds_pseudonym
from agenttape_core.session import CallRecord
from agenttape_core.session.report import why_not_run
from agenttape_core.storage import Cassette, Location, write_cassette

__all__ = [
    "Asked",
    "CallRecord",
    "Cassette",
    "IdMap",
    "Ignored",
    "Location",
    "Matcher",
    "Redactor",
    "Selector",
    "Way",
    "deriving",
    "differences",
    "holds_pseudonym",
    "project_settings",
    "rank_name",
    "recorded_request",
    "redactor_for",
    "why_not_run",
    "write_cassette",
]
