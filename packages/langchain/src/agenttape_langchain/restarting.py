"""Begin a recorded chain or agent again, as `agenttape replay --source` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from agenttape_core.integration import Source


def restart(app: Any, source: Source) -> Callable[[], Any] | None:
    """Return a function that invokes a runnable with the recorded input and configurable values.

    Args:
        app: The runnable; `None` is returned for anything else.
        source: The recording. One of a server, or without an input, is left to others.
    """
    if not isinstance(app, Runnable) or source.input is None or source.is_request:
        return None
    given, config = source.given(), RunnableConfig(configurable=dict(source.entry.configurable))
    return (lambda: app.ainvoke(given, config)) if source.entry.awaited else (lambda: app.invoke(given, config))
