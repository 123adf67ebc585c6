"""Volatile values: a provider's new ids and counts for each answer go into the volatile block, with references to them.

Ids, counts of tokens, fingerprints and dates differ in each recording of the same run. A stored record has `${3.id}`
instead of the `id` that the provider gave interaction 3, wherever that id occurs, and the header has the values of each
record on one line. So all else in two recordings of the same run is the same, byte for byte.
"""

from __future__ import annotations

import functools
import marshal
import re
from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from agenttape_core.format.json_text import dump_line, load_line
from agenttape_core.format.malformed import Malformed
from agenttape_core.format.written_steps import CARRIED, Stored, WrittenStep
from agenttape_core.lazy_patterns import Lazy  # a replay takes no stamps
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema.kinds import MODEL_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator


MAX_TEXT = 8 << 20
"""Longer values stay in their records: such a cassette isn't reviewed by hand, and a header has to be small."""
_MANY = 2_000  # the number of records beyond which it pays to see early that there is too much
_MAX_WHOLE = 4096
_ASSET = b"$asset"
_REFERENCE = re.compile(r"(\$+)\{(s?[1-9][0-9]{0,8})\.([A-Za-z_][A-Za-z0-9_]*(?:~[0-9]{1,9})?)\}")
_MARK = "${"
_LINE = re.compile(r"(s?[1-9][0-9]{0,8})(?: ([0-9a-z]+))?(?: (\{.*\}))?")
_FINGERPRINT, _MESSAGES = "fingerprint", "messages"
_NESTED = (str, dict, list)


class Stamped(NamedTuple):
    """Records with references, and the text of their stamps; empty if there are none."""

    records: Collection[Any]
    text: str


def stamped(records: Collection[Stored], collected: Callable[[Iterable[Stored]], Collection[Stored]] = list) -> Stamped:
    """Take the stamps out of records.

    `records` are all of a cassette in stored form, in the order of the file, and aren't changed; `collected` makes a
    collection like them.
    """
    taking = _Taking()
    for record in records:
        if not isinstance(record, WrittenStep) and "interaction" in record:
            taking.outcome(record)
    if len(records) > _MANY and len(taking.text()) > MAX_TEXT:
        return Stamped(records, "")
    quiet = collected(
        taking.step(record) if isinstance(record, WrittenStep) or "step" in record else taking.rest(record)
        for record in records
    )
    text = taking.text()
    return Stamped(quiet, text) if text and len(text) <= MAX_TEXT else Stamped(records, "")


