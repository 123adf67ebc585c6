"""Observe runs through LangChain's callbacks: the handler is imported on first use, as sessions don't need it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agenttape_langchain.callbacks.handler import TapeCallbackHandler

__all__ = ["TapeCallbackHandler"]


def __getattr__(name: str) -> Any:
    """Import the handler when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agenttape_langchain.callbacks.handler import TapeCallbackHandler

    return TapeCallbackHandler
