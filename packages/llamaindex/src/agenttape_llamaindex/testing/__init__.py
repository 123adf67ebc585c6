"""The requirements of LlamaIndex on LLMs and embedding models as tests, for authors of packages."""

from agenttape_core.testing import CheckResult, run_conformance
from agenttape_llamaindex.testing.capturing import capturing
from agenttape_llamaindex.testing.conformance import EmbeddingConformance, LLMConformance
from agenttape_llamaindex.testing.llm_hooks import Weather

__all__ = ["CheckResult", "EmbeddingConformance", "LLMConformance", "Weather", "capturing", "run_conformance"]
