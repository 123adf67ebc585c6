"""Rate limiters, which wait as a part of the calls that they let through."""

from __future__ import annotations

from langchain_core.rate_limiters import BaseRateLimiter

from agenttape_core.integration import Family, limiter_leaves

_BEFORE = ("langchain_core.language_models.chat_models",)

LIMITERS = Family(BaseRateLimiter, limiter_leaves("acquire", "aacquire", before=_BEFORE))
"""Every rate limiter."""
