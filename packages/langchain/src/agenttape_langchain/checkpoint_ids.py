"""Give the checkpoints of graphs the same ids in every run, in an order that savers rely on.

A saver takes the greatest id of a conversation for the latest. So the id of a checkpoint must be greater than all
others in its thread and namespace: than the one before, than those that an earlier session or another process has left
with the saver, and, if a run forks from an old checkpoint, than all that came after that one.

LangGraph compares ids across namespaces too: a subgraph begins a replay with its last checkpoint before the next one of
its outer graph. Yet an id must not depend on which of two parallel subgraphs was faster.

So an id is drawn in the branch of its graph, like all others, and its time is later than the greatest that this session
has met in the same thread, in its namespace, those around it and those below it: subgraphs have ended when their outer
graph continues.

A checkpoint is created at the time in its id, if that is later than the time that it is: programs sort by either. Task
ids and interrupt ids are hashes of checkpoint ids, so they follow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from agenttape_core.integration import Session, Slot, current_session
from agenttape_core.integration.patching import register_seam
from agenttape_langchain._compat import CHECKPOINT_SEAMS
from agenttape_langchain.session_tree import goes_on, tree_of

CheckpointScope = tuple[str, str]
"""The thread and the namespace of a checkpoint."""

_NS_SEP = "|"
"""Separates the parts of a namespace, one for each graph."""
_VERSION = 6
_TICKS_PER_MILLISECOND = 10_000
_GREGORIAN_OFFSET = 0x01B21DD213814000
"""The epoch of UUIDs of version 6 (RFC 9562, section 5.6)."""


class _Lineages:
    """The checkpoints that a session has met. Those of one place, and of places inside of it, are made in turn."""

    def __init__(self) -> None:
        self._places: dict[str, CheckpointScope] = {}
        self._latest: dict[CheckpointScope, int] = {}
        self._latest_within: dict[CheckpointScope, int] = {}
        """The greatest of a place and all places inside of it."""

    def met(self, checkpoint_id: str, place: CheckpointScope) -> None:
        """Note that a checkpoint was loaded or made in a place."""
        self._places[checkpoint_id] = place
        made = _made_at(checkpoint_id)
        if made is not None:
            self._latest[place] = max(made, self._latest.get(place, made))
            for each in (place, *_around(place)):
                self._latest_within[each] = max(made, self._latest_within.get(each, made))

    def place_of(self, checkpoint_id: str) -> CheckpointScope | None:
        """Return the place of a checkpoint, if it was met."""
        return self._places.get(checkpoint_id)

    def latest(self, place: CheckpointScope | None) -> int | None:
        """Return the time of the greatest id of a place, those around and inside, in milliseconds since the epoch."""
        if place is None:
            return None
        found = (self._latest_within.get(place), *map(self._latest.get, _around(place)))
        return max((each for each in found if each is not None), default=None)


def _around(place: CheckpointScope) -> Iterator[CheckpointScope]:
    """Yield the locations of the graphs around a location."""
    thread, namespace = place
    while namespace:
        namespace = namespace.rpartition(_NS_SEP)[0]
        yield thread, namespace


def _made_at(checkpoint_id: str) -> int | None:
    """Return the time in an id, in milliseconds since the epoch; `None` if it isn't a UUID of version 6."""
    try:
        made = UUID(checkpoint_id)
    except ValueError:
        return None
    if made.version != _VERSION:
        return None
    ticks = (made.int >> 80) << 12 | (made.int >> 64) & 0xFFF
    return max(0, ticks - _GREGORIAN_OFFSET) // _TICKS_PER_MILLISECOND


_LINEAGES = Slot(lambda _: _Lineages())


def _lineages() -> _Lineages | None:
    session: Session | None = current_session()
    return session.extension(_LINEAGES) if session is not None else None


