"""Send a candidate the request of the program's own LLM: at the leaf, in the candidate's own form.

A candidate of the same class gets the parameters of the call unchanged, except for the name of the model. Another one
gets the messages, the tools offered and whether one has to be called, through its own `chat_with_tools`; its tool calls
become blocks that every LLM reads. A prompt to complete goes to the candidate unchanged. The framework's spans and
events belong to the program's own LLM.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import FunctionTool, ToolMetadata

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import (
    CandidateModel,
    SessionCall,
    candidate_of,
    refuse_tools,
    register_candidates,
    state_of,
)
from agenttape_llamaindex._compat import function_inside, prepared_chat
from agenttape_llamaindex.delegation import apart
from agenttape_llamaindex.run_tree import LEAVES
from agenttape_llamaindex.shapes import untaped

FRAMEWORK = "llama_index"
_NAMES = frozenset({"model", "model_name"})
_DONE = object()


def made(given: Any) -> CandidateModel | None:
    """Make a candidate of an LLM, or of the name of one.

    Raises `ConfigurationError` if there's no package for the provider, or it has no LLM.
    """
    llm = _named(given) if isinstance(given, str) else given
    if not isinstance(llm, BaseLLM):
        return None
    label = given if isinstance(given, str) else f"{type(llm).__name__}:{llm.metadata.model_name}"
    calls_tools = isinstance(llm, FunctionCallingLLM) and llm.metadata.is_function_calling_model
    return CandidateModel(llm, label, calls_tools=calls_tools)


def _named(name: str) -> BaseLLM:
    provider, colon, model = name.partition(":")
    module = f"llama_index.llms.{provider.replace('-', '_')}"
    if not (provider and colon and model):
        raise ConfigurationError("expected provider:model, such as openai:gpt-5-mini, or the LLM itself")
    try:
        found = importlib.import_module(module)
        llm: BaseLLM = _class_of(found, provider)(model=model)
    except Exception as error:  # of the provider's client, such as a missing key
        raise ConfigurationError(
            f"{type(error).__name__}: {error}\n"
            f"  install llama-index-llms-{provider.replace('_', '-')} and set the key of the provider, or pass the LLM"
        ) from error
    return llm


def _class_of(module: Any, provider: str) -> Any:
    classes = [value for value in vars(module).values() if inspect.isclass(value) and issubclass(value, BaseLLM)]
    wanted = provider.replace("_", "").replace("-", "").lower()
    named = [found for found in classes if found.__name__.lower() == wanted]
    if not (named or classes):
        raise ConfigurationError(f"{module.__name__} has no LLM")
    return (named or classes)[0]


register_candidates(FRAMEWORK, made)


def asked_instead(
    session_call: SessionCall | None, name: str, own: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Callable[[], Any] | None:
    """Return the function that calls the candidate in place of the program's own LLM, if the call has one.

    `own` is the program's LLM; `args` and `kwargs` are the arguments of the leaf method `name`. Raises
    `ConfigurationError` if tools are offered, and the candidate can't call any; or if an answer is to follow a schema
    in a way that only the program's own LLM supports.
    """
    candidate = candidate_of(session_call, FRAMEWORK)
    if candidate is None or session_call is None:
        return None
    llm = candidate.model
    session_call.owner = state_of(llm)  # what it calls of its own is a part of this call
    given = dict(kwargs)
    is_kin = isinstance(own, type(llm)) or isinstance(llm, type(own))
    if LEAVES[name] == "complete":
        asked = _prompted(args, given, is_kin=is_kin)
    elif is_kin:
        messages = args[0] if args else given.pop("messages", ())
        asked = {"messages": messages, **_shared(given)}
    else:
        messages = args[0] if args else given.pop("messages", ())
        with session_call.session.latch:
            asked = _in_its_form(candidate, list(messages), given, session_call)
    method = untaped(function_inside(llm, name))
    return lambda: _SHAPES[name](lambda: method(llm, **asked), llm)


def _shared(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a call that a model of the same class gets."""
    return {key: value for key, value in given.items() if key not in _NAMES}


def _prompted(args: Sequence[Any], given: Mapping[str, Any], *, is_kin: bool) -> dict[str, Any]:
    """Return the prompt for a candidate to complete; another class gets the prompt alone, in its own template."""
    names = dict(zip(("prompt", "formatted"), args, strict=False))
    asked = {**given, **names}
    return _shared(asked) if is_kin else {"prompt": asked.get("prompt", "")}


