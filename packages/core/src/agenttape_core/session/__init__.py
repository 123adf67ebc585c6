"""One use of one cassette: the current session, what happens on a call, the latch and the report."""

from agenttape_core.session.codecs import register_codecs, value_codec
from agenttape_core.session.context import (
    as_observed,
    context_session,
    current_session,
    executing,
    taking_part,
    watch_crossings,
)
from agenttape_core.session.crossing import Boundary, Crossing, redacted_effects
from agenttape_core.session.intercept import (
    aintercept,
    aintercept_stream,
    aserve,
    aserve_stream,
    intercept,
    intercept_stream,
    serve,
    serve_stream,
)
from agenttape_core.session.pacing import Tempo
from agenttape_core.session.ports import Sink, Source
from agenttape_core.session.positions import (
    below,
    current_scope,
    here,
    register_address_reader,
    register_place,
    register_scope,
)
from agenttape_core.session.recorded_errors import record_error
from agenttape_core.session.report import Crossed, Report
from agenttape_core.session.session import Session
from agenttape_core.session.shared_texts import Texts
from agenttape_core.session.sources import Edited, compared_by
from agenttape_core.session.steps import StepEvent, plain_value, record_step
from agenttape_core.session.turns import Turns

__all__ = [
    "Boundary",
    "Crossed",
    "Crossing",
    "Edited",
    "Report",
    "Session",
    "Sink",
    "Source",
    "StepEvent",
    "Tempo",
    "Texts",
    "Turns",
    "aintercept",
    "aintercept_stream",
    "as_observed",
    "aserve",
    "aserve_stream",
    "below",
    "compared_by",
    "context_session",
    "current_scope",
    "current_session",
    "executing",
    "here",
    "intercept",
    "intercept_stream",
    "plain_value",
    "record_error",
    "record_step",
    "redacted_effects",
    "register_address_reader",
    "register_codecs",
    "register_place",
    "register_scope",
    "serve",
    "serve_stream",
    "taking_part",
    "value_codec",
    "watch_crossings",
]
