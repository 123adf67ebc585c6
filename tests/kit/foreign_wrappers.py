"""Another tool that wraps functions while a session is open, and puts back what it found when that is over."""

from __future__ import annotations

from contextlib import contextmanager
from types import FunctionType
from typing import TYPE_CHECKING, Any

from agenttape_core import use_cassette

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def frames_in_sessions(owner: Any, name: str, path: Path) -> list[int]:
    """Return how many functions a call passed through in each of some sessions, beside a tool that wraps it, too."""
    found = []
    with _as_it_was(owner, name):
        for _ in range(4):
            with use_cassette(path, mode="all"):
                ours = getattr(owner, name)
                found.append(_frames_of(ours))
                setattr(owner, name, _watched(ours))
            setattr(owner, name, ours)
    return found


@contextmanager
def _as_it_was(owner: Any, name: str) -> Iterator[None]:
    had, before = name in vars(owner), vars(owner).get(name)
    yield
    if had:
        setattr(owner, name, before)
    else:
        delattr(owner, name)


def _watched(real: Any) -> Any:
    def watched(*args: Any, **kwargs: Any) -> Any:
        return real(*args, **kwargs)

    return watched


def _frames_of(function: Any) -> int:
    if not isinstance(function, FunctionType):
        return 1
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return 1 + max(map(_frames_of, cells), default=0)
