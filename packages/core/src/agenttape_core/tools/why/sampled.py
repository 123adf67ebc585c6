"""The messages of a request that have turned the answer of its model, as far as samples tell: the account of them.

Sampling is no proof, as a model may say another thing each time. So each share has an interval, and nothing of this is
ever among the links that replays have shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agenttape_core.errors import counted
from agenttape_core.tools.trials.judging import interval_of


@dataclass(frozen=True, slots=True)
class Share:
    """The share of answers that are as in question.

    Args:
        said: The number of such answers.
        of: The number of all.
    """

    said: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """The interval in which the share lies with a probability of 95 %."""
        return interval_of(self.said / self.of if self.of else 0.0, self.of)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"said": self.said, "of": self.of, "interval": list(self.interval)}

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.said} of {self.of} ({low:.0%} to {high:.0%})"


@dataclass(frozen=True, slots=True)
class Turned:
    """A message, or a part of one, with which the model answers as in question.

    Args:
        at: The place of the message in the request, such as `messages[2]`.
        text: The beginning of its text, redacted.
        is_part: Whether it is a part of that message.
        alone: The answers where it is all that is left of the request, with the other messages that were found.
        without: The answers where only it is left out.
    """

    at: str
    text: str
    is_part: bool
    alone: Share
    without: Share

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        facts = {"at": self.at, "text": self.text, "part": self.is_part}
        return {**facts, "enough": self.alone.to_dict(), "without": self.without.to_dict()}

    def __str__(self) -> str:
        what = "a part of " if self.is_part else ""
        return f"{what}{self.at} {self.text!r}: enough in {self.alone}, without it {self.without}"


@dataclass(frozen=True, slots=True)
class Sampled:
    """The messages of one request that have turned the answer, as far as samples tell.

    Args:
        question: The answer in question, in words.
        whole: The answers to the whole request.
        nothing: The answers to the request without any of its texts.
        turned: The messages with which the model answers so; none of them can be left out alone.
        calls: The number of calls that were made.
        dollars: The cost of these, as far as it is known.
        seed: The seed of the order in which messages were left out.
        note: Why there is no more; empty if nothing is missing.
    """

    question: str
    whole: Share
    nothing: Share
    turned: tuple[Turned, ...] = ()
    calls: int = 0
    dollars: float = 0.0
    seed: int = 0
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "question": self.question,
            "whole": self.whole.to_dict(),
            "nothing": self.nothing.to_dict(),
            "turned": [one.to_dict() for one in self.turned],
            "calls": self.calls,
            "dollars": round(self.dollars, 6),
            "seed": self.seed,
            "note": self.note or None,
        }

    def __str__(self) -> str:
        answers = (
            f"{self.question} in {self.whole} answers to the whole request, and in {self.nothing} without its texts"
        )
        lines = [f"sampled, not shown: {answers}"]
        lines += [f"  {one}" for one in self.turned]
        lines += [f"  {self.note}"] if self.note else []
        lines.append(f"  {counted(self.calls, 'call')} for ${self.dollars:.4f}, seed {self.seed}")
        return "\n".join(lines)
