"""Replays in chosen orders: of a function, or of whatever opens the cassette by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from agenttape_core.errors import CassetteMissError, ConfigurationError
from agenttape_core.lifecycle.contained import ContainedBlock
from agenttape_core.lifecycle.imposing import Imposing
from agenttape_core.lifecycle.ordering import imposing
from agenttape_core.lifecycle.request import no_remedy
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.matching import differences
from agenttape_core.scheduling import ChoicePoint
from agenttape_core.schema import IndexRow
from agenttape_core.tools.explore.result import What
from agenttape_core.tools.verify.ending import Ending, ended

_ID = re.compile(r"\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b")
_LINES = 12


@dataclass(frozen=True, slots=True)
class Replay:
    """One replay in a chosen order.

    Args:
        ending: How it ended; redacted, with the ids that were made in it numbered.
        points: The choices of the run.
        unreachable: The calls that others were to wait for in vain.
        in_threads: The calls that were answered at once, as they were made in threads that could not be held.
        rows: The recordings.
        has_opened: Whether a session was open.
        are_threads: Whether calls of threads were among those that were chosen.
        is_held: Whether each thread waited where it could be held.
    """

    ending: Ending
    points: Sequence[ChoicePoint] = field(default_factory=list)
    unreachable: Sequence[int] = ()
    in_threads: Collection[int] = ()
    rows: Sequence[IndexRow] = ()
    has_opened: bool = True
    are_threads: bool = False
    is_held: bool = True

    @property
    def what(self) -> What:
        """The sort of a change of the outcome that is this one."""
        if self.ending.outcome.startswith("returned"):
            return "result"
        return "miss" if CassetteMissError.__name__ in self.ending.outcome.partition("\n")[0] else "exception"


def replayed(run: Callable[[], Ending], imposed: Imposing) -> Replay:
    """Replay in an order.

    Args:
        run: Runs the program, which opens one cassette.
        imposed: The order.
    """
    with imposing(imposed):
        ending = run()
    if ending.outcome.startswith("raised KeyboardInterrupt"):
        raise KeyboardInterrupt
    if imposed.redactor is None:
        return Replay(ending, has_opened=False)
    text, plain = imposed.redactor.text(ending.outcome), imposed.redactor.value(ending.value)
    numbered = _numbered(json.dumps([text, plain], sort_keys=True))
    outcome, value = json.loads(numbered)
    redacted, choices = Ending(outcome, ending.failed, value), imposed.choices
    if choices is None:
        return Replay(redacted, rows=imposed.rows)
    return Replay(
        redacted,
        list(choices.points),
        (*choices.unreachable, *choices.never_came),
        frozenset(choices.in_threads),
        imposed.rows,
        are_threads=choices.are_threads,
        is_held=choices.is_held,
    )


def _numbered(text: str) -> str:
    """Return a text in which ids of the run are numbers: which task got which of them depends on the order."""
    known: dict[str, str] = {}
    return _ID.sub(lambda match: known.setdefault(match[0], f"id {len(known) + 1}"), text)


def change_of(base: Ending, other: Ending) -> str:
    """Return how an ending differs from that in the recorded order; empty if it does not."""
    if base == other:
        return ""
    if base.outcome != other.outcome:
        return "\n".join(other.outcome.splitlines()[:_LINES])
    found = list(differences(base.value, other.value, "value"))[:_LINES]
    return "\n".join(f"{each.path}: {each.asked}\n  in the recorded order: {each.recorded}" for each in found)


def ended_in(function: Callable[[], Any], cassette: Any) -> Ending:
    """Call a function with a cassette around it, and return how it ended.

    What an order no longer asks for is no failure of its own, and to record anew is no remedy for a race. The failure
    of a session that the function opened itself, and caught, is part of the outcome.

    Args:
        function: The function, without arguments.
        cassette: The cassette.
    """
    block = ContainedBlock(use_cassette(cassette, mode="none", unused="ignore").request._replace(remedy=no_remedy))
    ending = ended(function, block)
    if ending.outcome == "returned" and not block.has_calls:
        return ending._replace(outcome="returned without a recorded call, so there is no order to try", failed=True)
    if ending.outcome != "returned" or not block.failed:
        return ending
    lines = "\n".join(["returned, though a session of its own failed", *sorted(failed.line for failed in block.failed)])
    return ending._replace(outcome=lines, failed=True)


def refuse_unopened(name: str) -> ConfigurationError:
    """Return the error of a program that opens no cassette."""
    return ConfigurationError(f"explore: {name} opened no cassette to replay\n  name the one to open around it")
