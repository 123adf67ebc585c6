"""LangChain's tree of runs as positions of AgentTape: the address of a call is the path of runs around it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from agenttape_core.integration import Branch, Position, task_branch
from agenttape_langchain._compat import InlineHandler

if TYPE_CHECKING:
    from uuid import UUID


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has begun.

    Args:
        position: Where it stands.
        params: For a model: the parameters of the call, as its provider is to receive them.
        tool: For a tool: its name.
        inputs: For a tool: its arguments as the model gave them, without what the framework injects.
        tool_call_id: For a tool that a model asked for: the id of the tool call.
    """

    position: Position
    params: Any = None
    tool: str | None = None
    inputs: Any = None
    tool_call_id: str | None = None


class Follower(Protocol):
    """Is told of the chains of a session, right after the tree has been."""

    def began(self, run_id: UUID, parent_run_id: UUID | None, run: Run, told: Told) -> None:
        """Note that a chain begins, in the context in which its code will run."""

    def ended(self, run_id: UUID, output: Any) -> None:
        """Note that it has ended."""

    def failed(self, run_id: UUID, error: BaseException) -> None:
        """Note that it has failed."""


class Told(NamedTuple):
    """What the framework says of a chain that begins.

    Args:
        name: What it is called.
        inputs: What it is given.
        tags: Its tags, with those it inherited.
        metadata: Its metadata, likewise.
    """

    name: str
    inputs: Any
    tags: Sequence[str]
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Chain:
    """A chain that began in a context, and the one around it."""

    tree: RunTree
    run_id: UUID
    run: Run
    outer: _Chain | None


_chains: ContextVar[_Chain | None] = ContextVar("agenttape_chains", default=None)
_announced: ContextVar[tuple[tuple[RunTree, Run], ...]] = ContextVar("agenttape_announced", default=())


