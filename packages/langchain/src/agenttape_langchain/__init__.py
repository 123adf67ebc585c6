"""AgentTape for LangChain: record an agent's run once, replay it offline, identical."""

from agenttape_core.integration import register_codecs
from agenttape_langchain.callbacks import TapeCallbackHandler
from agenttape_langchain.codec import CODECS
from agenttape_langchain.replay import ReplayChatModel
from agenttape_langchain.taping import tape

__all__ = ["ReplayChatModel", "TapeCallbackHandler", "tape"]

register_codecs(CODECS)  # here and not where sessions connect: a handler or a stand-in model may be alone
