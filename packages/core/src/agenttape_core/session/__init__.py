"""One use of one cassette: the current session, what happens on a call, the latch and the report."""

from agenttape_core.session.base_session import BaseSession, Slot
from agenttape_core.session.boundary import Boundary, RefusedCrossing
from agenttape_core.session.codecs import plain_value, register_codecs, value_codec
from agenttape_core.session.context import as_observed, context_session, current_session
from agenttape_core.session.crossing import Crossing, watch_crossings
from agenttape_core.session.executed_crossing import ExecutedCrossing, PartCrossing, executing, redacted_effects
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
from agenttape_core.session.miss import register_address_reader
from agenttape_core.session.pacing import Tempo
from agenttape_core.session.ports import Sink, Source
from agenttape_core.session.positions import below, current_scope, here, register_position, register_scope
from agenttape_core.session.recorded_errors import record_error
from agenttape_core.session.report import Crossed, Report
from agenttape_core.session.scopes import taking_part
from agenttape_core.session.served_crossing import ServedCrossing
from agenttape_core.session.session import Session
from agenttape_core.session.setup import Setup
from agenttape_core.session.sources import EMPTY, Edited, compared_by
from agenttape_core.session.steps import StepEvent, record_step
from agenttape_core.session.turns import Turns

__all__ = [
    "EMPTY",
    "BaseSession",
    "Boundary",
    "Crossed",
    "Crossing",
    "Edited",
    "ExecutedCrossing",
    "PartCrossing",
    "RefusedCrossing",
    "Report",
    "ServedCrossing",
    "Session",
    "Setup",
    "Sink",
    "Slot",
    "Source",
    "StepEvent",
    "Tempo",
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
    "register_position",
    "register_scope",
    "serve",
    "serve_stream",
    "taking_part",
    "value_codec",
    "watch_crossings",
]
