"""Taped engines, agents, workflows, indexes: the same object, whose parts take part in the session in force.

A taped engine or agent runs on every replay. What reaches outside from within it is taped, whether or not the session
is ambient. What it gives that can be run in turn, such as the engines of an index, is taped likewise.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.base_selector import BaseSelector
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.evaluation import BaseEvaluator
from llama_index.core.indices.base import BaseIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.memory import BaseMemory
from llama_index.core.question_gen.types import BaseQuestionGenerator
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import TransformComponent
from llama_index.core.types import BasePydanticProgram
from llama_index.core.workflow import Workflow

from agenttape_core.integration import alias_class, alias_of, current_session, taking_part
from agenttape_llamaindex._compat import is_step, static, within_decorators

WHOLES: tuple[type, ...] = (
    Workflow,
    BaseQueryEngine,
    BaseChatEngine,
    BaseIndex,
    BaseSynthesizer,
    BaseSelector,
    BaseQuestionGenerator,
    BaseEvaluator,
    BasePydanticProgram,
    BaseMemory,
    IngestionPipeline,
    TransformComponent,
)
"""What is made of parts. All agents are workflows."""
_ALSO = (*WHOLES, BaseRetriever)
_CALLED = frozenset({"__call__"})
_END: Any = object()


def tape_whole(whole: Any) -> Any:
    """Return the taped alias of what is made of parts; a taped one is returned as it is."""
    return alias_of(whole, _whole_alias)


@functools.cache
def _whole_alias(cls: type) -> type:
    return alias_class(cls, {name: _wrapped(static(cls, name)) for name in _entrances(cls)}, _whole_alias)


def _entrances(cls: type) -> list[str]:
    """Return the methods by which a program enters an object: those that are public and are its class's own."""
    names = {name for parent in cls.__mro__ if not _is_foreign(parent) for name in vars(parent)}
    steps = {name for name in names if is_step(static(cls, name))}
    return sorted(
        name for name in names - steps if (name[0] != "_" or name in _CALLED) and inspect.isroutine(static(cls, name))
    )


def _is_foreign(cls: type) -> bool:
    """Whether a class is none of the framework or of a user of it."""
    return cls.__module__.partition(".")[0] in {"builtins", "abc", "pydantic", "typing", "dataclasses_json"}


def _wrapped(method: Any) -> Any:
    if isinstance(method, staticmethod | classmethod):
        return method
    return within_decorators(method, _entered)


def _entered(real: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(real):

        @functools.wraps(real)
        async def coroutine(self: Any, *args: Any, **kwargs: Any) -> Any:
            with _inside():
                return _taped(await real(self, *args, **kwargs))

        return coroutine
    if inspect.isgeneratorfunction(real) or inspect.isasyncgenfunction(real):
        return real  # what they do, they do by other methods

    @functools.wraps(real)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _inside():
            return _taped(real(self, *args, **kwargs))

    return method


def _taped(value: Any) -> Any:
    """Return what a method has given: a part of the whole, or a stream that asks only when it is read."""
    if isinstance(value, _ALSO):
        return tape_whole(value)
    if isinstance(value, StreamingResponse | AsyncStreamingResponse):
        value.response_gen = _taped(value.response_gen)
        return value
    if inspect.isgenerator(value):
        return _stream(value)
    return _async_stream(value) if inspect.isasyncgen(value) else value


def _stream(real: Generator[Any, Any, Any]) -> Iterator[Any]:
    try:
        while True:
            with _inside():
                item = next(real, _END)
            if item is _END:
                return
            yield item
    finally:
        with _inside():
            real.close()


async def _async_stream(real: AsyncGenerator[Any, Any]) -> AsyncIterator[Any]:
    try:
        while True:
            with _inside():
                item = await anext(real, _END)
            if item is _END:
                return
            yield item
    finally:
        with _inside():
            await real.aclose()


def _inside() -> AbstractContextManager[None]:
    session = current_session()
    return taking_part(session) if session is not None else nullcontext()


_CORE = "llama_index.core"
_WORKFLOWS = ("workflows", "llama_index_instrumentation")
_REACHING = frozenset({"SentenceTransformerRerank", "NERPIINodePostprocessor", "OnDemandLoaderTool"})
"""Parts of the core that run a model of their own, or read from wherever they are told to."""


def is_boundary(cls: type) -> bool:
    """Whether what a class does is recorded as a whole."""
    nearest = next((parent for parent in cls.__mro__ if is_of_core(parent.__module__)), None)
    return nearest is None or inspect.isabstract(nearest) or nearest.__name__ in _REACHING


def is_boundary_but(*interfaces: type) -> Callable[[type], bool]:
    """Return `is_boundary` for interfaces that are not abstract, as Python sees it."""

    def boundary(cls: type) -> bool:
        nearest = next((parent for parent in cls.__mro__ if is_of_core(parent.__module__)), None)
        return cls not in interfaces and (nearest in interfaces or is_boundary(cls))

    return boundary


def is_function_of_core(function: Callable[..., Any]) -> bool:
    """Whether a function is LlamaIndex's own: a hand-off, what fills in an object, a method of an engine."""
    return is_of_core(getattr(inspect.unwrap(function), "__module__", None) or "")


def is_of_core(module: str) -> bool:
    """Whether a module is LlamaIndex's own."""
    return f"{module}.".startswith(f"{_CORE}.") or module.partition(".")[0] in _WORKFLOWS
