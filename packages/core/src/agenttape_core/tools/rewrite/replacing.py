"""A cassette's records with pseudonyms instead of secrets, as a session would have recorded them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast

from agenttape_core.matching import Ignored, recorded_request
from agenttape_core.redaction import Redactor
from agenttape_core.schema import Header, Interaction, Outcome, Plain, RecordedError, SideEffect, Step
from agenttape_core.session import redacted_effects
from agenttape_core.tools.rewrite.values import Values

Record = Interaction | Step

_AT_ONCE = 256


class Replacing:
    """Redacts recordings. Pure, as redaction is.

    Requests are redacted part by part, as a session does when they are asked: a session with the same rules has the
    same fingerprints. Names and addresses say where a recording belongs and stay, but for the values that are to go.

    Args:
        redactor: With the key of the cassette.
        ignored: What the fingerprints of the cassette leave out.
        values: What is to go wherever it stands.
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
        """Yield each of some records, and its form without secrets; the texts of many are searched together."""
        waiting = iter(records)
        while batch := list(islice(waiting, _AT_ONCE)):
            self._redactor.foresee(map(_held, batch))
            yield from ((record, self.record(record)) for record in batch)

    def record(self, record: Record) -> Record:
        """Return an interaction or a step without secrets."""
        return self._step(record) if isinstance(record, Step) else self._interaction(record)

    def _interaction(self, item: Interaction) -> Interaction:
        request = self._values.gone({key: self._part(key, value) for key, value in item.request.items()})
        fields = {
            **self._named(item),
            "ids": self._values.gone(item.ids),
            "acts": self._acts(item.acts),
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

    def _acts(self, acts: list[SideEffect] | None) -> list[SideEffect] | None:
        if acts is None:
            return None
        text, gone = self._redactor.text, self._values.gone
        return [SideEffect(what=gone(text(act.what)), at=gone(text(act.at))) for act in acts]

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


def _held(record: Record) -> list[Any]:
    """Return the part of a record that holds most of its texts."""
    if isinstance(record, Step):
        return [record.address, record.input, record.output, record.data]
    return [record.address, record.request, record.outcome.value, record.metadata]