def _in_its_form(
    candidate: CandidateModel, messages: list[ChatMessage], given: Mapping[str, Any], session_call: SessionCall
) -> dict[str, Any]:
    if given.get("response_format"):
        raise ConfigurationError(
            f"candidate {candidate.label}: the answer at {session_call.position.address} is to follow a schema in a "
            "way of the program's own provider\n  try a candidate of the same class, or ask for the schema by a tool"
        )
    tools = [_Offered(function) for tool in given.get("tools") or () if (function := _function(tool)) is not None]
    if not tools:
        return {"messages": messages}
    if not candidate.calls_tools:
        refuse_tools(session_call, candidate)
    return prepared_chat(candidate.model, tools, messages, is_required=_is_required(given.get("tool_choice")))


def _function(tool: Any) -> Mapping[str, Any] | None:
    """Return the name, the description and the parameters of a tool, of whatever provider's form."""
    if not isinstance(tool, Mapping):
        return None
    inside = tool.get("function", tool.get("toolSpec", tool))
    parameters = inside.get("parameters") or inside.get("input_schema") or (inside.get("inputSchema") or {}).get("json")
    if not inside.get("name"):
        return None
    return {
        "name": inside["name"],
        "description": inside.get("description") or "",
        "parameters": parameters or {"type": "object", "properties": {}},
    }


def _is_required(choice: Any) -> bool:
    if isinstance(choice, Mapping):
        return choice.get("type") not in {"auto", "none"}
    return choice not in {None, False, "auto", "none"}


class _Described(ToolMetadata):
    """The metadata of an offered tool, from the recording."""

    def __init__(self, function: Mapping[str, Any]) -> None:
        super().__init__(description=function["description"], name=function["name"])
        self._parameters = dict(function["parameters"])

    def get_parameters_dict(self) -> dict[str, Any]:
        """Return the schema of the arguments."""
        return self._parameters


class _Offered(FunctionTool):
    """A tool that is only offered: the program's own code calls it."""

    def __init__(self, function: Mapping[str, Any]) -> None:
        super().__init__(fn=_never_called, metadata=_Described(function))


def _never_called() -> None:
    raise AssertionError("a tool is called by the program, not by its description")


def _readable(response: Any, llm: Any) -> Any:
    """Return an answer whose tool calls are blocks, which every LLM reads."""
    message = getattr(response, "message", None)
    if message is None or not isinstance(llm, FunctionCallingLLM):
        return response
    blocks = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    if all(map(_is_whole, blocks)) and (blocks or not message.additional_kwargs):
        return response
    calls = llm.get_tool_calls_from_response(response, error_on_no_tool_call=False)
    message.blocks = [block for block in message.blocks if not isinstance(block, ToolCallBlock)] + [
        ToolCallBlock(tool_call_id=call.tool_id, tool_name=call.tool_name, tool_kwargs=call.tool_kwargs)
        for call in calls
    ]
    return response


def _is_whole(call: ToolCallBlock) -> bool:
    """Return False for a call in the middle of a stream, whose half arguments only its own LLM can read."""
    if isinstance(call.tool_kwargs, str):
        try:
            json.loads(call.tool_kwargs)
        except ValueError:
            return False
    return True


def _plain(ask: Callable[[], Any], llm: Any) -> Any:
    with apart():
        return _readable(ask(), llm)


async def _coroutine(ask: Callable[[], Any], llm: Any) -> Any:
    with apart():
        return _readable(await ask(), llm)


def _stream(ask: Callable[[], Any], llm: Any) -> Iterator[Any]:
    with apart():
        chunks = iter(ask())
    return _steps(chunks, llm)


def _steps(chunks: Iterator[Any], llm: Any) -> Iterator[Any]:
    try:
        while True:
            with apart():
                chunk = next(chunks, _DONE)
            if chunk is _DONE:
                return
            yield _readable(chunk, llm)
    finally:
        if (close := getattr(chunks, "close", None)) is not None:
            close()


async def _async_stream(ask: Callable[[], Any], llm: Any) -> AsyncIterator[Any]:
    with apart():
        chunks = aiter(await ask())
    return _asteps(chunks, llm)


async def _asteps(chunks: Any, llm: Any) -> AsyncIterator[Any]:
    try:
        while True:
            with apart():
                chunk = await anext(chunks, _DONE)
            if chunk is _DONE:
                return
            yield _readable(chunk, llm)
    finally:
        if (close := getattr(chunks, "aclose", None)) is not None:
            await close()


_SHAPES: Mapping[str, Callable[..., Any]] = {
    "chat": _plain,
    "achat": _coroutine,
    "stream_chat": _stream,
    "astream_chat": _async_stream,
    "complete": _plain,
    "acomplete": _coroutine,
    "stream_complete": _stream,
    "astream_complete": _async_stream,
}
