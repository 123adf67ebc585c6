"""Reports without a byte of a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from agenttape_core.matching import Difference
from agenttape_core.schema import Interaction
from agenttape_core.tools.reading.messages import input_messages
from agenttape_core.tools.reading.turns import text_of
from agenttape_core.tools.reporting.findings import Checked, Finding, Judged

REDACTED = "[REDACTED]"
"""Verdict's word for a prompt that is left out."""

_ID = re.compile(r"[0-9a-f]{16}|[0-9a-f]{32}|\d{8,}")
"""Ids and times in exports, by which records are joined."""
_WORD = re.compile(r"\w+")
_LONG = 4
_SEVERAL = re.compile(r"\[REDACTED\](?:\W{0,3}\[REDACTED\])+")


class Mask:
    """Replaces prompts, and in all other texts of runs the words that stand in a prompt, as an answer may repeat them.

    Args:
        prompts: All prompts that a report could hold.
    """

    def __init__(self, prompts: Iterable[str]) -> None:
        found = {word.casefold() for prompt in prompts for word in _WORD.findall(prompt)}
        self._words = frozenset(found)
        long = sorted((word for word in self._words if len(word) >= _LONG), key=len, reverse=True)
        self._inside = re.compile("|".join(map(re.escape, long))) if long else None

    def text(self, text: str) -> str:
        """Return a text without the words of the prompts."""
        return _SEVERAL.sub(REDACTED, _WORD.sub(self._word, text))

    def data(self, value: Any) -> Any:
        """Return plain data without the words of the prompts in its texts; keys stay."""
        if isinstance(value, dict):
            return {key: self.data(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.data(item) for item in value]
        return self.text(value) if isinstance(value, str) and not _ID.fullmatch(value) else value

    def checked(self, checked: Checked) -> Checked:
        """Return what a report says of a run. Its name, files, places, and the words of messages stay."""
        return replace(
            checked,
            prompt=REDACTED if checked.prompt else "",
            judged=tuple(map(self._judged, checked.judged)),
            meta=self.data(dict(checked.meta)),
        )

    def _judged(self, judged: Judged) -> Judged:
        text = self.text(judged.text.removeprefix(judged.rule))
        return replace(judged, text=f"{judged.rule}{text}" if judged.text.startswith(judged.rule) else text,
                       findings=tuple(map(self._finding, judged.findings)))  # fmt: skip

    def _finding(self, finding: Finding) -> Finding:
        differences = [
            Difference(each.path, self.text(each.recorded), self.text(each.asked)) for each in finding.differences
        ]
        return replace(
            finding,
            expected=self.text(finding.expected),
            found=self.text(finding.found),
            differences=tuple(differences),
        )

    def _word(self, found: re.Match[str]) -> str:
        word = found[0].casefold()
        is_of_prompt = word in self._words or (self._inside is not None and self._inside.search(word) is not None)
        return REDACTED if is_of_prompt else found[0]


def prompts_of(interactions: Iterable[Interaction]) -> Iterator[str]:
    """Yield what people wrote in the calls of a run.

    Args:
        interactions: The calls.
    """
    for item in interactions:
        for message in input_messages(item.request):
            if message["role"] == "user":
                yield text_of(message)
