"""Taped engines, agents, workflows and indexes: the same object, whose components take part in the session in force.

A taped container runs on every replay. The calls inside it that reach outside are taped, whether or not the session is
automatic. A container that it returns, such as the engine of an index, is taped too.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
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

from agenttape_core.integration.alias import alias_class, alias_of
from agenttape_core.integration.leaves import async_stream_taking_part, stream_taking_part, taking_part_here
from agenttape_llamaindex._compat import is_step, static, within_decorators

CONTAINERS: tuple[type, ...] = (
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
"""The classes of objects that are made of components. All agents are workflows."""
_RETURNED = (*CONTAINERS, BaseRetriever)
"""The classes of objects that are taped when a container returns one."""
_CALLED = frozenset({"__call__"})


def tape_container(container: Any) -> Any:
    """Return the taped alias of a container; a taped one is returned unchanged."""
    return alias_of(container, _container_alias)


@functools.cache
def _container_alias(cls: type) -> type:
    return alias_class(cls, {name: _wrapped(static(cls, name)) for name in _entrances(cls)}, _container_alias)


def _entrances(cls: type) -> list[str]:
    """Return the methods by which a program enters an object: those that are public and its class's own."""
    names = {name for parent in cls.__mro__ if not _is_foreign(parent) for name in vars(parent)}
    steps = {name for name in names if is_step(static(cls, name))}
    return sorted(
        name for name in names - steps if (name[0] != "_" or name in _CALLED) and inspect.isroutine(static(cls, name))
    )


def _is_foreign(cls: type) -> bool:
    """Return whether a class belongs neither to the framework nor to a user of it."""
    return cls.__module__.partition(".")[0] in {"builtins", "abc", "pydantic", "typing", "dataclasses_json"}


def _wrapped(method: Any) -> Any:
    if isinstance(method, staticmethod | classmethod):
        return method
    return within_decorators(method, _entered)


def _entered(real: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(real):

        @functools.wraps(real)
        async def coroutine(self: Any, *args: Any, **kwargs: Any) -> Any:
            with taking_part_here():
                return _taped(await real(self, *args, **kwargs))

        return coroutine
    if inspect.isgeneratorfunction(real) or inspect.isasyncgenfunction(real):
        return real  # these call other methods, which are wrapped

    @functools.wraps(real)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with taking_part_here():
            return _taped(real(self, *args, **kwargs))

    return method


def _taped(value: Any) -> Any:
    """Return a method's return value, taped: a container, or a stream that makes its calls when it is read."""
    if isinstance(value, _RETURNED):
        return tape_container(value)
    if isinstance(value, StreamingResponse | AsyncStreamingResponse):
        value.response_gen = _taped(value.response_gen)
        return value
    if inspect.isgenerator(value):
        return stream_taking_part(value)
    return async_stream_taking_part(value) if inspect.isasyncgen(value) else value
