"""Substitute the leaf calls of chat models.

A taped model is an *alias*: an object of a dynamic subclass that shares the state of the original model, and overrides
exactly the leaf methods that the provider implements. It therefore is an instance of the provider's class, with its
profile, its name and its way of binding tools.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatResult

from agenttape_core.integration import (
    Boundary,
    Call,
    Cross,
    Family,
    Leaf,
    SessionCall,
    Usage,
    async_generator,
    coroutine,
    generator,
    plain,
    session_of_call,
)
from agenttape_langchain._compat import as_provider_sees, invocation_params
from agenttape_langchain.answers import chosen_result, message_of
from agenttape_langchain.candidates import Asked, asked_instead
from agenttape_langchain.codec import join_chunks, split_result
from agenttape_langchain.requests import chat_body, with_identity
from agenttape_langchain.session_tree import model_run


def _usage(result: ChatResult) -> Usage | None:
    counts = getattr(result.generations[0].message, "usage_metadata", None) if result.generations else None
    if not counts:
        return None
    return Usage(input_tokens=counts.get("input_tokens"), output_tokens=counts.get("output_tokens"))


CHAT = Boundary("chat", join=join_chunks, split=split_result, usage=_usage, faked=chosen_result, told=message_of)


def _cross(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    """Begin a leaf call."""
    session = session_of_call(model)
    if session is None:
        return None
    messages, stop = args
    run = model_run(session, kwargs.get("run_manager"))
    if run is not None and run.params is not None:
        params, position = run.params, run.position
    else:  # called by hand, so no run was announced
        given = {key: value for key, value in kwargs.items() if key != "run_manager"}
        params, position = invocation_params(model, stop, given), None
    seen = chat_body(as_provider_sees(messages, traced=False), params)
    body = with_identity(session, CHAT, model, seen, BaseChatModel)
    return session.cross(CHAT, type(model).__name__, body, position=position, owner=vars(model))


def _asked(name: str, asked: Asked, messages: Any, stop: Any, manager: Any) -> Any:
    """Ask a candidate in the shape of a leaf method."""
    ask = {"_generate": asked.generate, "_agenerate": asked.agenerate, "_stream": asked.stream}.get(name, asked.astream)
    return ask(messages, stop, manager)


def _describe(  # noqa: PLR0917 - the arguments of a leaf method, and whose they are
    name: str,
    real: Callable[..., Any],
    cross: Cross,
    self: Any,
    /,
    messages: Any,
    stop: Any = None,
    *run_manager: Any,
    **kwargs: Any,
) -> Call:
    """Describe a leaf call.

    The asynchronous defaults of the framework pass the run manager by position. When a stream is replayed, its tokens
    are reported here: a provider does that itself.
    """
    if run_manager:
        kwargs["run_manager"] = run_manager[0]
    manager = kwargs.get("run_manager")
    on_token = None if manager is None else lambda chunk: manager.on_llm_new_token(chunk.text, chunk=chunk)
    session_call = cross(self, (messages, stop), kwargs)
    if session_call is not None and not session_call.is_replayed:
        asked = asked_instead(session_call, self, {key: value for key, value in kwargs.items() if key != "run_manager"})
        if asked is not None:
            return Call(session_call, lambda: _asked(name, asked, messages, stop, manager))
    return Call(session_call, lambda: real(self, messages, stop=stop, **kwargs), on_chunk=on_token)


_SHAPES = {"_generate": plain, "_agenerate": coroutine, "_stream": generator, "_astream": async_generator}

CHAT_MODELS = Family(
    BaseChatModel,
    {
        name: Leaf(shape, _cross, functools.partial(_describe, name), is_inspected=shape in {plain, coroutine})
        for name, shape in _SHAPES.items()
    },
    defaults=frozenset({"_agenerate"}),  # it goes on in a thread, while its caller may cancel it
)
"""Every chat model."""
