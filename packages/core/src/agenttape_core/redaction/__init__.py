"""Secrets, and the pseudonyms in their place. Pure: no files, no environment, no clock."""

from agenttape_core.redaction.pseudonyms import PSEUDONYM, new_key
from agenttape_core.redaction.redactor import Redactor
from agenttape_core.redaction.rules import Rule

__all__ = ["PSEUDONYM", "Redactor", "Rule", "new_key"]
