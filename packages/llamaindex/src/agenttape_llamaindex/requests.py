"""What the models of an agent are asked, as a provider would receive it, in the terms that all our cassettes share."""

from __future__ import annotations

import binascii
import inspect
import io
import json
import marshal
from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import VectorStoreQuery
from pydantic import BaseModel

from agenttape_core.integration import Keyed, asked, model_of, settings_of
from agenttape_core.integration.codecs import Floats, packed

_NOT_ASKED = frozenset({"stream", "streaming", "stream_options"})  # how the answer travels, not what is asked
_LLM_SETTINGS = (
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "max_new_tokens",
    "num_output",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "seed",
    "stop",
    "stop_sequences",
    "strict",
    "json_mode",
    "response_format",
    "reasoning_effort",
    "reasoning_options",
    "reasoning",
    "thinking",
    "thinking_dict",
    "thinking_config",
    "modalities",
    "audio_config",
    "generation_config",
    "generate_kwargs",
    "additional_kwargs",
    "model_kwargs",
    "instructions",
    "built_in_tools",
)
"""What LLMs hold of what they tell their provider, by the names that they use."""

_MEDIA_TERMS = {
    **dict.fromkeys(("image", "audio", "video", "data"), "base64"),
    **dict.fromkeys(("image_mimetype", "video_mimetype", "document_mimetype"), "mime_type"),
}
"""What LlamaIndex's blocks call by another name than other cassettes do."""


