"""Substitute a runnable as a whole: a chain, a function, a compiled graph.

Nothing inside it runs on replay. What is inside while it is recorded, such as model calls, is recorded as its children.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import ensure_config, merge_configs

from agenttape_core.integration import (
    Boundary,
    Crossing,
    aintercept,
    aintercept_stream,
    aserve,
    aserve_stream,
    begin,
    below,
    intercept,
    intercept_stream,
    serve,
    serve_stream,
)
from agenttape_langchain.requests import runnable_body


def _joined(chunks: list[Any]) -> Any:
    """Return what LangChain makes of a stream: the sum of its chunks, or the last one if they cannot be added."""
    whole = chunks[0] if chunks else None
    for chunk in chunks[1:]:
        try:
            whole = whole + chunk
        except TypeError:
            whole = chunk
    return whole


CALL = Boundary("call", join=_joined, split=lambda value: [value])


class _Whole:
    """What `RunnableBindingBase` hands on to its runnable, done as `Runnable` does it: by the calls of the whole."""

    batch = Runnable.batch
    abatch = Runnable.abatch
    batch_as_completed = Runnable.batch_as_completed
    abatch_as_completed = Runnable.abatch_as_completed
    transform = Runnable.transform
    atransform = Runnable.atransform
    stream_events = Runnable.stream_events
    astream_events = Runnable.astream_events


class TapedRunnable(_Whole, RunnableBindingBase[Any, Any]):  # type: ignore[no-redef]  # its field is called `kwargs`
    """A runnable that is served as a whole; everything else about it is that of the runnable it stands for.

    A call that is served begins one run, with the name and the tags of the runnable, and none below it.
    """

    def _cross(self, value: Any, config: RunnableConfig | None, given: dict[str, Any], **how: Any) -> Crossing | None:
        """Begin the crossing of a call, or nothing where it belongs to no session or to its own outer call."""
        name, options = self.get_name(), {**self._configured(config), **given, **how}
        return begin(
            CALL,
            self.bound,
            name,
            lambda _: runnable_body(value, options),
            lambda session: below(session, f"{name}()"),  # the runs of the runnable have its plain name
        )

    def _configured(self, config: RunnableConfig | None) -> dict[str, Any]:
        """Return the values of what can be configured: declared fields, and the thread of a graph that remembers."""
        fields = ensure_config(config).get("configurable", {})
        if not fields:
            return {}
        declared = [spec.id for spec in self.bound.config_specs]
        if getattr(self.bound, "checkpointer", None):
            declared.append("thread_id")
        return {name: fields[name] for name in declared if name in fields}

    def _run_config(self, config: RunnableConfig | None) -> RunnableConfig:
        """Return the config of the run of a served call: the name and the tags are bound to the runnable itself."""
        bound: Any = self.bound
        while isinstance(bound, RunnableBindingBase):
            config = merge_configs(bound.config, config)
            bound = bound.bound
        return config or {}

    def _streamed(self) -> dict[str, Any]:
        """Return what tells a stream from a plain call: a graph streams its steps, not the parts of its value."""
        return {"streamed": True} if hasattr(self.bound, "stream_mode") else {}

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Answer as the runnable did."""
        crossing = self._cross(input, config, kwargs)
        if crossing is not None and crossing.is_served:
            return self._call_with_config(lambda _: serve(crossing), input, self._run_config(config))
        execute = super().invoke
        if crossing is None:
            return execute(input, config, **kwargs)
        return intercept(crossing, lambda: execute(input, config, **kwargs))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Answer as the runnable did."""
        crossing = self._cross(input, config, kwargs)
        if crossing is not None and crossing.is_served:

            async def replay(_: Any) -> Any:
                return await aserve(crossing)

            return await self._acall_with_config(replay, input, self._run_config(config))
        execute = super().ainvoke
        if crossing is None:
            return await execute(input, config, **kwargs)
        return await aintercept(crossing, lambda: execute(input, config, **kwargs))

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:  # noqa: A002
        """Stream as the runnable did."""
        crossing = self._cross(input, config, kwargs, **self._streamed())
        if crossing is not None and crossing.is_served:

            def replay(_: Iterator[Any]) -> Iterator[Any]:
                yield from serve_stream(crossing)

            yield from self._transform_stream_with_config(iter([input]), replay, self._run_config(config))
            return
        execute = super().stream
        if crossing is None:
            yield from execute(input, config, **kwargs)
        else:
            yield from intercept_stream(crossing, lambda: execute(input, config, **kwargs))

    async def astream(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """Stream as the runnable did."""
        crossing = self._cross(input, config, kwargs, **self._streamed())
        execute: Callable[..., AsyncIterator[Any]] = super().astream
        if crossing is None:
            chunks = execute(input, config, **kwargs)
        elif crossing.is_served:
            served = self._run_config(config)
            chunks = self._atransform_stream_with_config(_alone(input), lambda _: aserve_stream(crossing), served)
        else:
            chunks = aintercept_stream(crossing, lambda: execute(input, config, **kwargs))
        async for chunk in chunks:
            yield chunk

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the runnable: the methods of a graph, the parts of a chain."""
        bound = self.__dict__.get("bound")
        if bound is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(bound, name)


async def _alone(value: Any) -> AsyncIterator[Any]:
    yield value


def tape_runnable(runnable: Runnable[Any, Any]) -> TapedRunnable:
    """Return a runnable that is recorded and served as a whole; a taped one is returned as it is."""
    return runnable if isinstance(runnable, TapedRunnable) else TapedRunnable(bound=runnable)
