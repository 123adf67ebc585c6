"""Keys that start at, or stand around, a long run of token characters: every key of a provider has such a run.

Most long runs are words of code, such as `ConversationSummaryHandler`: a few look-ups tell so.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.redaction.detection.findings import SECRET
from agenttape_core.redaction.detection.provider_keys import BEFORE, PEM, PROVIDER_KEYS
from agenttape_core.redaction.detection.values import is_random
from agenttape_core.redaction.detection.views import holds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.provider_keys import Detector
    from agenttape_core.redaction.detection.views import View


_HEAD = 3
"""The number of characters of a run that decide which detectors are tried."""
_LEAD = 24
"""The number of characters around the start of a run in which the literal of its key is, such as `SG.`."""
_BEFORE_RUN, _OF_RUN = 80, 120
"""The reach around the start of a run in which its literal is looked for."""
_MARKS, _ESCAPES, _LEADING = frozenset([b"-", b"_"]), frozenset([b"\\", b"%"]), frozenset([b".", b"~", b":"])
_SKIPS = (1, 2, 3, 5, 6)
"""The lengths of what may be in front of a key in its run: the mark of a diff, of italics, the rest of an escape."""
_AWS_SECRET = Lazy(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])", re.ASCII)
_AWS_ID = Lazy(r"[^A]{0,2}A[KS]IA")
_ID_HEAD = 6
_NEAR_KEY = 300
_HEX = b"0123456789abcdef-"
_IN_PATHS = frozenset([b"/", b"@"])
"""Signs before a hash that is a part of a secret address."""
_WORDS = Lazy(r"(?:(?:[A-Z]?[a-z]{0,15}|[A-Z]{1,15})\d{0,3}[_-]{0,2}){1,6}", re.ASCII)
"""Words that a key may be glued to: `key_AKIA…`, `xsk-proj-…`. A key in front of another one is none."""
_LONGEST_WORDS = 40
_BREAK = re.compile(rb"(?:\\{1,3}\r?\n|\r?\n|(?:\\r)?\\n)(?=[A-Za-z0-9_-])")
"""A line break inside of a key: a terminal or a shell has wrapped it."""
_MAY_BREAK = frozenset([b"\n", b"\r", b"\\"])
_PIECE = Lazy(r"(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])[\w-]{8,}", re.ASCII)
"""The rest of a key after a line break: no word is like that."""
_WIDE = 60
"""The width of a line that may have been wrapped."""
_MOST_LINES = 12
_BACK = 8
"""The characters that a pattern looks at before a key."""

_DISCORD = Lazy(BEFORE + r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38}", re.ASCII)
_DISCORD_HEAD, _DISCORD_TAIL, _MIDDLE = 40, 40, 8


_HEADS: dict[bytes, tuple[Detector, ...]] = {}
for _detector in PROVIDER_KEYS:
    for _head in {anchor[:_HEAD] for anchor in _detector.anchors} if _detector.near == "head" else ():
        _HEADS[_head] = (*_HEADS.get(_head, ()), _detector)
_LEADS = [(anchor, found) for found in PROVIDER_KEYS if found.near == "lead" for anchor in found.anchors]
_ANYWHERE = [PEM] + [found for found in PROVIDER_KEYS if found.near == "anywhere"]
_AROUND = [(anchor, found) for found in PROVIDER_KEYS if found.near == "around" for anchor in found.anchors]


def find_keys(view: View) -> Iterator[Finding]:
    """Find the keys of providers, Discord's tokens and the secrets of AWS."""
    runs = view.long_runs
    for detector in _ANYWHERE:
        if any(holds(view.raw, anchor) for anchor in detector.anchors):
            yield from detector.find(view)
    for at in runs:
        # Two dots are in front of the last part of a token of Discord's bots; the second part has six characters.
        is_last = view.raw[max(0, at - _MIDDLE) : at : _MIDDLE - 1] == b".."
        if is_last and (bot := _DISCORD.search(view.text, max(0, at - _DISCORD_HEAD), at + _DISCORD_TAIL)):
            yield view.finding(*bot.span(), "discord")
        for detector in _candidates(view.raw, at):
            yield from detector.find(view, max(0, at - _LEAD), at + _LEAD)
        end = _end(view, at)
        is_hash = not view.raw[at:end].strip(_HEX)  # or a UUID
        if view.is_varied(at) and (not is_hash or view.raw[at - 1 : at] in _IN_PATHS):
            yield from _around(view, at)
        if not is_hash and view.shape.find(b"0", at, end) >= 0:
            yield from _glued(view, at, end)
        if view.raw[end : end + 1] in _MAY_BREAK or view.raw[at - 1 : at] in _MAY_BREAK:
            yield from _wrapped(view, at)
    yield from _aws_secrets(view)


def _around(view: View, at: int) -> Iterator[Finding]:
    """Find the keys that stand around a run of token characters."""
    first, last = max(0, at - _BEFORE_RUN), at + _OF_RUN
    if _anchors_around().search(view.raw, first, last):
        near = view.raw[first:last]
        for anchor, detector in _AROUND:
            if anchor in near:
                yield from detector.find(view, first, last)


@cache
def _anchors_around() -> re.Pattern[bytes]:
    return re.compile(b"|".join(re.escape(anchor) for anchor, _ in _AROUND))


