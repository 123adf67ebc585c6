"""Substitute the leaf calls of LLMs.

Only the function inside the framework's decorators is replayed: spans, events, callbacks and the rate limiter are the
framework's own, and happen on every replay. Where a class of the framework implements one leaf method by another, as
`CustomLLM` does, that method runs on every replay, and the call that it makes is the one that is recorded.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, TypeVar

from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, MessageRole, ToolCallBlock
from llama_index.core.llms.custom import CustomLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import LLM
from llama_index.core.llms.structured_llm import StructuredLLM
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import ToolOutput

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import (
    Boundary,
    Call,
    Cross,
    Family,
    How,
    Leaf,
    Position,
    Session,
    SessionCall,
    Usage,
    begin,
    below,
    named_arguments,
    register_damage,
    state_of,
)
from agenttape_core.integration.answers import field_of, tokens_in
from agenttape_core.integration.leaves import kept
from agenttape_core.integration.object_settings import warn_unless_identified
from agenttape_llamaindex._compat import within_decorators
from agenttape_llamaindex.candidates import asked_instead
from agenttape_llamaindex.codec import CHATS, TEXTS
from agenttape_llamaindex.delegation import call_around
from agenttape_llamaindex.requests import chat_body, completion_body, identity_of
from agenttape_llamaindex.run_tree import LEAVES, own_span
from agenttape_llamaindex.shapes import async_stream, coroutine, plain, stream, untaped

# The token counts of a response, wherever its provider puts them.


def _usage_of(response: Any) -> Usage | None:
    """Return the token counts of a chat response or a completion, if it has any."""
    raw = response.raw
    return tokens_in(field_of(raw, "usage"), field_of(raw, "usage_metadata"), raw, response.additional_kwargs)


# -- Answers that the user has chosen for calls, as their boundaries return them, and recorded answers as users know
# them.
#
# Of an LLM that chats, the answer is a message, a text or a whole response; of one that completes, a text or a
# response.


def chosen_chat(session_call: Any, answer: Any) -> ChatResponse:
    """Return the response of an LLM whose answer was chosen.

    `answer` is a text, a message or a whole response. Raises `ConfigurationError` if it is none of these.
    """
    if isinstance(answer, ChatResponse):
        return answer
    message = ChatMessage(role=MessageRole.ASSISTANT, content=answer) if isinstance(answer, str) else answer
    if not isinstance(message, ChatMessage):
        raise ConfigurationError(
            f"expected a text, a message or a response for {session_call.request.name}, found {answer!r}"
        )
    return ChatResponse(message=message)


def chosen_completion(session_call: Any, answer: Any) -> CompletionResponse:
    """Return the response of an LLM whose text was chosen.

    Raises `ConfigurationError` if it's neither a text nor a response.
    """
    if isinstance(answer, CompletionResponse):
        return answer
    if not isinstance(answer, str):
        raise ConfigurationError(f"expected a text or a response for {session_call.request.name}, found {answer!r}")
    return CompletionResponse(text=answer)


@register_damage
def damaged(how: How, answer: Any, text: str) -> Any:
    """Damage the response of an LLM, the output of a tool, or a node that was found."""
    if isinstance(answer, ChatResponse):
        return _damaged_chat(how, answer, text)
    if isinstance(answer, CompletionResponse) and how in {"empty", "add"}:
        return CompletionResponse(text="" if how == "empty" else f"{answer.text}\n{text}", raw=answer.raw)
    if isinstance(answer, ToolOutput) and how in {"empty", "add"}:
        said = "" if how == "empty" else f"{answer.content}\n{text}"
        return ToolOutput(tool_name=answer.tool_name, content=said, raw_input=answer.raw_input, raw_output=said)
    if isinstance(answer, NodeWithScore) and isinstance(answer.node, TextNode) and how in {"empty", "add"}:
        said = "" if how == "empty" else f"{answer.node.text}\n{text}"
        return answer.model_copy(update={"node": answer.node.model_copy(update={"text": said})})
    return NotImplemented


def _damaged_chat(how: How, answer: ChatResponse, text: str) -> Any:
    message = answer.message
    if how == "empty":
        return ChatResponse(message=ChatMessage(role=message.role, content=""), raw=answer.raw)
    if how == "add":
        said = f"{message.content or ''}\n{text}"
        return ChatResponse(message=ChatMessage(role=message.role, content=said), raw=answer.raw)
    calls = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    if not calls:
        return NotImplemented
    given = calls[-1].tool_kwargs
    arguments = given if isinstance(given, str) else json.dumps(given)
    fewer: Any = {} if arguments != "{}" else {"unexpected": True}
    kept = arguments[: len(arguments) // 2] if how == "cut_tool_call" else fewer
    broken = calls[-1].model_copy(update={"tool_kwargs": kept})
    blocks = [broken if block is calls[-1] else block for block in message.blocks]
    further = {key: value for key, value in message.additional_kwargs.items() if key != "tool_calls"}
    return ChatResponse(
        message=ChatMessage(role=message.role, blocks=blocks, additional_kwargs=further), raw=answer.raw
    )


LLMT = TypeVar("LLMT", bound=BaseLLM)

CHAT = Boundary("chat", join=CHATS.join, split=CHATS.split, usage=_usage_of, faked=chosen_chat)
COMPLETION = Boundary("completion", join=TEXTS.join, split=TEXTS.split, usage=_usage_of, faked=chosen_completion)


def tape_llm(llm: LLMT) -> LLMT:
    """Return the taped alias of an LLM; a taped one is returned unchanged."""
    if isinstance(llm, StructuredLLM):
        return llm.model_copy(update={"llm": tape_llm(llm.llm)})  # it only calls another LLM
    return LLMS.tape(llm)


def _cross(name: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
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
    session = around.session_call.session
    assert isinstance(session, Session)
    # on replay, a call besides the one that the method has delegated to was not recorded: it has to be a miss
    position = place(session) or below(session, type(self).__name__)
    return session.cross(boundary, type(self).__name__, body(session), position=position, owner=state_of(self))


def _describe(name: str, real: Callable[..., Any], cross: Cross, self: Any, /, *args: Any, **kwargs: Any) -> Call:
    """Describe a call. The object itself is called, as an inner leaf call has to be one of the alias."""
    args, kwargs = kept(args, kwargs)
    session_call = cross(self, args, kwargs)
    instead = asked_instead(session_call, name, self, args, kwargs)
    return Call(session_call, instead or (lambda: real(self, *args, **kwargs)))


def _inherited(name: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
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
