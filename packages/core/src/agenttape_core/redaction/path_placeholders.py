"""Places: folders that are others in each run, such as the home folder, and how they are written in texts.

A place has a pseudonym of its name and not of its path, so that all runs share it, and each gets its own path back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING
from urllib.parse import quote

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple

if TYPE_CHECKING:
    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.views import View

TMP_PATH, BASETEMP = "tmp_path", "basetemp"
PROJECT, WORKING, HOME = "project_root", "cwd", "home"
KINDS_OF_PLACES = (BASETEMP, WORKING, HOME, PROJECT, TMP_PATH)
"""The names of places: the kinds of their pseudonyms, and what switches them off."""
ALL_PLACES = "places"
"""The word that switches off all of them."""

_FIXTURES = frozenset({TMP_PATH, BASETEMP})
"""Places whose paths no other text holds by chance, so what stands before them does not matter."""
_GENERAL = frozenset(
    [
        *("bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "nonexistent", "opt", "proc", "run"),
        *("sbin", "srv", "sys", "tmp", "Users", "Volumes", "private", "private/tmp", "private/var", "usr", "usr/bin"),
        *("usr/lib", "usr/local", "usr/sbin", "usr/share", "var", "var/empty", "var/lib", "var/log", "var/tmp"),
    ]
)
"""Folders of many machines (Filesystem Hierarchy Standard 3.0): a text that names one does not mean this run."""
_ODD = bytes([*range(32), 34, 92, 127])  # quotes, backslashes and control characters, which JSON would escape
_SHELL_ESCAPED = Lazy(r"([^\w@%+=:,./-])", re.ASCII)
_FILE_URL = ("file://", "file://localhost")
_BEFORE = (
    r"(?:\A|\n)[+-]|(?<![\w-])-[A-Z]|\\[bfnrt]|file://(?:localhost)?|:///|(?<!\b[A-Za-z]):"
    r"|[^\w/.~$%+)\]}\\*#&?:-]"
)
"""The text before a path where it begins: the mark of a diff, an option such as `-I`, an escape of JSON, a URL without
a host such as `sqlite:////srv/app.db`, a colon behind no drive, or no part of a path, a template or a pseudonym."""
_UNSPACED = "[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]"
"""Letters of Japanese, Chinese and Korean, which are written without blanks."""
_SHALLOW = Lazy(rf"(?:{_BEFORE})\Z")
_DEEP = Lazy(rf"(?:{_BEFORE}|(?<![\w/*])[*_]{{1,2}}|{_UNSPACED})\Z")
"""The same of a path of several components, which begins no route and no glob."""
_FORM = Lazy(rf"(?:{_BEFORE}|%[0-9A-Fa-f]{{2}})\Z")
_AFTER_DEEP = Lazy(rf"__?(?!\w)|{_UNSPACED}")
_REACH = 18
_JOINS_AFTER = frozenset("~+@$")
_COMPONENT_GOES_ON = Lazy(r"%(?:20|2[BbDdEe]|[89A-Fa-f][0-9A-Fa-f])|\\ ")
_URL, _RAW = ":url", ":raw"


class Writing(NamedTuple):
    """A way of writing a place; its pseudonym is a hash of `named`: the place's name and a mark of the writing."""

    text: str
    named: str

    @property
    def kind(self) -> str:
        """The name of the place."""
        return self.named.partition(":")[0]


def can_be_place(path: str) -> bool:
    """Return True if a folder says something of the run: not `/`, nothing that each machine has, no odd characters."""
    if not path.startswith("/") or path.endswith("/") or path[1:] in _GENERAL:
        return False
    try:
        text = path.encode()
    except UnicodeEncodeError:  # UTF-8 has no surrogates
        return False
    return len(text.translate(None, _ODD)) == len(text)


