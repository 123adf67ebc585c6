"""AgentTape for LlamaIndex: record a LlamaIndex run once, replay it forever: offline, free, identical."""

from agenttape_core.integration import register_codecs, register_packages
from agenttape_llamaindex.callbacks import TapeEventHandler
from agenttape_llamaindex.codec import CODECS
from agenttape_llamaindex.stand_ins import ReplayEmbedding, ReplayLLM, ReplayRetriever
from agenttape_llamaindex.tape import tape
from agenttape_llamaindex.workflows import RecordedEvent, RecordedStep, TapeRuntime, context_at, steps_of

__all__ = [
    "RecordedEvent",
    "RecordedStep",
    "ReplayEmbedding",
    "ReplayLLM",
    "ReplayRetriever",
    "TapeEventHandler",
    "TapeRuntime",
    "context_at",
    "steps_of",
    "tape",
]

register_codecs(CODECS)  # not when the first session opens: a handler or a stand-in may be used without any
register_packages(
    {
        "agenttape_llamaindex": "agenttape-llamaindex",
        "llama_index.core": "llama-index-core",
        "workflows": "llama-index-workflows",
    }
)
