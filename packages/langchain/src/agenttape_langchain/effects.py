"""What a call does besides returning: told to its crossing while it executes, done again when it is served.

LangChain itself lets code dispatch custom events. Frameworks on it let it do more, through the config of the run: they
register what that is. This module knows none of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from langchain_core.callbacks import BaseCallbackManager, adispatch_custom_event, dispatch_custom_event
from langchain_core.callbacks.manager import BaseRunManager
from langchain_core.runnables import RunnableConfig

from agenttape_core import ConfigurationError
from agenttape_core.integration import Crossing, Outcome
from agenttape_langchain._compat import InlineHandler, current_config, in_config

Tell = Callable[[str, Any], None]
"""Notes that a call has just done something: a word for it, and what."""


def _as_it_is(value: Any, _: Tell) -> Any:
    return value


def _nothing(_: RunnableConfig) -> Mapping[str, Any]:
    return {}


@contextmanager
def _unwatched(_: Crossing, __: Tell) -> Iterator[None]:
    yield


@dataclass(frozen=True, slots=True)
class Effects:
    """What a framework lets a call do besides returning.

    Args:
        apply: How each sort is done again, by the word for it; it is called where the call is served.
        aapply: The same for a call that is awaited, where that differs.
        watch: Returns what a call is given, a config or an argument, so that what is done through it is told.
        around: Sees to what is done through anything else while the call executes.
        asked: What reaches a call by the config of its run, and belongs to what is asked of it.
        depends: Whether one of the outcomes of a request may have come about by what `asked` adds to it.
    """

    apply: Mapping[str, Callable[[Any], object]]
    aapply: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    watch: Callable[[Any, Tell], Any] = _as_it_is
    around: Callable[[Crossing, Tell], Any] = _unwatched
    asked: Callable[[RunnableConfig], Mapping[str, Any]] = _nothing
    depends: Callable[[Sequence[Outcome]], bool] = lambda _: True


_registered: list[Effects] = []


def register_effects(effects: Effects) -> None:
    """Let calls do what a framework lets them do; once for each framework."""
    if effects not in _registered:
        _registered.append(effects)


# -- while it executes -------------------------------------------------------------------------------------------------


@contextmanager
def telling(crossing: Crossing) -> Iterator[Callable[[Any], Any]]:
    """Run a real call inside, so that its crossing is told what it does besides returning.

    Yields:
        A function that returns what the call is given, a config or an argument, so that what is done through it is
        told, too.
    """

    def tell(word: str, value: Any) -> None:
        crossing.effected({word: value})

    def watched(value: Any) -> Any:
        for effects in _registered:
            value = effects.watch(value, tell)
        return value

    with ExitStack() as stack:
        for effects in _registered:
            stack.enter_context(effects.around(crossing, tell))
        config = current_config()
        if config is not None:
            stack.enter_context(in_config(watched(config)))
        yield watched


def asked_of_run(config: RunnableConfig | None) -> dict[str, Any]:
    """Return what reaches a call by the config of its run, and belongs to its request; by default of the run here."""
    config = config if config is not None else current_config()
    asked: dict[str, Any] = {}
    if config is not None:
        for effects in _registered:
            asked.update(effects.asked(config))
    return asked


def depends_on_run(outcomes: Sequence[Outcome]) -> bool:
    """Whether one of the outcomes of a request may have come about by what `asked_of_run` returns."""
    return any(effects.depends(outcomes) for effects in _registered if effects.asked is not _nothing)


# -- when it is served -------------------------------------------------------------------------------------------------


def apply(effect: Any) -> None:
    """Do again what a served call did.

    Raises:
        ConfigurationError: If it is of a framework that nobody has registered.
    """
    word, value = _read(effect)
    _applier(word, "apply")(value)


async def aapply(effect: Any) -> None:
    """Like `apply`, for a call that is awaited."""
    word, value = _read(effect)
    awaited = _applier(word, "aapply")
    if awaited is None:
        _applier(word, "apply")(value)
    else:
        await awaited(value)


def _read(effect: Any) -> tuple[str, Any]:
    if not isinstance(effect, dict) or len(effect) != 1:
        raise ConfigurationError(f"the cassette holds an effect that is none of LangChain's: {effect!r}")
    ((word, value),) = effect.items()
    return word, value


def _applier(word: str, how: str) -> Any:
    for effects in _registered:
        if word in effects.apply:
            return getattr(effects, how).get(word)
    raise ConfigurationError(
        f"the recorded call did more than return ({word!r}), and nothing that is loaded can do that again\n"
        "  import the integration that recorded it, such as agenttape_langgraph, before the replay"
    )


# -- custom events -----------------------------------------------------------------------------------------------------


class _EventTeller(InlineHandler):
    """Hears the custom events that are dispatched inside a call."""

    raise_error = True
    ignore_llm = ignore_chain = ignore_agent = ignore_retriever = ignore_chat_model = ignore_retry = True

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        """Tell of an event."""
        self._tell("event", {"name": name, "data": data})


def _watch_events(value: Any, tell: Tell) -> Any:
    """Return a config or a run manager whose runs are heard."""
    if isinstance(value, BaseRunManager):
        twin = copy.copy(value)
        twin.inheritable_handlers = [*value.inheritable_handlers, _EventTeller(tell)]
        return twin
    callbacks = value.get("callbacks") if isinstance(value, dict) else None
    if isinstance(callbacks, BaseCallbackManager):
        callbacks = callbacks.copy()
        callbacks.add_handler(_EventTeller(tell), inherit=True)
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
