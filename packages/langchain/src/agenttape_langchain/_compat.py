"""The only file that relies on LangChain beyond its public interface.

Read against langchain-core 1.8, tried on 1.4.7. Each function documents the part of the framework that it relies on.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeGuard
from uuid import uuid4
from weakref import WeakValueDictionary

from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackHandler
from langchain_core.callbacks import manager as _events
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models import chat_models as _chat_models
from langchain_core.language_models._utils import _normalize_messages
from langchain_core.language_models.chat_models import _format_for_tracing
from langchain_core.runnables.config import var_child_runnable_config

from agenttape_core.integration import register_result_attribute

if TYPE_CHECKING:
    from uuid import UUID

    from langchain_core.documents import Document
    from langchain_core.language_models import BaseLLM
    from langchain_core.messages import BaseMessage
    from langchain_core.outputs import LLMResult
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool


_TEXT_MODEL_START = AsyncCallbackManager.on_llm_start.__code__


class InlineHandler(BaseCallbackHandler):
    """A handler that is called in the context of the run, before the code of the run starts.

    `AsyncCallbackManager.on_llm_start` of langchain-core up to 1.8 forgets all other handlers of a text model if one
    of them runs inline. To that function this handler denies it; the next function calls it inline all the same.

    A program may copy or pickle the object that a handler is attached to: an agent, a config, a callback manager. A
    copy of the handler is the handler itself, as two would record the same runs twice. In another process it doesn't
    observe.
    """

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the name of the handler in this process."""
        name = f"{os.getpid()} {vars(self).setdefault('_pickled_as', uuid4().hex)}"
        _pickled[name] = self
        return _unpickled, (name,)

    @property
    def run_inline(self) -> bool:  # type: ignore[override]
        """Return whether to be called in the context of the run; see the class."""
        frame = sys._getframe(1)
        if frame.f_code.co_name == "<listcomp>" and frame.f_back is not None:  # a frame of its own before Python 3.12
            frame = frame.f_back
        return frame.f_code is not _TEXT_MODEL_START


_pickled: WeakValueDictionary[str, InlineHandler] = WeakValueDictionary()


def _unpickled(name: str) -> BaseCallbackHandler:
    """Return the handler that was pickled in this process, if it's still there; else one without effect."""
    found = _pickled.get(name) if name.startswith(f"{os.getpid()} ") else None
    return found if found is not None else BaseCallbackHandler()


STREAMING: tuple[Any, str] = (_chat_models, "_StreamingCallbackHandler")
"""The protocol of handlers that want a model to stream; a chat model asks each handler of a call whether it is one."""


def streaming_besides_ours(protocol: type) -> type:
    """Return an object that follows the protocol of handlers, and returns right away for ours, which aren't any.

    Before Python 3.12, `isinstance` takes a tenth of a short replayed call to find that out.
    """

    class Asked(type):
        def __instancecheck__(cls, handler: object) -> bool:
            return not isinstance(handler, InlineHandler) and isinstance(handler, protocol)

    return Asked(protocol.__name__, (), {})


# `BaseChatModel.agenerate` gathers what its calls raise, and takes everything that is no `Exception` for a result.
register_result_attribute("generations")


def enclosing_run_id() -> UUID | None:
    """Return the id of the run whose code is executing here.

    Runnables and tools run their code with `var_child_runnable_config` set to the config for their children, whose
    callback manager names the parent run.
    """
    config = var_child_runnable_config.get()
    return getattr(config.get("callbacks"), "parent_run_id", None) if config else None


