"""Side effects of a call in addition to its result: noted while it runs, and applied again when it's replayed.

LangChain itself lets code dispatch custom events. Frameworks on top of it add their own effects, which go through the
config of the run; they register them here. This module doesn't depend on any of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from langchain_core.callbacks import BaseCallbackManager, adispatch_custom_event, dispatch_custom_event
from langchain_core.callbacks.manager import BaseRunManager
from langchain_core.runnables import RunnableConfig

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import ExecutedCall, Outcome
from agenttape_langchain._compat import BeginningTool, InlineHandler, current_config, in_config


class NoteEffect:
    """Notes the effects of one call as they happen.

    Args:
        tell: Called with the word for the kind of an effect, and its value.
    """

    def __init__(self, tell: Callable[[str, Any], None]) -> None:
        self._tell = tell
        self._twins: dict[int, tuple[Any, Any]] = {}

    def __call__(self, word: str, value: Any) -> None:
        """Note an effect."""
        self._tell(word, value)

    def twin_of(self, handler: Any, make: Callable[[], Any]) -> Any:
        """Return the object that takes the place of a callback handler in all configs that the call receives.

        LangGraph merges the handlers of a config that code passes on with those of its context, and keeps one of each.

        Args:
            handler: The handler.
            make: Makes that object, where there is none yet.
        """
        if id(handler) not in self._twins:
            self._twins[id(handler)] = handler, make()
        return self._twins[id(handler)][1]


def _unchanged(value: Any, _: NoteEffect) -> Any:
    return value


def _no_request(_: RunnableConfig) -> Mapping[str, Any]:
    return {}


@contextmanager
def _unwatched(_: ExecutedCall, __: NoteEffect) -> Iterator[None]:
    yield


class Effects(NamedTuple):
    """The side effects that a framework lets a call have in addition to its result.

    Args:
        apply: Applies an effect again, by the word for its kind; called where the call is replayed.
        aapply: Coroutine functions for awaited calls, by kind, where those need one.
        watch: Returns an argument of the call, or the config of its run, so that effects through it are noted.
        observe: Does as `watch` for an observer, after that: for effects that a session sees by other means.
        around: Notes all other effects while the call executes.
        request: Returns what reaches the call through the config of its run and belongs to its request.
        depends: Whether an outcome of a request may depend on what `request` adds to it.
    """

    apply: Mapping[str, Callable[[Any], object]]
    aapply: Mapping[str, Callable[[Any], Any]] = {}
    watch: Callable[[Any, NoteEffect], Any] = _unchanged
    observe: Callable[[Any, NoteEffect], Any] = _unchanged
    around: Callable[[ExecutedCall, NoteEffect], Any] = _unwatched
    request: Callable[[RunnableConfig], Mapping[str, Any]] = _no_request
    depends: Callable[[Sequence[Outcome]], bool] = lambda _: True


_registered: list[Effects] = []


def register_effects(effects: Effects) -> None:
    """Register the effects of a framework. Registering the same again has no effect."""
    if effects not in _registered:
        _registered.append(effects)


# -- while it executes -------------------------------------------------------------------------------------------------


@contextmanager
def noting_effects(session_call: ExecutedCall) -> Iterator[Callable[[Any], Any]]:
    """Note on a call the effects of the real call that runs inside.

    Yields:
        A function to pass each argument of the call through, so that effects through it are noted too.
    """
    note = NoteEffect(lambda word, value: session_call.effected({word: value}))

    def watched(value: Any) -> Any:
        for effects in _registered:
            value = effects.watch(value, note)
        return value

    with ExitStack() as stack:
        for effects in _registered:
            stack.enter_context(effects.around(session_call, note))
        config = current_config()
        if config is not None:
            stack.enter_context(in_config(watched(config)))
        yield watched


@contextmanager
def observing_effects(
    session_call: ExecutedCall, tool: BeginningTool, tell: Callable[[str, Any], None]
) -> Iterator[None]:
    """Note the effects of a tool that an observer sees begin, until it ends.

    `tool` is what callbacks do not receive of it; `tell` notes the word for the kind of an effect, and its value, and
    never raises.
    """
    note = NoteEffect(tell)

    def watched(value: Any) -> Any:
        for effects in _registered:
            value = effects.observe(effects.watch(value, note), note)
        return value

    with ExitStack() as stack:
        for effects in _registered:
            stack.enter_context(effects.around(session_call, note))
        stack.enter_context(tool.passing(watched))
        yield


def request_of_run(config: RunnableConfig | None) -> dict[str, Any]:
    """Return what reaches a call through the config of its run and belongs to its request.

    Args:
        config: The config; by default the current run's.
    """
    config = config if config is not None else current_config()
    request: dict[str, Any] = {}
    if config is not None:
        for effects in _registered:
            request.update(effects.request(config))
    return request


def depends_on_run(outcomes: Sequence[Outcome]) -> bool:
    """Return whether an outcome of a request may depend on what `request_of_run` returns."""
    return any(effects.depends(outcomes) for effects in _registered if effects.request is not _no_request)


# -- when it is replayed -----------------------------------------------------------------------------------------------


def apply(effect: Any) -> None:
    """Apply an effect of a replayed call again.

    Raises:
        ConfigurationError: If no registered framework has effects of that kind.
    """
    word, value = _read(effect)
    _applier(word, "apply")(value)


async def aapply(effect: Any) -> None:
    """Apply an effect of a replayed call that is awaited; see `apply`."""
    word, value = _read(effect)
    awaited = _applier(word, "aapply")
    if awaited is None:
        _applier(word, "apply")(value)
    else:
        await awaited(value)


def _read(effect: Any) -> tuple[str, Any]:
    if not isinstance(effect, dict) or len(effect) != 1:
        raise ConfigurationError(
            f"the cassette holds an effect that LangChain does not have: expected one word and its value, "
            f"found {effect!r}\n  restore the cassette, or record it again"
        )
    ((word, value),) = effect.items()
    return word, value


def _applier(word: str, how: str) -> Any:
    for effects in _registered:
        if word in effects.apply:
            return getattr(effects, how).get(word)
    raise ConfigurationError(
        f"the recorded call had an effect besides returning ({word!r}), and no loaded integration can apply it again\n"
        "  import the integration that recorded it, such as agenttape_langgraph, before the replay"
    )


# -- custom events -----------------------------------------------------------------------------------------------------


class _EventNoter(InlineHandler):
    """Notes the custom events that are dispatched inside a call."""

    raise_error = True
    ignore_llm = ignore_chain = ignore_agent = ignore_retriever = ignore_chat_model = ignore_retry = True

    def __init__(self, note: NoteEffect) -> None:
        self._note = note

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _EventNoter) and other._note is self._note

    def __hash__(self) -> int:
        return hash(self._note)

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        """Note an event."""
        self._note("event", {"name": name, "data": data})


def _watch_events(value: Any, note: NoteEffect) -> Any:
    """Return a config or a run manager whose runs have their events noted."""
    if isinstance(value, BaseRunManager):
        twin = copy.copy(value)
        twin.inheritable_handlers = [*value.inheritable_handlers, _EventNoter(note)]
        return twin
    callbacks = value.get("callbacks") if isinstance(value, dict) else None
    if isinstance(callbacks, BaseCallbackManager):
        callbacks = callbacks.copy()
        callbacks.add_handler(_EventNoter(note), inherit=True)
        return {**value, "callbacks": callbacks}
    return value


async def _adispatch(event: Mapping[str, Any]) -> None:
    await adispatch_custom_event(event["name"], event["data"])


register_effects(
    Effects(
        apply={"event": lambda event: dispatch_custom_event(event["name"], event["data"])},
        aapply={"event": _adispatch},
        watch=_watch_events,
    )
)