@cache
def _glued_anchors() -> dict[bytes, list[tuple[bytes, Detector]]]:
    """Return the anchors of keys that may be glued to words, the longest first, by their heads."""
    heads: dict[bytes, list[tuple[bytes, Detector]]] = {}
    found = ((anchor, detector) for detector in PROVIDER_KEYS if detector.bare for anchor in detector.anchors)
    for anchor, detector in sorted(found, key=lambda pair: -len(pair[0])):
        heads.setdefault(anchor[:_HEAD], []).append((anchor, detector))
    return heads


def _glued(view: View, at: int, end: int) -> Iterator[Finding]:
    """Find the keys that are glued to words in front of them, or behind: `key_AKIA…`, `ghp_…_old`."""
    heads, raw = _glued_anchors(), view.raw
    for start in range(at, min(end, at + _LONGEST_WORDS)):
        for anchor, detector in heads.get(raw[start : start + _HEAD], ()):
            is_whole = raw.startswith(anchor, start, end) and (start == at or _WORDS.fullmatch(view.text, at, start))
            match = detector.bare.match(view.text, start) if is_whole and detector.bare else None
            if match and detector.accepts(match[0]):
                yield view.finding(*match.span(), detector.kind)


def _end(view: View, at: int) -> int:
    """Return where a run of token characters ends."""
    end = view.runs.find(b" ", at)
    return end if end >= 0 else len(view.runs)


def _broken(view: View, at: int) -> int:
    """Return where the run starts that a line break parts from the one at a position, or that position."""
    is_escaped = view.raw[at - 1 : at + 1] == b"\\n"
    breaks = view.raw[max(0, at - 3) : at]
    first = at - len(breaks)
    end = first + len(breaks.rstrip(b"\r\n\\"))
    return view.runs.rfind(b" ", 0, end) + 1 if (is_escaped or b"\n" in breaks) and end > first else at


def _wrapped(view: View, at: int) -> Iterator[Finding]:
    """Find the keys that begin at a run, or on the line before it, and that a line break has parted."""
    start = _broken(view, at)
    detectors = _candidates(view.raw, start)
    if not detectors:
        return
    pieces = list(_pieces(view, start))
    if len(pieces) == 1:
        return
    before = view.text[max(0, start - _BACK) : start]
    joined = before + "".join(view.text[first:end] for first, end in pieces)
    for detector in detectors:
        for anchor in detector.anchors:
            head = joined.find(anchor.decode(), len(before), len(before) + _BACK + len(anchor))
            match = detector.pattern.match(joined, head - detector.back) if head >= detector.back else None
            if match and detector.accepts(match[0]):
                first, last = match.start() - len(before), match.end() - len(before)
                end = _last_of(view, pieces, last)
                if end > pieces[0][1]:
                    yield view.finding(start + first, end, detector.kind)
                    return


def _pieces(view: View, at: int) -> Iterator[tuple[int, int]]:
    """Yield where the lines of a wrapped key start and end."""
    end = _end(view, at)
    yield at, end
    line = view.raw.rfind(b"\n", 0, at) + 1
    for _ in range(_MOST_LINES):
        wrap = _BREAK.match(view.raw, end)
        if (
            wrap is None
            or (end - line < _WIDE and not wrap[0].startswith(b"\\\n"))
            or _candidates(view.raw, wrap.end())
        ):
            return
        line, end = wrap.end(), _end(view, wrap.end())
        yield line, end


def _last_of(view: View, pieces: list[tuple[int, int]], length: int) -> int:
    """Return where a match of so many characters of some pieces ends, without words that only follow the key."""
    end = pieces[0][1]
    for first, last in pieces:
        size = last - first
        if length < size:
            return first + length if length else end
        is_name = view.raw[last : last + 1] in (b"=", b":")
        if first > pieces[0][0] and (is_name or not _PIECE.fullmatch(view.text, first, last)):
            return end
        length, end = length - size, last
    return end


def _candidates(raw: bytes, at: int) -> tuple[Detector, ...]:
    """Return the detectors of what may start at a run of token characters, or right before it."""
    found, before = _HEADS.get(raw[at : at + _HEAD], ()), raw[max(0, at - 1) : at]
    for skip in _SKIPS if raw[at : at + 1] in _MARKS or before in _ESCAPES else ():
        found += _HEADS.get(raw[at + skip : at + skip + _HEAD], ())
    if before in _LEADING or raw[max(0, at - 2) : at] == b"//":
        lead = raw[max(0, at - _LEAD) : at + _HEAD]
        found += tuple(detector for anchor, detector in _LEADS if anchor in lead)
    return found


def _aws_secrets(view: View) -> Iterator[Finding]:
    """Find secret access keys of AWS near the id of one: forty characters of base64 are no form of their own."""
    done = 0
    for at in view.long_runs:
        if at < done or view.raw.find(b"IA", at, at + _ID_HEAD) < 0 or not _AWS_ID.match(view.text, at):
            continue
        first, done = max(0, at - _NEAR_KEY), at + _NEAR_KEY
        for secret in _AWS_SECRET.finditer(view.text[first:done]):
            if is_random(secret[0]):
                yield view.finding(first + secret.start(), first + secret.end(), SECRET)
