"""Rate limiters, which wait as a part of the calls that they let through."""

from __future__ import annotations

from llama_index.core.rate_limiter import BaseRateLimiter

from agenttape_core.integration import Family, limiter_leaves

_BEFORE = ("llama_index.core.llms.callbacks", "llama_index.core.base.embeddings.base")

LIMITERS = Family(BaseRateLimiter, limiter_leaves("acquire", "async_acquire", before=_BEFORE))
"""Every rate limiter."""
