"""Edited answers: results that the user gives to recorded calls, as changes of those."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agenttape_core import Change, raises, returns
from agenttape_core.errors import ConfigurationError
from agenttape_core.integration.cassettes import Cassette

Answers = Mapping[int | str, Any]
"""Results of calls, by the number or the address of the interaction.

A text or a message for a chat model, a text for a text model, the returned value for everything else. An exception is
raised, and a change, such as `edits(...)`, is made.
"""


def edited_answers(cassette: Cassette, answers: Answers) -> dict[int, Change]:
    """Return the changes for edited answers, by the number of the interaction.

    Raises `ConfigurationError` if there's no such interaction, or several have the address.
    """
    changes: dict[int, Change] = {}
    for key, answer in answers.items():
        found = [entry.number for entry in cassette.entries if key in (entry.number, entry.address)]
        if len(found) != 1:
            problem = (
                f"the interactions {', '.join(map(str, found))} have it" if found else "it holds no such interaction"
            )
            raise ConfigurationError(
                f"answers={{{key!r}: ...}}: expected the number or the address of one interaction of {cassette.path}; "
                f"{problem}"
            )
        changes[found[0]] = _change(answer)
    return changes


def _change(answer: Any) -> Change:
    if isinstance(answer, Change):
        return answer
    return raises(answer) if isinstance(answer, Exception) else returns(answer)
