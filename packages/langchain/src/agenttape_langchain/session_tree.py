"""The tree of runs of each session, and where its code is executing in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import methodcaller
from typing import Any

from agenttape_core.integration import Position, Session, Slot, register_address_reader, register_position
from agenttape_core.integration.request_values import was_observed
from agenttape_core.integration.threads import Lock
from agenttape_langchain._compat import enclosing_run_id
from agenttape_langchain.address import place_in_words
from agenttape_langchain.recorded_runs import recorded_runs
from agenttape_langchain.run_tree import Follower, Run, RunTree

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
