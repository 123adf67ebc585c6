"""Where in the tree of the run the caller's code runs: the integrations know, each for its framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agenttape_core.matching import Position, rank_name, task_branch
from agenttape_core.session.context import context_session, current_session, executing

if TYPE_CHECKING:
    from agenttape_core.session.session import Session

_places: list[Callable[[Session], Position | None]] = []
_scopes: list[Callable[[], str | None]] = []
_readers: list[Callable[[str], str | None]] = []


def register_place(provider: Callable[[Session], Position | None]) -> None:
    """Let an integration say below which position of its framework's tree the caller's code runs.

    Of several the innermost counts: an agent of one framework may be a tool of another.

    Args:
        provider: Gives the position in a session, or nothing where the framework runs nothing.
    """
    _places.append(provider)


def here(session: Session) -> Position:
    """Return the position that the caller's code runs below, as far as integrations know; else the root."""
    position = session.root
    for provider in _places:
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
        A position below the place or the crossing that the caller's code runs in, whichever is further inside; nothing
        for a thread without a context whose place no framework knows: only the session can tell.
    """
    above, outer = here(session), executing()
    if outer is not None and outer.session is session and len(outer.position.order) > len(above.order):
        above = outer.position
    elif context_session() is None and above is session.root:
        return None
    return above.child(name, branch=task_branch(above))


def register_scope(provider: Callable[[], str | None]) -> None:
    """Let an integration say in which sequential strand of a run the caller is; ids are counted by strand.

    One that registers a place need not: the strands below that place are told apart by themselves.
    """
    _scopes.append(provider)


def current_scope() -> str:
    """Return the name of the sequential strand of the run that the caller is in, the same in every run."""
    for provider in _scopes:
        scope = provider()
        if scope is not None:
            return scope
    session = current_session() if _places else context_session()
    if session is None:
        return ""
    position = here(session)
    branch = task_branch(position)
    if _places:
        return f"{position.address}|{rank_name(position.rank_of(branch))}"
    return branch.name if branch is not None else ""


def register_address_reader(reader: Callable[[str], str | None]) -> None:
    """Let an integration say in the words of its framework what an address means; a miss says so.

    Args:
        reader: Gives the words for an address, or nothing for one that is not of its framework.
    """
    _readers.append(reader)


def in_words(address: str) -> str | None:
    """Return what an address means in the words of a framework, if one has words for it."""
    return next((words for reader in _readers if (words := reader(address)) is not None), None)
