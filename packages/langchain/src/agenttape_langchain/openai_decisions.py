"""Substitute OpenAI's decision models: they're runnables of `langchain_openai` with an interface of their own.

Imported only once the program has imported that module.
"""

from __future__ import annotations

from typing import Any

import langchain_core.decisions.base  # noqa: F401 - first: our module for it is loaded when it is imported
from langchain_openai.decisions.base import OpenAIDecisions

from agenttape_core.integration import Crossing, Family, Leaf, begin, coroutine, plain
from agenttape_langchain.decision_requests import DECISION, decision_body
from agenttape_langchain.decisions import position_of_run


def _cross(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Crossing | None:
    request = args[0] if args else kwargs["request"]
    return begin(DECISION, self, type(self).__name__, lambda _: decision_body(self.model, request), position_of_run)


OPENAI_DECISIONS = Family(
    OpenAIDecisions,
    {"_decide": Leaf(plain, _cross), "_adecide": Leaf(coroutine, _cross)},
    defaults=frozenset({"_decide", "_adecide"}),
)
"""The decision models of `langchain_openai`."""
