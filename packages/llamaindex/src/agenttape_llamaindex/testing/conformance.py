"""The two suites of the kit: every point that must hold for an LLM and for an embedding model."""

from __future__ import annotations

from agenttape_llamaindex.testing.embedding_points.batches import BatchPoints
from agenttape_llamaindex.testing.embedding_points.embedding_events import EmbeddingEventPoints
from agenttape_llamaindex.testing.embedding_points.embedding_objects import EmbeddingObjectPoints
from agenttape_llamaindex.testing.embedding_points.vectors import VectorPoints
from agenttape_llamaindex.testing.llm_points.answers import AnswerPoints
from agenttape_llamaindex.testing.llm_points.blocks import BlockPoints
from agenttape_llamaindex.testing.llm_points.concurrency import ConcurrencyPoints
from agenttape_llamaindex.testing.llm_points.events import EventPoints
from agenttape_llamaindex.testing.llm_points.failures import FailurePoints
from agenttape_llamaindex.testing.llm_points.objects import ObjectPoints
from agenttape_llamaindex.testing.llm_points.prompts import PromptPoints
from agenttape_llamaindex.testing.llm_points.streams import StreamPoints
from agenttape_llamaindex.testing.llm_points.structured import StructuredPoints
from agenttape_llamaindex.testing.llm_points.tools import ToolPoints


class LLMConformance(
    AnswerPoints,
    StreamPoints,
    PromptPoints,
    ToolPoints,
    StructuredPoints,
    BlockPoints,
    EventPoints,
    FailurePoints,
    ObjectPoints,
    ConcurrencyPoints,
):
    """The suite for an LLM of LlamaIndex. Derive from it, define `make`, and run pytest.

    `LLMHooks` has further options. Each `test_*` method is one point. Points about features that an LLM does not have
    are skipped with the reason. Pytest is not needed: `run_conformance` runs the points too.
    """


class EmbeddingConformance(VectorPoints, BatchPoints, EmbeddingEventPoints, EmbeddingObjectPoints):
    """The suite for an embedding model of LlamaIndex. Derive from it, define `make`, and run pytest.

    `EmbeddingHooks` has further options.
    """
