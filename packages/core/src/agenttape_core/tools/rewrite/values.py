"""Values that you name as secret, in every form in which text, JSON, URLs and base64 contain them."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast
from urllib.parse import quote, quote_plus

from agenttape_core.format.assets import DATA_URL
from agenttape_core.matching import Ignored, recorded_request
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction import Redactor
from agenttape_core.redaction.detection.encoded import Data, has_pseudonym, sub_encoded
from agenttape_core.redaction.detection.findings import SECRET
from agenttape_core.redaction.pseudonyms import kind_of_whole, kinds_in
from agenttape_core.schema import Header, Interaction, Outcome, Plain, RecordedError, SideEffect, Step
from agenttape_core.session.recording import redacted_effects

# -- The places in which two versions of plain data differ by pseudonyms, and the kinds of these.


_UNKNOWN = "secret"  # the kind of a secret if a place only has a later piece of it


class FoundSecret(NamedTuple):
    """A place with a secret. It never holds the secret."""

    at: str  # the path to it, such as `request.messages[0].content`
    kind: str  # what it is: `email`, `openai`, the name of a rule


def differing(before: object, after: object) -> list[FoundSecret]:
    """Return the places in which data differs after redaction. A key that was replaced is shown under its new name."""
    found = list(_walked(before, after, ""))
    # The pseudonym of a secret in pieces stands where it begins; what is gone from later chunks is no other secret.
    whole = [place for place in found if place.kind]
    return whole or [place._replace(kind=_UNKNOWN) for place in found]


def split_binary(text: str) -> tuple[str, str]:
    """Return the head of a `data:` URL, which is empty for any other text, and what follows: perhaps base64."""
    head = DATA_URL.match(text)
    before = head[0] if head else ""
    return before, text[len(before) :]


def changed_strings(plain: Any, change: Callable[[str], str]) -> Any:
    """Return plain data with each string, keys included, replaced by a function's result for it."""
    if isinstance(plain, str):
        return change(plain)
    if isinstance(plain, dict):
        return {change(key): changed_strings(item, change) for key, item in plain.items()}
    return [changed_strings(item, change) for item in plain] if isinstance(plain, list) else plain


def _walked(before: object, after: object, at: str) -> Iterator[FoundSecret]:
    if before is after or before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict) and len(before) == len(after):
        for (old, one), (new, other) in zip(before.items(), after.items(), strict=True):
            below = f"{at}.{new}" if at else str(new)
            if old != new:
                yield from (FoundSecret(below, kind) for kind in _new_kinds(str(old), str(new)))
            yield from _walked(one, other, below)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from _walked(*pair, f"{at}[{number}]")
    else:
        texts = (value if isinstance(value, str) else "" for value in (before, after))
        # A number that is one pseudonym as a whole; a text may also be what is left of a secret in pieces.
        whole = kind_of_whole(after) if isinstance(after, str | int | float) and after else None
        yield from (FoundSecret(at or ".", kind) for kind in _new_kinds(*texts) or [whole or ""])


def _new_kinds(before: str, after: str) -> list[str]:
    return sorted(Counter(_kinds(after)) - Counter(_kinds(before)))


def _kinds(text: str) -> list[str]:
    """Return the kinds of the pseudonyms in a text, those inside base64 included."""
    found = kinds_in(text)
    if has_pseudonym(text):
        inside: list[str] = []

        def noted(inner: str) -> str:
            inside.extend(_kinds(inner))
            return inner

        sub_encoded(text, noted)
        if not inside and (data := Data.of(split_binary(text)[1])):
            inside += kinds_in(data.text)
        found += inside
    return found


T = TypeVar("T")

SHORTEST_BASE64 = 24  # a text of fewer characters is not tried as base64
_TELLING_BASE64 = 8  # so many characters of base64 stand nowhere by chance
_NESTED = 3  # the depth to which JSON may stand inside a text of JSON


