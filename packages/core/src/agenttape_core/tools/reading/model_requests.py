"""Requests to models that a program makes over plain HTTP: recorded as bytes, without tokens that anybody counted."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agenttape_core.schema import Interaction

_PATH = re.compile(
    r"/(?:completions|responses|messages|embeddings|embed|rerank|converse(?:-stream)?|invoke(?:-with-response-stream)?"
    r"|api/(?:chat|generate)|v\d+/chat)/?$"
    r"|:(?:\w*[gG]enerateContent|\w*[eE]mbedContents?|\w*[pP]redict)$"
)
"""The ends of the paths at which providers serve models: OpenAI and all that are compatible with it, Anthropic,
Google (AI Studio, Vertex), Bedrock, Cohere, Ollama. Rather one too many: an unknown budget fails, and you can allow it.
"""
_FAILED = 400


def path_of_model(item: Interaction) -> str:
    """Return the path of a request to a model over plain HTTP; empty for any other call."""
    if item.kind != "http" or str(item.request.get("method")).upper() != "POST":
        return ""
    url = item.request.get("url")
    path = str(url.get("path", "")) if isinstance(url, Mapping) else str(url).partition("?")[0]
    return path if _PATH.search(path) else ""


def was_billed(item: Interaction) -> bool:
    """Return True if a provider may have counted tokens for a call: it didn't fail before there was an answer.

    A call that was cancelled, or whose stream broke, may have cost something.
    """
    outcome = item.outcome
    if outcome.status in {"raised", "refused"}:
        return False
    head = outcome.chunks[0] if item.kind == "http" and outcome.chunks else outcome.value
    status = head.get("status") if isinstance(head, Mapping) else None
    return not (item.kind == "http" and isinstance(status, int) and status >= _FAILED)
