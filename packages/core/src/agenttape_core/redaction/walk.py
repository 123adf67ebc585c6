"""The way through plain data that redaction and rehydration take: values, keys, and what a key says about its value."""

from __future__ import annotations

import itertools
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.redaction.detection.encoded import BYTES, Data
from agenttape_core.redaction.detection.findings import SECRET, render
from agenttape_core.redaction.detection.names import MAX_NAME, Demand, demand_of, words_of
from agenttape_core.redaction.detection.tables.code import IS_FIELD
from agenttape_core.redaction.detection.values import (
    DESCRIBED,
    LEAST_BELOW,
    OF_MODELS,
    is_below,
    is_text_of_manifest,
    reaches_down,
    satisfies,
)
from agenttape_core.redaction.pseudonyms import PSEUDONYM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agenttape_core.redaction.detection.findings import Span
    from agenttape_core.schema import Plain


_COLLECTIONS = frozenset({"$tuple", "$set", "$frozenset", "$deque"})
FIELDS = {
    "$model": ("fields", "extra", "private"), "$dataclass": ("fields", "attributes"), "$deque": ("items",),
    "$mapping": ("items",), "$defaultdict": ("items",),
}  # fmt: skip
"""The parts of a written object that hold its values, by its tag."""
_PAIRED = frozenset({"$dict", "$mapping", "$defaultdict"})
"""Tags of dicts that are written as lists of pairs."""
_SCALARS = frozenset({"$str", "$float", "$uuid", "$decimal", "$fraction"})
_OPAQUE = frozenset({"$float", "$uuid", "$decimal", "$fraction", "$datetime", "$date", "$time"})
_BLANK_OR_PSEUDONYM = Lazy(rf"\s|{PSEUDONYM.pattern}")
_LEAST_CARD = 10**13
"""A payment card has fourteen digits at least."""
_CHOSEN = frozenset({Demand.TEXT, Demand.DIGITS})
"""Demands that a list meets if each of its items does: recovery codes."""
_SIGNED = frozenset(
    ("se", "sp", "sv", "sr", "expires", "Expires", "Policy", "Key-Pair-Id", "X-Amz-Date",
     "X-Amz-Credential", "X-Goog-Date", "X-Goog-Credential", "grant_type", "client_id", "redirect_uri", "code_verifier")
)  # fmt: skip
"""Names beside which `sig` signs a URL, and `code` is one of OAuth. A pair that stands for itself needs none."""
_AUTH = ("auth",)
"""The last word of what HTTP clients take a tuple of user and password by."""
_TOKEN = ("token",)
"""A name that lexers and models have for a word, too."""
_NAMED = frozenset({"label", "field", "placeholder", "target", "ParameterKey"})
TELLING = _NAMED | {"selector", "element", "locator", "xpath", "css", "sensitive", "kind"}
"""Keys of items that tell of the item beside them: the field of a page into which a text is typed, a parameter."""
_TYPED_IN = frozenset({"text", "value", "keys", "input", "ParameterValue"})
_USER_OPTIONS = frozenset({"-u", "--user", "-U", "--proxy-user"})


