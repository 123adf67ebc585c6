"""Substitute components of users that reach outside directly, where LlamaIndex's work through other components.

Engines, transformations, synthesizers, selectors, evaluators, memory blocks and their like are program: a replay runs
them, and the calls that they make are replayed. A class that a user has written may ask a service itself. Then its call
is recorded and replayed as a whole; see `agenttape_core.integration.program_call`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import nullcontext
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_selector import BaseSelector
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.response.schema import AsyncStreamingResponse, Response, StreamingResponse
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.evaluation import BaseEvaluator
from llama_index.core.extractors import BaseExtractor
from llama_index.core.indices.query.query_transform.base import BaseQueryTransform
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import LLM
from llama_index.core.memory.memory import BaseMemoryBlock
from llama_index.core.node_parser import MetadataAwareTextSplitter, NodeParser, TextSplitter
from llama_index.core.question_gen.types import BaseQuestionGenerator
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import TransformComponent
from llama_index.core.types import BasePydanticProgram

from agenttape_core.integration import (
    Boundary,
    Call,
    Cross,
    Family,
    Leaf,
    ProgramCall,
    SessionCall,
    areplay_stream,
    begin,
    coroutine,
    named_arguments,
    original_of,
    plain,
    program_call,
    replay_stream,
    session_of_call,
    state_of,
)
from agenttape_core.integration.alias import is_alias
from agenttape_core.integration.leaves import kept
from agenttape_llamaindex._compat import static, within_decorators
from agenttape_llamaindex.components import is_boundary_but
from agenttape_llamaindex.containers import tape_container
from agenttape_llamaindex.requests import identity_of, method_body
from agenttape_llamaindex.streamed_chats import Answering, chat_answer

# -- The streamed answers of components that reach outside by themselves: a head without the stream, and its texts.

_STREAMS = (Generator, AsyncGenerator)
_ASYNC, _RESPONSE, _CHAT = "is_async", "response", "chat"


def followed(call: ProgramCall, value: Any) -> Any:
    """Return the return value of a watched component, with its end noted: now, or when its stream ends."""
    is_response = isinstance(value, StreamingResponse | AsyncStreamingResponse)
    if is_response and isinstance(value.response_gen, _STREAMS):
        bare = Response(None, value.source_nodes, value.metadata)
        value.response_gen = _followed(call, value.response_gen, bare)
        return value
    if isinstance(value, _STREAMS):
        return _followed(call, value, None)
    call.returned(value)
    return value


def _followed(call: ProgramCall, stream: Any, bare: Response | None) -> Any:
    is_async = isinstance(stream, AsyncGenerator)
    head = {_ASYNC: is_async, _RESPONSE: bare}
    return call.astreamed(head, stream) if is_async else call.streamed(head, stream)


def is_streamed(session_call: Any) -> bool:
    """Return whether a call is replayed, and its answer is a stream."""
    return isinstance(session_call, SessionCall) and session_call.is_replayed and session_call.is_stream


def replayed(session_call: Any) -> Any:
    """Return a recorded streamed answer to a call that is not awaited."""
    chunks = replay_stream(session_call)
    return _answer(next(chunks), chunks)


async def areplayed(session_call: Any) -> Any:
    """Return a recorded streamed answer to a call that is awaited: an async stream if it was one."""
    if not next(session_call.replay_chunks())[_ASYNC]:
        return replayed(session_call)
    chunks = areplay_stream(session_call)
    head = await anext(chunks)
    if _CHAT in head:
        return chat_answer(head[_CHAT], chunks)
    bare = head[_RESPONSE]
    if bare is None:
        return chunks
    return AsyncStreamingResponse(response_gen=chunks, source_nodes=bare.source_nodes, metadata=bare.metadata)


def _answer(head: Mapping[str, Any], chunks: Any) -> Any:
    if _CHAT in head:
        return chat_answer(head[_CHAT], chunks)
    bare = head[_RESPONSE]
    if bare is None:
        return chunks
    return StreamingResponse(response_gen=chunks, source_nodes=bare.source_nodes, metadata=bare.metadata)


CALL = Boundary("call")
_CHATS = frozenset({"stream_chat", "astream_chat"})
"""The methods whose answers are read by a thread or their own task."""
_ASKING = frozenset({"llama_index.llms.openai.responses.OpenAIResponses"})
"""Classes of LLMs that request objects from their service by separate methods, and not by their leaf calls."""


def _begun(
    method: str, leaf: str, names: tuple[str, ...], self: Any, given: tuple[tuple[Any, ...], dict[str, Any]]
) -> SessionCall | ProgramCall | None:
    session = session_of_call(self)
    if session is None:
        return None
    arguments = named_arguments(static(type(self), leaf), names, *given)

    def body() -> dict[str, Any]:
        return method_body(method, arguments, identity_of(self) if isinstance(self, LLM) else {})

    if _asks_its_service(type(self)):
        return begin(CALL, self, type(self).__name__, lambda _: body())
    return program_call(
        session,
        CALL,
        type(self).__name__,
        body,
        owner=state_of(self),
        code=self,
        is_taped=is_alias(self),
    )


def _asks_its_service(cls: type) -> bool:
    return any(f"{each.__module__}.{each.__qualname__}" in _ASKING for each in cls.__mro__)


def _running(self: Any) -> Any:
    """Return the object whose code runs: a taped LLM calls its service directly, all others go through their parts."""
    return self if isinstance(self, LLM) else original_of(self)


def _describe(real: Callable[..., Any], cross: Cross, self: Any, /, *args: Any, **kwargs: Any) -> Call:
    """Describe a call that returns: it is replayed, or runs and is watched."""
    args, kwargs = kept(args, kwargs)
    met: Any = cross(self, args, kwargs)
    if is_streamed(met):
        return Call(met, lambda: None, replaying=lambda _: replayed(met))
    if not isinstance(met, ProgramCall):
        return Call(met, lambda: real(_running(self), *args, **kwargs))
    answering = Answering(met)

    def watched() -> Any:
        with met.running(), answering.here() if real.__name__ in _CHATS else nullcontext():
            value = real(_running(self), *args, **kwargs)
        return value if answering.has_stream else followed(met, value)

    return Call(None, watched)


def _adescribe(real: Callable[..., Any], cross: Cross, self: Any, /, *args: Any, **kwargs: Any) -> Call:
    """Describe a call that is awaited; see `_describe`."""
    args, kwargs = kept(args, kwargs)
    met: Any = cross(self, args, kwargs)
    if is_streamed(met):
        return Call(met, lambda: None, replaying=lambda _: areplayed(met))
    if not isinstance(met, ProgramCall):
        return Call(met, lambda: real(_running(self), *args, **kwargs))
    answering = Answering(met)

    async def watched() -> Any:
        async with met.awaiting():
            with met.running(), answering.here() if real.__name__ in _CHATS else nullcontext():
                value = await real(_running(self), *args, **kwargs)
        return value if answering.has_stream else followed(met, value)

    return Call(None, watched)


def _session_call(method: str, leaf: str, names: tuple[str, ...]) -> Any:
    """Return what begins the calls of a leaf; `_describe` understands also those that are watched."""
    return lambda self, args, kwargs: _begun(method, leaf, names, self, (args, kwargs))


_Names = Mapping[str, tuple[str, ...]]
"""Methods of an interface, with the names of their positional arguments."""


def _family(plain_: _Names, awaited: _Names, base: type, *others: type) -> Family:
    """Return the family of an interface.

    `plain_` methods return. A call of a method that is `awaited` is
    the same as one of its twin, the method without the `a`. `others` are interfaces of LlamaIndex that derive from
    `base`.
    """
    leaves = {}
    for shape, describe, methods in ((plain, _describe, plain_), (coroutine, _adescribe, awaited)):
        for leaf, names in methods.items():
            bare = leaf.strip("_")
            method = bare.removeprefix("a") if shape is coroutine else bare
            leaves[leaf] = Leaf(shape, _session_call(method, leaf, names), describe, within=within_decorators)
    return Family(base, leaves, is_boundary=_is_of_user(base, *others), is_made_of_parts=_every_object)


def _is_of_user(*interfaces: type) -> Callable[[type], bool]:
    own = is_boundary_but(*interfaces)
    return lambda cls: own(cls) and not issubclass(cls, BaseEmbedding)  # which is a transformation, too


def _every_object(_: Any) -> bool:
    """Let the calls inside a taped object take part."""
    return True


_QUERY, _NODES, _MESSAGES = ("query_bundle",), ("nodes",), ("messages",)

QUERY_ENGINES = _family({"_query": _QUERY}, {"_aquery": _QUERY}, BaseQueryEngine)
_SAID = ("message", "chat_history")
CHAT_ENGINES = _family({"chat": _SAID, "stream_chat": _SAID}, {"achat": _SAID, "astream_chat": _SAID}, BaseChatEngine)
TRANSFORMATIONS = _family(
    {"__call__": _NODES, "_parse_nodes": ("nodes", "show_progress"), "split_text": ("text",)},
    {"acall": _NODES, "aextract": _NODES, "_aparse_nodes": ("nodes", "show_progress")},
    TransformComponent,
    BaseExtractor,
    NodeParser,
    TextSplitter,
    MetadataAwareTextSplitter,
)
SYNTHESIZERS = _family(
    {"get_response": ("query_str", "text_chunks")}, {"aget_response": ("query_str", "text_chunks")}, BaseSynthesizer
)
SELECTORS = _family({"_select": ("choices", "query")}, {"_aselect": ("choices", "query")}, BaseSelector)
QUESTION_GENERATORS = _family(
    {"generate": ("tools", "query")}, {"agenerate": ("tools", "query")}, BaseQuestionGenerator
)
EVALUATORS = _family({}, {"aevaluate": ("query", "response", "contexts")}, BaseEvaluator)
PROGRAMS = _family({"__call__": ()}, {"acall": ()}, BasePydanticProgram)
QUERY_TRANSFORMS = _family({"_run": ("query_bundle", "metadata")}, {}, BaseQueryTransform)
MEMORY_BLOCKS = _family(
    {}, {"_aget": _MESSAGES, "_aput": _MESSAGES, "atruncate": ("content", "tokens_to_truncate")}, BaseMemoryBlock
)
_OBJECT = ("output_cls", "prompt", "llm_kwargs")
STRUCTURED = _family({"structured_predict": _OBJECT}, {"astructured_predict": _OBJECT}, LLM, FunctionCallingLLM)
"""The methods by which classes of LLMs ask for objects. Most end in leaf calls; some ask their service themselves."""

PROGRAM_PARTS = (
    QUERY_ENGINES,
    CHAT_ENGINES,
    TRANSFORMATIONS,
    SYNTHESIZERS,
    SELECTORS,
    QUESTION_GENERATORS,
    EVALUATORS,
    PROGRAMS,
    QUERY_TRANSFORMS,
    MEMORY_BLOCKS,
    STRUCTURED,
)
"""The families of components that are part of the program, unless a user's class reaches outside directly."""


def tape_part(part: Any) -> Any:
    """Return the taped alias of such a component; a taped one is returned unchanged.

    One of LlamaIndex's own is a container. One of a user is recorded even if it makes no calls that are recorded.
    """
    taped = tape_container(part)
    family = next(
        (each for each in PROGRAM_PARTS if isinstance(part, each.base) and each.is_boundary(type(part))), None
    )
    return family.tape(taped, again=True) if family is not None else taped