def chat_body(messages: Sequence[ChatMessage], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a chat.

    Args:
        messages: The conversation.
        params: Everything else that is sent: model, sampling, tools, tool choice, response format, stop words.
    """
    return {**params_body(params), "messages": [_message_part(message) for message in messages]}


def completion_body(prompt: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a completion.

    Args:
        prompt: The prompt.
        params: Everything else that is sent, as for a chat.
    """
    return {**params_body(params), "prompts": [prompt]}


def embedding_body(texts: str | Sequence[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of an embedding call.

    Args:
        texts: One text where a query is embedded, a list of them for texts: many models embed the two differently.
        settings: The model, the dimensions and what else is sent along.
    """
    body = {key: asked(value) for key, value in settings.items() if value is not None}
    return {**body, "input": texts if isinstance(texts, str) else list(texts)}


def image_embedding_body(images: Sequence[Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of an embedding call for images.

    Args:
        images: Their paths or addresses, or open files: of those, what they hold.
        settings: The model, the dimensions and what else is sent along.
    """
    body = {key: asked(value) for key, value in settings.items() if value is not None}
    return {**body, "images": [_part(image) for image in images]}


def llm_params(llm: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call of an LLM sends besides its messages or its prompt.

    Args:
        llm: The LLM.
        given: What the call itself gives, which counts before what the LLM holds.
    """
    name = model_of(llm) or {"model": _model_name(llm)}
    return {**name, **settings_of(llm, _LLM_SETTINGS), **given}


def _model_name(llm: Any) -> str | None:
    name = llm.metadata.model_name
    return name if isinstance(name, str) and name != "unknown" else None


def params_body(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request says besides its messages or its prompt."""
    body = {key: asked(value) for key, value in params.items() if key not in _NOT_ASKED and value is not None}
    if isinstance(params.get("tools"), Sequence):
        body["tools"] = [_tool(tool) for tool in params["tools"]]
    return body


def _tool(tool: Any) -> Any:
    metadata: Any = getattr(tool, "metadata", None)
    if hasattr(metadata, "to_openai_tool"):
        tool = metadata.to_openai_tool(skip_length_check=True)
    plain = asked(tool)
    function = plain.get("function") if isinstance(plain, dict) else None
    if isinstance(function, dict) and isinstance(function.get("description"), str):
        # Python 3.13 strips the indentation of docstrings when it compiles; earlier versions keep it.
        function["description"] = inspect.cleandoc(function["description"])
    return plain


def _message_part(message: ChatMessage) -> Any:
    """Return a message as it is sent; where a cheap key stands for all of it, as that and what builds it.

    An agent sends the same messages again on each call.
    """
    blocks: list[Any] = message.blocks
    if type(message) is ChatMessage and all(type(block) is TextBlock for block in blocks):
        try:
            extra = marshal.dumps(message.additional_kwargs, 2)
        except ValueError:
            return plain_message(message)
        return Keyed((str(message.role), tuple(b.text for b in blocks), extra), message, plain_message)
    return plain_message(message)


def plain_message(message: ChatMessage) -> dict[str, Any]:
    """Return a message as it is sent, as plain data: its role, content, tool calls, and what they belong to."""
    extra = dict(message.additional_kwargs)
    plain: dict[str, Any] = {"role": getattr(message.role, "value", message.role), "content": _content(message)}
    for key in ("name", "tool_call_id"):
        if isinstance(extra.get(key), str):
            plain[key] = extra.pop(key)
    calls = [_tool_call(block) for block in message.blocks if isinstance(block, ToolCallBlock)]
    if not calls and (legacy := legacy_calls(extra.get("tool_calls"))):
        calls = legacy
    if calls:
        extra.pop("tool_calls", None)  # the raw twin of the blocks
        plain["tool_calls"] = calls
    sent = {key: asked(value) for key, value in extra.items() if value is not None}
    return {**plain, "additional_kwargs": sent} if sent else plain


def _content(message: ChatMessage) -> Any:
    blocks = [block for block in message.blocks if not isinstance(block, ToolCallBlock)]
    if not blocks:
        return ""
    if len(blocks) == 1 and type(blocks[0]) is TextBlock:
        return blocks[0].text
    return [_block(block) for block in blocks]


def _block(block: Any) -> dict[str, Any]:
    fields = {key: value for key, value in vars(block).items() if value is not None and key != "block_type"}
    kind = getattr(block, "block_type", type(block).__name__)
    terms = dict(_term(key, value) for key, value in fields.items())
    if kind == "image" and ("base64" in terms or "url" in terms):
        return _image_url(terms)
    return {"type": "file" if kind == "document" else kind, **terms}


def _image_url(terms: dict[str, Any]) -> dict[str, Any]:
    """Return an image in the form that most providers receive, and LangChain sends to all."""
    mime_type, data = terms.pop("mime_type", None), terms.pop("base64", None)
    url = f"data:{mime_type or 'image/png'};base64,{data}" if data else str(terms.pop("url"))
    return {"type": "image_url", "image_url": {"url": url, **terms}}


def _term(name: str, value: Any) -> tuple[str, Any]:
    """Return a field of a block as all our cassettes call it: binary data is base64, with its MIME type beside it."""
    name = _MEDIA_TERMS.get(name, name)
    value = _part(value)
    return name, _base64(value) if name == "base64" and isinstance(value, bytes) else value


def _base64(data: bytes) -> str:
    """Return binary data as base64. Blocks hold it as that already, unless they hold a file."""
    try:
        binascii.a2b_base64(data, strict_mode=True)
        return data.decode("ascii")
    except ValueError:
        return binascii.b2a_base64(data, newline=False).decode("ascii")


def _part(value: Any) -> Any:
    if isinstance(value, io.IOBase):
        return _read(value)
    if isinstance(value, list):
        return [_part(item) for item in value]
    return _block(value) if isinstance(value, BaseModel) and hasattr(value, "block_type") else asked(value)


def _read(file: Any) -> Any:
    """Return what an open file holds, and leave it where it was."""
    place = file.tell()
    content = file.read()
    file.seek(place)
    return content


def _tool_call(block: ToolCallBlock) -> dict[str, Any]:
    return {"name": block.tool_name, "args": _arguments(block.tool_kwargs), "id": block.tool_call_id}


def _arguments(arguments: Any) -> Any:
    """Return the arguments of a tool call, which some providers give as JSON text."""
    if isinstance(arguments, str):
        try:
            read = json.loads(arguments)
        except ValueError:
            return arguments
        return read if isinstance(read, dict) else arguments
    return asked(arguments)


def legacy_calls(calls: Any) -> list[dict[str, Any]]:
    """Return tool calls that stand in `additional_kwargs`, as objects or dicts of OpenAI's form; else nothing."""
    found = []
    for call in calls if isinstance(calls, list) else ():
        function = _get(call, "function")
        if function is None:
            return []
        found.append(
            {"name": _get(function, "name"), "args": _arguments(_get(function, "arguments")), "id": _get(call, "id")}
        )
    return found


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


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
