"""Stand-ins made of a cassette: no provider package, no key, no network."""

from agenttape_llamaindex.stand_ins.embeddings import ReplayEmbedding
from agenttape_llamaindex.stand_ins.llms import ReplayLLM
from agenttape_llamaindex.stand_ins.retrievers import ReplayRetriever

__all__ = ["ReplayEmbedding", "ReplayLLM", "ReplayRetriever"]
