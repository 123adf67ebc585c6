"""Where the leaf call that is being made stands in the session's tree of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

from agenttape_core.integration import Position, Session, current_session, register_address_reader, register_place
from agenttape_langchain._compat import enclosing_run_id
from agenttape_langchain.run_tree import Follower, Run, RunTree, place_in_words

_followers: list[Callable[[Session], Follower | None]] = []


def tree_of(session: Session) -> RunTree:
    """Return the run tree of a session, growing with its first run."""
    tree: RunTree = session.keepsake("langchain.run_tree", lambda: RunTree(session.root, _Following(session)))
    return tree


def register_follower(make: Callable[[Session], Follower | None]) -> None:
    """Let a package follow the chains of each session, from its first run on, or from now on in one that is open.

    Args:
        make: Gives what is to be told of the chains of a session, if anything.
    """
    _followers.append(make)


class _Following:
    """Who follows the chains of a session. It grows: a framework may be imported while the session is open.

    Args:
        session: The session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asked = 0
        self._made: list[Follower] = []
        self._lock = Lock()

    def __iter__(self) -> Iterator[Follower]:
        if self._asked < len(_followers):
            self._ask()
        return iter(tuple(self._made))

    def _ask(self) -> None:
        with self._lock:
            while self._asked < len(_followers):
                if (follower := _followers[self._asked](self._session)) is not None:
                    self._made.append(follower)
                self._asked += 1


def current_tree() -> RunTree | None:
    """Return the run tree of the session in force here, if there is one."""
    session = current_session()
    return tree_of(session) if session is not None else None


def model_run(session: Session, run_manager: Any) -> Run | None:
    """Return the run that a model's leaf call belongs to; nothing if the framework announced none for it."""
    tree = tree_of(session)
    announced = tree.announced_model()
    return tree.run(getattr(run_manager, "run_id", None)) or announced


def enclosing_run(session: Session) -> Run | None:
    """Return the run whose code is executing here."""
    return tree_of(session).run(enclosing_run_id())


def _place(session: Session) -> Position | None:
    """Return the position of the innermost run whose code is executing here."""
    tree = tree_of(session)
    places = [run.position for run in (tree.run(enclosing_run_id()), tree.chain()) if run is not None]
    return max(places, key=lambda position: len(position.order), default=None)


register_place(_place)
register_address_reader(place_in_words)