class RunTree(InlineHandler):
    """Follows the runs of one session, in whatever thread or task they happen.

    Args:
        root: The position below which runs without a parent begin.
        followers: Who is to be told of its chains.
    """

    raise_error = True

    def __init__(self, root: Position, followers: Iterable[Follower] = ()) -> None:
        self._root = root
        self._followers = followers
        self._runs: dict[UUID, Run] = {}

    def run(self, run_id: UUID | None) -> Run | None:
        """Return an open run."""
        return self._runs.get(run_id) if run_id is not None else None

    def announced_model(self) -> Run | None:
        """Return the run of the model call that has just been announced in this context, once.

        `stream` tells its callbacks of a run, but does not tell the leaf which run it is.
        """
        waiting = _announced.get()
        mine = next((entry for entry in waiting if entry[0] is self), None)
        if mine is None:
            return None
        _announced.set(tuple(entry for entry in waiting if entry is not mine))
        return mine[1]

    def _forget_announced(self) -> None:
        waiting = _announced.get()
        if waiting:
            _announced.set(tuple(entry for entry in waiting if entry[0] is not self))

    def _begin(
        self,
        run_id: UUID,
        parent_run_id: UUID | None,
        name: str,
        tags: Sequence[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **facts: Any,
    ) -> Run:
        parent = self.run(parent_run_id)
        above = parent.position if parent is not None else self._root
        run = Run(above.child(branch=self._branch(above), **place_of_run(name, tags or (), metadata or {})), **facts)
        self._runs[run_id] = run
        return run

    def _branch(self, above: Position) -> Branch | None:
        """Return the strand in which a run begins."""
        return task_branch(above)

    def _end(self, run_id: UUID) -> Run | None:
        return self._runs.pop(run_id, None)

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
        run = self._begin(run_id, parent_run_id, name, tags, metadata)
        _chains.set(_Chain(self, run_id, run, self._open_chain()))
        for follower in self._followers:
            follower.began(run_id, parent_run_id, run, Told(name, inputs, tags or (), metadata or {}))

    def chain(self) -> Run | None:
        """Return the innermost chain that began in this context and is still open.

        What a graph does for a node after its function has returned, such as writing the state, is not told to belong
        to the node's run in any other way.
        """
        chain = self._open_chain()
        return chain.run if chain is not None else None

    def _open_chain(self) -> _Chain | None:
        chain = _chains.get()
        while chain is not None and (chain.tree is not self or chain.run_id not in self._runs):
            chain = chain.outer
        return chain

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """End it."""
        self._end(run_id)
        for follower in self._followers:
            follower.ended(run_id, outputs)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """End it."""
        self._end(run_id)
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
        self._begin(run_id, parent_run_id, run_name(serialized, kwargs), *tagged(kwargs))

    def on_retriever_end(self, documents: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """End it."""
        self._end(run_id)

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """End it."""
        self._end(run_id)

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
        self._begin(run_id, parent_run_id, model_name(serialized, kwargs), *tagged(kwargs))

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
        """Begin a model call, and tell its leaf which run it is."""
        name = model_name(serialized, kwargs)
        run = self._begin(run_id, parent_run_id, name, *tagged(kwargs), params=invocation_params)
        _announced.set((*_announced.get(), (self, run)))

    def on_llm_end(self, response: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """End a model call."""
        self._end(run_id)
        self._forget_announced()

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """End a model call."""
        self._end(run_id)
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
        self._begin(
            run_id,
            parent_run_id,
            name,
            *tagged(kwargs),
            tool=name,
            inputs=inputs if inputs is not None else input_str,
            tool_call_id=kwargs.get("tool_call_id"),
        )

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """End a tool call."""
        self._end(run_id)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """End a tool call."""
        self._end(run_id)


def tagged(kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Return the tags and the metadata of a run, of what a callback is told beside its named arguments."""
    return kwargs.get("tags"), kwargs.get("metadata")


def run_name(serialized: dict[str, Any] | None, kwargs: dict[str, Any]) -> str:
    """Return what a run is called."""
    return kwargs.get("name") or (serialized or {}).get("name") or "run"


def model_name(serialized: dict[str, Any] | None, kwargs: dict[str, Any]) -> str:
    """Return the class of a model: a run name is for readers of traces, and may hold anything."""
    return (
        (serialized or {}).get("name") or ((serialized or {}).get("id") or [None])[-1] or run_name(serialized, kwargs)
    )


def place_of_run(name: str, tags: Sequence[str], metadata: dict[str, Any]) -> dict[str, Any]:
    """Return what the framework says about the place of a run among its siblings.

    LangGraph tags a node's run `graph:step:N` and puts the path of its task into the metadata, where a `Send` has its
    index, and so has a call of a function that is a task; a `RunnableParallel` tags its branches `map:key:K`.
    """
    for tag in tags:
        if tag.startswith("graph:step:"):
            step = int(tag.removeprefix("graph:step:"))
            sent = _send_index(metadata.get("langgraph_path"))
            return {"label": f"{name}@{step}{sent}", "at": step}
        if tag.startswith("map:key:"):
            return {"label": f"{tag.removeprefix('map:key:')}={name}", "group": "map"}
    index = index_of_call(name, metadata)
    if index is not None:
        return {"label": f"{name}[{index}]", "group": "call", "within": index}
    return {"label": name}


def index_of_call(name: str, metadata: Mapping[str, Any]) -> int | None:
    """Return the how-manieth call of its caller a run is, for that of a function that is a task of LangGraph.

    The path of such a task is `("__pregel_push", (...), 2, True)`; what runs inside it inherits the path.
    """
    path = metadata.get("langgraph_path")
    if metadata.get("langgraph_node") != name:
        return None
    if not isinstance(path, tuple | list) or len(path) < 3 or path[0] != "__pregel_push" or path[-1] is not True:  # noqa: PLR2004 - as in the path above
        return None
    return path[2] if type(path[2]) is int else None


def _send_index(path: Any) -> str:
    """Return the numbers of a task path such as `("__pregel_push", 2, False)`; tasks of edges have none."""
    if not isinstance(path, tuple | list) or not path or path[0] != "__pregel_push":
        return ""
    return "".join(f"[{part}]" for part in path[1:] if type(part) is int)


_NODE = re.compile(r"(?P<node>[^/]+?)@(?P<step>-?\d+)(?P<sent>(?:\[\d+\])*)(?:#(?P<again>\d+))?")


def place_in_words(address: str) -> str | None:
    """Return the innermost node of a graph that an address is in, and its superstep: of what `place_of_run` made."""
    found = next((match for label in reversed(address.split("/")) if (match := _NODE.fullmatch(label))), None)
    if found is None:
        return None
    sent = ", Send " + found["sent"].strip("[]").replace("][", ".") if found["sent"] else ""
    again = f", attempt {found['again']}" if found["again"] else ""
    return f"node {found['node']}, superstep {found['step']}{sent}{again}"
