"""AgentTape for LangChain: record an agent's run once, replay it offline, identical."""

from typing import TYPE_CHECKING, Any

from agenttape_core import ConfigurationError
from agenttape_core.integration import register_codecs, register_packages
from agenttape_langchain.cache import TapeCache
from agenttape_langchain.callbacks import TapeCallbackHandler
from agenttape_langchain.codec import CODECS
from agenttape_langchain.stand_ins.chat_models import ReplayChatModel
from agenttape_langchain.tape import tape

if TYPE_CHECKING:
    from agenttape_langchain.middleware import TapeMiddleware
    from agenttape_langchain.stand_ins import (
        ReplayChatMessageHistory,
        ReplayDocumentCompressor,
        ReplayEmbeddings,
        ReplayLLM,
        ReplayRetriever,
        ReplayStore,
        ReplayTool,
        ReplayVectorStore,
    )

_STAND_INS = (
    "ReplayChatMessageHistory",
    "ReplayDocumentCompressor",
    "ReplayEmbeddings",
    "ReplayLLM",
    "ReplayRetriever",
    "ReplayStore",
    "ReplayTool",
    "ReplayVectorStore",
)

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
    "tape",
]

register_codecs(CODECS)  # here and not where sessions connect: a handler or a stand-in model may be alone
register_packages(
    {
        "agenttape_langchain": "agenttape-langchain",
        "langchain": "langchain",
        "langchain_core": "langchain-core",
        "langgraph": "langgraph",  # agents of LangChain run on it, whether or not its own integration is installed
    }
)


def __getattr__(name: str) -> Any:
    """Import what few need, or what needs more than `langchain-core`, when it is asked for."""
    if name in _STAND_INS:
        from agenttape_langchain import stand_ins

        return getattr(stand_ins, name)
    if name != "TapeMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from agenttape_langchain.middleware import TapeMiddleware
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in {"langchain", "langgraph"}:
            raise
        raise ConfigurationError(
            f"TapeMiddleware is for agents of the package langchain, and {package} is not installed\n"
            "  pip install langchain"
        ) from missing
    return TapeMiddleware
