"""Stand-ins made of a cassette, besides `ReplayChatModel`: no provider package, no key, no network, no session."""

from agenttape_langchain.stand_ins.compressors import ReplayDocumentCompressor
from agenttape_langchain.stand_ins.embeddings import ReplayEmbeddings
from agenttape_langchain.stand_ins.histories import ReplayChatMessageHistory
from agenttape_langchain.stand_ins.llms import ReplayLLM
from agenttape_langchain.stand_ins.retrievers import ReplayRetriever
from agenttape_langchain.stand_ins.stores import ReplayStore
from agenttape_langchain.stand_ins.tools import ReplayTool
from agenttape_langchain.stand_ins.vector_stores import ReplayVectorStore

__all__ = [
    "ReplayChatMessageHistory",
    "ReplayDocumentCompressor",
    "ReplayEmbeddings",
    "ReplayLLM",
    "ReplayRetriever",
    "ReplayStore",
    "ReplayTool",
    "ReplayVectorStore",
]
