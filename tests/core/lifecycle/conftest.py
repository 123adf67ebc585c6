"""What the sessions of these tests reach."""

from __future__ import annotations

from ..session.conftest import world

__all__ = ["world"]
