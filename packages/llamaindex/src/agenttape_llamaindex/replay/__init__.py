"""Stand-ins made of a cassette: no provider package, no key, no network."""

from agenttape_llamaindex.replay.embeddings import ReplayEmbedding
from agenttape_llamaindex.replay.llms import ReplayLLM
from agenttape_llamaindex.replay.retrievers import ReplayRetriever

__all__ = ["ReplayEmbedding", "ReplayLLM", "ReplayRetriever"]
