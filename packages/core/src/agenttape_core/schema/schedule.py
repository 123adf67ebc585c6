"""The order in which the things that an event loop waited for were delivered, as readable text.

A program in an event loop behaves in the same way if everything from outside reaches it at the same point of its own
steps: the end of an awaited call, a chunk of a stream, a timer, the result of a thread. A *delivery* is one of these.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema.record import Items, Record

Sender = Literal["call", "began", "cancelled", "timer", "job", "answer", "post"]
"""The origin of a delivery: an awaited call that answered, began, or was cancelled, a timer of the program, a thread
that works for the loop, one that answers a future which the loop has put into its queue, or any other one."""

_SENDERS: dict[str, Sender] = {
    "": "call",
    "b": "began",
    "c": "cancelled",
    "t": "timer",
    "x": "job",
    "a": "answer",
    "p": "post",
}
_LETTERS = {sender: letter for letter, sender in _SENDERS.items()}
_TOKEN = Lazy(r"([bctxap]?)(0|[1-9]\d{0,8})(=|\+(?:0|[1-9]\d{0,8}))?(?:\*([1-9]\d{0,8}))?", re.ASCII)
_MOST = 10_000_000
_WORD = r"\d{1,9}(?:@[1-9]\d{0,8})?(?:\*[1-9]\d{0,8})?"
_ORDER = rf"^(?:{_WORD}(?: {_WORD})*)?$"
_SHOWN = 40


class Delivery(NamedTuple):
    """Something from outside that reached the program."""

    sender: Sender  # its origin
    # The index of the call within its group; the number of timers, of jobs, or of futures in queues, that were made
    # after this one and before the delivery; for any other thread, a hash of its label.
    which: int
    # The number of steps that the program made since the delivery before it; `None` if the program was otherwise
    # idle.
    after: int | None = None
    at_once: bool = False  # whether the call answered without yielding to the loop

    def __str__(self) -> str:
        when = "=" if self.at_once else "" if self.after is None else f"+{self.after}"
        return f"{_LETTERS[self.sender]}{self.which}{when}"


class Admissions(Record):
    """The order in which all that came from outside was admitted to the program: see decision 133."""

    origins: Items[str]  # the origins of the deliveries: the addresses of calls, labels of threads, the timers of loops
    order: str = Field(default="", max_length=_MOST, pattern=_ORDER)
    """The places of the origins in that list: `0` is the next arrival of the first one, `0@3` the third, `0*2` two."""

    @model_validator(mode="after")
    def _knows_its_origins(self) -> Self:
        count = 0
        for word in self.order.split():
            rest, _, times = word.partition("*")
            place = int(rest.partition("@")[0])
            count += int(times or 1)
            if place >= len(self.origins):
                raise ValueError(f"`order` names origin {place} of {len(self.origins)}; the first one is 0")
        if count > _MOST:
            raise ValueError(f"`order` has more than {_MOST:,} arrivals")
        return self

    def answers(self) -> list[str]:
        """Return the addresses of calls, in the order in which they were answered."""
        found: list[str] = []
        for word in self.order.split():
            rest, _, times = word.partition("*")
            origin = self.origins[int(rest.partition("@")[0])]
            if not _NO_CALL.search(origin):
                found += [origin] * int(times or 1)
        return found


_NO_CALL = Lazy(r"[~<^!$]$|[|>]|&\d+$|^O?\d+(?:\.\d+)*$")  # the marks of origins that are not the answers of calls


class Scheduled(Record):
    """Calls that overlapped in an event loop, and the order of all that was delivered meanwhile."""

    calls: Items[str]  # the addresses of the calls, in the order in which they began
    job: str = Field(default="", pattern=r"^(?:[1-9]\d{0,8}\.a?[1-9]\d{0,8})?$")
    """The job of a thread with which the group began: `1.2` is the second of the program in its first loop, `1.a2` the
    second future that it put into a queue of a thread. Empty if it began with a call."""
    order: str = Field(max_length=_MOST)
    """The deliveries. `0` is the call that began first, `c0` its end if it was cancelled, `b0` its beginning in an
    observed run, which counts rounds of the loop and no steps; `t0` is the youngest timer, `x0` the youngest job of a
    thread, `a0` the answer to the youngest future in a queue, `p123` something from a thread whose label has this
    number, see `thread_number`. `0+2` came after two steps of the program, `0=` in the same step, `0*3` three times."""

    @field_validator("order")
    @classmethod
    def _is_readable(cls, order: str) -> str:
        parsed(order)
        return order

    @model_validator(mode="after")
    def _knows_its_calls(self) -> Self:
        for delivery in parsed(self.order):
            if delivery.sender in {"call", "began", "cancelled"} and delivery.which >= len(self.calls):
                raise ValueError(f"`order` names call {delivery.which} of {len(self.calls)}; the first one is 0")
        return self

    def answers(self) -> list[str]:
        """Return the addresses of its calls, in the order in which they were answered."""
        return [self.calls[each.which] for each in self.answered()]

    def answered(self) -> list[Delivery]:
        """Return the answers of its calls, in their order."""
        return [each for each in self.deliveries() if each.sender == "call"]

    def deliveries(self) -> list[Delivery]:
        """Return all that was delivered, in its order."""
        return parsed(self.order)


def parsed(order: str) -> list[Delivery]:
    """Read the deliveries of a text. Raises `ValueError` if it is none that `written` writes."""
    found: Items[Delivery] = []
    for token in order.split(" ") if order else ():
        match = _TOKEN.fullmatch(token)
        if match is None:
            raise ValueError(f"`order` has a delivery that cannot be read: {token[:_SHOWN]!r}")
        letter, which, when, times = match.groups()
        count = int(times or 1)
        if len(found) + count > _MOST:
            raise ValueError(f"`order` has more than {_MOST} deliveries")
        after = int(when[1:]) if when and when != "=" else None
        found += [Delivery(_SENDERS[letter], int(which), after, when == "=")] * count
    return found


def written(deliveries: Iterable[Delivery]) -> str:
    """Write deliveries as a text."""
    runs = ((str(delivery), len(list(equal))) for delivery, equal in groupby(deliveries))
    return " ".join(text if times == 1 else f"{text}*{times}" for text, times in runs)


def of_at_once(calls: Sequence[tuple[str, int]]) -> Scheduled:
    """Return the schedule of calls (address, chunks) that answered without yielding to the loop."""
    answers = (
        Delivery("call", place, at_once=True) for place, (_, chunks) in enumerate(calls) for _ in range(chunks + 1)
    )
    return Scheduled(calls=[address for address, _ in calls], order=written(answers))
