"""Keys that start at, or stand around, a long run of token characters: every key of a provider has such a run.

Most long runs are words of code, such as `ConversationSummaryHandler`: a few look-ups tell so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.blocks import find_discord, may_be_discord
from agenttape_core.redaction.detection.credentials import find_aws_secrets, may_be_aws_id
from agenttape_core.redaction.detection.encoded import may_be_encoded
from agenttape_core.redaction.detection.literals import holds
from agenttape_core.redaction.detection.provider_keys import PROVIDER_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.detector import Detector
    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.views import View

_HEAD = 3
"""The number of characters of a run that decide which detectors are tried."""
_LEAD = 24
"""The number of characters around the start of a run in which the literal of its key is, such as `SG.`."""
_BEFORE_RUN, _OF_RUN = 80, 120
"""The reach around the start of a run in which its literal is looked for."""
_BACKSLASH, _PERCENT, _U = b"\\%u"
_MARKS = b"-_"


def _heads() -> dict[bytes, tuple[Detector, ...]]:
    heads: dict[bytes, tuple[Detector, ...]] = {}
    for detector in PROVIDER_KEYS:
        if detector.near == "head":
            for start in {anchor[:_HEAD] for anchor in detector.anchors}:
                heads[start] = (*heads.get(start, ()), detector)
    return heads


_HEADS = _heads()
_LEADS = [(anchor, found) for found in PROVIDER_KEYS if found.near == "lead" for anchor in found.anchors]
_BASE64 = [found for found in PROVIDER_KEYS if found.near == "base64"]
_AROUND = [(anchor, found) for found in PROVIDER_KEYS if found.near == "around" for anchor in found.anchors]


def find_keys(view: View) -> Iterator[Finding]:
    """Find the keys of providers, Discord's tokens and the secrets of AWS."""
    runs = view.long_runs
    for detector in _BASE64:
        if any(holds(view.raw, anchor) for anchor in detector.anchors):
            yield from detector.find(view)
    for at in runs:
        for detector in _candidates(view.raw, at):
            yield from detector.find(view, max(0, at - _LEAD), at + _LEAD)
        if view.is_varied(at):
            yield from _around(view, at)
    if runs:
        yield from find_discord(view)
        yield from find_aws_secrets(view)


def may_be_key(view: View, at: int) -> bool:
    """Return True if something at or around a long run of token characters is worth a search: a key, or base64."""
    return (
        bool(_candidates(view.raw, at))
        or (view.is_varied(at) and bool(_detectors_around(view, at)))
        or may_be_encoded(view.raw, at)
        or may_be_discord(view.raw, at)
        or may_be_aws_id(view, at)
    )


def _around(view: View, at: int) -> Iterator[Finding]:
    """Find the keys that stand around a run of token characters."""
    for detector in _detectors_around(view, at):
        yield from detector.find(view, max(0, at - _BEFORE_RUN), at + _OF_RUN)


def _detectors_around(view: View, at: int) -> list[Detector]:
    find = view.raw[max(0, at - _BEFORE_RUN) : at + _OF_RUN].rfind
    return [detector for anchor, detector in _AROUND if find(anchor) >= 0]


def _candidates(raw: bytes, at: int) -> tuple[Detector, ...]:
    """Return the detectors of what may start at a run of token characters, or right before it."""
    found = _HEADS.get(raw[at : at + _HEAD], ())
    before = raw[at - 1] if at else 0
    if raw[at] in _MARKS:
        found += _HEADS.get(raw[at + 1 : at + 1 + _HEAD], ())  # a line of a diff, or italics
    if before in b".~:" or raw[max(0, at - 2) : at] == b"//":
        lead = raw[max(0, at - _LEAD) : at + _HEAD]
        found += tuple(detector for anchor, detector in _LEADS if anchor in lead)
    elif before in (_BACKSLASH, _PERCENT):
        # The run begins with the rest of an escape: \\n, \\u0022 or %20.
        skip = 2 if before == _PERCENT else 5 if raw[at] == _U else 1
        skip += raw[at + skip : at + skip + 1] == b"-"
        found += _HEADS.get(raw[at + skip : at + skip + _HEAD], ())
    return found
