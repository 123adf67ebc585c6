"""Threads exempt from the guard: those that send a session's events."""

from __future__ import annotations

import threading


class _Here(threading.local):
    is_let_through = False


_here = _Here()


def exempt_thread() -> None:
    """Exempt the caller's thread until it ends. It must never run code of the program."""
    _here.is_let_through = True


def is_let_through() -> bool:
    """Return whether no guard looks at the caller's thread."""
    return _here.is_let_through
