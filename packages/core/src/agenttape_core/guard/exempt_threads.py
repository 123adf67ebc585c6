"""Threads that no guard looks at: those that pass on what a session tells about itself."""

from __future__ import annotations

import threading


class _Here(threading.local):
    is_let_through = False


_here = _Here()


def exempt_thread() -> None:
    """Let the caller's thread reach what it wants, until it ends. It must never run code of the program."""
    _here.is_let_through = True


def is_let_through() -> bool:
    """Return whether no guard looks at the caller's thread."""
    return _here.is_let_through
