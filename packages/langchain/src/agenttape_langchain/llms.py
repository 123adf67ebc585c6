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
    DescribeLeaf,
    Family,
    Leaf,
    Session,
    Shape,
    Usage,
    async_generator,
    begin,
    coroutine,
    generator,
    leaf_call,
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


def _usage(result: LLMResult) -> Usage | None:
    counts = (result.llm_output or {}).get("token_usage")
    if not isinstance(counts, dict) or not counts:
        return None
    return Usage(input_tokens=counts.get("prompt_tokens"), output_tokens=counts.get("completion_tokens"))


COMPLETION = Boundary("completion", join=join_texts, split=split_texts, usage=_usage, faked=chosen_texts, told=text_of)


def _cross(name: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Crossing | None:
    given = named_arguments(getattr(type(self), name), ("prompts", "stop", "run_manager"), args, kwargs)
    prompts, stop, run_manager = given.pop("prompts", ()), given.pop("stop", None), given.pop("run_manager", None)

    def body(session: Session) -> Mapping[str, Any]:
        model = original_of(self)
        asked = [prompts] if isinstance(prompts, str) else prompts
        seen = completion_body(asked, completion_params(model, stop, given))
        return with_identity(session, COMPLETION, model, seen, BaseLLM)

    return begin(COMPLETION, self, type(self).__name__, body, lambda session: position_of(session, run_manager))


def _describe(real: Callable[..., Any], cross: Cross, self: Any, /, prompt: Any, *args: Any, **kwargs: Any) -> Call:
    """Describe a streaming call. When it is served, its tokens are reported here: a provider does that itself."""
    manager = kwargs.get("run_manager", args[1] if len(args) > 1 else None)
    on_token = None if manager is None else lambda chunk: manager.on_llm_new_token(chunk.text, chunk=chunk)
    crossing = cross(self, (prompt, *args), kwargs)
    return Call(crossing, lambda: real(original_of(self), prompt, *args, **kwargs), on_chunk=on_token)


def _leaf(name: str, shape: Shape, describe: DescribeLeaf) -> Leaf:
    return Leaf(shape, functools.partial(_cross, name), describe)


LLMS = Family(
    BaseLLM,
    {
        "_generate": _leaf("_generate", plain, leaf_call()),
        "_agenerate": _leaf("_agenerate", coroutine, leaf_call()),
        "_stream": _leaf("_stream", generator, _describe),
        "_astream": _leaf("_astream", async_generator, _describe),
    },
)
"""Every text model. The interface's asynchronous defaults are no leaves: they call one, and pass on the run manager."""
