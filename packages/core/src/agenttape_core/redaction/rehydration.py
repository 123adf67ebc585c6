"""Putting secrets back: redaction backwards. The same places are found, and secrets take the place of pseudonyms.

A pseudonym that stays in an answer, because nothing says which secret it is of, is percent-encoded where a URL has its
authority (RFC 3986, 3.2): brackets are those of an address of IPv6 there, and a colon ends the user, so
`urllib.parse.urlsplit` of several versions refuses other ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.redaction.detection.encoded import decode, encode_like, has_pseudonym
from agenttape_core.redaction.detection.findings import BASE64, SECRET, Finding, Span, render
from agenttape_core.redaction.everywhere import is_telling
from agenttape_core.redaction.forms import form_of
from agenttape_core.redaction.pseudonyms import MARK, WHOLE, Pseudonyms, may_hold, number_of
from agenttape_core.redaction.walk import Replacer

if TYPE_CHECKING:
    import re
    from collections.abc import Callable


class Rehydrator(Replacer):
    """Puts secrets back for known pseudonyms; it goes through data as the redactor does. Thread-safe."""

    def __init__(
        self,
        pseudonyms: Pseudonyms,
        spans: Callable[[str, bool, Callable[[Finding, str], str]], list[Span]],
        kind_of: Callable[[str], str | None],
    ) -> None:
        super().__init__(self.spans, in_bytes=True)
        self.elsewhere = Replacer(self._elsewhere, self._number_elsewhere, in_bytes=True)
        """The replacer of the numbers and UUIDs that `everywhere` has replaced."""
        self._pseudonyms = pseudonyms
        self._spans = spans
        self._kind_of = kind_of

    def kind_of(self, name: str) -> str | None:
        """Return the kind of all values under a name, if it is known that some of them are pseudonyms."""
        return self._kind_of(name) if self._pseudonyms.any_formed else None

    def text(self, text: str) -> Any:
        """Return a text with its secrets; a number where it is the pseudonym of one in brackets."""
        if self._pseudonyms.any_formed and (spans := self.spans(text)):
            text = render(text, spans)
        if not may_hold(text) and not has_pseudonym(text):
            return text
        number = self._pseudonyms.number(text)
        if number is not None:
            return number
        return self._pseudonyms.restore(text)

    def whole(self, text: str, kind: str) -> Any:
        """Return the secret that a whole value of a denied name stands for."""
        form = form_of(kind, text)
        original = self._pseudonyms.original(form, text) if form else None
        return self.text(text) if original is None else original

    def number(self, number: float) -> int | float:
        """Return the number that one under a denied name stands for."""
        text = repr(number)
        restored = self.whole(text, "number")
        return number if restored == text else number_of(restored)

    def spans(self, text: str, *, strict: bool = False) -> list[Span]:
        """Return the secrets that are put back in a text, but for the pseudonyms that tell their kind."""
        return self._spans(text, strict, self._original)

    def _elsewhere(self, text: str) -> list[Span]:
        spans = (Span(*found.span(), self._telling(found[0])) for found in _FORMED.finditer(text))
        return [span for span in spans if span.replacement != text[span.start : span.end]]

    def _number_elsewhere(self, number: float) -> int | float:
        text = repr(number)
        for made in (text, text.removesuffix(WHOLE)):
            if (told := self._telling(made)) != made:
                return type(number)(told)
        return number

    def _telling(self, text: str) -> str:
        original = self._original(Finding(0, 0, SECRET), text)
        return original if is_telling(original) else text

    def _original(self, finding: Finding, text: str) -> str:
        if finding.kind == BASE64 and (inner := decode(text)):
            restored = str(self.text(inner))
            return text if restored == inner else encode_like(text, restored)
        form = form_of(finding.kind, text)
        return (self._pseudonyms.original(form, text) if form else None) or text


_FORMED = Lazy(
    r"(?<![A-Za-z0-9])(?:90[0-9]{4}\.[0-9]{2}[1-9]|9[0-9]{3,199}"
    r"|(?i:0{8}-0000-[1-9a-f]000-[89ab]000-[0-9a-f]{12}))(?![A-Za-z0-9])"
)
_IN_BRACKETS = Lazy(r"\[REDACTED:[a-z0-9_-]{1,32}:[0-9a-f]{8}\]")
_AUTHORITY = Lazy(r""":(?:\\{0,4}/){2}[^\s/?#"'<>\\]{0,256}\Z""")
_LONGEST_AUTHORITY = 280
_WITH_HOST = ("http://", "https://", "ws://", "wss://")
_IN_AUTHORITY = ("@", ":")


def urls_in(text: str) -> list[Span]:
    """Return the pseudonyms in the authority of URLs, percent-encoded."""
    if MARK not in text or "/" not in text:
        return []
    found = (match for match in _IN_BRACKETS.finditer(text) if _is_in_authority(match))
    return [Span(*match.span(), quote(match[0], safe="")) for match in found]


def _is_in_authority(found: re.Match[str]) -> bool:
    before = found.string, max(0, found.start() - _LONGEST_AUTHORITY), found.start()
    return _AUTHORITY.search(*before) is not None and not _may_be_folder(found)


def _may_be_folder(found: re.Match[str]) -> bool:
    """Return True for what stands where `sqlite:///srv/a` has its path: folders have pseudonyms, too."""
    is_first = found.string.endswith("/", 0, found.start()) and not found.string.endswith(_WITH_HOST, 0, found.start())
    return is_first and found.string[found.end() : found.end() + 1] not in _IN_AUTHORITY
