"""Rules for the values that a provider makes up for each answer: ids, counts of tokens, fingerprints, dates.

They are recognized by their keys and their form, as providers write them; core doesn't depend on any provider. In
answers of models, any id that was clearly generated counts. Elsewhere the data belong to the program, and only
unmistakable ones count: an id in a form such as `call_…` or `chatcmpl-…`, and the tokens of a message.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from agenttape_core.redaction.detection.lazy import Lazy  # a replay takes no stamps
from agenttape_core.schema.kinds import MODEL_KINDS

_OF_MODELS = frozenset({"response_metadata", "llm_output", "generation_info", "raw"})
"""The keys of messages under which the answer of a model stands."""
_CHOSEN = frozenset({"args", "arguments", "input", "tool_kwargs", "kwargs", "parsed", "properties", "content_json"})
"""The keys of values that a model has chosen, and not its provider."""

_ID_KEY = Lazy(r"(?:^|[_-])id$|[a-z]I[dD]$|^ID$")
_NO_ID = frozenset({"model_id", "modelId", "index_id", "voice_id"})
_PROVIDERS_ID = Lazy(
    r"(?:call|cmpl|chatcmpl|msg|resp|run|toolu|tooluse|srvtoolu|fc|rs|ws|gen|req|lc_run)[_-]{1,2}[A-Za-z0-9_-]{8,}"
)
_WORD_LIKE = Lazy(r"(?:[a-z]{1,12}|[A-Z][a-z]{1,11}|[0-9]{1,3})(?:[_.:-]+(?:[a-z]{1,12}|[0-9]{1,3}))*")
_ID = Lazy(r"[A-Za-z0-9][A-Za-z0-9_.:=+/-]{8,199}")

_USAGE = Lazy(r"(?:token_?)?usage(?:_?metadata)?", re.IGNORECASE)
_SCALARS = Lazy(
    r"created(?:_?at)?|completed_at|date|system_fingerprint|x-request-id|request-id|cf-ray|age|etag|server-timing"
    r"|(?:prompt|completion|total|input|output|cached|reasoning)_tokens|(?:prompt_)?eval_count"
    r"|(?:[a-z]+_)*duration|(?:queue|prompt|completion|total)_time|latencyMs|(?:[a-z]+-)*(?:processing-ms|service-time)"
    r"|(?:[a-z]+-)*ratelimit(?:-[a-z]+)*|set-cookie|content-length",
    re.IGNORECASE,
)
_HEADERS = frozenset({"headers", "HTTPHeaders", "response_headers"})

IN_TEXT = Lazy(
    r'"(?P<usage>usage|usageMetadata)"\s*:\s*(?P<tokens>\{[^{}]*[Tt]oken[^{}]*(?:\{[^{}]*\}[^{}]*)*\})'
    r'|"(?P<id>\w*id|\w+I[dD])"\s*:\s*"(?P<text>' + _PROVIDERS_ID.pattern + r')"'
    r'|"(?P<fingerprint>system_fingerprint)"\s*:\s*"(?P<print>[^"\\]+)"'
    r'|"(?P<moment>created|created_at)"\s*:\s*(?P<number>[0-9]{9,13})\b'
)
"""The stamps in the JSON of an answer over HTTP: pairs of groups, a key and its value."""

_SIGN = Lazy(
    r'"(?:(?i:(?:token_?)?usage(?:_?metadata)?)":\{|system_fingerprint":|(?:'
    + "|".join(sorted(_OF_MODELS))
    + r')":[\[{]|'
    + _PROVIDERS_ID.pattern
    + '")'
)
"""The signs of stamps in a line of JSON: a line without any has no stamps of a program's data."""
_LONG_TEXT = Lazy(r'"([^"\\]{9,})(?=")')


class Setting:
    """The place of a value: whose it is.

    Args:
        loose: Whether it is of a model's answer, where any id counts.
    """

    __slots__ = ("loose",)

    def __init__(self, *, loose: bool) -> None:
        self.loose = loose

    @classmethod
    def of_kind(cls, kind: str) -> Setting:
        """Return the place of the outcomes of a kind of interactions; `step` for a step."""
        return LOOSE if kind in MODEL_KINDS else STRICT

    def below(self, key: str) -> Setting | None:
        """Return the place of the values below a key; `None` for chosen values, which aren't volatile."""
        if key in _CHOSEN:
            return None
        return LOOSE if key in _OF_MODELS else self

    def is_whole(self, key: str, value: Any) -> bool:
        """Return True if a list or dict is one stamp: the tokens of an answer, the headers of a response."""
        if isinstance(value, dict) and _USAGE.fullmatch(key):
            return (self.loose or key.lower() != "usage") and any("token" in name.lower() for name in value)
        return self.loose and key in _HEADERS and isinstance(value, dict)

    def is_scalar(self, key: str, value: Any) -> bool:
        """Return True if a number or text under this key only shows when and by which machine it was made."""
        if isinstance(value, bool) or value is None or value == "":
            return False
        return (self.loose and _SCALARS.fullmatch(key) is not None) or key == "system_fingerprint"

    def is_id(self, key: str, text: str) -> bool:
        """Return True if a text is an id that the provider made."""
        if _ID_KEY.search(key) is None or key in _NO_ID or not _ID.fullmatch(text) or _WORD_LIKE.fullmatch(text):
            return False
        return self.loose or _PROVIDERS_ID.fullmatch(text) is not None


def may_have_stamps(line: str, ids: Mapping[str, str]) -> bool:
    """Return False if a value of the program's has no stamp in it for certain; that is cheaper than to walk it.

    Args:
        line: The value as a line of JSON.
        ids: The ids from elsewhere, of which it may have one.
    """
    return _SIGN.search(line) is not None or (bool(ids) and not ids.keys().isdisjoint(_LONG_TEXT.findall(line)))


@functools.lru_cache(4096)
def can_stamp(key: str) -> bool:
    """Return False if no value under a key is ever volatile."""
    return key in _HEADERS or bool(_ID_KEY.search(key) or _USAGE.fullmatch(key) or _SCALARS.fullmatch(key))


LOOSE, STRICT = Setting(loose=True), Setting(loose=False)


def is_header_stamp(name: str) -> bool:
    """Return True if the header of a response differs in each: its date, its request, its limits."""
    return _SCALARS.fullmatch(name) is not None