class Replacer:
    """Replaces secrets, or their pseudonyms, in plain data. This one goes by texts alone: names tell it nothing.

    Numbers stay unless it's given what replaces them, and bytes unless it looks `in_bytes`.
    """

    looks_at_numbers = False
    """True if numbers are replaced that are under no denied name."""
    harmless_keys: set[str]
    """Keys that need no look, nor do their values."""

    def __init__(
        self,
        spans: Callable[[str], list[Span]],
        number: Callable[[float], Any] | None = None,
        *,
        in_bytes: bool = False,
    ) -> None:
        self._replaced, self._number, self._in_bytes = spans, number, in_bytes
        self.looks_at_numbers = number is not None
        self.harmless_keys = set()

    def kind_of(self, name: str) -> str | None:  # noqa: ARG002 - no name is denied
        """Return the kind of all values under a name, or `None` if the name is not denied."""
        return None

    def text(self, text: str) -> Any:
        """Return a text with replacements; the same object where there are none."""
        spans = self.spans(text)
        return render(text, spans) if spans else text

    def texts(self, texts: list[str]) -> list[str]:
        """Return the pieces of one text with replacements, each where its secret starts."""
        whole = "".join(texts)
        spans = self.spans(whole)
        return [str(self.text(piece)) for piece in cut(whole, spans, texts)]

    def alone(self) -> Replacer:
        """Return what replaces texts that are part of no stream."""
        return self

    def whole(self, text: str, kind: str) -> Any:  # noqa: ARG002 - as above
        """Return the replacement of a whole string under a denied name."""
        return self.text(text)

    def number(self, number: float) -> Any:
        """Return the replacement of a number."""
        return number if self._number is None else self._number(number)

    def scalar(self, tag: str, body: str, kind: str) -> Any:
        """Return the replacement of a typed value under a denied name."""
        return {tag: self.whole(body, kind)}

    def base64(self, body: str, kind: str | None = None) -> str:
        """Return bytes in base64 with replacements, as a whole under a denied name; the same object where none are."""
        data = Data.of(body) if self._in_bytes else None
        replaced = str(self.whole(data.text, kind) if kind else self.text(data.text)) if data else ""
        return body if data is None or replaced == data.text else data.encoded(replaced)

    def spans(self, text: str, *, strict: bool = False) -> list[Span]:  # noqa: ARG002 - a redactor heeds it
        """Return the replacements of a text."""
        return self._replaced(text)

    def contains_secret(self, text: str) -> bool:
        """Return True if a text has replacements."""
        return bool(self.text(text) != text)


def redact_value(plain: Plain, redactor: Replacer) -> Plain:
    """Return redacted plain data; the very same object when nothing changed.

    An agent sends the same long history again and again, so the way through unchanged data is kept short: nothing is
    built before something differs, and keys that are known to be harmless cost one look-up.
    """
    if isinstance(plain, str):
        return redactor.text(plain)
    if isinstance(plain, dict):
        return _redact_dict(plain, redactor)
    if isinstance(plain, list):
        return _redact_list(plain, redactor)
    if redactor.looks_at_numbers and isinstance(plain, int | float) and not isinstance(plain, bool):
        return redactor.number(plain)
    return _redact_card(plain, redactor) if type(plain) is int and plain > _LEAST_CARD else plain


def _redact_card(number: int, redactor: Replacer) -> Any:
    """Return a number that is that of a payment card redacted, as a number where pseudonyms keep the form."""
    text = str(number)
    redacted = redactor.text(text)
    if redacted == text:
        return number
    return int(redacted) if isinstance(redacted, str) and redacted.isdigit() else redactor.number(number)


def _redact_dict(plain: dict[str, Any], redactor: Replacer) -> dict[str, Any]:
    if len(plain) == 1:
        ((tag, body),) = plain.items()
        if tag in BYTES and isinstance(body, str):
            encoded = redactor.base64(body)
            return plain if encoded is body else {tag: encoded}
        if tag in _OPAQUE:
            return plain
    harmless, changes = redactor.harmless_keys, {}
    for key, item in plain.items():
        redacted: Plain
        if item is None:
            continue
        if key in harmless:
            redacted = redactor.text(item) if type(item) is str else redact_value(item, redactor)
        else:
            kind = denied_kind(plain, key, redactor)
            redacted = redact_denied(item, kind, redactor, key) if kind else redact_value(item, redactor)
        if redacted is not item:
            changes[key] = redacted
    if harmless.issuperset(plain):
        return _changed(plain, changes, redactor) if changes else plain
    return _changed(plain, changes | _told(plain, redactor), redactor)


def _told(plain: dict[str, Any], redactor: Replacer) -> dict[str, Any]:
    """Return what changes in a dict of which one item says that another is a secret."""
    told = {}
    if plain.get("kind") == "Secret":  # of Kubernetes
        told = {key: redact_denied(plain[key], SECRET, redactor) for key in ("data",) if key in plain}
        if isinstance(texts := plain.get("stringData"), dict):
            told["stringData"] = _of_texts(texts, redactor)
    if not any(_tells_of_secret(key, plain[key]) for key in TELLING.intersection(plain)):
        return told
    typed = _TYPED_IN.intersection(plain)
    if plain.get("sensitive") is True:  # whatever it is: an output of Terraform may be a number or a map
        return told | {key: redact_denied(plain[key], SECRET, redactor) for key in typed}
    return told | {key: redactor.whole(plain[key], SECRET) for key in typed if isinstance(plain[key], str)}


