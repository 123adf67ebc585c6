"""Requests as plain data: the parts that a provider would receive, in terms that all frameworks share."""

from __future__ import annotations

import inspect
import marshal
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from agenttape_core.integration import (
    Boundary,
    Cross,
    KeyedItems,
    Leaf,
    Session,
    SessionCall,
    begin,
    coroutine,
    named_arguments,
    plain,
    request_value,
    settings_of,
)
from agenttape_core.integration.codecs import Floats, packed
from agenttape_core.integration.object_settings import STORE_SETTINGS, public_fields, warn_unless_identified
from agenttape_core.integration.request_values import as_recorded
from agenttape_langchain._compat import is_document

# -- The boundary of calls that are replayed as a whole: runnables, and objects built on them.


def _joined(chunks: list[Any]) -> Any:
    """Return what LangChain makes of a stream: the sum of its chunks, or the last one if they cannot be added."""
    whole = chunks[0] if chunks else None
    for chunk in chunks[1:]:
        try:
            whole = whole + chunk
        except TypeError:
            whole = chunk
    return whole


CALL = Boundary("call", join=_joined, split=lambda value: [value])

RETRIEVAL = Boundary("retrieval")
SEARCH = Boundary("retrieval", is_program=True)
"""A search by code of the program: a replay steps into it where it only asked other boundaries."""
MEMORY = Boundary("memory")
"""Boundaries of more than one interface."""

_AUTHORED = frozenset({HumanMessage, SystemMessage})
_ANSWERED = frozenset({AIMessage, AIMessageChunk})
_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "HumanMessageChunk": "user"}
_NOT_SENT = frozenset(
    {
        "_type",  # the class of the client
        "stream",  # the way of the answer, and no part of the request
        "streaming",
        "stream_options",
        "stream_usage",
        "ls_structured_output_format",
    }
)


