"""What retrievers, rerankers, stores and tools are asked, in the terms that all our cassettes share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import VectorStoreQuery

from agenttape_core.codecs import Floats, packed
from agenttape_core.substitution import asked
from agenttape_llamaindex.requests import plain_message


def tool_body(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a tool call.

    Args:
        name: The tool.
        arguments: Its arguments by name; nothing that the framework passes.
    """
    return {"name": name, "arguments": {key: argument(value) for key, value in arguments.items()}}


def retrieval_body(query: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a retriever.

    Args:
        query: What is looked for: a text, or the parts of a query that has more.
        settings: How: what the retriever and the call say of it.
    """
    return {"query": argument(query), **({"settings": asked(settings)} if settings else {})}


def method_body(method: str, arguments: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a call of one of several methods, as those of a store.

    Args:
        method: The method; the one name of its synchronous and its asynchronous form.
        arguments: Its arguments by name; nothing is what an argument is that is not given.
        settings: Which store it is, of several of its class.
    """
    body = {"method": method, "arguments": {k: argument(v) for k, v in arguments.items() if v is not None}}
    return {**body, **({"settings": asked(settings)} if settings else {})}


def argument(value: Any) -> Any:
    """Return a request value as plain data, seeing into messages, nodes and queries wherever they stand."""
    for cls, plain in _PLAIN.items():
        if isinstance(value, cls):
            return plain(value)
    if type(value) in {list, tuple}:
        vector = packed(value)
        return vector if type(vector) is Floats else [argument(item) for item in value]
    if type(value) is dict:
        return {str(key): argument(item) for key, item in value.items()}
    return asked(value)


def _node(node: BaseNode) -> dict[str, Any]:
    """Return a node as those see it who read it; its id is one of the run."""
    plain = {"content": node.get_content(MetadataMode.NONE), "metadata": asked(node.metadata), "id": node.node_id}
    return plain if node.embedding is None else {**plain, "embedding": argument(node.embedding)}


def _scored(node: NodeWithScore) -> dict[str, Any]:
    plain = _node(node.node)
    return plain if node.score is None else {**plain, "score": node.score}


def _query(query: Any) -> dict[str, Any]:
    return {key: argument(value) for key, value in vars(query).items() if value is not None}


_PLAIN: dict[type, Any] = {
    ChatMessage: plain_message,
    NodeWithScore: _scored,
    BaseNode: _node,
    VectorStoreQuery: _query,
    QueryBundle: _query,
}
