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
from agenttape_core.session.pacing import Pace
from agenttape_core.session.ports import IndexRow, Sink, Source
from agenttape_core.session.refingerprinted import compared_by
from agenttape_core.session.report import Crossed, Report
from agenttape_core.session.session import Session
from agenttape_core.session.shells import (
    aintercept,
    aintercept_stream,
    aserve,
    aserve_stream,
    intercept,
    intercept_stream,
    serve,
    serve_stream,
)
from agenttape_core.session.steps import Happening, plain_value, record_step

__all__ = [
    "Boundary",
    "Crossed",
    "Crossing",
    "Happening",
    "IndexRow",
    "Pace",
    "Report",
    "Session",
    "Sink",
    "Source",
    "aintercept",
    "aintercept_stream",
    "aserve",
    "aserve_stream",
    "compared_by",
    "context_session",
    "current_scope",
    "current_session",
    "executing",
    "intercept",
    "intercept_stream",
    "plain_value",
    "record_step",
    "register_codecs",
    "register_scope",
    "serve",
    "serve_stream",
    "value_codec",
    "watch_crossings",
]
