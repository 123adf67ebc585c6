"""The records of a run that has ended, with the secrets that it shows replaced wherever else they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agenttape_core.format.json_text import dump_line
from agenttape_core.format.records import AnyRecord
from agenttape_core.format.written_steps import WrittenStep
from agenttape_core.matching import Ignored, recorded_request
from agenttape_core.schema import Header, Interaction, Step

if TYPE_CHECKING:
    from agenttape_core.redaction import Redactor


_OF_PLACE = ("kind", "name", "address")  # the fields of a step that tell where it belongs
_OF_CALL = ("tags", "metadata", "fidelity_note", "request", "outcome", "acts")


class ReplacedEverywhere:
    """Replaces the secrets of a run in its records. Fingerprints leave out the paths `ignored`."""

    def __init__(self, redactor: Redactor, ignored: Ignored) -> None:
        self._secrets = redactor.everywhere()
        self._ignored = ignored

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def are_in(self, lines: bytes) -> bool:
        """Return True if the lines of a journal hold one of the secrets."""
        return self._secrets.are_in(lines)

    def header(self, header: Header) -> Header:
        """Return a header without them."""
        value = self._secrets.value
        environment = value(header.freeze.environment)
        fields = {"tags": value(header.tags), "input": value(header.input), "origin": value(header.origin)}
        return header.model_copy(
            update={**fields, "freeze": header.freeze.model_copy(update={"environment": environment})}
        )

    def written(self, record: AnyRecord) -> AnyRecord:
        """Return a record of a journal without them."""
        if not isinstance(record, WrittenStep):
            return self.record(record)
        before = record.as_dict()
        after = self._step(before)
        return record if after is before else record._replace(text=dump_line(after).partition(",")[2])

    def records(self, records: Sequence[Interaction | Step]) -> Sequence[Interaction | Step]:
        """Return the records of an earlier run that stay next to this run's, without them."""
        return [self.record(record) for record in records] if self._secrets else records

    def record(self, record: Interaction | Step) -> Interaction | Step:
        """Return a record without them; the fingerprint of a call is computed from its new request."""
        if isinstance(record, Interaction):
            return self._interaction(record)
        before = record.model_dump()
        after = self._step(before)
        return record if after is before else record.model_validate(after)

    def _step(self, before: dict[str, Any]) -> dict[str, Any]:
        after = self._secrets.value(before)
        return before if after is before else {**after, **{key: before[key] for key in _OF_PLACE if key in before}}

    def _interaction(self, item: Interaction) -> Interaction:
        before = item.model_dump(include=set(_OF_CALL))
        after = self._secrets.value(before)
        if chunks := item.outcome.chunks:
            after = {**after, "outcome": {**after["outcome"], "chunks": self._secrets.chunks(chunks)}}
        if after == before:
            return item
        changed = Interaction.model_validate({**item.model_dump(exclude=set(_OF_CALL)), **after})
        if after["request"] == before["request"]:
            return changed
        old, new = (recorded_request(item.kind, item.name, body["request"], self._ignored) for body in (before, after))
        ids = [*new.ids, *item.ids[len(old.ids) :]]
        return changed.model_copy(update={"fingerprint": new.fingerprint, "ids": ids})