def chat_body(messages: Sequence[BaseMessage], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a chat model call.

    `params` are all other parameters that are sent: model, sampling, tools, tool choice, response format, stop words.
    """
    body = {key: request_value(value) for key, value in params.items() if key not in _NOT_SENT and value is not None}
    if "model" in body or "model_name" in body:
        name = body.pop("model_name", "")  # a local server has one model, which need not have a name
        body["model"] = body.get("model") or name
    tools = params.get("tools")
    if tools is not None and isinstance(tools, Sequence):
        body["tools"] = [_tool(tool) for tool in tools]
    body["messages"] = _message_parts(messages)
    return body


def with_identity(
    session: Session, boundary: Boundary, model: BaseLanguageModel[Any], seen: Mapping[str, Any], base: type
) -> Mapping[str, Any]:
    """Return the request of a model, which names which model is asked even if the model has no identifying parameters.

    LangChain takes them from the model; a model written for a single company often has none, and is then identified by
    its class alone. LangChain's own caches confuse two such models as well. `seen` is the request as callbacks see it;
    the attributes of the framework's class `base` do not count.
    """
    if seen.get("model") or model._identifying_params:
        return seen
    identity = public_fields(model, base)
    warn_unless_identified(session, boundary.kind, model, identity, base)
    return as_recorded(session, boundary, {**identity, **seen}, seen) if identity else seen


def tool_body(name: str, arguments: Any) -> dict[str, Any]:
    """Return the request of a tool call.

    `arguments` are by name, or the bare string of a tool that takes one; without injected ones.
    """
    return {"name": name, "arguments": request_value(arguments)}


def completion_body(prompts: Sequence[str], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a call of a text model. A stream has one prompt; `params` are as for a chat model."""
    body = chat_body((), params)
    del body["messages"]
    return {**body, "prompts": list(prompts)}


def embedding_body(texts: str | Sequence[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of an embedding call.

    `texts` is one text for a query, a list for documents: many models embed the two differently.
    """
    body = {key: request_value(value) for key, value in settings.items() if value is not None}
    return {**body, "input": texts if isinstance(texts, str) else list(texts)}


def retrieval_body(query: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a retriever. `settings` are of the retriever and the call; callbacks do not receive any."""
    return {"query": query, **({"settings": request_value(settings)} if settings else {})}


def method_body(method: str, arguments: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a call of one of several methods, as in stores.

    Args:
        method: The method; its synchronous and asynchronous forms have one name.
        arguments: Its arguments by name; an argument that is None counts as not given.
        settings: Settings that tell the object from others of its class.
    """
    body = {"method": method, "arguments": {k: argument(v) for k, v in arguments.items() if v is not None}}
    return {**body, **({"settings": request_value(settings)} if settings else {})}


class Method(NamedTuple):
    """A method of a store's interface."""

    names: tuple[str, ...]  # the interface's names of its positional arguments
    boundary: Boundary = MEMORY
    writes: bool = False


Methods = Mapping[str, Method]
"""The methods of an interface by name; the asynchronous form of each has an `a` before it."""


def forms_of(methods: Iterable[str]) -> list[str]:
    """Return the names of methods, each with its asynchronous form."""
    return [f"{prefix}{name}" for name in methods for prefix in ("", "a")]


def leaves_of(methods: Methods, runs: Callable[[Any], bool]) -> dict[str, Leaf]:
    """Return the leaves of an interface of stores. An object that `runs` keeps its items in this process."""
    return {
        f"{prefix}{name}": Leaf(shape, _crossing(name, method, runs))
        for name, method in methods.items()
        for prefix, shape in (("", plain), ("a", coroutine))
    }


def _crossing(name: str, method: Method, runs: Callable[[Any], bool]) -> Cross:
    def cross(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
        return None if runs(self) else begin_method(name, method, self, args, kwargs)

    return cross


def begin_method(
    name: str, method: Method, store: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> SessionCall | None:
    """Begin a call of a store's method."""
    arguments = named_arguments(getattr(type(store), name, None), method.names, args, kwargs)
    settings = settings_of(store, STORE_SETTINGS)
    return begin(
        method.boundary,
        store,
        type(store).__name__,
        lambda _: method_body(name, arguments, settings),
        writes=method.writes,
    )


def runnable_body(value: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a runnable that is taped as a whole.

    Args:
        value: Its input.
        options: Its keyword arguments, and the values of its configurable fields.
    """
    body = {"input": argument(value)}
    return {**body, **({"options": request_value(options)} if options else {})}


def argument(value: Any) -> Any:
    """Return a request value as plain data, even of messages and documents at any depth."""
    if isinstance(value, BaseMessage):
        return _plain_message(value)
    if is_document(value):
        plain = {"content": value.page_content, "metadata": request_value(value.metadata)}
        return plain if value.id is None else {**plain, "id": value.id}
    if type(value) in {list, tuple}:
        vector = packed(value)
        return vector if type(vector) is Floats else [argument(item) for item in value]
    if type(value) is dict:
        return {str(key): argument(item) for key, item in value.items()}
    return request_value(value)


def _message_parts(messages: Sequence[BaseMessage]) -> KeyedItems:
    """Return messages in the form they're sent: without their ids, token counts and response metadata.

    An agent sends the same messages again on each call. So a key of its relevant parts replaces a message where it's
    cheap to make. It is made again each time: a program may change a message that it has sent.
    """
    keys: list[tuple[Any, ...] | None] = []
    key: tuple[Any, ...] | None
    message: Any  # of one of the classes below
    for message in messages:
        kind, content, extra, key = type(message), message.content, message.additional_kwargs, None
        if type(content) is not str:
            pass
        elif kind in _ANSWERED:
            calls, invalid = message.tool_calls, message.invalid_tool_calls
            exact = _exact((calls, invalid, extra)) if calls or invalid or extra else b""
            key = (kind, content, message.name, exact) if exact is not None else None
        elif extra:
            pass
        elif kind in _AUTHORED:
            key = (kind, content, message.name)
        elif kind is ToolMessage:
            key = (kind, content, message.name, message.tool_call_id, message.status)
        keys.append(key)
    return KeyedItems(keys, messages, _plain_message)


def _exact(value: Any) -> bytes | None:
    """Return bytes that are equal only for equal values, or None for values that have no such form."""
    try:
        return marshal.dumps(value, 2)
    except ValueError:
        return None


def _plain_message(message: BaseMessage) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": _role(message), "content": request_value(message.content)}
    if type(message) in _AUTHORED and not (message.name or message.additional_kwargs):
        return plain
    if message.name:
        plain["name"] = message.name
    if isinstance(message, AIMessage) and message.tool_calls:
        plain["tool_calls"] = [
            {"name": call["name"], "args": request_value(call["args"]), "id": call["id"]} for call in message.tool_calls
        ]
    if isinstance(message, AIMessage) and message.invalid_tool_calls:
        plain["invalid_tool_calls"] = request_value([dict(call) for call in message.invalid_tool_calls])
    if isinstance(message, ToolMessage):
        plain["tool_call_id"] = message.tool_call_id
        if message.status != "success":
            plain["status"] = message.status
    extra = {
        key: request_value(value) for key, value in message.additional_kwargs.items() if _is_sent(key, value, message)
    }
    if extra:
        plain["additional_kwargs"] = extra
    return plain


def _role(message: BaseMessage) -> str:
    if _has_role(type(message)):
        role = getattr(message, "role", None)
    else:
        extra = message.__pydantic_extra__
        role = extra.get("role") if extra else None
    return str(role) if role else _ROLES.get(message.type, message.type.removesuffix("MessageChunk").lower())


@lru_cache(maxsize=256)
def _has_role(cls: type[BaseMessage]) -> bool:
    """Return True for `ChatMessage` and its like; pydantic takes a while to say that an object has no attribute."""
    return "role" in cls.model_fields or hasattr(cls, "role")


def _is_sent(key: str, value: Any, message: BaseMessage) -> bool:
    """Return whether an additional field is sent: neither the parsed twin nor the raw twin of tool calls is."""
    twin = key == "parsed" or (key == "tool_calls" and bool(getattr(message, "tool_calls", None)))
    return value is not None and not twin


def _tool(tool: Any) -> Any:
    if not isinstance(tool, Mapping | str):  # some models bind tools by their names
        tool = convert_to_openai_tool(tool)
    plain = request_value(tool)
    function = plain.get("function") if isinstance(plain, dict) else None
    if isinstance(function, dict) and isinstance(function.get("description"), str):
        # Python 3.13 strips the indentation of docstrings when it compiles; earlier versions keep it.
        function["description"] = inspect.cleandoc(function["description"])
    return plain
