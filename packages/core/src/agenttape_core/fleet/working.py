"""The work on items: `work` is a plain function of one item, so that any engine that can map can call it."""

from __future__ import annotations

import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agenttape_core.errors import (
    AgentTapeError,
    BudgetExceededError,
    CassetteError,
    CassetteWriteError,
    ConfigurationError,
)
from agenttape_core.experiments.engine import Jobs
from agenttape_core.fleet.items import Item, settings_id
from agenttape_core.fleet.judging import outcome_of
from agenttape_core.fleet.outcomes import Outcome
from agenttape_core.fleet.planning import content_of
from agenttape_core.fleet.spending import limited
from agenttape_core.fleet.store import outcome_in, outcomes_in, store_outcome
from agenttape_core.storage import location_of
from agenttape_core.storage.files import packed_bytes

_WORKERS = 64  # the workers of an engine that are expected to share a limit, each with one item at a time


def work(
    item: Item,
    *,
    output: str | Path,
    settings: Mapping[str, Any] | None = None,
    max_usd: float | None = None,
    plan: str = "",
) -> Outcome:
    """Do the work of an item, store its outcome, and return it. An outcome that is there already isn't made again.

    Several processes may do the same item: one outcome is stored, and all return that one.

    Args:
        item: The item.
        output: The folder or the URL of the outcomes.
        settings: The settings of its plan.
        max_usd: The most that the calls of models may cost, in US dollars: of all workers of the plan together.
        plan: The id of the plan, for which the money is counted. A limit needs it.

    Raises:
        BudgetExceededError: If a call would cost more than is left.
        CassetteError: If the recording isn't the planned one or can't be fetched, or the outcome can't be written.
        ConfigurationError: If the program can't be found, the item was planned with other settings, or a limit has no
            plan.
    """
    if max_usd is not None and not plan:
        raise ConfigurationError("workers share a limit by the id of their plan\n  work(…, max_usd=…, plan=plan.id)")
    settings = settings or {}
    _refuse_others([item], settings)
    with limited(output, plan, max_usd, (0, _WORKERS)):
        return _done(item, output, settings)


def _refuse_others(items: Iterable[Item], settings: Mapping[str, Any] | None) -> None:
    """Refuse items that were planned with other settings."""
    planned = settings_id(settings)
    for item in items:
        if item.settings != planned:
            raise ConfigurationError(f"{item.cassette}: the settings aren't those that its item was planned with")


def _done(item: Item, output: str | Path, settings: Mapping[str, Any]) -> Outcome:
    if (known := outcome_in(output, item.id)) is not None:
        return known
    recording = location_of(item.cassette)
    if content_of(packed_bytes(recording)) != item.content:
        remedy = "plan again:  agenttape fleet plan"
        raise CassetteError(recording, "it isn't the recording that was planned: its bytes have changed", remedy=remedy)
    return store_outcome(outcome_of(item, recording, settings), output)


@dataclass(slots=True)
class Done:
    """The end of the work on several items.

    Args:
        verdicts: How many outcomes were made with each verdict.
        known: How many outcomes there were already.
        damaged: The names of files that weren't the outcome of their item.
        failed: The reasons why items have no outcome, a text each.
        stopped: The reason why it ended early; empty if it didn't.
        is_whole: Whether it was not interrupted.
    """

    verdicts: Counter[str] = field(default_factory=Counter)
    known: int = 0
    damaged: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    stopped: str = ""
    is_whole: bool = True


def work_all(
    items: Iterable[Item],
    *,
    output: str | Path,
    settings: Mapping[str, Any] | None = None,
    concurrency: int = 1,
    on_item: Callable[[], object] | None = None,
) -> Done:
    """Do the work of many items in this process, several at a time, and skip those that have an outcome.

    An item that can't be worked on is noted, and the others continue. A damaged outcome is noted, and made again. A
    call beyond the limit, and an interruption by the keyboard, end it: items that have begun are finished, and their
    outcomes are kept.

    Args:
        items: The items.
        output: The folder or the URL of the outcomes.
        settings: The settings of their plan.
        concurrency: How many items are worked on at the same time, each in a thread.
        on_item: Called after each item that had no outcome yet, from any thread.

    Raises:
        CassetteError: If the store can't be listed or written.
        ConfigurationError: If the program can't be found, or an item was planned with other settings.
    """
    done, mine, settings = Done(), list(items), settings or {}
    _refuse_others(mine, settings)
    there = {one.item for one in outcomes_in(output, {item.id for item in mine}, done.damaged)}
    missing = [item for item in mine if item.id not in there]
    done.known = len(mine) - len(missing)

    verdicts: list[str] = []  # threads append to it

    def do(item: Item) -> None:
        try:
            verdicts.append(_done(item, output, settings).verdict)
        except (ConfigurationError, CassetteWriteError):
            raise
        except AgentTapeError as error:
            done.failed.append(str(error))
        finally:
            if on_item is not None:
                on_item()

    try:
        with warnings.catch_warnings(), Jobs(concurrency) as jobs:  # threads put back the filters in no order
            deque(jobs.each(do, missing), 0)
    except BudgetExceededError as error:
        done.stopped = str(error).partition("\n")[0]
    except KeyboardInterrupt:
        done.is_whole = False
    done.verdicts.update(verdicts)
    done.failed.sort()
    return done
