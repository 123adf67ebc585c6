"""Substitute the answers of decision models (`langchain_core.decisions`, since langchain-core 1.8).

Imported only once the program has imported that module. A decision model answers typed questions about a state: which
model to route to, which tool call is risky. LangChain reports its runs as chains of the type `llm`.
"""

from __future__ import annotations

from typing import Any

from langchain_core.decisions.base import BaseDecisionModel

from agenttape_core.integration import (
    Family,
    Leaf,
    Session,
    SessionCall,
    begin,
    coroutine,
    named_arguments,
    plain,
    settings_of,
)
from agenttape_core.integration.object_settings import MODEL_SETTINGS
from agenttape_core.integration.request_values import as_recorded
from agenttape_langchain.decision_requests import DECISION, decision_body, position_of_run


def _cross(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    arguments = named_arguments(None, ("state", "questions"), args, kwargs)

    def body(session: Session) -> Any:
        seen = decision_body(self.model, arguments)
        return as_recorded(session, DECISION, {**settings_of(self, MODEL_SETTINGS), **seen}, seen)

    return begin(DECISION, self, type(self).__name__, body, position_of_run)


DECISION_MODELS = Family(
    BaseDecisionModel,
    {"_classify": Leaf(plain, _cross), "_aclassify": Leaf(coroutine, _cross)},
    defaults=frozenset({"_aclassify"}),  # it continues in a thread, while its caller may cancel it
)
"""Every decision model."""
