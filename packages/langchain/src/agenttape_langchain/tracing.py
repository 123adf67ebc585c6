"""Keep replays out of LangSmith by default, and mark those that are traced.

All runs reach LangSmith through `RunTree`: those from the environment, from `tracing_v2_enabled`, from a
`LangChainTracer` among the callbacks, and from `@traceable` functions.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from agenttape_core.integration import Session, context_session

MARK = "agenttape:replay"
"""The tag of a replayed run; its metadata has the name of the cassette as `agenttape_cassette`."""

_ENDPOINTS = ("LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT")
_DEFAULT_ENDPOINT = "https://api.smith.langchain.com"


def hosts() -> list[str]:
    """Return the host that runs are posted to. LangSmith's own function would cache it for the whole process."""
    endpoint = next(filter(None, map(os.environ.get, _ENDPOINTS)), _DEFAULT_ENDPOINT)
    host = urlsplit(endpoint.strip("\"' ")).hostname
    return [host] if host else []


def enabling(tracing_is_enabled: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `tracing_is_enabled`: it is False in a replay that is not traced."""

    @functools.wraps(tracing_is_enabled)
    def is_enabled(*args: Any, **kwargs: Any) -> Any:
        session = context_session()
        return False if session is not None and not session.tracing else tracing_is_enabled(*args, **kwargs)

    return is_enabled


def posting(post: Callable[..., None]) -> Callable[..., None]:
    """Wrap `RunTree.post` or `RunTree.patch`: a replay posts no runs, or posts marked runs if it's traced."""

    @functools.wraps(post)
    def posted(run: Any, *args: Any, **kwargs: Any) -> None:
        session = context_session()
        if session is not None and not session.policy.records:
            if not session.tracing:
                return
            _mark(run, session)
        post(run, *args, **kwargs)

    return posted


def _mark(run: Any, session: Session) -> None:
    """Add the mark to copies of tags and metadata: they may be the user's own objects."""
    extra = run.extra or {}
    metadata = {**extra.get("metadata", {}), "agenttape_cassette": PurePath(str(session.path)).name}
    run.tags = [*(tag for tag in run.tags or () if tag != MARK), MARK]
    run.extra = {**extra, "metadata": metadata}
