"""The requirements of LlamaIndex on LLMs and embedding models as tests, for authors of packages."""

from agenttape_core.testing import PointResult, run_conformance
from agenttape_llamaindex.testing.conformance import EmbeddingConformance, LLMConformance
from agenttape_llamaindex.testing.llm_hooks import Weather

__all__ = ["EmbeddingConformance", "LLMConformance", "PointResult", "Weather", "run_conformance"]
