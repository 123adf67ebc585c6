"""`tape`: one verb for everything that can be taped."""

from __future__ import annotations

from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from agenttape_core import ConfigurationError
from agenttape_langchain.chat_models import tape_chat_model
from agenttape_langchain.tools import tape_tool

T = TypeVar("T")


def tape(obj: T) -> T:
    """Return an object of the same kind whose real work is recorded and replayed by the session in force.

    Outside any session it behaves exactly as `obj` does, whose state it shares. Taping twice is taping once.

    Args:
        obj: A chat model or a tool.

    Raises:
        ConfigurationError: If `obj` is neither.
    """
    taped: Any
    if isinstance(obj, BaseChatModel):
        taped = tape_chat_model(obj)
    elif isinstance(obj, BaseTool):
        taped = tape_tool(obj)
    else:
        raise ConfigurationError(
            f"cannot tape {type(obj).__module__}.{type(obj).__qualname__}: expected a chat model or a tool\n"
            "  tape its parts instead, or open a session with ambient=True, which tapes every part it meets"
        )
    return taped  # type: ignore[no-any-return]
