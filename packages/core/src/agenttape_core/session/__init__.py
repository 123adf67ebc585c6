"""One use of one cassette: the current session, what happens on a call, the latch and the report."""

from agenttape_core.session.codecs import register_codecs, value_codec
from agenttape_core.session.crossing import Boundary, Crossing
from agenttape_core.session.current import (
    context_session,
    current_scope,
    current_session,
    executing,
    register_scope,
    watch_crossings,
)
from agenttape_core.session.ports import IndexRow, Sink, Source
from agenttape_core.session.refingerprinted import compared_by
from agenttape_core.session.report import Crossed, Report
from agenttape_core.session.session import Session
from agenttape_core.session.shells import aintercept, aintercept_stream, intercept, intercept_stream

__all__ = [
    "Boundary",
    "Crossed",
    "Crossing",
    "IndexRow",
    "Report",
    "Session",
    "Sink",
    "Source",
    "aintercept",
    "aintercept_stream",
    "compared_by",
    "context_session",
    "current_scope",
    "current_session",
    "executing",
    "intercept",
    "intercept_stream",
    "register_codecs",
    "register_scope",
    "value_codec",
    "watch_crossings",
]