def _of_texts(texts: dict[str, Any], redactor: Replacer) -> dict[str, Any]:
    """Return the texts of a Secret with those replaced that may be one: a user is none."""
    may_be = {key: text for key, text in texts.items() if isinstance(text, str) and is_text_of_manifest(text)}
    changes = {key: redactor.whole(text, SECRET) for key, text in may_be.items()}
    return _redact_dict({**texts, **changes}, redactor)


def _tells_of_secret(key: str, item: Any) -> bool:
    """Return True if an item of a dict says that another one is a secret: `{"selector": "#password", "text": "x"}`."""
    if item is True:
        return key == "sensitive"
    if key == "kind" or not isinstance(item, str) or len(item) > MAX_NAME * 2:
        return False
    return demand_of(item) is Demand.NOTHING if key in _NAMED else IS_FIELD.search(item) is not None


def _changed(plain: dict[str, Any], changes: dict[str, Any], redactor: Replacer) -> dict[str, Any]:
    names = {key: redactor.text(key) for key in plain}
    if not changes and all(name is key for key, name in names.items()):
        return plain
    return {names[key]: changes.get(key, item) for key, item in plain.items()}


def _redact_list(plain: list[Any], redactor: Replacer) -> list[Any]:
    if plain and type(plain[0]) is str and len(plain) > 1:
        plain = _redact_arguments(plain, redactor)
    elif are_tokens(plain):
        return _redact_tokens(plain, redactor)
    redact = _redact_pair if plain and all(map(_pair, plain)) else redact_value
    result: list[Any] | None = None
    for number, item in enumerate(plain):
        redacted = redact(item, redactor)
        if redacted is not item:
            result = list(plain) if result is None else result
            result[number] = redacted
    return plain if result is None else result


def _redact_tokens(plain: list[Any], redactor: Replacer) -> list[Any]:
    """Redact what the tokens of log probabilities spell out: what replaces it is in the first, the others are empty."""
    tokens = redactor.texts([token_of(place) for place in plain])
    result = [_with_token(place, token, redactor.alone()) for place, token in zip(plain, tokens, strict=True)]
    return plain if all(map(is_, result, plain)) else result


def _redact_arguments(plain: list[Any], redactor: Replacer) -> list[Any]:
    """Redact what follows the option of a command: `["--password", "x"]`, `["curl", "-u", "user:x"]`."""
    result: list[Any] | None = None
    for number, (option, value) in enumerate(itertools.pairwise(plain), start=1):
        if type(option) is not str or type(value) is not str or not option.startswith("-") or value.startswith("-"):
            continue
        user, colon, password = value.partition(":")
        if kind := redactor.kind_of(option) if option.startswith("--") else None:
            redacted = redact_denied(value, kind, redactor)
        elif colon and option in _USER_OPTIONS and plain[0].endswith("curl"):
            redacted = f"{user}:{redactor.whole(password, SECRET)}"
        else:
            continue
        result = list(plain) if result is None else result
        result[number] = redacted
    return plain if result is None or result == plain else result


def _pair(item: Any) -> list[Any] | None:
    """Return a list or tagged tuple of a string and something, as lists of headers have them."""
    if isinstance(item, dict) and len(item) == 1:
        item = item.get("$tuple")
    if isinstance(item, list) and len(item) == 2 and isinstance(_header_name(item[0]), str):  # noqa: PLR2004 - a pair
        return item
    return None


def _header_name(name: Any) -> str | None:
    """Return a header's name, which ASGI and HTTP/2 give as bytes."""
    if isinstance(name, dict) and len(name) == 1 and isinstance(name.get("$bytes"), str):
        data = Data.of(name["$bytes"])
        return data.text if data else None
    return name if isinstance(name, str) else None


def _redact_pair(item: Any, redactor: Replacer) -> Any:
    pair = _pair(item) or []
    kind = _kind_in_pair(_header_name(pair[0]) or "", pair[1], redactor)
    if kind is None:
        return redact_value(item, redactor)
    redacted = redact_denied(pair[1], kind, redactor)
    if redacted is pair[1]:
        return item
    return {"$tuple": [pair[0], redacted]} if isinstance(item, dict) else [pair[0], redacted]


