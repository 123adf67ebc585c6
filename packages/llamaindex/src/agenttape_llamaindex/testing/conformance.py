"""The two suites of the kit: every check that must hold for an LLM and for an embedding model."""

from __future__ import annotations

from agenttape_llamaindex.testing.embedding_checks.batches import BatchChecks
from agenttape_llamaindex.testing.embedding_checks.embedding_events import EmbeddingEventChecks
from agenttape_llamaindex.testing.embedding_checks.embedding_objects import EmbeddingObjectChecks
from agenttape_llamaindex.testing.embedding_checks.vectors import VectorChecks
from agenttape_llamaindex.testing.llm_checks.answers import AnswerChecks
from agenttape_llamaindex.testing.llm_checks.blocks import BlockChecks
from agenttape_llamaindex.testing.llm_checks.concurrency import ConcurrencyChecks
from agenttape_llamaindex.testing.llm_checks.events import EventChecks
from agenttape_llamaindex.testing.llm_checks.failures import FailureChecks
from agenttape_llamaindex.testing.llm_checks.objects import ObjectChecks
from agenttape_llamaindex.testing.llm_checks.prompts import PromptChecks
from agenttape_llamaindex.testing.llm_checks.streams import StreamChecks
from agenttape_llamaindex.testing.llm_checks.structured import StructuredChecks
from agenttape_llamaindex.testing.llm_checks.tools import ToolChecks


class LLMConformance(
    AnswerChecks,
    StreamChecks,
    PromptChecks,
    ToolChecks,
    StructuredChecks,
    BlockChecks,
    EventChecks,
    FailureChecks,
    ObjectChecks,
    ConcurrencyChecks,
):
    """The suite for an LLM of LlamaIndex. Derive from it, define `make`, and run pytest.

    `LLMHooks` has further options. Each `test_*` method is one check. Checks about features that an LLM does not have
    are skipped with the reason. Pytest is not needed: `run_conformance` runs the checks too.
    """


class EmbeddingConformance(VectorChecks, BatchChecks, EmbeddingEventChecks, EmbeddingObjectChecks):
    """The suite for an embedding model of LlamaIndex. Derive from it, define `make`, and run pytest.

    `EmbeddingHooks` has further options.
    """
