"""Substitute the leaf calls of text models, which complete a prompt.

As for chat models, exactly the methods that the provider implements are overridden. A batch of prompts is one call, as
the framework makes it.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.language_models import BaseLLM
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult, Generation, GenerationChunk, LLMResult

from agenttape_core.integration import (
    Boundary,
    Call,
    Cross,
    Family,
    Leaf,
    Session,
    SessionCall,
    Usage,
    async_generator,
    begin,
    candidate_of,
    coroutine,
    generator,
    named_arguments,
    original_of,
    plain,
    state_of,
)
from agenttape_core.integration.leaves import kept
from agenttape_langchain._compat import completion_params
from agenttape_langchain.answers import chosen_texts, text_of
from agenttape_langchain.candidates import FRAMEWORK, Asked
from agenttape_langchain.codec import join_texts, split_texts
from agenttape_langchain.requests import completion_body, with_identity
from agenttape_langchain.session_tree import position_of

# -- Ask a candidate, which is a chat model, what a text model of the program is asked: each prompt is a message to it.

_COUNTS = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens", "total_tokens": "total_tokens"}
"""The token counts of text models, by their names in chat models."""


class AskedForText(NamedTuple):
    """A candidate that completes prompts."""

    asked: Asked  # the candidate. The parameters belong to a text model, and aren't passed on

    def generate(self, prompts: Sequence[str], stop: Any, manager: Any) -> LLMResult:
        """Complete each prompt."""
        return _whole([self.asked.generate(_messages(prompt), stop, None) for prompt in prompts])

    async def agenerate(self, prompts: Sequence[str], stop: Any, manager: Any) -> LLMResult:
        """Complete each prompt, awaited."""
        return _whole([await self.asked.agenerate(_messages(prompt), stop, None) for prompt in prompts])

    def stream(self, prompt: str, stop: Any, manager: Any) -> Iterator[GenerationChunk]:
        """Complete a prompt in chunks."""
        for part in self.asked.stream(_messages(prompt), stop, None):
            chunk = _chunk(part)
            if manager is not None:
                manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def astream(self, prompt: str, stop: Any, manager: Any) -> AsyncIterator[GenerationChunk]:
        """Complete a prompt in chunks, awaited."""
        async for part in self.asked.astream(_messages(prompt), stop, None):
            chunk = _chunk(part)
            if manager is not None:
                await manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


def asked_for_text(session_call: SessionCall | None) -> AskedForText | None:
    """Return the candidate that is asked in place of the program's own text model, if the call has one.

    Raises `ConfigurationError` if the candidate is a model of another framework.
    """
    candidate = candidate_of(session_call, FRAMEWORK)
    if candidate is None or session_call is None:
        return None
    session_call.owner = state_of(candidate.model)  # what it calls of its own is a part of this call
    return AskedForText(Asked(candidate.model, candidate.options))


def _messages(prompt: str) -> list[BaseMessage]:
    return [HumanMessage(prompt)]


def _whole(results: Sequence[ChatResult]) -> LLMResult:
    """Return the answers as a text model gives them, with the sum of their tokens."""
    counts = Counter[str]()
    for result in results:
        message = result.generations[0].message
        usage = message.usage_metadata if isinstance(message, AIMessage) else None
        counts.update({name: usage[key] for name, key in _COUNTS.items()} if usage else {})  # type: ignore[literal-required]
    generations = [
        [Generation(text=each.message.text, generation_info=each.generation_info) for each in result.generations]
        for result in results
    ]
    return LLMResult(generations=generations, llm_output={"token_usage": dict(counts)} if counts else None)


def _chunk(part: ChatGenerationChunk) -> GenerationChunk:
    return GenerationChunk(text=part.message.text, generation_info=part.generation_info)


def _usage(result: LLMResult) -> Usage | None:
    counts = (result.llm_output or {}).get("token_usage")
    if not isinstance(counts, dict) or not counts:
        return None
    return Usage(input_tokens=counts.get("prompt_tokens"), output_tokens=counts.get("completion_tokens"))


COMPLETION = Boundary("completion", join=join_texts, split=split_texts, usage=_usage, faked=chosen_texts, told=text_of)


def _told(manager: Any, chunk: Any) -> Any:
    return manager.on_llm_new_token(chunk.text, chunk=chunk)


def _named(name: str, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return named_arguments(getattr(type(model), name), ("prompts", "stop", "run_manager"), args, kwargs)


def _cross(name: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    given = _named(name, self, args, kwargs)
    prompts, stop, run_manager = given.pop("prompts", ()), given.pop("stop", None), given.pop("run_manager", None)

    def body(session: Session) -> Mapping[str, Any]:
        model = original_of(self)
        asked = [prompts] if isinstance(prompts, str) else prompts
        seen = completion_body(asked, completion_params(model, stop, given))
        return with_identity(session, COMPLETION, model, seen, BaseLLM)

    return begin(COMPLETION, self, type(self).__name__, body, lambda session: position_of(session, run_manager))


def _describe(name: str, real: Callable[..., Any], cross: Cross, self: Any, /, *args: Any, **kwargs: Any) -> Call:
    """Describe a call. When a stream is replayed, its tokens are reported here: a provider does that itself."""
    args, kwargs = kept(args, kwargs)
    session_call = cross(self, args, kwargs)
    given = _named(name, self, args, kwargs)
    prompts, stop, manager = given.get("prompts", ()), given.get("stop"), given.get("run_manager")
    if (asked := asked_for_text(session_call)) is not None:
        ask: Any = getattr(asked, name.removeprefix("_"))
        return Call(session_call, lambda: ask(prompts, stop, manager))
    on_token = None
    if manager is not None and name.endswith("stream"):
        on_token = functools.partial(_told, manager)
    return Call(session_call, lambda: real(original_of(self), *args, **kwargs), on_chunk=on_token)


_SHAPES = {"_generate": plain, "_agenerate": coroutine, "_stream": generator, "_astream": async_generator}

LLMS = Family(
    BaseLLM,
    {
        name: Leaf(
            shape,
            functools.partial(_cross, name),
            functools.partial(_describe, name),
            is_inspected=shape in {plain, coroutine},
        )
        for name, shape in _SHAPES.items()
    },
)
"""Every text model. The interface's asynchronous defaults aren't leaves: they call one, and pass on the run manager."""
