"""Substitute the leaf calls of text models, which complete a prompt.

As for chat models: exactly the methods are overridden that the provider implements. A batch of prompts is one call,
as the framework makes it.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

from langchain_core.language_models import BaseLLM
from langchain_core.outputs import GenerationChunk, LLMResult

from agenttape_core.integration import (
    Boundary,
    Cross,
    Crossing,
    Family,
    Leaf,
    Session,
    Shape,
    Usage,
    aintercept_stream,
    alias_for,
    alias_of,
    begin,
    coroutine,
    intercept_stream,
    named_arguments,
    original_of,
    plain,
)
from agenttape_langchain._compat import completion_params
from agenttape_langchain.codec import join_texts, split_texts
from agenttape_langchain.requests import completion_body
from agenttape_langchain.run_tree import position_of

ModelT = TypeVar("ModelT", bound=BaseLLM)


def _usage(result: LLMResult) -> Usage | None:
    counts = (result.llm_output or {}).get("token_usage")
    if not isinstance(counts, dict) or not counts:
        return None
    return Usage(input_tokens=counts.get("prompt_tokens"), output_tokens=counts.get("completion_tokens"))


COMPLETION = Boundary("completion", join=join_texts, split=split_texts, usage=_usage)


def tape_llm(model: ModelT) -> ModelT:
    """Return the taped alias of a text model; a taped one is returned as it is."""
    return alias_of(model, _llm_alias)


@functools.cache
def _llm_alias(cls: type) -> type:
    return alias_for(cls, LLMS, _llm_alias)


def _cross(name: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Crossing | None:
    asked = named_arguments(getattr(type(self), name), ("prompts", "stop", "run_manager"), args, kwargs)
    prompts, stop, run_manager = asked.pop("prompts", ()), asked.pop("stop", None), asked.pop("run_manager", None)

    def body(_: Session) -> dict[str, Any]:
        return completion_body(
            [prompts] if isinstance(prompts, str) else prompts, completion_params(original_of(self), stop, asked)
        )

    return begin(COMPLETION, self, type(self).__name__, body, lambda session: position_of(session, run_manager))


def _manager(crossing: Crossing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return whom a served stream tells of its tokens: a provider does that itself."""
    return kwargs.get("run_manager", args[1] if len(args) > 1 else None) if crossing.is_served else None


def _stream(real: Callable[..., Iterator[GenerationChunk]], cross: Cross) -> Callable[..., Iterator[GenerationChunk]]:
    @functools.wraps(real)
    def _stream(self: Any, prompt: str, *args: Any, **kwargs: Any) -> Iterator[GenerationChunk]:
        crossing = cross(self, (prompt, *args), kwargs)
        if crossing is None:
            yield from real(original_of(self), prompt, *args, **kwargs)
            return
        manager = _manager(crossing, args, kwargs)
        for chunk in intercept_stream(crossing, lambda: real(original_of(self), prompt, *args, **kwargs)):
            if manager is not None:
                manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    return _stream


def _astream(
    real: Callable[..., AsyncIterator[GenerationChunk]], cross: Cross
) -> Callable[..., AsyncIterator[GenerationChunk]]:
    @functools.wraps(real)
    async def _astream(self: Any, prompt: str, *args: Any, **kwargs: Any) -> AsyncIterator[GenerationChunk]:
        crossing = cross(self, (prompt, *args), kwargs)
        if crossing is None:
            async for chunk in real(original_of(self), prompt, *args, **kwargs):
                yield chunk
            return
        manager = _manager(crossing, args, kwargs)
        async for chunk in aintercept_stream(crossing, lambda: real(original_of(self), prompt, *args, **kwargs)):
            if manager is not None:
                await manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    return _astream


_SHAPES: dict[str, Shape] = {"_generate": plain, "_agenerate": coroutine, "_stream": _stream, "_astream": _astream}

LLMS = Family(BaseLLM, {name: Leaf(shape, functools.partial(_cross, name)) for name, shape in _SHAPES.items()})
"""Every text model. Their asynchronous defaults have a run of their own already, which tells which call it is."""
