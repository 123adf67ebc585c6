"""Send a candidate the requests of the program's own chat model: at the leaf, in the candidate's own form.

A candidate of the same client gets the parameters of the call unchanged, except for the name of the model. Another one
gets what all providers share: the messages, the tools offered, the tool choice and the stop words, through its own
`bind_tools`. Sampling stays the candidate's own. If a schema is requested in a provider's own way, it is offered as a
tool, and the call of that tool becomes the answer.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableBinding
from langchain_core.utils.function_calling import convert_to_openai_tool

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import (
    CandidateModel,
    SessionCall,
    candidate_of,
    refuse_tools,
    register_candidates,
    state_of,
)
from agenttape_langchain._compat import overrides
from agenttape_langchain.codec import split_result

FRAMEWORK = "langchain_core"
_NAMES = frozenset({"model", "model_name", "model_id"})
_SCHEMAS = (
    "response_format",
    "output_format",
    "output_config",
    "format",
    "response_json_schema",
    "response_schema",
    "guided_json",
)
"""The parameters in which providers take a schema that the answer is to follow."""
_PARALLEL = "parallel_tool_calls"
_REMEDY = (
    "  name it as init_chat_model does, provider:model, with its package installed and its key\n"
    "  set, or pass the model itself"
)
_UNFORCED = frozenset({None, False, "auto"})
_ANY = frozenset({True, "any", "required"})


def made(given: Any) -> CandidateModel | None:
    """Make a candidate of a chat model, one with bound options, or the name of one.

    Raises `ConfigurationError` if the name is none that `init_chat_model` takes, or its package is not installed.
    """
    label = given if isinstance(given, str) else ""
    model = _named(given) if isinstance(given, str) else given
    options: dict[str, Any] = {}
    while isinstance(model, RunnableBinding):
        options, model = {**model.kwargs, **options}, model.bound
    if not isinstance(model, BaseChatModel):
        return None
    profile = getattr(model, "profile", None) or {}
    calls_tools = overrides(model, "bind_tools") and profile.get("tool_calling") is not False
    return CandidateModel(model, label or _label(model), calls_tools=calls_tools, options=options)


def _named(name: str) -> BaseChatModel:
    if not name.strip() or name.strip().endswith(":"):
        raise ConfigurationError(f"it names no model\n{_REMEDY}")
    try:
        from langchain.chat_models import init_chat_model

        model: BaseChatModel = init_chat_model(name)
    except Exception as error:  # of the provider's client, such as a missing key
        raise ConfigurationError(f"{type(error).__name__}: {error}\n{_REMEDY}") from error
    return model


def _label(model: BaseChatModel) -> str:
    name = getattr(model, "model_name", None) or getattr(model, "model", None)
    return f"{type(model).__name__}:{name}" if isinstance(name, str) and name else type(model).__name__


register_candidates(FRAMEWORK, made)


class Asked(NamedTuple):
    """A candidate, with the parameters of one call in its own form."""

    model: BaseChatModel
    options: Mapping[str, Any]  # the parameters other than messages and stop words
    schema: str = ""  # the name of the tool for the schema that the answer is to follow; empty without one

    def generate(self, messages: Any, stop: Any, manager: Any) -> ChatResult:
        """Ask it."""
        result = self.model._generate(messages, stop=stop, run_manager=manager, **self.options)
        return self._finished(result)

    async def agenerate(self, messages: Any, stop: Any, manager: Any) -> ChatResult:
        """Ask it, awaited."""
        result = await self.model._agenerate(messages, stop=stop, run_manager=manager, **self.options)
        return self._finished(result)

    def stream(self, messages: Any, stop: Any, manager: Any) -> Iterator[ChatGenerationChunk]:
        """Ask it for a stream; a model that has none answers in one chunk."""
        if not self.schema and overrides(self.model, "_stream"):
            yield from self.model._stream(messages, stop=stop, run_manager=manager, **self.options)
            return
        for chunk in split_result(self.generate(messages, stop, manager)):
            if manager is not None:
                manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def astream(self, messages: Any, stop: Any, manager: Any) -> AsyncIterator[ChatGenerationChunk]:
        """Ask it for an async stream."""
        if not self.schema and (overrides(self.model, "_astream") or overrides(self.model, "_stream")):
            async for chunk in self.model._astream(messages, stop=stop, run_manager=manager, **self.options):
                yield chunk
            return
        for chunk in split_result(await self.agenerate(messages, stop, manager)):
            if manager is not None:
                await manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def _finished(self, result: ChatResult) -> ChatResult:
        if not self.schema:
            return result
        generations = [_following(generation, self.schema) for generation in result.generations]
        return ChatResult(generations=generations, llm_output=result.llm_output)


def _following(generation: ChatGeneration, schema: str) -> ChatGeneration:
    """Return an answer that follows a schema as its text, of one that calls the tool of that schema."""
    message = generation.message
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    found = next((call["args"] for call in calls if call["name"] == schema), None)
    if found is None:
        return generation
    update = {
        "content": json.dumps(found, ensure_ascii=False),
        "tool_calls": [],
        "additional_kwargs": {"parsed": found},
    }
    return ChatGeneration(message=message.model_copy(update=update), generation_info=generation.generation_info)


def asked_instead(session_call: SessionCall | None, own: BaseChatModel, options: Mapping[str, Any]) -> Asked | None:
    """Return the candidate that is asked in place of the program's own model, if the call has one.

    `own` is the program's model; `options` are the parameters of the call, as its leaf gets them. Raises
    `ConfigurationError` if the candidate calls no tools, and some are offered.
    """
    candidate = candidate_of(session_call, FRAMEWORK)
    if candidate is None or session_call is None:
        return None
    session_call.owner = state_of(candidate.model)  # what it calls of its own is a part of this call
    model = candidate.model
    if isinstance(own, type(model)) or isinstance(model, type(own)):
        given = {key: value for key, value in options.items() if key not in _NAMES}
        return Asked(model, {**candidate.options, **given})
    with session_call.session.latch:
        return _in_its_form(candidate, options, lambda: refuse_tools(session_call, candidate))


def _in_its_form(candidate: CandidateModel, options: Mapping[str, Any], refuse: Callable[[], None]) -> Asked:
    tools = [*map(_shared, options.get("tools") or ()), *map(_shared, options.get("functions") or ())]
    choice = _choice(options.get("tool_choice", options.get("function_call")))
    schema = _schema(options)
    name = ""
    if schema is not None:
        name = schema["function"]["name"]
        choice = "any" if tools else name
        tools = [*tools, schema]
    if not tools:
        return Asked(candidate.model, candidate.options)
    if not candidate.calls_tools:
        refuse()
    given: dict[str, Any] = {"tool_choice": choice} if choice else {}
    if _calls_one_tool(options) and _PARALLEL in inspect.signature(candidate.model.bind_tools).parameters:
        given[_PARALLEL] = False
    bound: Any = candidate.model.bind_tools(tools, **given)
    own: dict[str, Any] = {}
    while isinstance(bound, RunnableBinding):
        own, bound = {**bound.kwargs, **own}, bound.bound
    model = bound if isinstance(bound, BaseChatModel) else candidate.model
    return Asked(model, {**candidate.options, **own}, name)


def _shared(tool: Any) -> Any:
    """Return a tool as all providers take one; a tool of a provider's own doesn't change."""
    try:
        return convert_to_openai_tool(tool)
    except Exception:  # noqa: BLE001 - of whatever form: the candidate says whether it takes it
        return tool


def _choice(given: Any) -> str | None:
    if isinstance(given, dict):
        name = given.get("name") or (given.get("function") or {}).get("name")
        return str(name) if name else _choice(given.get("type"))
    if given in _UNFORCED:
        return None
    return "any" if given in _ANY else str(given)


def _calls_one_tool(options: Mapping[str, Any]) -> bool:
    """Return whether at most one tool may be called in parallel, in the terms of OpenAI or Anthropic."""
    choice = options.get("tool_choice")
    is_single = isinstance(choice, dict) and choice.get("disable_parallel_tool_use") is True
    return is_single or options.get(_PARALLEL) is False


def _schema(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema of the answer itself as a tool; the framework keeps its own data about it."""
    given = next((options[name] for name in _SCHEMAS if options.get(name)), None)
    if isinstance(given, dict):
        given = given.get("format", given)
        inside = given.get("json_schema", given)
        if "schema" not in inside and inside.get("type") == "object":
            inside = {"schema": inside}
        if not isinstance(inside.get("schema"), dict):
            return None
        name = inside.get("name") or inside["schema"].get("title") or "answer"
        function = {"name": name, "description": inside.get("description") or "The answer."}
        return {"type": "function", "function": {**function, "parameters": inside["schema"]}}
    found = _shared(given) if given is not None else None
    return found if isinstance(found, dict) and "function" in found else None