def _place(config: Mapping[str, Any] | None) -> CheckpointScope | None:
    configurable = (config or {}).get("configurable", {})
    thread = configurable.get("thread_id")
    return (str(thread), configurable.get("checkpoint_ns") or "") if thread is not None else None


def _go_on() -> None:
    session = current_session()
    run = tree_of(session).chain() if session is not None else None
    if session is not None and run is not None:
        goes_on(session, run.position)


class _LatestNoting:
    """A saver for `langgraph.pregel._checkpoint.checkpoint_superseded` that notes the checkpoints it returns.

    That function calls only `get_tuple` or `aget_tuple`, for the latest checkpoint. `note` receives its id.
    """

    def __init__(self, saver: Any, note: Callable[[str], None]) -> None:
        self._saver = saver
        self._note = note

    def get_tuple(self, config: Any) -> Any:
        """Return the checkpoint of the saver."""
        return self._noted(self._saver.get_tuple(config))

    async def aget_tuple(self, config: Any) -> Any:
        """Return the checkpoint of the saver."""
        return self._noted(await self._saver.aget_tuple(config))

    def _noted(self, found: Any) -> Any:
        if found is not None:
            self._note(found.checkpoint["id"])
        return found


# -- replacements of LangGraph's functions ----------------------------------------------------------------------------


def _loading(_frozen: Any, real: Callable[..., Any]) -> Callable[..., Any]:
    """Note every checkpoint that is loaded; replaces `channels_from_checkpoint` and its asynchronous form."""

    def load(specs: Any, checkpoint: Any, *args: Any, **kwargs: Any) -> Any:
        lineages, place = _lineages(), _place(kwargs.get("config"))
        if lineages is not None and place is not None and kwargs.get("saver") is not None:
            lineages.met(checkpoint["id"], place)
            if place[1] == "" and checkpoint["channel_versions"]:
                _go_on()
        return real(specs, checkpoint, *args, **kwargs)

    return load


def _superseding(_frozen: Any, real: Callable[..., Any]) -> Callable[..., Any]:
    """Note the latest checkpoint of a thread when LangGraph compares another with it."""

    def superseded(saver: Any, config: Any, saved: Any) -> Any:
        lineages, place = _lineages(), _place(config)
        if lineages is None or place is None:
            return real(saver, config, saved)
        return real(_LatestNoting(saver, functools.partial(lineages.met, place=place)), config, saved)

    return superseded


def _creating(frozen: Any, real: Callable[..., Any]) -> Callable[..., Any]:
    """Give a new checkpoint its id; replaces `create_checkpoint`."""

    def create(checkpoint: Any, channels: Any, step: int, **kwargs: Any) -> Any:
        lineages = _lineages()
        if kwargs.get("id") is not None or lineages is None:
            return real(checkpoint, channels, step, **kwargs)
        before = checkpoint["id"]
        place = lineages.place_of(before)
        bounds = [bound for bound in (_made_at(before), lineages.latest(place)) if bound is not None]
        made = frozen.next_uuid("uuid6", _VERSION, clock_seq=step, after=max(bounds, default=None))
        if place is not None:
            lineages.met(str(made), place)
        created = real(checkpoint, channels, step, **{**kwargs, "id": str(made)})
        at = datetime.fromtimestamp((_made_at(str(made)) or 0) / 1000, UTC)
        if at > datetime.fromisoformat(created["ts"]):
            created["ts"] = at.isoformat()
        return created

    return create


def _drawing(frozen: Any, _real: Callable[..., Any]) -> Callable[..., Any]:
    """Give an id to a checkpoint that follows none; replaces `uuid6`."""
    return functools.partial(frozen.next_uuid, "uuid6", _VERSION)


def register() -> None:
    """Let freeze replace these functions wherever they are imported."""
    replacements = {"draw": _drawing, "create": _creating, "load": _loading, "supersede": _superseding}
    for job, functions in CHECKPOINT_SEAMS.items():
        for module, name in functions:
            register_seam(module, name, "uuid", replacements[job])
