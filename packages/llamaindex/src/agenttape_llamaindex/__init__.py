"""AgentTape for LlamaIndex: record a LlamaIndex run once, replay it forever: offline, free, identical."""

import importlib
from typing import TYPE_CHECKING, Any

import agenttape_core
from agenttape_core.integration.patching import register_packages
from agenttape_llamaindex.tape import tape

if TYPE_CHECKING:
    from agenttape_core import boundary, use_cassette
    from agenttape_llamaindex.callbacks import TapeEventHandler
    from agenttape_llamaindex.stand_ins.embeddings import ReplayEmbedding, ReplaySparseEmbedding
    from agenttape_llamaindex.stand_ins.llms import ReplayLLM
    from agenttape_llamaindex.stand_ins.retrievers import ReplayNodePostprocessor, ReplayReader, ReplayRetriever
    from agenttape_llamaindex.stand_ins.stores import (
        ReplayChatStore,
        ReplayKVStore,
        ReplayMemory,
        ReplayPropertyGraphStore,
        ReplayVectorStore,
    )
    from agenttape_llamaindex.stand_ins.tools import ReplayTool
    from agenttape_llamaindex.threads import ThreadReplay, areplay_thread, export_thread, replay_thread
    from agenttape_llamaindex.workflows import RecordedEvent, RecordedStep, TapeRuntime, context_at, steps_of

_LATE = {
    "RecordedEvent": "workflows",
    "RecordedStep": "workflows",
    "ReplayChatStore": "stand_ins.stores",
    "ReplayEmbedding": "stand_ins.embeddings",
    "ReplayKVStore": "stand_ins.stores",
    "ReplayLLM": "stand_ins.llms",
    "ReplayMemory": "stand_ins.stores",
    "ReplayNodePostprocessor": "stand_ins.retrievers",
    "ReplayPropertyGraphStore": "stand_ins.stores",
    "ReplayReader": "stand_ins.retrievers",
    "ReplayRetriever": "stand_ins.retrievers",
    "ReplaySparseEmbedding": "stand_ins.embeddings",
    "ReplayTool": "stand_ins.tools",
    "ReplayVectorStore": "stand_ins.stores",
    "TapeEventHandler": "callbacks",
    "TapeRuntime": "workflows",
    "ThreadReplay": "threads",
    "areplay_thread": "threads",
    "context_at": "workflows",
    "export_thread": "threads",
    "replay_thread": "threads",
    "steps_of": "workflows",
}
"""The modules of names, imported when they are first used: importing LlamaIndex itself takes more than a second."""

__all__ = [
    "RecordedEvent",
    "RecordedStep",
    "ReplayChatStore",
    "ReplayEmbedding",
    "ReplayKVStore",
    "ReplayLLM",
    "ReplayMemory",
    "ReplayNodePostprocessor",
    "ReplayPropertyGraphStore",
    "ReplayReader",
    "ReplayRetriever",
    "ReplaySparseEmbedding",
    "ReplayTool",
    "ReplayVectorStore",
    "TapeEventHandler",
    "TapeRuntime",
    "ThreadReplay",
    "areplay_thread",
    "boundary",
    "context_at",
    "export_thread",
    "replay_thread",
    "steps_of",
    "tape",
    "use_cassette",
]

register_packages(
    {
        "agenttape_llamaindex": "agenttape-llamaindex",
        "llama_index.core": "llama-index-core",
        "workflows": "llama-index-workflows",
    }
)


_OF_CORE = ("boundary", "use_cassette")
"""The names of core that most programs need."""


def __getattr__(name: str) -> Any:
    """Import a name late, when it is first used."""
    if name in _OF_CORE:
        return getattr(agenttape_core, name)
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    importlib.import_module("llama_index")  # first: an open session connects it, and imports all of this package
    importlib.import_module(f"{__name__}.codec")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_LATE[name]}"), name)
    return value