def is_for_model(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return True if a model calls `CallbackManager.configure`, and so begins no chain; False if that isn't certain.

    Models pass what's for everyone by position, and what's for LangSmith by name. Runnables pass everything by name.
    """
    return bool(args) and "langsmith_inheritable_metadata" in kwargs


def config_of_caller() -> dict[str, Any]:
    """Return the config of which the caller of `CallbackManager.configure` makes a callback manager; empty without one.

    All functions of LangChain and LangGraph that do so have it in a variable `config`, and pass only a part of it on.
    """
    config = sys._getframe(2).f_locals.get("config")
    return config if isinstance(config, dict) else {}


def current_config() -> RunnableConfig | None:
    """Return the config that the run whose code is executing here passes to its children."""
    return var_child_runnable_config.get()


@contextmanager
def in_config(config: RunnableConfig) -> Iterator[None]:
    """Replace the config of the run for the code inside, as `set_config_context` does for the code of a run."""
    before = var_child_runnable_config.get()
    var_child_runnable_config.set(config)
    try:
        yield
    finally:
        var_child_runnable_config.set(before)  # no token: an abandoned coroutine is closed in another context


def as_provider_sees(messages: Sequence[BaseMessage], *, traced: bool) -> Sequence[BaseMessage]:
    """Return messages in one form, whether they come from a model's leaf call or from `on_chat_model_start`.

    The leaf gets them through `_normalize_messages`, callbacks through `_format_for_tracing`. Both change content
    blocks only. Applying the other one and reverting the changes to files leads both to the same form. `traced`
    messages come from `on_chat_model_start`.
    """
    if all([isinstance(message.content, str) for message in messages]):  # noqa: C419 - a generator takes three times as long
        return messages
    seen = messages if traced else _format_for_tracing(list(messages))
    return [_with_media(message) for message in _normalize_messages([_with_media(message) for message in seen])]


def _with_media(message: BaseMessage) -> BaseMessage:
    if isinstance(message.content, str):
        return message
    return message.model_copy(update={"content": [_media(block) for block in message.content]})


def _media(block: Any) -> Any:
    """Return a block of audio or a file without the changes that one of the two functions made to it.

    `_format_for_tracing` writes a file in the form of version 0, which `_normalize_messages` refuses to take back when
    it has an id; the latter draws ids (`lc_...`) and collects unknown keys under `extras`.
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
    """Return the `invocation_params` that callbacks receive for a call."""
    return model._get_invocation_params(stop=stop, **kwargs)


def completion_params(model: BaseLLM, stop: list[str] | None, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the `invocation_params` that callbacks receive for a call of a text model, and the call's own ones.

    `BaseLLM.generate` keeps the arguments of the call from its callbacks; `stream` passes them on.
    """
    return {**model._dict_for_compat(), "stop": stop, **kwargs}


def answered_by(cls: Any, settings: dict[str, Any], http_client: Any) -> Any:
    """Return a provider's model that sends with the given HTTP client.

    OpenAI's classes take one. `ChatAnthropic` does not: it makes its SDK's client of `_client_params` when it first
    needs one, and keeps it as `_client`.
    """
    if "http_client" in cls.model_fields:
        return cls(**settings, http_client=http_client)
    import anthropic

    model = cls(**settings)
    model.__dict__["_client"] = anthropic.Client(**{**model._client_params, "http_client": http_client})
    return model


def configurable_model_class() -> type | None:
    """Return the class of models that `init_chat_model` makes for each call, if `langchain` is in use."""
    return getattr(sys.modules.get("langchain.chat_models.base"), "_ConfigurableModel", None)


def configured_model(cls: Any, model: Any, config: Any, tape: Callable[[Any], Any]) -> Any:
    """Return the model that a configurable model makes for a call, taped before its queued operations are applied.

    `_ConfigurableModel._model` makes it of `_default_config` and the config, and then applies the operations in
    `_queued_declarative_operations`, such as `bind_tools`.
    """
    bare = object.__new__(cls)
    bare.__dict__ = {**model.__dict__, "_queued_declarative_operations": []}
    made = tape(bare._model(config))
    for name, args, kwargs in model._queued_declarative_operations:
        made = getattr(made, name)(*args, **kwargs)
    return made


def refused_arguments(error: BaseException) -> bool:
    """Return whether a tool raised while it checked its arguments, before its own code ran.

    `BaseTool.run` checks them in `_to_args_and_kwargs`; the traceback of the error begins in `run` itself.
    """
    below = error.__traceback__.tb_next if error.__traceback__ is not None else None
    return below is not None and below.tb_frame.f_code.co_name == "_to_args_and_kwargs"


def is_document(value: object) -> TypeGuard[Document]:
    """Return whether a value is a document; their module isn't imported for that."""
    return isinstance(value, getattr(sys.modules.get("langchain_core.documents.base"), "Document", ()))


def came_from_cache(result: LLMResult) -> bool:
    """Return whether a result came from a model's cache, and not from a provider.

    `BaseChatModel._convert_cached_generations` sets the cost of cached generations to 0. A text model fires no
    callbacks for a call that its cache answers.
    """
    messages = [getattr(generation, "message", None) for batch in result.generations for generation in batch]
    usages = [getattr(message, "usage_metadata", None) for message in messages]
    return any(usage is not None and usage.get("total_cost") == 0 for usage in usages)


@functools.cache
def _runs_tool() -> frozenset[CodeType]:
    from langchain_core.tools import BaseTool  # a session needs no tools

    return frozenset({inspect.unwrap(run).__code__ for run in (BaseTool.run, BaseTool.arun)})


class BeginningTool(NamedTuple):
    """A tool that is firing `on_tool_start`: what callbacks do not receive of it."""

    tool: BaseTool
    arguments: Any  # its arguments, also those that the framework injects
    # The config that its run will pass on, once its callbacks are replaced; a copy of its caller's.
    config: RunnableConfig | None
    manager: Any  # the callback manager of this one run

    @property
    def returns_artifact(self) -> bool:
        """True if it returns an artifact."""
        return self.tool.response_format == "content_and_artifact"

    @contextmanager
    def passing(self, watched: Callable[[Any], Any]) -> Iterator[None]:
        """Let the code of the tool have its config and its injected arguments as a function returns them.

        `run` and `arun` make the config of the code from theirs when the callbacks have returned, the manager of its
        children from the inheritable handlers of theirs, and its arguments from `tool_input`.

        `watched` returns an object that does the same as the one that it is given.
        """
        config, manager = self.config, self.manager
        configurable, inheritable = (config or {}).get("configurable"), manager.inheritable_handlers
        given = dict(self.arguments) if isinstance(self.arguments, dict) else {}
        children = type(manager)(list(inheritable), list(inheritable), manager.parent_run_id)
        seen = watched({**(config or {}), "callbacks": children})
        if config is not None and configurable is not None:
            config["configurable"] = seen["configurable"]
        manager.inheritable_handlers = seen["callbacks"].inheritable_handlers
        changed = {name: new for name, old in given.items() if (new := watched(old)) is not old}
        if changed:
            self.arguments.update(changed)
        try:
            yield
        finally:
            if config is not None and configurable is not None:
                config["configurable"] = configurable
            manager.inheritable_handlers = inheritable
            if changed:
                self.arguments.update({name: given[name] for name in changed})


def beginning_tool() -> BeginningTool | None:
    """Return the tool that is firing `on_tool_start`; `None` where its callbacks are called by other code.

    The frame of `BaseTool.run` and `arun` has it as `self`; see `BeginningTool`.
    """
    frame = sys._getframe(1).f_back
    while frame is not None and frame.f_code not in _runs_tool():
        frame = frame.f_back
    if frame is None:
        return None
    local = frame.f_locals
    manager = local.get("callback_manager")
    if manager is None:  # a version that names it otherwise
        return None
    return BeginningTool(local["self"], local.get("tool_input"), local.get("config"), manager)


EVENTS: Any = _events
"""The module whose `handle_event` reports an event to all handlers of a run, if no event loop is involved."""

RUN_ID_MODULES = ("langchain_core.callbacks.manager", "langchain_core.tracers.event_stream")
"""The modules that make run ids, by a `uuid7` that they import."""

RUN_IDS_OF = (
    "langchain_core.callbacks",
    "langchain_core.runnables",
    "langchain_core.tracers",
    "langgraph.checkpoint.base",
    "langgraph.pregel",
)
"""The packages that draw ids of runs, tasks and checkpoints, which are perhaps never stored: savers that are draw their
own versions."""
ID_MAKERS = ("langchain_core.utils.uuid",)

CHECKPOINT_SEAMS = {
    "draw": (("langgraph.pregel._checkpoint", "uuid6"), ("langgraph.checkpoint.base", "uuid6")),
    "create": (("langgraph.pregel._loop", "create_checkpoint"), ("langgraph.pregel.main", "create_checkpoint")),
    "load": (
        ("langgraph.pregel._loop", "channels_from_checkpoint"),
        ("langgraph.pregel._loop", "achannels_from_checkpoint"),
        ("langgraph.pregel.main", "channels_from_checkpoint"),
        ("langgraph.pregel.main", "achannels_from_checkpoint"),
    ),
    "supersede": (
        ("langgraph.pregel._loop", "checkpoint_superseded"),
        ("langgraph.pregel._loop", "acheckpoint_superseded"),
    ),
}
"""The functions by which LangGraph makes and loads checkpoints, under the modules that import them, by their purpose.

LangGraph is not imported for it: agents of `langchain` run on it, even where `agenttape-langgraph` is not installed.
"""

STEP = "coro_with_context"
"""A function that makes a task of a step that its caller awaits right away."""
MODULES_WITH_STEPS = (
    "langchain_core.runnables.base",
    "langchain_core.runnables.fallbacks",
    "langchain_core.tools.base",
)
"""The modules that import it, as far as a version of LangChain has it."""

BACKOFFS = {
    "langchain_core.runnables.retry": ("_invoke", "_ainvoke", "_batch", "_abatch"),
    "langchain.agents.middleware.model_retry": ("wrap_model_call", "awrap_model_call"),
    "langchain.agents.middleware.tool_retry": ("wrap_tool_call", "awrap_tool_call"),
    "langgraph.pregel._retry": ("run_with_retry", "arun_with_retry"),
}
"""The functions that sleep between two attempts, by module; the last module has other sleeps too."""


def wraps_more_middleware(handler: Callable[..., Any]) -> bool:
    """Return whether the handler of a middleware is another middleware, and not the model or the tool.

    `create_agent` composes its middleware in functions named `_chain_model_call_handlers`,
    `_chain_async_tool_call_wrappers` and so on. Under other names a chain is not recognized.
    """
    return getattr(handler, "__qualname__", "").startswith("_chain_")


def overrides(model: Any, name: str) -> bool:
    """Return whether the class of a chat model defines a method itself instead of inheriting it."""
    own, base = (inspect.getattr_static(cls, name) for cls in (type(model), BaseChatModel))
    return own is not base and inspect.unwrap(own) is not inspect.unwrap(base)