def written_forms(value: str) -> list[str]:
    """Return a value in plain form and in the forms of JSON, URLs and hex, the longest first."""
    forms = {value, quote(value, safe=""), quote_plus(value), quote(value)}
    for escaped in (value, *forms):
        for ascii_only in (True, False):
            text = escaped
            for _ in range(_NESTED):
                text = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
                forms.add(text)
    data = value.encode("utf-8", "surrogatepass")
    forms |= {data.hex(), data.hex().upper()}
    return sorted(forms, key=lambda form: (-len(form), form))


def byte_forms(value: str) -> list[bytes]:
    """Return all that shows in bytes that they hold a value: its written forms, and base64 at any place of a group."""
    data = value.encode("utf-8", "surrogatepass")
    encoded: set[bytes] = set()
    for lead in range(3):
        whole = base64.b64encode(b"\0" * lead + data)
        # The first and the last group may hold bits of what stands around the value.
        inner = whole[4 if lead else 0 : len(whole) - (4 if (lead + len(data)) % 3 else 0)]
        encoded |= {inner, inner.replace(b"+", b"-").replace(b"/", b"_")}
    plain = {form.encode("utf-8", "surrogatepass") for form in written_forms(value)}
    return sorted(plain | {form for form in encoded if len(form) >= _TELLING_BASE64})


def binary_redacted(text: str, change: Callable[[str], str]) -> str:
    """Return a base64 text, or a `data:` URL, with its data changed; any other text unchanged."""
    if len(text) < SHORTEST_BASE64:
        return text
    before, payload = split_binary(text)
    return before + change(payload)


class Values:
    """Takes values out of plain data, wherever and however they are written. The redactor has a rule for each."""

    def __init__(self, values: Iterable[str], redactor: Redactor) -> None:
        pairs = {form: redactor.pseudonym(SECRET, value) for value in values for form in written_forms(value)}
        self._forms = sorted(pairs.items(), key=lambda pair: -len(pair[0]))

    def gone(self, plain: T) -> T:
        """Return plain data without the values; data without any is returned unchanged."""
        if not self._forms:
            return plain
        changed: T = changed_strings(plain, self._text)
        return plain if changed == plain else changed

    def _text(self, text: str) -> str:
        for form, pseudonym in self._forms:
            text = text.replace(form, pseudonym)
        return binary_redacted(text, self._base64)

    def _base64(self, payload: str) -> str:
        try:
            data = base64.b64decode(payload, validate=True)
        except ValueError:
            return payload
        rest = data
        for form, pseudonym in self._forms:
            rest = rest.replace(form.encode("utf-8", "surrogatepass"), pseudonym.encode())
        return payload if rest == data else base64.b64encode(rest).decode("ascii")


# A cassette's records with pseudonyms instead of secrets, as a session would have recorded them.

Record = Interaction | Step


