"""Positions of the caller's code in the tree of the run: integrations know them, each for its framework."""

from __future__ import annotations

from collections.abc import Callable

from agenttape_core.freeze import begun_scope
from agenttape_core.matching import Position, current_branch, rank_name, task_branch
from agenttape_core.session.context import context_session, current_session
from agenttape_core.session.executed_call import executing
from agenttape_core.session.session import Session

_positions: list[Callable[[Session], Position | None]] = []
_scopes: list[Callable[[], str | None]] = []


def register_position(provider: Callable[[Session], Position | None]) -> None:
    """Register where an integration looks up the position that the caller's code runs below.

    The innermost position counts: an agent of one framework may be a tool of another.

    Args:
        provider: Returns the position in a session, or `None` outside the framework's runs.
    """
    _positions.append(provider)


def here(session: Session) -> Position:
    """Return the position that the caller's code runs below, as far as integrations know; else the root."""
    position = session.root
    for provider in _positions:
        found = provider(session)
        if found is not None and len(found.order) > len(position.order):
            position = found
    return position


def below(session: Session, name: str) -> Position | None:
    """Begin a position for a call that a framework has no run or span of.

    Args:
        session: The session.
        name: Which boundary it is.

    Returns:
        A position below the caller's code or below the call that executes around it, whichever is further inside;
        `None` for a thread without a context whose position no framework has: only the session can find it.
    """
    above, outer = here(session), executing()
    if outer is not None and outer.session is session and len(outer.position.order) > len(above.order):
        above = outer.position
    elif context_session() is None and above is session.root:
        return None
    return above.child(name, branch=task_branch(above))


def register_scope(provider: Callable[[], str | None]) -> None:
    """Register how an integration names the sequential branch of a run that the caller is in: ids are counted by it.

    An integration that registers a position doesn't have to: the branches below a position are separate anyway.
    """
    _scopes.append(provider)


def scope_seen() -> str:
    """Return a name for the part of the run around the caller, without creating a new branch.

    To name a branch is to begin it, and so to number those that begin after it: see `current_scope`. Tasks without a
    own branch have the name of the one that they were begun in.
    """
    for provider in _scopes:
        scope = provider()
        if scope is not None:
            return scope
    session, branch = current_session(), current_branch()
    address = here(session).address if session is not None else ""
    return f"{address}|{branch.name}" if branch is not None else address


def current_scope() -> str:
    """Return the name of the sequential branch of the run that the caller is in, the same in every run."""
    begun = begun_scope()
    for provider in _scopes:
        scope = provider()
        if scope is not None:
            return f"{begun}>{scope}" if begun else scope
    session = current_session() if _positions else context_session()
    scope = ""
    if session is not None:
        position = here(session)
        branch = task_branch(position)
        if _positions:
            rank = position.rank_of(branch) if branch is not None and branch.rank else ()
            scope = f"{position.address}|{rank_name(rank) if rank else ''}"
        elif branch is not None:
            scope = branch.name
    return f"{begun}>{scope}" if begun else scope
