"""Substitute the leaf calls of LLMs.

Only the function inside the framework's decorators is served: spans, events, callbacks and the rate limiter are the
framework's own, and happen on every replay. Where a class of the framework implements one leaf method by another, as
`CustomLLM` does, that method runs on every replay, and the call that it makes is the one that is recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.llms.custom import CustomLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import LLM
from llama_index.core.llms.structured_llm import StructuredLLM

from agenttape_core.integration import (
    Boundary,
    Call,
    Cross,
    Crossing,
    Family,
    Leaf,
    Position,
    Session,
    begin,
    below,
    kept,
    named_arguments,
    state_of,
    warn_unless_identified,
)
from agenttape_llamaindex._compat import within_decorators
from agenttape_llamaindex.answers import chosen_chat, chosen_completion
from agenttape_llamaindex.candidates import asked_instead
from agenttape_llamaindex.codec import CHATS, TEXTS
from agenttape_llamaindex.codec.usage import usage_of
from agenttape_llamaindex.delegation import call_around
from agenttape_llamaindex.requests import chat_body, completion_body, identity_of
from agenttape_llamaindex.run_tree import LEAVES, own_span
from agenttape_llamaindex.shapes import async_stream, coroutine, plain, stream, untaped

LLMT = TypeVar("LLMT", bound=BaseLLM)

CHAT = Boundary("chat", join=CHATS.join, split=CHATS.split, usage=usage_of, faked=chosen_chat)
COMPLETION = Boundary("completion", join=TEXTS.join, split=TEXTS.split, usage=usage_of, faked=chosen_completion)


def tape_llm(llm: LLMT) -> LLMT:
    """Return the taped alias of an LLM; a taped one is returned as it is."""
    if isinstance(llm, StructuredLLM):
        return llm.model_copy(update={"llm": tape_llm(llm.llm)})  # it only calls another LLM
    return LLMS.tape(llm)


def _cross(name: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Crossing | None:
    is_chat = LEAVES[name] == "chat"
    around = call_around(state_of(self))
    inner = around.inside() if around is not None else None
    if inner is not None:
        return inner

    def body(session: Session) -> dict[str, Any]:
        identity = identity_of(self)
        warn_unless_identified(session, LEAVES[name], self, identity, BaseLLM)
        names = ("messages",) if is_chat else ("prompt", "formatted")
        given = named_arguments(getattr(type(self), name), names, args, kwargs)
        if is_chat:
            messages = given.pop("messages", ())
            return chat_body(messages, {**identity, **given})
        prompt, formatted = given.pop("prompt", ""), given.pop("formatted", False)
        return completion_body(str(prompt), {**identity, **given, "formatted": formatted or None})

    def place(session: Session) -> Position | None:
        return own_span(session, self, name)

    boundary = CHAT if is_chat else COMPLETION
    if around is None:
        return begin(boundary, self, type(self).__name__, body, place)
    session = around.crossing.session
    assert isinstance(session, Session)
    # on replay, a call besides the one that the method has delegated to was not recorded: it has to be a miss
    position = place(session) or below(session, type(self).__name__)
    return session.cross(boundary, type(self).__name__, body(session), position=position, owner=state_of(self))


def _describe(name: str, real: Callable[..., Any], cross: Cross, self: Any, /, *args: Any, **kwargs: Any) -> Call:
    """Describe a call. The object itself is called, as an inner leaf call has to be one of the alias."""
    args, kwargs = kept(args, kwargs)
    crossing = cross(self, args, kwargs)
    instead = asked_instead(crossing, name, self, args, kwargs)
    return Call(crossing, instead or (lambda: real(self, *args, **kwargs)))


def _inherited(name: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Crossing | None:
    return _cross(name, self, args, kwargs) if call_around(state_of(self)) is not None else None


def _within(method: Any, make: Callable[[Any], Any]) -> Any:
    return within_decorators(method, lambda function: make(untaped(function)))


def _leaf(name: str) -> Leaf:
    """Return a leaf whose shape goes around the function inside the decorators of the method."""
    method = (name, CHATS if LEAVES[name] == "chat" else TEXTS)
    if "stream" in name:
        shape: Any = async_stream if name.startswith("a") else stream
    else:
        shape = coroutine if name.startswith("a") else plain
    return Leaf(
        functools.partial(shape, leaf=method),
        functools.partial(_cross, name),
        functools.partial(_describe, name),
        functools.partial(_inherited, name),
        _within,
    )


LLMS = Family(
    BaseLLM,
    {name: _leaf(name) for name in LEAVES},
    is_boundary=lambda cls: not issubclass(cls, StructuredLLM),
    delegating=(LLM, FunctionCallingLLM, CustomLLM),
)
"""Every LLM."""
