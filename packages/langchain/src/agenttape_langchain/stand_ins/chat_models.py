"""The place of `ReplayChatModel`, at hand as soon as the package is imported; the class is made on first use.

Building one of LangChain's chat model classes takes longer than importing the rest of the modules that a program
without one needs.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agenttape_langchain.stand_ins.replay_chat_model import ReplayChatModel

__all__ = ["ReplayChatModel"]


def __getattr__(name: str) -> Any:
    """Import the class."""
    if name != "ReplayChatModel":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agenttape_langchain.stand_ins.replay_chat_model import ReplayChatModel

    return ReplayChatModel
