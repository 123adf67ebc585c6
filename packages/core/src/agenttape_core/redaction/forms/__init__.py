"""Pseudonyms with the form of what they stand for: decision 0027 has the grammar. Pure."""

from agenttape_core.redaction.forms.chosen import EMAIL, form_of, is_example, is_pseudonym
from agenttape_core.redaction.forms.emails import MAIL_MARK
from agenttape_core.redaction.forms.form import Form, Reading

__all__ = ["EMAIL", "MAIL_MARK", "Form", "Reading", "form_of", "is_example", "is_pseudonym"]
