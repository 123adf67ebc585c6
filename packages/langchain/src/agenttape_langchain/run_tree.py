"""The tree of runs that LangChain's callbacks show, and the position of each call in it.

The address of a call is the path of the runs around it. Each session has a tree (`session_tree.py`), and each
`TapeCallbackHandler`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import ref

from agenttape_core.integration import FirstInput, Position, RecordedRuns
from agenttape_core.integration.threads import task_branch
from agenttape_langchain._compat import BeginningTool, InlineHandler, beginning_tool
from agenttape_langchain.address import model_name, placement, run_name
from agenttape_langchain.configurables import begun_with
from agenttape_langchain.inputs import Inputs

if TYPE_CHECKING:
    from uuid import UUID
import dataclasses
import re
from collections.abc import Iterator
from uuid import UUID

from langchain_core.messages import BaseMessage
from pydantic import BaseModel

# -- Ids around a tool: of the tasks of its graphs, and those in the state that is injected into it.

_STATE = "state"
"""The attribute of a runtime that holds the state; all others lead back to the graph."""


_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TASK = rf":({_UUID})(?=\||$)"
_LENGTH = 36
"""The length of a UUID in characters."""
_IN_MESSAGES = ("content", "tool_calls", "tool_call_id", "additional_kwargs")
"""The fields of messages that may hold ids which the program has drawn."""


def ids_of_tasks(metadata: Mapping[str, Any]) -> list[str]:
    """Return the ids of the tasks of graphs in which a run is made, the outermost first.

    LangGraph puts the namespace of the task into the metadata.
    """
    return re.findall(_TASK, str(metadata.get("langgraph_checkpoint_ns", "")))


def ids_in_state(value: Any) -> Iterator[str]:
    """Yield the ids in a value, in its order: of messages (an empty text if one has none), and UUIDs in texts.

    `value` is arguments, a state, or a runtime that holds one.
    """
    if isinstance(value, str):
        if len(value) >= _LENGTH:
            yield from re.findall(_UUID, value)
    elif isinstance(value, UUID):
        yield str(value)
    else:
        if isinstance(value, BaseMessage):
            yield value.id or ""
        for part in _parts(value):
            yield from ids_in_state(part)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, BaseMessage):
        return [getattr(value, name, None) for name in _IN_MESSAGES]
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, BaseModel):
        return dict(value).values()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return [getattr(value, name, None) for name in ([_STATE] if _STATE in names else names)]
    return ()


class Run(NamedTuple):
    """A run that has begun.

    Args:
        position: Its position in the tree.
        params: For a model: the parameters of the call, as its provider is to receive them.
        tool: For a tool: its name.
        inputs: For a tool: its arguments from the model, without the parts that the framework injects.
        tool_call_id: For a tool that a model called: the id of the tool call.
        is_model: Whether a chain is the run of a model: LangChain reports decision models as chains.
        ids_around: For a tool of an observed run: the ids of the tasks of its graphs, and those in the state that is
            injected into it.
    """

    position: Position
    params: Any = None
    tool: str | None = None
    inputs: Any = None
    tool_call_id: str | None = None
    ids_around: tuple[str, ...] = ()
    is_model: bool = False


class ChainFacts(NamedTuple):
    """Facts about a chain that begins, from the framework.

    Args:
        name: Its name.
        inputs: Its input.
        tags: Its tags, including inherited ones.
        metadata: Its metadata, including inherited ones.
        configurable: For an outermost chain: the configurable part of its config, as far as it's plain data.
    """

    name: str
    inputs: Any
    tags: Sequence[str]
    metadata: dict[str, Any]
    configurable: Mapping[str, Any] = {}


class Follower(Protocol):
    """Follows the chains of a session. Called right after the tree has been updated."""

    def began(self, run_id: UUID, parent_run_id: UUID | None, run: Run, facts: ChainFacts) -> None:
        """Note that a chain begins, in the context in which its code will run."""

    def ended(self, run_id: UUID, output: Any) -> None:
        """Note that it has ended."""

    def failed(self, run_id: UUID, error: BaseException) -> None:
        """Note that it has failed."""


class _Chain(NamedTuple):
    """A chain that began in a context, and the one around it.

    The context may live on after the session, and must not keep it: all that a replay holds would seem to outlive it.
    """

    tree: ref[RunTree]
    run_id: UUID
    run: Run
    outer: _Chain | None


_chains: ContextVar[_Chain | None] = ContextVar("agenttape_chains", default=None)
_announced: ContextVar[tuple[tuple[ref[RunTree], UUID], ...]] = ContextVar("agenttape_announced", default=())
"""The model calls whose runs have begun in a context, and the trees that they are in."""


class RunTree(InlineHandler):
    """The open runs of one session, in whatever thread or task they happen.

    Args:
        root: The position below which runs without a parent begin.
        followers: Followers of its chains.
        recorded: The outermost runs of the recording that is replayed.
        is_observed: Returns true if the ids of messages in the state of tools are to be known, as for the recording of
            an observer, which cannot freeze them.
        first_input: Keeps the input of the first outermost chain.
        forks: Whether parallel tasks get their own branches.
    """

    raise_error = True

    def __init__(
        self,
        root: Position,
        followers: Iterable[Follower] = (),
        recorded: RecordedRuns | None = None,
        is_observed: Callable[[], bool] = lambda: False,
        first_input: FirstInput | None = None,
        *,
        forks: bool = True,
    ) -> None:
        self._me = ref(self)
        self._forks = forks
        self._root = root
        self.inputs = Inputs(first_input if first_input is not None else FirstInput(is_kept=False))
        self._followers = followers
        self._recorded = recorded
        self._is_observed = is_observed
        self.runs_by_id: dict[UUID, Run] = {}
        self._waiting_models: dict[UUID, Run] = {}
        """The model calls that were announced, and whose leaf methods have not been called yet."""

    def run(self, run_id: UUID | None) -> Run | None:
        """Return an open run."""
        return self.runs_by_id.get(run_id) if run_id is not None else None

    def announced_model(self) -> Run | None:
        """Return the run of the model call that was last announced in this context, and forget the announcement.

        `stream` passes its callbacks the run id, but not the leaf method that it then calls. A call that another task
        has made for this context was announced here, and ended there: its run is no longer open.
        """
        announced, others = _announced.get(), []
        mine: Run | None = None
        for entry in announced:
            if entry[0]() is not self:
                others.append(entry)
            elif mine is None:
                # Not only at its end: the framework does not end the run of a call that is cancelled.
                mine = self._waiting_models.pop(entry[1], None)
            elif entry[1] in self._waiting_models:
                others.append(entry)
        if announced:
            _announced.set(tuple(others))
        return mine

    def _forget_announced(self) -> None:
        _announced.set(tuple([entry for entry in _announced.get() if entry[0]() is not self]))

    def chain(self) -> Run | None:
        """Return the innermost open chain that began in this context.

        A graph acts for a node after its function has returned, such as when it writes the state. Nothing else ties
        that to the node's run.
        """
        chain = self._open_chain()
        return chain.run if chain is not None else None

    def _open_chain(self) -> _Chain | None:
        chain = _chains.get()
        while chain is not None and (chain.tree() is not self or chain.run_id not in self.runs_by_id):
            chain = chain.outer
        return chain

    def begin(
        self,
        run_id: UUID,
        parent_run_id: UUID | None,
        name: str,
        tags: Sequence[str] | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        given: Any = None,
        **facts: Any,
    ) -> Run:
        """Begin a run."""
        parent = self.runs_by_id.get(parent_run_id) if parent_run_id is not None else None
        above = parent.position if parent is not None else self._root
        place = placement(name, tags or (), metadata or {})
        branch = task_branch(above) if self._forks else None
        if parent is None and self._recorded is not None and self._recorded.are_matched:
            begin = functools.partial(above.child, branch=branch, **place)
            position = self._recorded.begin(begin, given, begun_with(), metadata)
        else:
            position = above.child(branch=branch, **place)
        run = self.runs_by_id[run_id] = Run(position, **facts)
        return run

    def ids_around(self, tool: BeginningTool | None, metadata: Mapping[str, Any] | None) -> tuple[str, ...]:
        """Return the ids around a tool that its outcome may hold, if the run is an observed one."""
        if tool is None or not self._is_observed():
            return ()
        return (*ids_of_tasks(metadata or {}), *ids_in_state(tool.arguments))

    def end(self, run_id: UUID) -> Run | None:
        """End a run."""
        if self._waiting_models:
            self._waiting_models.pop(run_id, None)
        return self.runs_by_id.pop(run_id, None)

    # -- what the framework calls ------------------------------------------------------------------------------

    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Begin a chain, an agent, a graph or one of its nodes."""
        name = run_name(serialized, kwargs)
        is_model = kwargs.get("run_type") == "llm"
        run = self.begin(run_id, parent_run_id, name, tags, metadata, given=inputs, is_model=is_model)
        _chains.set(_Chain(self._me, run_id, run, self._open_chain()))
        facts = ChainFacts(name, inputs, tags or (), metadata or {}, begun_with())
        if parent_run_id is None:
            self.inputs.began(run_id, inputs, facts.configurable)
        for follower in self._followers:
            follower.began(run_id, parent_run_id, run, facts)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """End it."""
        self.end(run_id)
        self.inputs.ended(run_id, kwargs)
        for follower in self._followers:
            follower.ended(run_id, outputs)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """End it."""
        self.end(run_id)
        self.inputs.ended(run_id, kwargs)
        for follower in self._followers:
            follower.failed(run_id, error)

    def on_retriever_start(
        self,
        serialized: dict[str, Any] | None,
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """Begin a retrieval."""
        self.begin(run_id, parent_run_id, run_name(serialized, kwargs), *_tagged(kwargs))

    def on_retriever_end(self, documents: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """End it."""
        self.end(run_id)

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """End it."""
        self.end(run_id)

    def on_llm_start(
        self,
        serialized: dict[str, Any] | None,
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """Begin a call of a text model."""
        self.begin(run_id, parent_run_id, model_name(serialized, kwargs), *_tagged(kwargs))

    def on_chat_model_start(
        self,
        serialized: dict[str, Any] | None,
        messages: list[list[Any]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        invocation_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Begin a call of a chat model, and announce its run to the leaf method."""
        name = model_name(serialized, kwargs)
        tags, metadata = kwargs.get("tags"), kwargs.get("metadata")
        run = self.begin(run_id, parent_run_id, name, tags, metadata, params=invocation_params)
        self._waiting_models[run_id] = run
        _announced.set((*_announced.get(), (self._me, run_id)))

    def on_llm_end(self, response: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """End a model call."""
        self.end(run_id)
        if _announced.get():
            self._forget_announced()

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """End a model call."""
        self.end(run_id)
        if _announced.get():
            self._forget_announced()

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Begin a tool call."""
        name = run_name(serialized, {})
        self.begin(
            run_id,
            parent_run_id,
            name,
            *_tagged(kwargs),
            tool=name,
            inputs=inputs if inputs is not None else input_str,
            tool_call_id=kwargs.get("tool_call_id"),
            ids_around=self.ids_around(beginning_tool(), kwargs.get("metadata")),
        )

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """End a tool call."""
        self.end(run_id)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """End a tool call."""
        self.end(run_id)


def _tagged(kwargs: dict[str, Any]) -> tuple[Any, Any]:
    return kwargs.get("tags"), kwargs.get("metadata")