class _Taking:
    """The stamps of one cassette while they are taken out."""

    def __init__(self) -> None:
        self._walks: dict[str, _Walk] = {}
        self._below: dict[str, list[_Walk]] = {}
        self._ids: dict[str, str] = {}
        self._fingerprints: dict[int, str] = {}
        self._outcomes: dict[int, dict[str, Any]] = {}  # the outcomes that differ from the stored records'

    def outcome(self, record: dict[str, Any]) -> None:
        """Take the stamps out of the outcome of an interaction."""
        outcome, walk = record["outcome"], _walk_of(record, self._ids)
        place = _Setting.of_kind(record["kind"])
        quiet = {key: walk.value(item, place) if key != "usage" else item for key, item in outcome.items()}
        if "usage" in quiet and walk.stamps:  # it was read from them
            quiet["usage"] = walk.taken("usage", outcome["usage"])
        if walk.stamps:
            self._walks[str(record["interaction"])] = walk
            for above in accumulate(record["address"].split("/"), "{}/{}".format):
                self._below.setdefault(above, []).append(walk)
        if quiet != outcome:
            self._outcomes[record["interaction"]] = quiet

    def step(self, record: Stored) -> Stored:
        """Return a step with references; the part that repeats the one answer below it uses that answer's values."""
        if isinstance(record, WrittenStep):
            if not (_MARK in record.text or _may_have_stamps(record.text, self._ids)):
                return record
            record = record.as_dict()
        carried = {part: record[part] for part in CARRIED if part in record}
        line = dump_line(carried) if carried else ""
        if not (_MARK in line or _may_have_stamps(line, self._ids)):
            return record
        key, below = f"s{record['step']}", self._below.get(record["address"], ())
        walk = self._walks[key] = _Walk(self._ids, key, repeated=below[0] if len(below) == 1 else None)
        return {**record, **{part: walk.value(value, _STRICT) for part, value in carried.items()}}

    def rest(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return an interaction with references, even in its request, for the parts of an answer that it repeats."""
        number = record["interaction"]
        known = self._walks.get(str(number))
        walk = known if known is not None else _walk_of(record, self._ids)
        walk.referred = False
        places = {_MESSAGES: _STRICT}
        request = {key: walk.value(item, places.get(key)) for key, item in record["request"].items()}
        quiet = {**record, "request": request, "outcome": self._outcomes.pop(number, record["outcome"])}
        if walk.referred or record.get("continues") in self._fingerprints:
            self._fingerprints[number] = record[_FINGERPRINT]
            quiet[_FINGERPRINT] = f"${{{number}.{_FINGERPRINT}}}"
        if "ids" in record:
            quiet["ids"] = [walk.text(item) for item in record["ids"]]
        if known is None and (walk.stamps or number in self._fingerprints):
            self._walks[str(number)] = walk
        return quiet

    def text(self) -> str:
        """Return the volatile values in the form of the header: a line for each record that has some."""
        return "".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for key, walk in sorted(self._walks.items(), key=lambda item: (int(item[0].lstrip("s")), item[0])):
            fingerprint = self._fingerprints.get(int(key)) if key.isdigit() else None
            stamps = [dump_line(walk.stamps)] if walk.stamps else []
            if fingerprint or stamps:
                yield " ".join([key, *([fingerprint] if fingerprint else []), *stamps]) + "\n"


def _walk_of(record: dict[str, Any], ids: dict[str, str]) -> _Walk:
    return _Walk(ids, str(record["interaction"]), in_text=record["kind"] == "http")


class _Walk:
    """One record from which stamps are taken.

    `ids` has the references to ids of all records, and `key` the record's name in references; with `in_text`, its texts
    may be JSON with stamps; its stamps may repeat those of the record `repeated`.
    """

    def __init__(self, ids: dict[str, str], key: str, *, in_text: bool = False, repeated: _Walk | None = None) -> None:
        self.stamps: dict[str, Any] = {}
        self.referred = False
        self._ids, self._key, self._in_text, self._repeated = ids, key, in_text, repeated
        self._scalars: dict[tuple[str, type, Any], str] = {}
        self._counts: dict[str, int] = {}

    def value(self, value: Any, place: _Setting | None) -> Any:
        """Return a value with references; new values aren't taken at places that can't hold a reference."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.below(key, item, place) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, place) if type(item) in _NESTED else item for item in value]
        return value

    def below(self, key: str, value: Any, place: _Setting | None) -> Any:
        """Return the value of a key of a dict, with references."""
        if place is None or not _can_stamp(key):
            return self._below_other(key, value, place)
        if isinstance(value, str) and place.is_id(key, value):
            return self._id(key, value)
        if isinstance(value, dict | list):
            if place.is_whole(key, value) and _is_small(value):
                return self.taken(key, value)
            return self.value(value, place.below(key))
        if place.is_scalar(key, value) or (self._in_text and isinstance(value, str) and _is_header_stamp(key)):
            return self._scalar(key, value)
        return self.text(value, can_hold=self._in_text) if isinstance(value, str) else value

    def _below_other(self, key: str, value: Any, place: _Setting | None) -> Any:
        """Return the value of a key that is none of a stamp, with references."""
        if isinstance(value, str):
            return self.text(value, can_hold=self._in_text and place is not None)
        return self.value(value, place.below(key)) if place is not None else self.value(value, None)

    def taken(self, key: str, value: Any) -> str:
        """Take a value out, and return the reference to it."""
        name = re.sub(r"[^A-Za-z0-9_]", "_", key)
        name = name if name[:1].isalpha() or name.startswith("_") else f"_{name}"
        known = self._repeated.named(name, value) if self._repeated is not None else None
        if known is not None:
            return known
        count = self._counts[name] = self._counts.get(name, 0) + 1
        name = name if count == 1 else f"{name}~{count}"
        self.stamps[name] = value
        self.referred = True
        return f"${{{self._key}.{name}}}"

    def named(self, name: str, value: Any) -> str | None:
        """Return the reference to a stamp that was taken from under a key; `None` if there is none of this value."""
        text = dump_line(value)
        same = (key for key, stamp in self.stamps.items() if key.partition("~")[0] == name and dump_line(stamp) == text)
        found = next(same, None)
        return f"${{{self._key}.{found}}}" if found is not None else None

    def text(self, text: str, *, can_hold: bool = False) -> str:
        """Return a text with references, and with what looks like one as no other text is written."""
        known = self._ids.get(text)
        if known is not None:
            self.referred = True
            return known
        if can_hold and _IN_TEXT.search(text):
            return self._filled_in(text)
        return _escaped(text)

    def _id(self, key: str, text: str) -> str:
        known = self._ids.get(text)
        if known is None:
            known = self._ids[text] = self.taken(key, text)
        self.referred = True
        return known

    def _scalar(self, key: str, value: Any) -> str:
        found = self._scalars.get((key, type(value), value))
        self.referred = True
        if found is None:
            found = self._scalars[key, type(value), value] = self.taken(key, value)
        return found

    def _filled_in(self, text: str) -> str:
        pieces, at = [], 0
        for match in _IN_TEXT.finditer(text):
            (key_group, key), (group, value) = (item for item in match.groupdict().items() if item[1] is not None)
            start, end = match.span(group)
            reference = self._id(key, value) if key_group == "id" else self._scalar(key, value)
            pieces += [_escaped(text[at:start]), reference]
            at = end
        return "".join([*pieces, _escaped(text[at:])])


def _is_small(value: Any) -> bool:
    raw = marshal.dumps(value, 2)
    return len(raw) <= _MAX_WHOLE and _ASSET not in raw


def _escaped(text: str) -> str:
    return _REFERENCE.sub(r"$\g<0>", text) if _MARK in text else text


class Stamps:
    """The stamps of a cassette that is read.

    `text` is their form in the header. Raises `Malformed` if a line is not the name of a record, perhaps its
    fingerprint, and perhaps its stamps.
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[str, tuple[str | None, str | None]] = {}
        self._parsed: dict[str, dict[str, Any]] = {}
        *lines, rest = text.split("\n")
        for position, line in enumerate(lines):
            match = _LINE.fullmatch(line)
            if match is None:
                raise Malformed('expected the stamps of a record such as `3 {"id":"call_1"}`', position)
            self._lines[match[1]] = match[2], match[3]
        if rest:
            raise Malformed("the last stamps have no end of line", len(lines))

    def filled(self, value: Any) -> Any:
        """Return a value with the volatile values for its references. Raises `Malformed` if one is missing."""
        if isinstance(value, str):
            return self.text(value) if _MARK in value else value
        if isinstance(value, dict):
            return {key: self.filled(item) if type(item) in _NESTED else item for key, item in value.items()}
        if isinstance(value, list):
            return [self.filled(item) if type(item) in _NESTED else item for item in value]
        return value

    def text(self, text: str) -> Any:
        """Return the value of a text with references. Raises as `filled` does."""
        match = _REFERENCE.fullmatch(text)
        if match is not None and match[1] == "$":
            return self._stamp(match)
        return _REFERENCE.sub(self._in_text, text)

    def of(self, number: int) -> str:
        """Return the volatile values of an interaction in written form."""
        return " ".join(part for part in self._lines.get(str(number), ()) if part)

    def _in_text(self, match: re.Match[str]) -> str:
        if match[1] != "$":
            return match[0][1:]
        stamp = self._stamp(match)
        if not isinstance(stamp, str):
            raise Malformed(f"`{match[0]}` in a text must be a text, not {type(stamp).__name__}")
        return stamp

    def _stamp(self, match: re.Match[str]) -> Any:
        key, name = match[2], match[3]
        fingerprint, stored = self._lines.get(key, (None, None))
        if name == _FINGERPRINT and fingerprint is not None:
            return fingerprint
        if stored is not None and key not in self._parsed:
            self._parsed[key] = load_line(stored.encode())
        stamps = self._parsed.get(key, {})
        if name not in stamps:
            raise Malformed(f"`{match[0]}` names a stamp that `volatile.stamps` does not have")
        return stamps[name]


# Rules for the values that a provider makes up for each answer: ids, counts of tokens, fingerprints, dates.
#
# They are recognized by their keys and their form, as providers write them; core doesn't depend on any provider. In
# answers of models, any id that was clearly generated counts. Elsewhere the data belong to the program, and only
# unmistakable ones count: an id in a form such as `call_…` or `chatcmpl-…`, and the tokens of a message.

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

_IN_TEXT = Lazy(
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


class _Setting:
    """The place of a value: whose it is. A `loose` one is of a model's answer, where any id counts."""

    __slots__ = ("loose",)

    def __init__(self, *, loose: bool) -> None:
        self.loose = loose

    @classmethod
    def of_kind(cls, kind: str) -> _Setting:
        """Return the place of the outcomes of a kind of interactions; `step` for a step."""
        return _LOOSE if kind in MODEL_KINDS else _STRICT

    def below(self, key: str) -> _Setting | None:
        """Return the place of the values below a key; `None` for chosen values, which aren't volatile."""
        if key in _CHOSEN:
            return None
        return _LOOSE if key in _OF_MODELS else self

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


def _may_have_stamps(line: str, ids: Mapping[str, str]) -> bool:
    """Return False if a value of the program's has no stamp in it for certain; that is cheaper than to walk it."""
    return _SIGN.search(line) is not None or (bool(ids) and not ids.keys().isdisjoint(_LONG_TEXT.findall(line)))


@functools.lru_cache(4096)
def _can_stamp(key: str) -> bool:
    """Return False if no value under a key is ever volatile."""
    return key in _HEADERS or bool(_ID_KEY.search(key) or _USAGE.fullmatch(key) or _SCALARS.fullmatch(key))


_LOOSE, _STRICT = _Setting(loose=True), _Setting(loose=False)


def _is_header_stamp(name: str) -> bool:
    """Return True if the header of a response differs in each: its date, its request, its limits."""
    return _SCALARS.fullmatch(name) is not None
