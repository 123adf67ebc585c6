"""Stand-ins made of a cassette, besides `ReplayChatModel`: no provider package, no key, no network, no session."""

from agenttape_langchain.standalone.compressors import ReplayDocumentCompressor
from agenttape_langchain.standalone.embeddings import ReplayEmbeddings
from agenttape_langchain.standalone.histories import ReplayChatMessageHistory
from agenttape_langchain.standalone.llms import ReplayLLM
from agenttape_langchain.standalone.retrievers import ReplayRetriever
from agenttape_langchain.standalone.stores import ReplayStore
from agenttape_langchain.standalone.tools import ReplayTool
from agenttape_langchain.standalone.vector_stores import ReplayVectorStore

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