def denied_kind(plain: dict[str, Any], key: str, redactor: Replacer) -> str | None:
    """Return the kind of the value under a key of a dict, or `None` if the key is not denied there."""
    kind = redactor.kind_of(key)
    if kind is None:
        if (demand := demand_of(key)) is not None:
            return SECRET if _demanded(plain, key, demand) else None
        if key != "value":
            return None
        # A header or a cookie as HAR files and many APIs write it: {"name": "X-Api-Key", "value": "..."}.
        name = plain.get("name", plain.get("key"))
        return _kind_in_pair(name, plain[key], redactor) if isinstance(name, str) else None
    if words_of(key) == _TOKEN:
        value = plain[key]
        # An entry of log probabilities or of a tokenizer; a credential has no blanks either.
        # What a pseudonym stands for may have had blanks, so a value with one in it was judged before.
        if not OF_MODELS.isdisjoint(plain) or (isinstance(value, str) and _BLANK_OR_PSEUDONYM.search(value)):
            return None
    return kind


def _demanded(plain: dict[str, Any], key: str, demand: Demand) -> bool:
    """Return True if the value under a key of a dict is what its name demands."""
    value = plain[key]
    if demand is Demand.QUERIED and len(plain) > 1 and _SIGNED.isdisjoint(plain):
        return False
    if isinstance(value, dict) and words_of(key)[-1:] == _AUTH:
        return _pair(value) is not None
    return _meets(value, demand, key)


def _meets(value: Any, demand: Demand, name: str) -> bool:
    if isinstance(value, str):
        return satisfies(value, demand)
    if isinstance(value, list):
        return bool(value) and demand in _CHOSEN and all(_meets(item, demand, name) for item in value)
    if isinstance(value, dict):
        if reaches_down(name, demand):
            return True
        return value.keys() <= DESCRIBED and all(_meets(item, demand, name) for item in value.values())
    return demand is Demand.DIGITS and type(value) is int and satisfies(str(value), demand)


def _kind_in_pair(name: str, value: Any, redactor: Replacer) -> str | None:
    """Return the kind of the value that stands beside its name."""
    kind = redactor.kind_of(name)
    if kind is None and (demand := demand_of(name)) is not None and _meets(value, demand, name):
        return SECRET
    return kind


def redact_denied(item: Plain, kind: str, redactor: Replacer, key: str = "", *, least: int = 0) -> Plain:
    """Return the value of a denied name with each string and number in it replaced as a whole, at any depth.

    What describes a field, or a credential, stays: `{"password": {"type": "string"}}`; see `values.is_below`.
    Numbers below `least` stay, too.
    """
    if isinstance(item, str):
        return redactor.whole(item, kind)
    if isinstance(item, int | float) and not isinstance(item, bool):
        return item if abs(item) < least else redactor.number(item)
    if isinstance(item, list):
        first = 1 if words_of(key)[-1:] == _AUTH else 0
        result = item[:first] + [redact_denied(part, kind, redactor, key, least=least) for part in item[first:]]
        return item if all(new is old for new, old in zip(result, item, strict=True)) else result
    if isinstance(item, dict):
        return _redact_denied_dict(item, kind, redactor, key)
    return item


def _redact_denied_dict(item: dict[str, Any], kind: str, redactor: Replacer, key: str) -> Plain:
    if len(item) == 1:
        ((tag, body),) = item.items()
        if tag in BYTES and isinstance(body, str):
            encoded = redactor.base64(body, kind)
            return item if encoded is body else {tag: encoded}
        if tag in _COLLECTIONS and isinstance(body, list):
            redacted = redact_denied(body, kind, redactor, key)
            return item if redacted is body else {tag: redacted}
        if tag in _SCALARS and isinstance(body, str):
            typed = redactor.scalar(tag, body, kind)
            return item if typed == item else typed
        if tag.startswith("$"):
            return _redact_denied_object(item, partial(redact_denied, kind=kind, redactor=redactor, key=key), redactor)
    changes = {}
    for name, part in item.items():
        if own := denied_kind(item, name, redactor):
            redacted = redact_denied(part, own, redactor, name)
        elif is_below(item, name, key):
            redacted = redact_denied(part, kind, redactor, key, least=LEAST_BELOW)
        else:
            redacted = redact_value(part, redactor)
        if redacted is not part:
            changes[name] = redacted
    return _changed(item, changes, redactor)


