"""The kinds of secrets that can be switched off, by their names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from agenttape_core.errors import ConfigurationError
from agenttape_core.redaction.detection.findings import NUMBER, SECRET
from agenttape_core.redaction.detection.provider_keys import PROVIDER_KEYS
from agenttape_core.redaction.path_placeholders import ALL_PLACES, KINDS_OF_PLACES

_OTHERS = ("email", "phone", "card", "ssn", "iban", "pem", "discord", SECRET, NUMBER)


def kinds_of_secrets() -> list[str]:
    """Return the names of all kinds that our detectors find, sorted."""
    return sorted({*_OTHERS, *(detector.kind for detector in PROVIDER_KEYS)})


def check_kinds_of_secrets(kinds: Iterable[str]) -> None:
    """Refuse a name of a kind that there is not, neither of secrets nor of places: it would switch off nothing.

    Raises:
        ConfigurationError: There is no such kind; the message names the nearest.
    """
    known = sorted({*kinds_of_secrets(), ALL_PLACES, *KINDS_OF_PLACES})
    for kind in kinds:
        if kind not in known:
            near = difflib.get_close_matches(kind, known, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"the kinds are {', '.join(known)}"
            problem = f"redaction_off: there is no kind of secret {kind!r}"
            raise ConfigurationError(f"{problem}\n  {meant}\n  docs/redaction.md has a table of them")
