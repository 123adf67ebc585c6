"""The recorded answers that have moved a call, each tested by replaying with that answer changed."""

from agenttape_core.tools.why.account import Why
from agenttape_core.tools.why.flow import RESULT, Edge, Flow
from agenttape_core.tools.why.tracing import flow_of, why

__all__ = ["RESULT", "Edge", "Flow", "Why", "flow_of", "why"]
