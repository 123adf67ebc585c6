"""Waits of SDKs between two attempts, which a replay skips: where HTTP is served, the SDK tries again as it did."""

from __future__ import annotations

from agenttape_core.integration import register_backoff

_SDKS = ("anthropic", "cerebras.cloud.sdk", "groq", "openai", "together")
"""The packages whose clients Stainless generates."""


def register_backoffs() -> None:
    """Name the functions of SDKs that wait between two attempts."""
    for package in _SDKS:
        register_backoff(f"{package}._base_client", ("_sleep_for_retry",))