class Replacing:
    """Redacts recordings. Pure, as redaction is.

    Requests are redacted part by part, as a session does when they are asked: a session with the same rules has the
    same fingerprints. Names and addresses say where a recording belongs and stay, but for the values that are to go.
    `redactor` has the key of the cassette; `ignored` are the paths that its fingerprints leave out.
    """

    def __init__(self, redactor: Redactor, ignored: Ignored, values: Values) -> None:
        self._redactor = redactor
        self._values = values
        self._ignored = ignored

    def header(self, header: Header) -> Header:
        """Return a header without secrets. Its key, its seed and its timings stay."""
        redact, gone = self._redactor, self._values.gone
        environment: dict[str, Any] = {}
        for name, value in header.freeze.environment.items():
            environment |= gone(cast("dict[str, Any]", redact.value({name: value})))
        volatile = header.volatile
        update = {
            "python": gone(redact.text(volatile.python)),
            "packages": gone({name: redact.text(version) for name, version in volatile.packages.items()}),
            "turns": gone(volatile.turns),
            "readings": gone(volatile.readings),
            "admissions": volatile.admissions
            and volatile.admissions.model_copy(update={"origins": gone(volatile.admissions.origins)}),
            "schedule": [group.model_copy(update={"calls": gone(group.calls)}) for group in volatile.schedule],
        }
        fields = {
            "name": gone(header.name),
            "derived_from": gone(redact.value(header.derived_from)),
            "origin": gone(redact.value(header.origin)),
            "tags": gone([redact.text(tag) for tag in header.tags]),
            "input": gone(redact.value(header.input)),
            "freeze": header.freeze.model_copy(update={"environment": environment}),
            "volatile": volatile.model_copy(update=update),
        }
        return header.model_copy(update=fields)

    def records(self, records: Iterable[Record]) -> Iterator[tuple[Record, Record]]:
        """Yield each of some records, and its form without secrets."""
        yield from ((record, self.record(record)) for record in records)

    def record(self, record: Record) -> Record:
        """Return an interaction or a step without secrets."""
        return self._step(record) if isinstance(record, Step) else self._interaction(record)

    def _interaction(self, item: Interaction) -> Interaction:
        request = self._values.gone({key: self._part(key, value) for key, value in item.request.items()})
        fields = {
            **self._named(item),
            "ids": self._values.gone(item.ids),
            "acts": self._side_effects(item.acts),
            "request": request,
            "outcome": self._outcome(item.outcome),
        }
        if request != item.request:
            before = recorded_request(item.kind, item.name, item.request, self._ignored)
            question = recorded_request(item.kind, item.name, request, self._ignored)
            ids = [*question.ids, *item.ids[len(before.ids) :]]
            fields |= {"fingerprint": question.fingerprint, "ids": self._values.gone(ids)}
        return item.model_copy(update=fields)

    def _part(self, key: str, value: Plain) -> Plain:
        """Return a part of a request; each item of a list is one."""
        redact = self._redactor.value
        items = value if isinstance(value, list) else [value]
        parts = [next(iter(cast("dict[str, Plain]", redact({key: item})).values())) for item in items]
        return parts if isinstance(value, list) else parts[0]

    def _side_effects(self, found: list[SideEffect] | None) -> list[SideEffect] | None:
        if found is None:
            return None
        text, gone = self._redactor.text, self._values.gone
        return [SideEffect(what=gone(text(each.what)), at=gone(text(each.at))) for each in found]

    def _step(self, step: Step) -> Step:
        redact, gone = self._redactor.value, self._values.gone
        carried = {key: gone(redact(getattr(step, key))) for key in ("input", "output", "data")}
        return step.model_copy(update={**self._named(step), **carried, "error": self._error(step.error)})

    def _named(self, record: Record) -> dict[str, Any]:
        """Return what interactions and steps both have."""
        redactor, gone = self._redactor, self._values.gone
        return {
            "kind": gone(record.kind),
            "name": gone(record.name),
            "address": gone(record.address),
            "tags": gone([redactor.text(tag) for tag in record.tags]),
            "metadata": gone(redactor.value(record.metadata)),
            "fidelity_note": gone(redactor.text(record.fidelity_note)),
        }

    def _outcome(self, outcome: Outcome) -> Outcome:
        redactor, gone = self._redactor, self._values.gone
        chunks = outcome.chunks
        effects = redacted_effects(outcome.effects, redactor) if outcome.effects else []
        fields = {
            "value": gone(redactor.value(outcome.value)),
            "chunks": gone(redactor.chunks(chunks)) if chunks is not None else None,
            "error": self._error(outcome.error),
            "arguments": gone(redactor.value(outcome.arguments)),
            "effects": [effect.model_copy(update={"value": gone(effect.value)}) for effect in effects],
        }
        return outcome.model_copy(update=fields)

    def _error(self, error: RecordedError | None) -> RecordedError | None:
        if error is None:
            return None
        return RecordedError.model_validate(self._values.gone(self._redactor.value(error.model_dump())))
