"""Substitute the leaf calls of text models, which complete a prompt.

As for chat models, exactly the methods that the provider implements are overridden. A batch of prompts is one call, as
the framework makes it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.language_models import BaseLLM
from langchain_core.outputs import LLMResult

from agenttape_core.integration import (
    Boundary,
    Call,
    Cross,
    Crossing,
    Family,
    Leaf,
    Session,
    Usage,
    async_generator,
    begin,
    coroutine,
    generator,
    kept,
    named_arguments,
    original_of,
    plain,
)
from agenttape_langchain._compat import completion_params
from agenttape_langchain.answers import chosen_texts, text_of
from agenttape_langchain.codec import join_texts, split_texts
from agenttape_langchain.identity import with_identity
from agenttape_langchain.requests import completion_body
from agenttape_langchain.session_tree import position_of
from agenttape_langchain.text_candidates import asked_for_text


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


def _cross(name: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Crossing | None:
    given = _named(name, self, args, kwargs)
    prompts, stop, run_manager = given.pop("prompts", ()), given.pop("stop", None), given.pop("run_manager", None)

    def body(session: Session) -> Mapping[str, Any]:
        model = original_of(self)
        asked = [prompts] if isinstance(prompts, str) else prompts
        seen = completion_body(asked, completion_params(model, stop, given))
        return with_identity(session, COMPLETION, model, seen, BaseLLM)

    return begin(COMPLETION, self, type(self).__name__, body, lambda session: position_of(session, run_manager))


def _describe(name: str, real: Callable[..., Any], cross: Cross, self: Any, /, *args: Any, **kwargs: Any) -> Call:
    """Describe a call. When a stream is served, its tokens are reported here: a provider does that itself."""
    args, kwargs = kept(args, kwargs)
    crossing = cross(self, args, kwargs)
    given = _named(name, self, args, kwargs)
    prompts, stop, manager = given.get("prompts", ()), given.get("stop"), given.get("run_manager")
    if (asked := asked_for_text(crossing)) is not None:
        ask: Any = getattr(asked, name.removeprefix("_"))
        return Call(crossing, lambda: ask(prompts, stop, manager))
    on_token = None
    if manager is not None and name.endswith("stream"):
        on_token = functools.partial(_told, manager)
    return Call(crossing, lambda: real(original_of(self), *args, **kwargs), on_chunk=on_token)


_SHAPES = {"_generate": plain, "_agenerate": coroutine, "_stream": generator, "_astream": async_generator}

LLMS = Family(
    BaseLLM,
    {
        name: Leaf(shape, functools.partial(_cross, name), functools.partial(_describe, name))
        for name, shape in _SHAPES.items()
    },
)
"""Every text model. The interface's asynchronous defaults are no leaves: they call one, and pass on the run manager."""
