"""Rate limiters do not wait in a session that only serves: there is nobody to be spared.

They stand before the leaf calls, and ask a clock that is never frozen; a limiter that waits would wait for real.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from llama_index.core.rate_limiter import BaseRateLimiter

from agenttape_core.integration import Cross, Family, Leaf, current_session


def _only_serves() -> bool:
    session = current_session()
    return session is not None and session.policy.offline


def _acquire(real: Callable[..., None], _: Cross) -> Callable[..., None]:
    @functools.wraps(real)
    def acquire(self: Any, *args: Any, **kwargs: Any) -> None:
        if not _only_serves():
            real(self, *args, **kwargs)

    return acquire


def _async_acquire(real: Callable[..., Any], _: Cross) -> Callable[..., Any]:
    @functools.wraps(real)
    async def async_acquire(self: Any, *args: Any, **kwargs: Any) -> None:
        if not _only_serves():
            await real(self, *args, **kwargs)

    return async_acquire


def _nothing(*_: Any) -> None:
    return None


LIMITERS = Family(
    BaseRateLimiter, {"acquire": Leaf(_acquire, _nothing), "async_acquire": Leaf(_async_acquire, _nothing)}
)
"""Every rate limiter."""
