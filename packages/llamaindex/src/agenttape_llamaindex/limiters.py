"""Rate limiters, which do not wait in a session that only serves: no service has to be spared.

They come before the leaf calls, and read a clock that is never frozen: a limiter that waits would wait for real.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_index.core.rate_limiter import BaseRateLimiter

from agenttape_core.integration import Call, Cross, Family, Leaf, coroutine, current_session, plain


def _only_serves() -> bool:
    session = current_session()
    return session is not None and session.policy.offline


def _describe(real: Callable[..., Any], _: Cross, /, *args: Any, **kwargs: Any) -> Call:
    return Call(None, _no_wait if _only_serves() else lambda: real(*args, **kwargs))


def _adescribe(real: Callable[..., Any], _: Cross, /, *args: Any, **kwargs: Any) -> Call:
    return Call(None, _no_await if _only_serves() else lambda: real(*args, **kwargs))


def _no_wait() -> None:
    return None


async def _no_await() -> None:
    return None


def _nothing(*_: Any) -> None:
    return None


LIMITERS = Family(
    BaseRateLimiter,
    {"acquire": Leaf(plain, _nothing, _describe), "async_acquire": Leaf(coroutine, _nothing, _adescribe)},
)
"""Every rate limiter."""
