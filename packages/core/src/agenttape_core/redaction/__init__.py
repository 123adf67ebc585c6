"""Secrets, and the pseudonyms in their place. Pure: no files, no environment, no clock."""

from typing import TYPE_CHECKING

from agenttape_core.schema.late_names import late_names

if TYPE_CHECKING:
    from agenttape_core.redaction.pseudonyms import PSEUDONYM, new_key
    from agenttape_core.redaction.redactor import Redactor
    from agenttape_core.redaction.rules import Rule

__all__ = ["PSEUDONYM", "Redactor", "Rule", "new_key"]

__getattr__ = late_names(
    __name__, {".pseudonyms": ("PSEUDONYM", "new_key"), ".redactor": ("Redactor",), ".rules": ("Rule",)}
)
