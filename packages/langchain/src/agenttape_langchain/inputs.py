"""The input that an outermost chain began with, for the header of its recording.

A chain that reads its input as a stream, as LCEL's `stream` does, does not know it when it begins, and reports it at
its end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agenttape_core.integration import FirstInput, Plain, executing, plain_value

if TYPE_CHECKING:
    from uuid import UUID

_LATER: dict[str, Any] = {"input": ""}
"""LangChain's word for an input that is not known yet."""
_RUN_ID = "lc_run-"
_UUID = r"(?:lc_run-.*|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$"


def plain_without_run_ids(value: Any) -> Plain:
    """Return a value as plain data, without the ids that the framework gives to messages in each run again.

    Ids that LangChain derives from runs hold the time. Inside a boundary that is really executed, all ids are real.
    """
    return _without_ids(plain_value(value), _UUID if executing() is not None else _RUN_ID)


def _without_ids(plain: Plain, made: str) -> Plain:
    if isinstance(plain, list):
        return [_without_ids(item, made) for item in plain]
    if not isinstance(plain, dict):
        return plain
    is_made = isinstance(plain.get("id"), str) and re.match(made, plain["id"]) is not None
    return {key: _without_ids(item, made) for key, item in plain.items() if not (is_made and key == "id")}


class Inputs:
    """The inputs of the outermost chains of one recording. `first` keeps the first one."""

    def __init__(self, first: FirstInput) -> None:
        self._first = first
        self._later: dict[UUID, Mapping[str, Any]] = {}

    def began(self, run_id: UUID, inputs: Any, configurable: Mapping[str, Any]) -> None:
        """Note the input of an outermost chain that begins."""
        if not self._first.is_wanted:
            return
        if inputs == _LATER:
            self._later[run_id] = configurable
        elif executing() is None:
            self._note(inputs, configurable)

    def ended(self, run_id: UUID, facts: Mapping[str, Any]) -> None:
        """Note the input of a chain that has ended, if it was not known before.

        `facts` are the framework's report, apart from its output.
        """
        configurable = self._later.pop(run_id, None)
        if configurable is not None and "inputs" in facts and executing() is None:
            self._note(facts["inputs"], configurable)

    def _note(self, inputs: Any, configurable: Mapping[str, Any]) -> None:
        self._first.note(plain_without_run_ids(inputs), configurable=configurable)
