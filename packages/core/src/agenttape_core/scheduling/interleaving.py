"""The order in which strands passed their gates, as text in a cassette and as a script that a replay follows.

The text is a list of labels, each with the number of gates passed in a row: `0*3 0.1 0.2*2 0`. A label says where a
strand comes from: `0` is that of the session, `0.2` the second thread or piece of work that `0` began, `0.2:1` what
happened inside the first call of `0.2`. Below it, effects of that call have a label of their own: a replay that serves
the call has them again, and comes to no other gate of its inside. So have the gates of a thread that has put something
into an event loop, and has waited until the loop had come to it: see `handing_over`; what is delivered to a loop
beside threads: see `visiting`; and work of a pool that is cancelled before it has begun: see `withdrawing`. `0.2!` is a
gate that was passed because the time of a wait had passed.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

ROOT = "0"
_FEW = 3
_NESTS = re.compile(r"(?::\d+)+$")
_EFFECT = f".{zlib.crc32(b'effect')}"
_DELIVERY = f".{zlib.crc32(b'delivery')}."
_HANDED = f".{zlib.crc32(b'handed over')}"
_WITHDRAWN = f".{zlib.crc32(b'withdrawn')}"


class Passed(NamedTuple):
    """Gates that a strand passed in a row.

    Args:
        label: Its label.
        times: Their number.
        is_late: Whether it passed the gate, one, because the time had passed for which it waited.
    """

    label: str
    times: int
    is_late: bool = False

    def __str__(self) -> str:
        return f"{self.label}!" if self.is_late else self.label if self.times == 1 else f"{self.label}*{self.times}"


def parsed(text: str) -> list[Passed]:
    """Return what a text says. `Volatile` has checked its form."""
    runs = []
    for word in text.split():
        label, _, times = word.removesuffix("!").partition("*")
        runs.append(Passed(label, int(times or 1), word.endswith("!")))
    return runs


def strand_of(label: str) -> str:
    """Return the label of the strand itself, of one that may be inside calls of it."""
    return _NESTS.sub("", label)


def creator_of(label: str) -> str:
    """Return the label under which a strand was begun; empty for that of the session."""
    return label.rpartition(".")[0]


def effect_of(call: str) -> str:
    """Return the label of the effects of a call."""
    return call + _EFFECT


def handed_by(label: str) -> str:
    """Return the label of what a strand, or the inside of a call, has put into an event loop."""
    return label + _HANDED


def withdrawal_of(strand: str) -> str:
    """Return the label of the moment at which work was cancelled that had not begun: see `withdrawing`."""
    return strand + _WITHDRAWN


def withdrawn_by(label: str) -> str:
    """Return the label of the strand that a withdrawal is of; empty if the label is any other one."""
    return label.removesuffix(_WITHDRAWN) if label.endswith(_WITHDRAWN) else ""


def delivery_of(strand: str, key: str) -> str:
    """Return the label of something that is delivered to the event loop in the thread of a strand: see `visiting`."""
    return f"{strand}{_DELIVERY}{zlib.crc32(key.encode()) or 1}"


def _loop_of(label: str) -> str:
    """Return the strand in whose thread the event loop runs to which something is delivered; empty for other labels."""
    return label.partition(_DELIVERY)[0] if _DELIVERY in label else ""


def passed_by(label: str) -> str:
    """Return the label of the strand that passes the gates of a label."""
    return strand_of(_loop_of(label) or maker_of(label) or label)


def maker_of(label: str) -> str:
    """Return the label of the call whose effects a label stands for, or of what has put something into a loop.

    It is empty if the label is any other one.
    """
    suffix = next((suffix for suffix in (_EFFECT, _HANDED) if label.endswith(suffix)), None)
    return label.removesuffix(suffix) if suffix is not None else ""


class Notes:
    """The gates that were passed in this run."""

    def __init__(self) -> None:
        self._runs: list[Passed] = []
        self._label = ""
        self._times = 0

    def passed(self, label: str, *, is_late: bool = False) -> None:
        """Note that a gate was passed, because the time of a wait had passed if that is late."""
        if is_late:
            self._flush()
            self._label = ""
            self._runs.append(Passed(label, 1, is_late=True))
        elif label == self._label:
            self._times += 1
        else:
            self._flush()
            self._label, self._times = label, 1

    @property
    def last(self) -> str:
        """The label of the gate that was passed last; empty if none was."""
        return self._label or (self._runs[-1].label if self._runs else "")

    def labels(self) -> set[str]:
        """Return the labels whose gates were passed."""
        return {run.label for run in self._runs} | {self._label}

    def _flush(self) -> None:
        if self._times:
            self._runs.append(Passed(self._label, self._times))
        self._times = 0

    def text(self, left_out: set[str]) -> str:
        """Return them as text.

        Args:
            left_out: The labels of strands that say nothing, nor does what they began.
        """
        self._flush()
        self._label = ""
        words: list[Passed] = []
        for run in self._runs:
            if not left_out.isdisjoint(outwards(run.label)):
                continue
            if words and words[-1].label == run.label and not (run.is_late or words[-1].is_late):
                run = run._replace(times=run.times + words.pop().times)  # noqa: PLW2901 - both in a row now
            words.append(run)
        return " ".join(map(str, _with_few_deliveries(words)))


def _with_few_deliveries(runs: list[Passed]) -> Iterator[Passed]:
    """Yield gates without those between the first and the last of a loop in a row: no other strand goes on there."""
    for loop, row in itertools.groupby(runs, lambda run: _loop_of(run.label)):
        gates = list(row)
        yield from gates if not loop or len(gates) < _FEW else (gates[0], gates[-1])


def outwards(label: str) -> Iterator[str]:
    """Yield the label of the strand itself, and those of the strands that it comes from."""
    while label:
        label = strand_of(label)
        yield label
        label = creator_of(label)


class Script:
    """The gates that are to be passed in a replay, in order.

    Args:
        text: The recorded order.
    """

    def __init__(self, text: str) -> None:
        self._runs = parsed(text)
        self._labels, self._times = [run.label for run in self._runs], [run.times for run in self._runs]
        self._head = 0
        self._left: Counter[str] = Counter()
        for run in self._runs:
            self._left[run.label] += run.times
        self._strands = {strand for label in self._left for strand in outwards(label)}

    @property
    def head(self) -> str | None:
        """The label that is next; `None` at the end."""
        return self._labels[self._head] if self._head < len(self._labels) else None

    @property
    def is_late(self) -> bool:
        """True if what is next was passed because the time of a wait had passed."""
        return self._head < len(self._runs) and self._runs[self._head].is_late

    def knows(self, label: str) -> bool:
        """True if a strand, or something that it began, passed a gate at all."""
        return strand_of(label) in self._strands

    def has(self, label: str) -> bool:
        """True if a label is to come."""
        return self._left[label] > 0

    def is_in_row(self, label: str, strand: str) -> bool:
        """Return True if a label of a strand is to come before the next gate of another one.

        The order in which a strand comes to gates of its own is nothing to others. A model that is executed tells an
        event loop of a chunk before that is delivered, and a served one afterwards.
        """
        for at in self._to_come():
            if self._labels[at] == label:
                return True
            if passed_by(self._labels[at]) != strand:
                return False
        return False

    def is_late_next(self, label: str) -> bool:
        """Return True if the next gate of a label was passed because the time of a wait had passed."""
        return next((self._runs[at].is_late for at in self._to_come() if self._labels[at] == label), False)

    def take(self, label: str) -> None:
        """Take the next gate of a label, which need not be the first of all."""
        at = next(at for at in self._to_come() if self._labels[at] == label)
        self._times[at] -= 1
        self._left[label] -= 1
        self._skip()

    def drop(self) -> None:
        """Leave out what is next."""
        self._left[self._labels[self._head]] -= self._times[self._head]
        self._times[self._head] = 0
        self._skip()

    def first_of(self, labels: set[str]) -> str | None:
        """Return the label that comes first, of some."""
        return next((self._labels[at] for at in self._to_come() if self._labels[at] in labels), None)

    def _to_come(self) -> Iterator[int]:
        return (at for at in range(self._head, len(self._labels)) if self._times[at])

    def _skip(self) -> None:
        while self._head < len(self._labels) and not self._times[self._head]:
            self._head += 1
