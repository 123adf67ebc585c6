"""Where the leaf call that is being made stands in the session's tree of runs."""

from __future__ import annotations

from typing import Any

from agenttape_core.integration import (
    Position,
    Session,
    context_session,
    current_session,
    executing,
    rank_name,
    task_branch,
)
from agenttape_langchain._compat import enclosing_run_id
from agenttape_langchain.run_tree import Run, RunTree


def tree_of(session: Session) -> RunTree:
    """Return the run tree of a session, growing with its first run."""
    tree: RunTree = session.keepsake("langchain.run_tree", lambda: RunTree(session.root))
    return tree


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


def here(session: Session) -> Position:
    """Return the position that the caller's code runs below."""
    tree, position = tree_of(session), session.root
    for run in (tree.run(enclosing_run_id()), tree.chain()):
        if run is not None and len(run.position.order) > len(position.order):
            position = run.position
    return position


def scope() -> str | None:
    """Return a name of the strand of the run that is executing here: ids drawn in it are counted by it."""
    session = current_session()
    if session is None:
        return None
    position = here(session)
    return f"{position.address}|{rank_name(position.rank_of(task_branch(position)))}"


def below(session: Session, name: str) -> Position | None:
    """Begin a position for a call that the framework knows no run of: an embedding, a read or write of a store.

    Args:
        session: The session.
        name: Which boundary it is.

    Returns:
        A position below the run or the crossing that the caller's code runs in, whichever is further inside; nothing
        for a thread without a context, whose place only the session can tell.
    """
    above, outer = here(session), executing()
    if outer is not None and outer.session is session and len(outer.position.order) > len(above.order):
        above = outer.position
    elif context_session() is None:
        return None
    return above.child(name, branch=task_branch(above))
