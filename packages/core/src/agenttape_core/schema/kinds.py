"""The kinds of interactions, and the words that readers of cassettes and sessions share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from agenttape_core.lazy_patterns import Lazy

Kind = Literal["chat", "completion", "embeddings", "retrieval", "tool", "node", "memory", "http", "call"]
"""The sorts of boundaries: OpenTelemetry GenAI's words where they exist."""

KINDS: frozenset[str] = frozenset(get_args(Kind))

MODEL_KINDS: frozenset[str] = frozenset({"chat", "completion"})  # the kinds in which a language model answers

PURE_KINDS: frozenset[str] = frozenset({"embeddings"})
"""The kinds whose answer depends on the request alone: one recording answers every equal request, and it may stay
unused."""

_MODEL_PATH = Lazy(
    r"/(?:(?P<openai>completions|responses)|(?P<anthropic>messages)|(?P<ollama>api/(?:chat|generate))"
    r"|(?P<cohere>v\d+/chat)|(?P<bedrock>converse(?:-stream)?|invoke(?:-with-response-stream)?)"
    r"|(?P<further>embeddings|embed|rerank))/?$"
    r"|:(?:(?P<google>\w*[gG]enerateContent)|(?P<further_of_google>\w*[eE]mbedContents?|\w*[pP]redict))$"
)
"""The ends of the paths at which providers serve models, by wire format: OpenAI and all that are compatible with it,
Anthropic, Ollama, Cohere, Bedrock, Google (AI Studio, Vertex). Rather one too many: an unknown budget fails, and you
can allow it.
"""
_FURTHER = frozenset({"", "further", "further_of_google"})  # the formats of requests that aren't to a language model


def model_path(request: Mapping[str, Any]) -> tuple[str, str]:
    """Return the path of an HTTP request to a model, and its wire format; two empty texts for any other request."""
    if str(request.get("method")).upper() != "POST":
        return "", ""
    url = request.get("url")
    path = str(url.get("path", "")) if isinstance(url, Mapping) else str(url).partition("?")[0]
    found = _MODEL_PATH.search(path)
    return (path, found.lastgroup or "") if found else ("", "")


def asks_model(kind: str, request: Mapping[str, Any]) -> bool:
    """Return whether a language model answers a call: a framework's, or one that is asked over plain HTTP."""
    return kind in MODEL_KINDS or (kind == "http" and model_path(request)[1] not in _FURTHER)


FAKED = "faked"
"""The tag of an interaction whose answer comes from a function of the user (`fakes=`), and not from the named model or
tool."""

OWN = "own"
"""The word for the program's own model, called again: the baseline of a candidate."""

UNAVAILABLE = "The tool is not available."
"""The error that a model reads from a tool without a recording: a longer text would bias its next answer."""

HASH_SEED = "PYTHONHASHSEED"  # the environment variable that gives a process its hash seed
