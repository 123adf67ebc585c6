"""Every leaf interface of LlamaIndex is a boundary, or code of the program for a reason that's given here."""

from __future__ import annotations

from agenttape_llamaindex.automatic import _FAMILIES
from agenttape_llamaindex.program_parts import PROGRAM_PARTS

from ..kit.leaf_interfaces import leaf_interfaces, unjudged, unneeded

_PARTS = "composes models, stores and tools, which are boundaries"
_FORMATS = "makes text, messages or nodes of values, in this process"
_PARSES = "reads text, in this process"
_OBSERVES = "a handler of the program: it observes, and runs in a replay"
_REFUSED = "not recorded as a whole: what it reaches over the network is refused in a replay"
_OVER_KV = "those of the core work over a key-value store, a boundary; " + _REFUSED
_DERIVED = "made of the leaf of the same class, or raises because its class has no such method"
_VOICE = "a live connection that has no end, and no request to compare; " + _REFUSED
_RUNTIME = "runs the program's steps; the ticks that it reports are recorded by handlers"
_CORE = "llama_index.core."
_PLUGIN = "workflows.runtime.types.plugin."

PROGRAM = {
    **{
        _CORE + name: reason
        for name, reason in {
            "agent.react.formatter.BaseAgentChatFormatter": _FORMATS,
            "agent.react.output_parser.ReActOutputParser": _PARSES,
            "agent.react.types.BaseReasoningStep": _FORMATS,
            "agent.workflow.base_agent.BaseWorkflowAgent": _PARTS,
            "base.base_auto_retriever.BaseAutoRetriever": _PARTS,
            "base.base_multi_modal_retriever.MultiModalRetriever": _REFUSED,
            "base.base_query_engine.BaseQueryEngine.asynthesize": _DERIVED,
            "base.base_query_engine.BaseQueryEngine.retrieve": _DERIVED,
            "base.base_query_engine.BaseQueryEngine.synthesize": _DERIVED,
            "callbacks.base_handler.BaseCallbackHandler": _OBSERVES,
            "chat_engine.types.BaseChatEngine.reset": "forgets a chat history in this process",
            "data_structs.data_structs.IndexStruct": _FORMATS,
            "evaluation.retrieval.base.BaseRetrievalEvaluator": _PARTS,
            "evaluation.retrieval.metrics_base.BaseRetrievalMetric": "computes, in this process",
            "graph_stores.simple.SimpleGraphStore": _DERIVED,
            "graph_stores.simple_labelled.SimplePropertyGraphStore": _DERIVED,
            "graph_stores.types.LabelledNode": _FORMATS,
            "image_retriever.BaseImageRetriever": _REFUSED,
            "indices.base.BaseIndex": _PARTS,
            "indices.empty.base.EmptyIndex": _DERIVED,
            "indices.keyword_table.base.BaseKeywordTableIndex": _PARTS,
            "indices.keyword_table.retrievers.BaseKeywordTableRetriever": _PARTS,
            "indices.knowledge_graph.base.KnowledgeGraphIndex": _DERIVED,
            "indices.managed.base.BaseManagedIndex": _REFUSED,
            "indices.property_graph.base.PropertyGraphIndex": _DERIVED,
            "indices.property_graph.sub_retrievers.base.BasePGRetriever": _PARTS,
            "indices.property_graph.sub_retrievers.custom.CustomPGRetriever": _PARTS,
            "indices.struct_store.base.BaseStructStoreIndex": _DERIVED,
            "indices.struct_store.sql.SQLStructStoreIndex": _DERIVED,
            "indices.struct_store.sql_retriever.BaseSQLParser": _PARSES,
            "indices.tree.base.TreeIndex": _DERIVED,
            "llms.function_calling.FunctionCallingLLM": "makes a request or reads an answer; leaf calls are boundaries",
            "memory.types.BaseChatStoreMemory.from_defaults": "makes an object",
            "memory.types.BaseMemory.from_defaults": "makes an object",
            "multi_modal_llms.base.MultiModalLLM": "superseded by LLMs that take blocks; " + _REFUSED,
            "node_parser.interface.MetadataAwareTextSplitter.split_text_metadata_aware": _FORMATS,
            "node_parser.relational.base_element.BaseElementNodeParser": _FORMATS,
            "objects.fn_node_mapping.FnNodeMapping": _DERIVED,
            "objects.table_node_mapping.SQLTableNodeMapping": _DERIVED,
            "objects.tool_node_mapping.BaseQueryToolNodeMapping": _DERIVED,
            "objects.tool_node_mapping.BaseToolNodeMapping": _DERIVED,
            "program.llm_prompt_program.BaseLLMFunctionProgram": "makes an object",
            "prompts.base.BasePromptTemplate": _FORMATS,
            "prompts.mixin.PromptMixin": _FORMATS,
            "query_engine.custom.CustomQueryEngine": "its `_query`, code that a replay runs, calls it",
            "query_engine.flare.answer_inserter.BaseLookaheadAnswerInserter": _PARTS,
            "query_engine.flare.output_parser.IsDoneOutputParser": _PARSES,
            "query_engine.flare.output_parser.QueryTaskOutputParser": _PARSES,
            "readers.base.ResourcesReaderMixin": _REFUSED,
            "readers.file.base.FileSystemReaderMixin": "reads local files in a replay, too; " + _REFUSED,
            "response_synthesizers.base.BaseSynthesizer.aget_response_from_messages": _PARTS,
            "response_synthesizers.base.BaseSynthesizer.get_response_from_messages": _PARTS,
            "schema.BaseNode": _FORMATS,
            "service_context_elements.llm_predictor.BaseLLMPredictor": _PARTS,
            "storage.docstore.types.BaseDocumentStore": _OVER_KV,
            "storage.index_store.types.BaseIndexStore": _OVER_KV,
            "storage.kvstore.types.BaseInMemoryKVStore": "reads and writes a local file of a store in this process",
            "storage.kvstore.types.MutableMappingKVStore": "reads and writes a local file of a store in this process",
            "tools.retriever_tool.RetrieverTool": _DERIVED,
            "types.BaseOutputParser": _PARSES,
            "types.BasePydanticProgram.astream_call": _PARTS,
            "types.BasePydanticProgram.stream_call": _PARTS,
            "voice_agents.base.BaseVoiceAgent": _VOICE,
            "voice_agents.interface.BaseVoiceAgentInterface": _VOICE,
            "voice_agents.websocket.BaseVoiceAgentWebsocket": _VOICE,
        }.items()
    },
    "llama_index_instrumentation.base.handler.BaseInstrumentationHandler": _OBSERVES,
    "llama_index_instrumentation.event_handlers.base.BaseEventHandler": _OBSERVES,
    "llama_index_instrumentation.span_handlers.base.BaseSpanHandler": _OBSERVES,
    "workflows.context.serializers.BaseSerializer": _FORMATS,
    **{
        _PLUGIN + name: _RUNTIME
        for name in (
            "ExternalRunAdapter",
            "InternalRunAdapter",
            "Runtime",
            "SnapshottableAdapter",
            "V2RuntimeCompatibilityShim",
        )
    },
}
"""The interfaces that are no boundaries, each with the reason."""

FOUND = leaf_interfaces("llama_index.core", "workflows", "llama_index_instrumentation")
BOUNDARIES = [(family.base, leaf) for family in (*_FAMILIES, *PROGRAM_PARTS) for leaf in family.leaves]


def test_every_leaf_interface_is_judged() -> None:
    """An interface that a new version of LlamaIndex adds is a boundary, or has a reason not to be one."""
    assert unjudged(FOUND, BOUNDARIES, PROGRAM) == []


def test_no_reason_is_left_over() -> None:
    """Each reason is about an interface that there is."""
    assert unneeded(FOUND, PROGRAM) == []


def test_an_unknown_interface_would_be_found() -> None:
    """Without the boundaries of LLMs, their leaf methods are reported."""
    without = [(base, leaf) for base, leaf in BOUNDARIES if leaf != "astream_chat"]
    assert "llama_index.core.base.llms.base.BaseLLM.astream_chat" in unjudged(FOUND, without, PROGRAM)