class Places:
    """The places of one run, by names of at most 32 of `a-z`, `0-9`, `_` and `-`.

    With `is_plain`, as in older cassettes, they are found only as they are, and not in other writings.
    """

    def __init__(self, paths: Mapping[str, str], *, is_plain: bool = False) -> None:
        self.paths = dict(paths)
        self.is_plain = is_plain
        found = [_writings(name, path)[: is_plain or None] for name, path in paths.items()]
        by_length = [(len(writings[0].text), writings) for writings in found]
        by_length.sort(key=itemgetter(0), reverse=True)
        self.writings = [each for _, writings in by_length for each in writings]
        self._pairs = frozenset(self.writings)
        self._searched = {written.text: written.named for written in reversed(self.writings)}
        self._in_order = [(text, self._searched[text]) for text in sorted(self._searched, key=len, reverse=True)]

    def __bool__(self) -> bool:
        """Return True if there is any."""
        return bool(self.paths)

    def without(self, names: frozenset[str]) -> Places:
        """Return these places but for some, or none of them where all are switched off."""
        if names.isdisjoint((ALL_PLACES, *self.paths)):
            return self
        kept = {} if ALL_PLACES in names else {name: path for name, path in self.paths.items() if name not in names}
        return Places(kept, is_plain=self.is_plain)

    def writing(self, found: Writing) -> Writing | None:
        """Return the place that was found, which in a `file:` URL is the plain one; `None` if it is none."""
        if found in self._pairs:
            return found
        is_quoted = (found.text, found.named + _URL) in self._pairs
        return Writing(self.paths[found.named], found.named) if is_quoted else None

    def find(self, view: View, *, is_start: bool = True) -> Iterator[Finding]:
        """Find the places in a text, as whole components of paths. The kind of each is what is hashed for it.

        Without `is_start`, the text continues after something that was replaced.
        """
        text = view.text
        if not self.paths or ("/" not in text and "%2F" not in text and not self.is_plain):
            return
        taken: set[int] = set()
        for written, named in self._in_order:
            at = text.find(written)
            while at >= 0:
                end = at + len(written)
                if at not in taken and (which := self._which(text, at, end, named, is_start=is_start)):
                    taken.add(at)
                    yield view.finding(at, end, which)
                at = text.find(written, end)

    def _which(self, text: str, at: int, end: int, named: str, *, is_start: bool) -> str | None:
        """Return the name of the writing that seems to stand in a text, or `None` if it is none."""
        if self.is_plain:
            return named if not (text[end : end + 1].isalnum() or text[end : end + 1] in ("_", "-")) else None
        name, _, mark = named.partition(":")
        is_deep = self.paths[name].count("/") > 1
        if not _ends(text, end, is_deep=is_deep):
            return None
        before = _FORM if mark == "form" else _DEEP if is_deep else _SHALLOW
        if name not in _FIXTURES and not _begins(text, at, before, is_start=is_start):
            return None
        if not is_in_file_url(text, at):
            return named
        return name if mark == "url" or (name + _URL) not in self._searched.values() else name + _RAW


def is_in_file_url(text: str, at: int) -> bool:
    """Return True if what stands at a position of a text is the path of a `file:` URL."""
    return at > 0 and text.endswith(_FILE_URL, max(0, at - len(_FILE_URL[1])), at)


@lru_cache(maxsize=256)
def _writings(name: str, path: str) -> list[Writing]:
    """Return all ways in which a place is written, the plain one first."""
    once = json.dumps(path)[1:-1]
    others = {
        _URL: quote(path),
        ":json": once,
        ":json2": json.dumps(once)[1:-1],
        ":shell": _SHELL_ESCAPED.sub(r"\\\1", path),
        _RAW: path,
        ":form": quote(path, safe=""),
    }
    return [Writing(path, name), *(Writing(text, name + mark) for mark, text in others.items())]


def _begins(text: str, at: int, before: Lazy[str], *, is_start: bool) -> bool:
    """Return True if a path begins at a position, rather than goes on."""
    return is_start if at == 0 else before.search(text, max(0, at - _REACH), at) is not None


def _ends(text: str, end: int, *, is_deep: bool) -> bool:
    """Return True if a component of a path ends at a position."""
    after, next_one = text[end : end + 1], text[end + 1 : end + 2]
    if is_deep and _AFTER_DEEP.match(text, end):
        return True
    if after.isalnum() or after in ("_", "-"):
        return False
    if after == "." or after in _JOINS_AFTER:
        return not next_one.isalnum()
    return not _COMPONENT_GOES_ON.match(text, end)
