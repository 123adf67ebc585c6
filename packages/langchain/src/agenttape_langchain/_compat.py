"""The only file that touches what LangChain does not promise to keep.

Read against langchain-core 1.7, tried on 1.4.7; each function says what it relies on.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models._utils import _normalize_messages
from langchain_core.language_models.chat_models import _format_for_tracing
from langchain_core.runnables import base as _runnables
from langchain_core.runnables import fallbacks as _fallbacks
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import base as _tools
from langchain_core.tracers.context import _configure_hooks

from agenttape_core import AgentTapeHalt

if TYPE_CHECKING:
    from uuid import UUID

    from langchain_core.messages import BaseMessage


_TEXT_MODEL_START = AsyncCallbackManager.on_llm_start.__code__


class InlineHandler(BaseCallbackHandler):
    """A handler that is called in the context of the run, before the code of the run starts.

    `AsyncCallbackManager.on_llm_start` of langchain-core up to 1.8 forgets all other handlers of a text model when one
    of them runs inline. There this one says that it does not; it is called inline by the next function all the same.
    """

    @property
    def run_inline(self) -> bool:  # type: ignore[override]
        """Whether to be called in the context of the run: yes, but see the class."""
        frame = sys._getframe(1)
        if frame.f_code.co_name == "<listcomp>" and frame.f_back is not None:  # a frame of its own before Python 3.12
            frame = frame.f_back
        return frame.f_code is not _TEXT_MODEL_START


def unmasking(agenerate: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `agenerate` so that a miss gets out of it.

    `BaseChatModel.agenerate` gathers what its calls raise, takes everything that is no `Exception` for a result, and
    fails on it with an `AttributeError`; the halt is what lacked the attribute.
    """

    @functools.wraps(agenerate)
    async def unmasked(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return await agenerate(self, *args, **kwargs)
        except AttributeError as error:
            if isinstance(error.obj, AgentTapeHalt):
                raise error.obj from None
            raise

    return unmasked


class _HandlerLookup:
    """Stands where `register_configure_hook` takes a context variable; the framework only ever calls `get`."""

    def __init__(self, lookup: Callable[[], BaseCallbackHandler | None]) -> None:
        self._lookup = lookup

    def get(self) -> BaseCallbackHandler | None:
        return self._lookup()


def hook_handler(lookup: Callable[[], BaseCallbackHandler | None]) -> Callable[[], None]:
    """Attach the handler that `lookup` gives to every run that starts, inherited by its children.

    `langchain_core.tracers.context.register_configure_hook` does this for a context variable and has no way back; a
    look-up also reaches threads that were started without a context.

    Returns:
        A function that undoes it.
    """
    entry: Any = (_HandlerLookup(lookup), True, None, None)
    _configure_hooks.append(entry)
    return lambda: _configure_hooks.remove(entry)


def enclosing_run_id() -> UUID | None:
    """Return the id of the run whose code is executing here.

    Runnables and tools run their code with `var_child_runnable_config` set to the config for their children, whose
    callback manager names the parent run.
    """
    config = var_child_runnable_config.get()
    return getattr(config.get("callbacks"), "parent_run_id", None) if config else None


def as_provider_sees(messages: Sequence[BaseMessage], *, traced: bool) -> Sequence[BaseMessage]:
    """Return messages in one form, whether they come from a model's leaf call or from `on_chat_model_start`.

    The leaf gets them through `_normalize_messages`, callbacks through `_format_for_tracing`; the two touch content
    blocks only. What both leave of a block of media is the same, once the one that was not applied is, and files are
    turned back.
    """
    if all(isinstance(message.content, str) for message in messages):
        return messages
    seen = messages if traced else _format_for_tracing(list(messages))
    return [_with_media(message) for message in _normalize_messages([_with_media(message) for message in seen])]


def _with_media(message: BaseMessage) -> BaseMessage:
    if isinstance(message.content, str):
        return message
    return message.model_copy(update={"content": [_media(block) for block in message.content]})


def _media(block: Any) -> Any:
    """Return a block of audio or a file without what one of the two functions put into it.

    `_format_for_tracing` writes a file in the form of version 0, which `_normalize_messages` refuses to take back when
    it has an id; the latter draws ids (`lc_...`) and collects what it does not know under `extras`.
    """
    if not isinstance(block, dict) or block.get("type") not in {"audio", "file"}:
        return block
    plain = dict(block)
    if isinstance(plain.get("extras"), dict):
        plain = {**plain.pop("extras"), **plain}
    if plain.get("source_type") == "base64" and "data" in plain:
        del plain["source_type"]
        plain["base64"] = plain.pop("data")
    if str(plain.get("id", "")).startswith("lc_"):
        del plain["id"]
    return plain


def invocation_params(model: BaseChatModel, stop: list[str] | None, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return what callbacks are told as `invocation_params` for a call."""
    return model._get_invocation_params(stop=stop, **kwargs)


def refused_arguments(error: BaseException) -> bool:
    """Whether a tool raised while it checked its arguments, before its own code ran.

    `BaseTool.run` calls `_to_args_and_kwargs` for that; the traceback of an error begins in `run` itself.
    """
    below = error.__traceback__.tb_next if error.__traceback__ is not None else None
    return below is not None and below.tb_frame.f_code.co_name == "_to_args_and_kwargs"


PUBLIC_MODEL_CALLS = tuple(
    name
    for name in ("generate", "agenerate", "stream", "astream", "_chat_model_stream_v3", "_achat_model_stream_v3")
    if hasattr(BaseChatModel, name)
)
"""The methods through which every call of a chat model passes before it reaches a leaf."""

MODEL_LEAVES = ("_generate", "_agenerate", "_stream", "_astream")
"""The methods that a provider implements."""

MODULES_WITH_STEPS = tuple(
    module for module in (_runnables, _fallbacks, _tools) if hasattr(module, "coro_with_context")
)
"""Where `coro_with_context` is called: it makes a task of a step that its caller waits for at once."""
