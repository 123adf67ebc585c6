"""AgentTape for LangChain: record an agent's run once, replay it offline, identical."""

from agenttape_langchain.callbacks import TapeCallbackHandler
from agenttape_langchain.replay import ReplayChatModel
from agenttape_langchain.taping import tape

__all__ = ["ReplayChatModel", "TapeCallbackHandler", "tape"]
