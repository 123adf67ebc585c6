"""The work on items: `work` is a plain function of one item, for any engine that can map; and the limit on its cost."""

from __future__ import annotations

import math
import re
import secrets
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
from agenttape_core.fleet.items import Item, content_of, settings_id
from agenttape_core.fleet.judging import outcome_of
from agenttape_core.fleet.outcomes import Outcome, outcome_in, outcomes_in, store_outcome
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.locks import Lock
from agenttape_core.storage import Location, below, location_of
from agenttape_core.storage.files import packed_bytes
from agenttape_core.storage.stores import folder_store
from agenttape_core.tools.budget import Budget, refuse_no_amount
from agenttape_core.tools.reading.prices import Prices, load_prices

# -- The limit on the cost of a fleet: its shards keep it together, by the names of small objects in the store.


_NANO = 1_000_000_000  # of a dollar: amounts are whole numbers, so that sums are exact
_RESERVED = re.compile(r"(?P<worker>(?:\d+of\d+\.)?[0-9a-f]{16})-(?P<number>\d+)-(?P<amount>\d+)")
_STEPS = 8  # a process reserves its part of what is left in so many steps, so that little is lost if it's killed


class SharedLimit:
    """A limit that processes keep together by the names of small objects in a store; a listing shows them all.

    Each process writes how much it may have spent, and then reads the amounts of the others. So of two that reserve the
    last dollar at the same time, at least one sees the other and takes it back. What a killed process had reserved
    counts as spent. Thread-safe.

    `store` holds a folder for each `plan`; `shards` processes are expected to share the `dollars`. With a `number`, the
    others may have other stores, so that this shard gets an equal share.
    """

    def __init__(self, store: Location, plan: str, dollars: float, shards: int = 1, number: int = 0) -> None:
        self._location, self._store, self._plan = store, folder_store(store), plan
        self._limit = math.floor(dollars * _NANO)
        self._share = self._limit // shards if number else self._limit
        self._part = f"{number}of{shards}." if number else ""
        self._steps = _STEPS if number else _STEPS * shards
        self._worker = self._part + secrets.token_hex(8)
        self._number = self._reserved = 0
        self._most = self._share  # the most that this process might reserve when the others were last read
        self._lock = Lock()

    @property
    def share(self) -> float:
        """The money in US dollars that this shard may spend, if the others leave it."""
        return self._share / _NANO

    @property
    def elsewhere(self) -> float:
        """The part of it that other processes had reserved when they were last read."""
        return (self._share - self._most) / _NANO

    def allows(self, dollars: float) -> bool:
        """Return whether this process may spend so much in all, and reserve it if so.

        Raises `CassetteWriteError` if the store can't be written, and `CassetteError` if it can't be listed.
        """
        needed = max(math.ceil(dollars * _NANO), 1)  # a call of unknown cost needs a reserve, too
        with self._lock:
            if needed <= self._reserved:
                return True
            before, most = self._reserved, self._read()
            for amount in dict.fromkeys((max(needed, before + (most - before) // self._steps), needed)):
                if amount <= self._most:
                    self._write(amount)
                    if amount <= self._read():
                        return True
                    self._write(before)
            return False

    def settle(self, dollars: float) -> None:
        """Give back what this process has reserved and didn't spend."""
        with self._lock:
            if self._reserved:
                self._write(math.ceil(dollars * _NANO))

    def _write(self, amount: int) -> None:
        old = f"{self._worker}-{self._number}-{self._reserved}"
        self._number, self._reserved = self._number + 1, amount
        self._store.save(f"{self._plan}/{self._worker}-{self._number}-{amount}", b"")
        if self._number > 1:
            self._store.delete(self._plan, [old])

    def _read(self) -> int:
        """Return the most that the others leave to this process: of each, the object with the highest number counts."""
        try:
            names = self._store.names(self._plan)
        except OSError as error:
            problem = f"the money that other shards spent can't be listed: {error.strerror or error}"
            raise CassetteError(self._location, problem, remedy="check the address and your rights") from error
        amounts: dict[str, tuple[int, int]] = {}
        for found in filter(None, map(_RESERVED.fullmatch, names)):
            one = int(found["number"]), int(found["amount"])
            amounts[found["worker"]] = max(one, amounts.get(found["worker"], one))
        amounts.pop(self._worker, None)
        all_others, of_shard = (
            sum(amount for worker, (_, amount) in amounts.items() if worker.startswith(part))
            for part in ("", self._part)
        )
        self._most = min(self._limit - all_others, self._share - of_shard)
        return self._most


def limited(
    output: str | Path, plan: str, dollars: float | None, shard: tuple[int, int]
) -> AbstractContextManager[object]:
    """Return `limit_over_shards` with the prices of this project; a block without a limit if `dollars` is `None`."""
    if dollars is None:
        return nullcontext()
    return limit_over_shards(location_of(output), plan, dollars, load_prices(project_settings().prices), shard)


class _Held:
    """The limit on one plan in this process: all blocks that run at the same time share it."""

    blocks = 0

    def __init__(self, budget: Budget, shared: SharedLimit) -> None:
        self.budget, self.shared = budget, shared
        self.around = budget.held()


_HELD: dict[tuple[Location, str, float, tuple[int, int]], _Held] = {}
_HOLDING = Lock()


@contextmanager
def limit_over_shards(
    store: Location, plan: str, dollars: float, prices: Prices, shard: tuple[int, int] = (0, 1)
) -> Iterator[Budget]:
    """Hold all sessions of this process to a limit that all shards of a plan keep together, for a block.

    Behind a URL, the shards see each other's spending. A folder may be one of several, each on a machine: there, a
    shard gets an equal share of the limit. Earlier spending on the plan counts. `shard` is the number of the shard, and
    of all shards; workers without numbers, 0, have one store.

    Raises `ConfigurationError` if prices are missing, or the limit isn't an amount.
    """
    refuse_no_amount(dollars)
    key, (number, shards) = (store, plan, dollars, shard), shard
    with _HOLDING:
        if (held := _HELD.get(key)) is None:
            is_apart = isinstance(store, Path) and number and shards > 1
            shared = SharedLimit(below(store, "spent"), plan, dollars, shards, number if is_apart else 0)
            held = _HELD[key] = _Held(Budget(shared.share, prices, shared), shared)
            held.around.__enter__()
        held.blocks += 1
    try:
        yield held.budget
    finally:
        with _HOLDING:
            held.blocks -= 1
            if not held.blocks:
                del _HELD[key]
                held.around.__exit__(None, None, None)
                held.shared.settle(held.budget.committed)


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
    """The end of the work on several items."""

    verdicts: Counter[str] = field(default_factory=Counter)  # how many outcomes were made with each verdict
    known: int = 0  # how many outcomes there were already
    damaged: set[str] = field(default_factory=set)  # the names of files that weren't the outcome of their item
    failed: list[str] = field(default_factory=list)  # the reasons why items have no outcome, a text each
    stopped: str = ""  # the reason why it ended early; empty if it didn't
    is_whole: bool = True  # whether it was not interrupted


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
    outcomes are kept. `on_item` is called from any thread after each item that had no outcome yet.

    Raises `CassetteError` if the store can't be listed or written, and `ConfigurationError` if the program can't be
    found, or an item was planned with other settings.
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
