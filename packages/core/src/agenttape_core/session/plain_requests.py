"""The requests of a session as plain, redacted data: made canonical, they have a fingerprint to be found by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agenttape_core.errors import shown_path
from agenttape_core.matching import Canonicaliser, CanonicalRequest
from agenttape_core.schema import Plain
from agenttape_core.session.setup import Setup


class RecordedFirst:
    """Makes requests canonical, and redacts only those that no recording has unchanged.

    A recorded request is redacted, and to redact it again changes nothing. So one that equals it holds no secret, as
    nearly all requests of a replay, which then searches no text and imports none of the detectors. `as_is` makes
    requests canonical without redaction, and `redacted` with it; `is_recorded` returns whether a recorded request has a
    fingerprint.
    """

    def __init__(self, as_is: Canonicaliser, redacted: Canonicaliser, is_recorded: Callable[[str], bool]) -> None:
        self._as_is: Canonicaliser | None = as_is
        self._redacted = redacted
        self._is_recorded = is_recorded

    def request(
        self, kind: str, name: str, body: Mapping[str, Any], ids: tuple[str, ...] = (), around: tuple[str, ...] = ()
    ) -> CanonicalRequest:
        """Return the canonical form of a request, as `Canonicaliser.request` does."""
        if self._as_is is not None:
            request = self._as_is.request(kind, name, body, ids, around)
            if self._is_recorded(request.fingerprint):
                return request
        request = self._redacted.request(kind, name, body, ids, around)
        if self._is_recorded(request.fingerprint):
            self._as_is = None  # this run has secrets, and most of its requests repeat them
        return request


def canonicaliser(
    setup: Setup,
    encode: Callable[[Any], Plain],
    warn: Callable[[Warning], object],
    is_recorded: Callable[[str], bool] | None,
) -> Canonicaliser | RecordedFirst:
    """Return what makes canonical requests.

    `warn` gives a warning when the session has ended; `is_recorded` returns whether a recorded request has a
    fingerprint, and is `None` if requests are recorded.
    """
    redactor = setup.redactor

    def plain(value: Any) -> Any:
        return redactor.value(encode(value))

    def plain_items(name: str, values: Sequence[Any]) -> list[Any]:
        """Return values under one name as plain, redacted data."""
        return [
            dict(value)
            if name in redactor.harmless_keys and redactor.is_plain(value)
            else next(iter(plain({name: value}).values()))
            for value in values
        ]

    look = None
    if setup.policy.records and setup.frozen is not None:
        from agenttape_core.session.module_dates import ModuleDates  # a replay needs none

        look = ModuleDates(warn, shown_path(setup.path)).look
    redacted = Canonicaliser(plain, setup.ignored, plain_items, look)
    # What isn't compared isn't known to hold no secret, which an answer may repeat.
    return (
        redacted
        if is_recorded is None or setup.ignored.paths
        else RecordedFirst(Canonicaliser(encode), redacted, is_recorded)
    )
