"""Requests of calls as plain data: the provider's view, in the terms that all our cassettes share."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from operator import is_not
from typing import Any
from weakref import WeakKeyDictionary

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms.llm import LLM
from llama_index.core.tools import ToolMetadata
from pydantic import BaseModel

from agenttape_core.integration import model_of, request_value, settings_of
from agenttape_core.integration.object_settings import MODEL_SETTINGS, public_fields
from agenttape_llamaindex.request_values import keyed_messages, plain_argument, plain_field

_TRANSPORT = frozenset({"stream", "streaming", "stream_options"})
"""Parameters about the transport of the answer, which aren't part of the request."""
_PYDANTICS: Any = getattr(BaseModel.model_json_schema, "__func__")  # noqa: B009 - mypy knows no such attribute


def chat_body(messages: Sequence[ChatMessage], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a chat.

    `params` are everything else that is sent: model, sampling, tools, tool choice, response format, stop words.
    """
    return {**params_body(params), "messages": keyed_messages(messages)}


def completion_body(prompt: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a completion. `params` are everything else that is sent, as for a chat."""
    return {**params_body(params), "prompts": [prompt]}


def embedding_body(texts: str | Sequence[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of an embedding call.

    `texts` is a query as one text, or a list of texts: many models embed the two differently.
    """
    return {**_given(settings), "input": texts if isinstance(texts, str) else list(texts)}


def image_embedding_body(images: Sequence[Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of an embedding call for images.

    `images` are paths or addresses, or open files, which are sent with their content.
    """
    return {**_given(settings), "images": [plain_field(image) for image in images]}


def identity_of(llm: Any) -> dict[str, Any]:
    """Return the part of an LLM's requests that it sends with each of them: which model, how it samples."""
    name = model_of(llm) or {"model": _model_name(llm)}
    if name["model"] is None:
        return public_fields(llm, LLM)
    return {**name, **settings_of(llm, MODEL_SETTINGS)}


def _model_name(llm: Any) -> str | None:
    name = llm.metadata.model_name
    return name if isinstance(name, str) and name != "unknown" else None


def params_body(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request without its messages or its prompt."""
    tools = params.get("tools")
    if not isinstance(tools, Sequence):
        return _given({key: value for key, value in params.items() if key not in _TRANSPORT})
    body = _given({key: value for key, value in params.items() if key not in _TRANSPORT and key != "tools"})
    return {**body, "tools": [_tool(tool) for tool in tools]}


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: request_value(value) for key, value in settings.items() if value is not None}


def _tool(tool: Any) -> Any:
    metadata: Any = getattr(tool, "metadata", None)
    if type(metadata) is ToolMetadata and metadata.fn_schema is not None:
        return _of_schema(metadata, metadata.fn_schema)
    if hasattr(metadata, "to_openai_tool"):
        tool = metadata.to_openai_tool(skip_length_check=True)
    return _plain_tool(tool)


_of_schemas: WeakKeyDictionary[type, tuple[tuple[Any, ...], Any]] = WeakKeyDictionary()
"""Tools as plain data with the objects that they were made from, by the class of their arguments.

An agent passes its tools on each call, and pydantic makes the schema of a class again whenever it is wanted.
"""


def _of_schema(metadata: ToolMetadata, cls: type[BaseModel]) -> Any:
    if getattr(cls.model_json_schema, "__func__", None) is not _PYDANTICS:
        return _plain_tool(metadata.to_openai_tool(skip_length_check=True))  # it may say something else each time
    made_of = metadata.name, metadata.description, cls.__pydantic_core_schema__
    known = _of_schemas.get(cls)
    if known is None or any(map(is_not, known[0], made_of)):
        known = _of_schemas[cls] = made_of, _plain_tool(metadata.to_openai_tool(skip_length_check=True))
    return known[1]


def _plain_tool(tool: Any) -> Any:
    plain = request_value(tool)
    function = plain.get("function") if isinstance(plain, dict) else None
    if isinstance(function, dict) and isinstance(function.get("description"), str):
        # Python 3.13 strips the indentation of docstrings when it compiles; earlier versions keep it.
        function["description"] = inspect.cleandoc(function["description"])
    return plain


def tool_body(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a tool call. `arguments` are by name, without those that the framework passes."""
    return {"name": name, "arguments": {key: plain_argument(value) for key, value in arguments.items()}}


def retrieval_body(query: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a retriever.

    `query` is a text, or the parts of a query that has more; `settings` are of the retriever and the call.
    """
    return {"query": plain_argument(query), **({"settings": request_value(settings)} if settings else {})}


def method_body(method: str, arguments: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a call of one of several methods, such as a store's.

    `method` is the one name of its synchronous and its asynchronous form; an argument of `None` counts as not given;
    `settings` tell the store from others of its class.
    """
    body = {"method": method, "arguments": {k: plain_argument(v) for k, v in arguments.items() if v is not None}}
    return {**body, **({"settings": request_value(settings)} if settings else {})}
