"""Keep a replay out of LangSmith, unless it is asked for, and mark it there when it is.

Everything that reaches LangSmith is posted by a `RunTree`: what the environment turns on, `tracing_v2_enabled`, a
`LangChainTracer` among the callbacks, and functions that are `@traceable`.
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
"""The tag of a run that was replayed; its metadata name the cassette as `agenttape_cassette`."""

_ENDPOINTS = ("LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT")
_DEFAULT_ENDPOINT = "https://api.smith.langchain.com"


def hosts() -> list[str]:
    """Return the host that runs are posted to. LangSmith's own function would remember the answer for the process."""
    endpoint = next(filter(None, map(os.environ.get, _ENDPOINTS)), _DEFAULT_ENDPOINT)
    host = urlsplit(endpoint.strip("\"' ")).hostname
    return [host] if host else []


def enabling(tracing_is_enabled: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the question whether to trace: not a replay that was not asked to."""

    @functools.wraps(tracing_is_enabled)
    def is_enabled(*args: Any, **kwargs: Any) -> Any:
        return False if _is_silent(context_session()) else tracing_is_enabled(*args, **kwargs)

    return is_enabled


def posting(post: Callable[..., None]) -> Callable[..., None]:
    """Wrap `RunTree.post` or `RunTree.patch`: nothing leaves such a replay, and what leaves another is marked."""

    @functools.wraps(post)
    def posted(run: Any, *args: Any, **kwargs: Any) -> None:
        session = context_session()
        if session is not None and not session.policy.records:
            if not session.tracing:
                return
            _mark(run, session)
        post(run, *args, **kwargs)

    return posted


def _is_silent(session: Session | None) -> bool:
    return session is not None and not session.tracing


def _mark(run: Any, session: Session) -> None:
    """Add the mark to copies: tags and metadata may be objects of the user's."""
    extra = run.extra or {}
    metadata = {**extra.get("metadata", {}), "agenttape_cassette": PurePath(str(session.path)).name}
    run.tags = [*(tag for tag in run.tags or () if tag != MARK), MARK]
    run.extra = {**extra, "metadata": metadata}
