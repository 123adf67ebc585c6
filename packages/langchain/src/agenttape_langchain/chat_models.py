"""Substitute the leaf calls of chat models.

A taped model is an *alias*: an object of a dynamic subclass that shares the state of the model it stands for, and
overrides exactly the leaf methods that the provider implements. It therefore is an instance of the provider's class,
with its profile, its name and its way of binding tools.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult

from agenttape_core.integration import (
    Boundary,
    Crossing,
    Usage,
    aintercept,
    aintercept_stream,
    alias_class,
    alias_of,
    current_session,
    executing,
    intercept,
    intercept_stream,
)
from agenttape_langchain._compat import MODEL_LEAVES, as_provider_sees, invocation_params
from agenttape_langchain.codec import join_chunks, split_result
from agenttape_langchain.requests import chat_body
from agenttape_langchain.run_tree import model_run

ModelT = TypeVar("ModelT", bound=BaseChatModel)


def _usage(result: ChatResult) -> Usage | None:
    counts = getattr(result.generations[0].message, "usage_metadata", None) if result.generations else None
    if not counts:
        return None
    return Usage(input_tokens=counts.get("input_tokens"), output_tokens=counts.get("output_tokens"))


CHAT = Boundary("chat", join=join_chunks, split=split_result, usage=_usage)


def tape_chat_model(model: ModelT) -> ModelT:
    """Return the taped alias of a chat model; a taped model is returned as it is."""
    return alias_of(model, _model_alias)


@functools.cache
def _model_alias(cls: type[BaseChatModel]) -> type[BaseChatModel]:
    own = {name: _LEAVES[name](getattr(cls, name)) for name in MODEL_LEAVES if _implements(cls, name)}
    return alias_class(cls, own, _model_alias)


def _implements(cls: type, name: str) -> bool:
    return getattr(cls, name) is not getattr(BaseChatModel, name)


def _cross(
    model: BaseChatModel, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
) -> Crossing | None:
    """Begin the crossing of a leaf call, or nothing where the call belongs to no session or to its own outer call."""
    session = current_session()
    if session is None:
        return None
    outer = executing()
    if outer is not None and outer.is_inside(model.__dict__):
        return None
    run = model_run(session, kwargs.get("run_manager"))
    if run is not None and run.params is not None:
        params, position = run.params, run.position
    else:  # a leaf method called by hand
        asked = {key: value for key, value in kwargs.items() if key != "run_manager"}
        params, position = invocation_params(model, stop, asked), None
    body = chat_body(as_provider_sees(messages, traced=False), params)
    return session.cross(CHAT, type(model).__name__, body, position=position, owner=model.__dict__)


def _named(told: tuple[Any, ...]) -> dict[str, Any]:
    """Name what followed the stop words: the asynchronous defaults of the framework pass the run manager by place."""
    return {"run_manager": told[0]} if told else {}


def _generate(real: Callable[..., ChatResult]) -> Callable[..., ChatResult]:
    @functools.wraps(real)
    def _generate(self: Any, messages: Any, stop: Any = None, *told: Any, **kwargs: Any) -> ChatResult:
        kwargs |= _named(told)
        crossing = _cross(self, messages, stop, kwargs)
        if crossing is None:
            return real(self, messages, stop=stop, **kwargs)
        result: ChatResult = intercept(crossing, lambda: real(self, messages, stop=stop, **kwargs))
        return result

    return _generate


def _agenerate(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    async def _agenerate(self: Any, messages: Any, stop: Any = None, *told: Any, **kwargs: Any) -> ChatResult:
        kwargs |= _named(told)
        crossing = _cross(self, messages, stop, kwargs)
        if crossing is None:
            return await real(self, messages, stop=stop, **kwargs)  # type: ignore[no-any-return]
        result: ChatResult = await aintercept(crossing, lambda: real(self, messages, stop=stop, **kwargs))
        return result

    return _agenerate


def _stream(real: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @functools.wraps(real)
    def _stream(self: Any, messages: Any, stop: Any = None, *told: Any, **kwargs: Any) -> Iterator[Any]:
        kwargs |= _named(told)
        crossing = _cross(self, messages, stop, kwargs)
        if crossing is None:
            yield from real(self, messages, stop=stop, **kwargs)
            return
        manager = kwargs.get("run_manager") if crossing.is_served else None
        for chunk in intercept_stream(crossing, lambda: real(self, messages, stop=stop, **kwargs)):
            if manager is not None:  # a provider reports its tokens itself when it is given a run manager
                manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    return _stream


def _astream(real: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
    @functools.wraps(real)
    async def _astream(self: Any, messages: Any, stop: Any = None, *told: Any, **kwargs: Any) -> AsyncIterator[Any]:
        kwargs |= _named(told)
        crossing = _cross(self, messages, stop, kwargs)
        if crossing is None:
            async for chunk in real(self, messages, stop=stop, **kwargs):
                yield chunk
            return
        manager = kwargs.get("run_manager") if crossing.is_served else None
        async for chunk in aintercept_stream(crossing, lambda: real(self, messages, stop=stop, **kwargs)):
            if manager is not None:
                await manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    return _astream


_LEAVES: dict[str, Callable[[Any], Any]] = {
    "_generate": _generate,
    "_agenerate": _agenerate,
    "_stream": _stream,
    "_astream": _astream,
}
