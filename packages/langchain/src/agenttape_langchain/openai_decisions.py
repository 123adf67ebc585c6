"""Substitute OpenAI's decision models: they're runnables of `langchain_openai` with their own interface.

Imported only once the program has imported that module, which older releases of langchain-core lack.
"""

from __future__ import annotations

from typing import Any

from langchain_openai.decisions.base import OpenAIDecisions

from agenttape_core.integration import Call, Cross, Family, Leaf, SessionCall, begin, coroutine, leaf_call, plain
from agenttape_langchain.decision_requests import DECISION, decision_body, position_of_run


def _cross(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    request = args[0] if args else kwargs["request"]
    return begin(DECISION, self, type(self).__name__, lambda _: decision_body(self.model, request), position_of_run)


def _describe(real: Any, cross: Cross, self: Any, /, *args: Any, **kwargs: Any) -> Call:
    """Describe a call. Its leaf also notes the tokens on LangSmith's run, which a replayed one has to do too."""
    return leaf_call(unpack=self._record_usage)(real, cross, self, *args, **kwargs)


OPENAI_DECISIONS = Family(
    OpenAIDecisions,
    {"_decide": Leaf(plain, _cross, _describe), "_adecide": Leaf(coroutine, _cross, _describe)},
    defaults=frozenset({"_decide", "_adecide"}),
)
"""The decision models of `langchain_openai`."""
