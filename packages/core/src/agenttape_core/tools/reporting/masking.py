"""Reports without a byte of a prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from agenttape_core.matching import Difference
from agenttape_core.schema import Interaction
from agenttape_core.tools.reading.messages import input_messages, system_instructions, text_of
from agenttape_core.tools.reporting import Checked, Finding, Judged

REDACTED = "[REDACTED]"  # verdict's word for a prompt that is left out

_ID = re.compile(r"[0-9a-f]{16}|[0-9a-f]{32}|\d{8,}")  # ids and times in exports, by which records are joined
_WORD = re.compile(r"\w+")
_LONG = 4
_SEVERAL = re.compile(r"\[REDACTED\](?:\W{0,3}\[REDACTED\])+")
_NOTHING_ELSE = re.compile(r"(?:\W*\[REDACTED\])+\W*")  # a text of which only the punctuation of a prompt is left
_ROLES = frozenset({"user", "system", "developer"})


class Mask:
    """Replaces prompts, and in all other texts of runs the words of a prompt, since an answer may repeat them.

    `prompts` are all that a report could hold.
    """

    def __init__(self, prompts: Iterable[str]) -> None:
        self._known = frozenset({prompt.strip() for prompt in prompts} - {""})
        escaped = {
            json.dumps(prompt, ensure_ascii=ascii_only)[1:-1] for prompt in self._known for ascii_only in (False, True)
        }
        whole = (prompt for prompt in self._known | escaped if len(prompt) >= _LONG)
        self._whole = sorted(whole, key=len, reverse=True)
        found = {word.casefold() for prompt in self._known for word in _WORD.findall(prompt)}
        self._words = frozenset(found)
        long = sorted((word for word in self._words if len(word) >= _LONG), key=len, reverse=True)
        self._inside = re.compile("|".join(map(re.escape, long))) if long else None

    def text(self, text: str) -> str:
        """Return a text without the words of the prompts."""
        if text.strip() in self._known:
            return REDACTED
        for prompt in self._whole:
            text = text.replace(prompt, REDACTED)
        masked = _SEVERAL.sub(REDACTED, _WORD.sub(self._word, text))
        return REDACTED if _NOTHING_ELSE.fullmatch(masked) else masked

    def data(self, value: Any) -> Any:
        """Return plain data without the words of the prompts in its texts; keys stay, unless they are a prompt."""
        if isinstance(value, dict):
            return {REDACTED if key in self._known else key: self.data(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(item) for item in value]
        if not isinstance(value, str):
            return REDACTED if type(value) is int and str(value) in self._known else value
        return value if _ID.fullmatch(value) and value not in self._known else self.text(value)

    def checked(self, checked: Checked) -> Checked:
        """Return a report's facts about a run. Its name, files, places, and the words of messages stay."""
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
        if found[0] == "REDACTED" and found.string[found.start() - 1 : found.end() + 1] == REDACTED:
            return found[0]
        is_of_prompt = word in self._words or (self._inside is not None and self._inside.search(word) is not None)
        return REDACTED if is_of_prompt else found[0]


def prompts_of(interactions: Iterable[Interaction]) -> Iterator[str]:
    """Yield what people wrote in the calls of a run, and the instructions of the system."""
    for item in interactions:
        for message in [*input_messages(item.request), {"parts": system_instructions(item.request), "role": "system"}]:
            if message["role"] in _ROLES:
                yield text_of(message)
