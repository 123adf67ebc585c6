"""AgentTape for LangChain: record an agent's run once, replay it offline, identical."""

import importlib
import sys
from typing import TYPE_CHECKING, Any

import agenttape_core
from agenttape_core.on_demand import LatePackage, register_late

if TYPE_CHECKING:
    from agenttape_core import boundary, use_cassette
    from agenttape_langchain.cache import TapeCache
    from agenttape_langchain.callbacks import TapeCallbackHandler
    from agenttape_langchain.middleware import TapeMiddleware
    from agenttape_langchain.stand_ins.chat_models import ReplayChatModel
    from agenttape_langchain.stand_ins.embeddings import ReplayEmbeddings
    from agenttape_langchain.stand_ins.llms import ReplayLLM
    from agenttape_langchain.stand_ins.retrievers import ReplayDocumentCompressor, ReplayRetriever
    from agenttape_langchain.stand_ins.stores import ReplayChatMessageHistory, ReplayStore, ReplayVectorStore
    from agenttape_langchain.stand_ins.tools import ReplayTool
    from agenttape_langchain.tape import tape

_LATE = {
    "ReplayChatModel": "stand_ins.chat_models",
    "ReplayChatMessageHistory": "stand_ins.stores",
    "ReplayDocumentCompressor": "stand_ins.retrievers",
    "ReplayEmbeddings": "stand_ins.embeddings",
    "ReplayLLM": "stand_ins.llms",
    "ReplayRetriever": "stand_ins.retrievers",
    "ReplayStore": "stand_ins.stores",
    "ReplayTool": "stand_ins.tools",
    "ReplayVectorStore": "stand_ins.stores",
    "TapeCache": "cache",
    "TapeCallbackHandler": "callbacks",
    "TapeMiddleware": "middleware",
    "tape": "tape",
}
"""The modules of names, imported when they are first used."""

__all__ = [
    "ReplayChatMessageHistory",
    "ReplayChatModel",
    "ReplayDocumentCompressor",
    "ReplayEmbeddings",
    "ReplayLLM",
    "ReplayRetriever",
    "ReplayStore",
    "ReplayTool",
    "ReplayVectorStore",
    "TapeCache",
    "TapeCallbackHandler",
    "TapeMiddleware",
    "boundary",
    "tape",
    "use_cassette",
]

register_late("agenttape_langchain.registered")


_OF_CORE = ("boundary", "use_cassette")
"""The names of core that most programs need."""


def __getattr__(name: str) -> Any:
    """Import a name late, when it is first used."""
    if name in _OF_CORE:
        return getattr(agenttape_core, name)
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    importlib.import_module("langchain_core")  # first: an open session connects it, and imports all of this package
    try:
        return getattr(importlib.import_module(f"{__name__}.{_LATE[name]}"), name)
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in {"langchain", "langgraph"}:
            raise
        from agenttape_core.errors import ConfigurationError

        raise ConfigurationError(
            f"{name} is for agents of the package langchain, and {package} is not installed\n  pip install langchain"
        ) from missing


sys.modules[__name__].__class__ = LatePackage