def _redact_denied_object(item: dict[str, Any], denied: Callable[[Any], Any], redactor: Replacer) -> dict[str, Any]:
    """Redact the values of an object below a denied name; its class and what else is written of it stay."""
    ((tag, body),) = item.items()
    if tag == "$namedtuple" and isinstance(body, list) and body:
        written: Any = {tag: [body[0], *map(denied, body[1:])]}
    elif tag == "$dict" and isinstance(body, list):
        written = {tag: _redact_pairs(body, denied, redactor)}
    elif tag in FIELDS and isinstance(body, dict):
        inner = partial(_redact_pairs, denied=denied, redactor=redactor) if tag in _PAIRED else denied
        parts = {name: inner(body[name]) for name in FIELDS[tag] if name in body}
        others = {name: redact_value(part, redactor) for name, part in body.items() if name not in parts}
        written = {tag: {name: parts.get(name, others.get(name)) for name in body}}
    else:
        written = _redact_dict(item, redactor)
    return item if written == item else written


def _redact_pairs(pairs: Any, denied: Callable[[Any], Any], redactor: Replacer) -> Any:
    """Redact the values of a dict that is written as a list of pairs."""
    return [
        [redact_value(pair[0], redactor), denied(pair[1])] if isinstance(pair, list) and len(pair) == 2 else pair  # noqa: PLR2004
        for pair in pairs
    ]


Place = dict[str, Any] | list[Any]
"""The entry of one token of a text, or the row of the candidates for it.

OpenAI and those who speak like it give a list of entries, each a dict of a `token`, its `logprob`, its `bytes` and its
alternatives in `top_logprobs`; LlamaIndex gives a row of such entries for each place, the most probable one first.
Joined, the tokens are the text of the answer, and spell out the secrets in it.
"""


def are_tokens(plain: list[Any]) -> bool:
    """Return True if a list of plain data has the tokens of a text and their probabilities."""
    first = plain[0] if plain else None
    if isinstance(first, list):
        return all(isinstance(row, list) and all(map(_is_entry, row)) for row in plain) and any(plain)
    return _is_entry(first) and all(map(_is_entry, plain))


def token_of(place: Place) -> str:
    """Return the token of a place; the empty text for a row without candidates."""
    entry = place if isinstance(place, dict) else place[0] if place else None
    return entry["token"] if entry else ""


def _with_token(place: Place, token: str, redactor: Replacer) -> Place:
    """Return a place with a redacted token; the alternatives of one that changed become it, too: they often are it."""
    other = (lambda text: str(redactor.text(text))) if token == token_of(place) else lambda _: token
    return _row(place, other, redactor) if isinstance(place, list) else _entry(place, token, other, redactor)


def cut(whole: str, spans: Sequence[Span], pieces: Sequence[str]) -> Iterator[str]:
    """Yield the pieces of a text with its spans replaced; what replaces a span is where the span starts."""
    start = 0
    for piece in pieces:
        yield render(whole, spans, start, start + len(piece)) if spans else piece
        start += len(piece)


def _is_entry(item: Any) -> bool:
    return isinstance(item, dict) and "logprob" in item and isinstance(item.get("token"), str)


def _row(row: list[Any], other: Callable[[str], str], redactor: Replacer) -> list[Any]:
    result = [_entry(entry, other(entry["token"]), other, redactor) for entry in row]
    return row if all(map(is_, result, row)) else result


def _entry(entry: dict[str, Any], token: str, other: Callable[[str], str], redactor: Replacer) -> Any:
    same = token == entry["token"]
    result = dict(entry)
    for key, item in entry.items():
        if key == "token":
            result[key] = item if same else token
        elif key == "bytes" and isinstance(item, list):
            result[key] = item if same else list(token.encode("utf-8", "surrogatepass"))
        elif key == "top_logprobs" and isinstance(item, list) and all(map(_is_entry, item)):
            result[key] = _row(item, other, redactor)
        else:
            result[key] = redact_value(item, redactor)
    return entry if all(result[key] is item for key, item in entry.items()) else result
