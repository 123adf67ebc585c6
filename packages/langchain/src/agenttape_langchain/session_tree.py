"""The tree of runs of each session, and where its code is executing in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from operator import methodcaller
from typing import Any

from agenttape_core.integration import (
    Plain,
    Position,
    RecordedRuns,
    Session,
    Slot,
    register_address_reader,
    register_position,
    register_run_reader,
    without_ids,
)
from agenttape_core.integration.request_values import was_observed
from agenttape_core.integration.threads import Lock
from agenttape_langchain._compat import enclosing_run_id
from agenttape_langchain.address import place_in_words
from agenttape_langchain.run_tree import Follower, Run, RunTree

# -- The recorded run that an outermost run is: it goes by its thread, the rest of its `configurable`, and its input.

_THREAD = "thread_id"
"""The key of a conversation in the configurable part of a config."""

_COMMAND = "$command"
"""The tag of LangGraph's commands in a cassette."""

_FIRST = r"[^/]+/[^/]*@1(?!\d)"
"""The address of a node in the first superstep of an outermost graph."""


def _comparable(plain: Plain) -> Plain:
    """Return an input without ids; answers to questions are given to the ids of these."""
    command = plain.get(_COMMAND) if isinstance(plain, dict) else None
    if isinstance(command, dict) and isinstance(command.get("resume"), dict):
        plain = {_COMMAND: {**command, "resume": list(command["resume"].values())}}
    return without_ids(plain)


_RUNS: Slot[RecordedRuns] = Slot(lambda session: RecordedRuns(session, _THREAD, _comparable))


def recorded_runs(session: Session) -> RecordedRuns:
    """Return the recorded outermost runs of a session."""
    return session.extension(_RUNS)


def goes_on(session: Session, position: Position) -> None:
    """Note that a graph which has just begun continues a thread: it isn't a recorded run that began one.

    A recorded run began a thread if it ran the first superstep on its own input. One that answered a question, or
    was invoked with `None`, continued: it ran the first superstep again if the thread was interrupted there.
    """
    runs = recorded_runs(session)
    if _continued(runs.recorded_input(position.address)):
        return
    if any(re.match(_FIRST, label) for label in runs.steps_inside(position.address)):
        runs.is_other(position)


def _continued(given: Plain) -> bool:
    """Return whether the recorded input of a run is one that only continues: `None`, or answers to questions."""
    command = given.get(_COMMAND) if isinstance(given, dict) else None
    return given is None or (isinstance(command, dict) and "resume" in command)


register_run_reader(lambda session, address: recorded_runs(session).differences(address))

_followers: list[Callable[[Session], Follower | None]] = []

_TREE: Slot[RunTree] = Slot(
    lambda session: RunTree(
        session.root,
        _Followers(session),
        recorded_runs(session),
        is_observed=lambda: was_observed(session),
        first_input=session.first_input,
    )
)


tree_of: Callable[[Session], RunTree] = methodcaller("extension", _TREE)
"""Return the run tree of a session, made for its first run."""


def register_follower(make: Callable[[Session], Follower | None]) -> None:
    """Follow the chains of each session: from its first run on, or from now on in a session that is open already.

    Args:
        make: Makes the follower of a session; may return None. Where its module is imported again, it takes the place
            of the one of before.
    """
    for at, each in enumerate(_followers):
        if _name_of(each) == _name_of(make) and "<locals>" not in make.__qualname__:
            _followers[at] = make
            return
    _followers.append(make)


def _name_of(make: Callable[..., Any]) -> tuple[str, str]:
    return make.__module__, make.__qualname__


class _Followers:
    """The followers of one session. They grow: a framework may be imported while the session is open."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seen = 0
        self._made: list[Follower] = []
        self._lock = Lock()

    def __iter__(self) -> Iterator[Follower]:
        if self._seen < len(_followers):
            self._make_new()
        return iter(tuple(self._made))

    def _make_new(self) -> None:
        with self._lock:
            while self._seen < len(_followers):
                if (follower := _followers[self._seen](self._session)) is not None:
                    self._made.append(follower)
                self._seen += 1


def model_run(session: Session, run_manager: Any) -> Run | None:
    """Return the run that a chat model's leaf call belongs to; None if the framework announced none for it."""
    tree = tree_of(session)
    announced = tree.announced_model()
    run_id: Any = getattr(run_manager, "run_id", None)
    return tree.runs_by_id.get(run_id) or announced


def position_of(session: Session, run_manager: Any) -> Position | None:
    """Return the position of the run that a run manager is for, if that is open."""
    run = tree_of(session).run(getattr(run_manager, "run_id", None))
    return run.position if run is not None else None


def enclosing_run(session: Session) -> Run | None:
    """Return the run whose code is executing here."""
    return tree_of(session).run(enclosing_run_id())


def _place(session: Session) -> Position | None:
    """Return the position of the innermost run whose code is executing here."""
    tree = tree_of(session)
    if not tree.runs_by_id:
        return None
    places = [run.position for run in (tree.run(enclosing_run_id()), tree.chain()) if run is not None]
    return max(places, key=lambda position: len(position.order), default=None)


register_position(_place)
register_address_reader(place_in_words)
