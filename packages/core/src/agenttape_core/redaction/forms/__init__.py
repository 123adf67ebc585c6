"""Pseudonyms with the form of what they stand for: decision 0027 has the grammar. Pure."""

from __future__ import annotations

from agenttape_core.redaction.detection.findings import NUMBER, SECRET
from agenttape_core.redaction.forms.contacts import MAIL_MARK, Emails, Phones
from agenttape_core.redaction.forms.form import Form, Reading
from agenttape_core.redaction.forms.numbers import Cards, Ibans, Numbers, Ssns, Uuids

__all__ = ["EMAIL", "MAIL_MARK", "Form", "Reading", "form_of", "is_example", "is_pseudonym"]

EMAIL = Emails()
_NUMBERS, _UUIDS = Numbers(), Uuids()
_BY_KIND: dict[str, tuple[Form, ...]] = {form.kind: (form,) for form in (EMAIL, Phones(), Cards(), Ssns(), Ibans())}
_BY_KIND |= {SECRET: (_NUMBERS, _UUIDS), NUMBER: (_NUMBERS,)}


def form_of(kind: str, text: str) -> Form | None:
    """Return the form that the pseudonym of a secret has; `None` for one in brackets.

    Args:
        kind: The kind of the secret.
        text: The secret.
    """
    return next((form for form in _BY_KIND.get(kind, ()) if form.read(text) is not None), None)


def is_example(kind: str, text: str) -> bool:
    """Return True if a text of some kind is reserved or documented as an example, and so no secret."""
    form = form_of(kind, text)
    reading = form.read(text) if form else None
    return bool(form and reading and form.is_example(reading.essence))


def is_pseudonym(kind: str, text: str) -> bool:
    """Return True if a text of some kind has the form of a pseudonym of that kind."""
    form = form_of(kind, text)
    reading = form.read(text) if form else None
    return bool(form and reading and form.is_pseudonym(reading.essence))
