"""Substitute a runnable as a whole: a chain, a function, a compiled graph.

Its code doesn't run in a replay. Calls inside it, such as calls of models, are recorded as its children.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import ensure_config, merge_configs

from agenttape_core.integration import (
    Call,
    SessionCall,
    async_generator,
    begin,
    below,
    coroutine,
    generator,
    plain,
)
from agenttape_langchain.requests import CALL, runnable_body

# -- how a call is replayed: as one run, with the name and the tags of the runnable ------------------------------------


def _replay_value(self: Any, replay_call: Callable[[], Any], value: Any, config: RunnableConfig) -> Any:
    return self._call_with_config(lambda _: replay_call(), value, config)


def _areplay_value(self: Any, replay_call: Callable[[], Any], value: Any, config: RunnableConfig) -> Any:
    async def replay(_: Any) -> Any:
        return await replay_call()

    return self._acall_with_config(replay, value, config)


def _replay_stream(self: Any, replay_call: Callable[[], Any], value: Any, config: RunnableConfig) -> Iterator[Any]:
    def replay(_: Iterator[Any]) -> Iterator[Any]:
        yield from replay_call()

    stream: Iterator[Any] = self._transform_stream_with_config(iter([value]), replay, config)
    return stream


def _areplay_stream(
    self: Any, replay_call: Callable[[], Any], value: Any, config: RunnableConfig
) -> AsyncIterator[Any]:
    async def alone() -> AsyncIterator[Any]:
        yield value

    stream: AsyncIterator[Any] = self._atransform_stream_with_config(alone(), lambda _: replay_call(), config)
    return stream


def _taped(name: str, shape: Callable[..., Any], replaying: Callable[..., Any], *, streams: bool = False) -> Any:
    """Return a method of a taped runnable, which replaces that method of `RunnableBindingBase`."""
    real = getattr(RunnableBindingBase, name)

    def describe(self: Any, /, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Call:  # noqa: A002 - the framework's name for it
        return Call(
            self._cross(input, config, {**kwargs, **(self._streamed() if streams else {})}),
            lambda: real(self, input, config, **kwargs),
            replaying=lambda replay_call: replaying(self, replay_call, input, self._run_config(config)),
        )

    return shape(real, describe)


class _Whole:
    """The calls of a taped runnable; apart from it, as pydantic would take them for fields."""

    invoke = _taped("invoke", plain, _replay_value)
    ainvoke = _taped("ainvoke", coroutine, _areplay_value)
    stream = _taped("stream", generator, _replay_stream, streams=True)
    astream = _taped("astream", async_generator, _areplay_stream, streams=True)

    # `RunnableBindingBase` passes these on to its runnable. `Runnable` makes them of the calls above.
    batch = Runnable.batch
    abatch = Runnable.abatch
    batch_as_completed = Runnable.batch_as_completed
    abatch_as_completed = Runnable.abatch_as_completed
    transform = Runnable.transform
    atransform = Runnable.atransform
    stream_events = Runnable.stream_events
    astream_events = Runnable.astream_events


class TapedRunnable(_Whole, RunnableBindingBase[Any, Any]):  # type: ignore[no-redef]  # its field is called `kwargs`
    """A runnable that is replayed as a whole; in every other way it's the original runnable.

    A call that is replayed begins one run, with the name and the tags of the runnable, and none below it.
    """

    def _cross(self, value: Any, config: RunnableConfig | None, given: dict[str, Any]) -> SessionCall | None:
        """Begin a call."""
        name, options = self.get_name(), {**self._configured(config), **given}
        return begin(
            CALL,
            self.bound,
            name,
            lambda _: runnable_body(value, options),
            lambda session: below(session, f"{name}()"),  # the runs of the runnable have its plain name
        )

    def _configured(self, config: RunnableConfig | None) -> dict[str, Any]:
        """Return the values of configurable fields: those that are declared, and the thread of a graph with memory."""
        fields = ensure_config(config).get("configurable", {})
        if not fields:
            return {}
        declared = [spec.id for spec in self.bound.config_specs]
        if getattr(self.bound, "checkpointer", None):
            declared.append("thread_id")
        return {name: fields[name] for name in declared if name in fields}

    def _run_config(self, config: RunnableConfig | None) -> RunnableConfig:
        """Return the config of the run of a replayed call: the name and the tags are bound to the runnable itself."""
        bound: Any = self.bound
        while isinstance(bound, RunnableBindingBase):
            config = merge_configs(bound.config, config)
            bound = bound.bound
        return config or {}

    def _streamed(self) -> dict[str, Any]:
        """Return the option that marks a stream: a graph streams its steps, not parts of its value."""
        return {"streamed": True} if hasattr(self.bound, "stream_mode") else {}

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the runnable: the methods of a graph, the parts of a chain."""
        bound = self.__dict__.get("bound")
        if bound is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(bound, name)


def tape_runnable(runnable: Runnable[Any, Any]) -> TapedRunnable:
    """Return a runnable that is recorded and replayed as a whole; a recorded one is returned unchanged."""
    return runnable if isinstance(runnable, TapedRunnable) else TapedRunnable(bound=runnable)
