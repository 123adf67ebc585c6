"""A limit on the cost of the model calls that this process makes, or that all processes of a plan make together."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any

from agenttape_core.errors import BudgetExceededError, CassetteError, ConfigurationError
from agenttape_core.schema import Interaction
from agenttape_core.session import ExecutedCall, Session, SessionCall, stop_watching, watch_calls
from agenttape_core.storage import CassetteUrl, Location
from agenttape_core.storage.stores import folder_store
from agenttape_core.tools.reading.prices import INSTALL, Prices
from agenttape_core.tools.reading.provider_calls import MODELS
from agenttape_core.tools.reading.summary import cost_of, tried_with


class Budget:
    """A limit in US dollars. The call that would exceed it is not made: its session fails, its cassette stays.

    A call is assumed to cost the price of its recorded tokens with the model that is called, or the cost of the most
    expensive call so far; that much is set aside until it ends. A call without counted tokens, or without a record, is
    assumed to have cost that. With `shared`, other processes spend from the same limit. Raises `ConfigurationError` if
    there are no prices, or the limit isn't an amount.
    """

    def __init__(self, dollars: float, prices: Prices, shared: SharedLimit | None = None) -> None:
        if not 0 <= dollars < math.inf:
            raise ConfigurationError(f"expected a limit in US dollars, 0 or more; found {dollars}")
        if not prices.are_there:
            raise ConfigurationError(f"a limit of ${dollars:g} needs prices: {INSTALL}")
        self._dollars = dollars
        self._prices = prices
        self._shared = shared
        self._spent = 0.0
        self._dearest = 0.0
        self._open: dict[Session, _Calls] = {}  # the sessions that may still have calls to count
        self._lock = Lock()

    def watch(self) -> Budget:
        """Hold all sessions of this process to the limit, from now on."""
        watch_calls(self._begins)
        return self

    @contextmanager
    def held(self) -> Iterator[Budget]:
        """Hold all sessions of this process to the limit for the duration of a block."""
        watcher = self._begins
        watch_calls(watcher)
        try:
            yield self
        finally:
            stop_watching(watcher)

    @property
    def spent(self) -> float:
        """The cost in US dollars of the calls so far, if their models have a known price."""
        with self._lock:
            self._count()
            return self._spent

    @property
    def committed(self) -> float:
        """The same, and the assumed cost of the calls that haven't ended."""
        with self._lock:
            self._count()
            return self._committed()

    def _committed(self) -> float:
        return self._spent + sum(cost for calls in self._open.values() for _, cost in calls.begun.values())

    def _begins(self, session_call: SessionCall) -> None:
        if session_call.is_replayed or not session_call.is_real:
            return
        if session_call.boundary.kind not in MODELS:
            return
        session = session_call.session
        with self._lock:
            self._count()
            recorded = self._recorded(session, session_call.position.address, session_call.metadata)
            expected = max(recorded, self._dearest)
            if not self._allows(session, self._committed() + expected):
                elsewhere = self._shared.elsewhere if self._shared is not None else 0.0
                error = BudgetExceededError(
                    self._dollars,
                    self._spent + elsewhere,
                    f"{session_call.boundary.kind} at {session_call.position.address}",
                )
                session.latch.keep(error)
                raise error
            self._open.setdefault(session, _Calls()).begun[session_call.number] = (session_call, expected)

    def _allows(self, session: Session, total: float) -> bool:
        if total > self._dollars or self._dollars == 0:
            return False
        if self._shared is None:
            return True
        with session.latch:  # a program that catches the error of a store would continue without a limit
            return self._shared.allows(total)

    def _count(self) -> None:
        for session, calls in list(self._open.items()):
            kept = session.ledger.kept()
            for _, item, _ in kept[calls.counted :]:
                cost = self._cost(session, item) if item.kind in MODELS else 0.0
                self._spent += cost
                self._dearest = max(self._dearest, cost)
                calls.begun.pop(item.number, None)
            calls.counted = len(kept)
            for number, (call, cost) in list(calls.begun.items()):
                if call.is_run_again:  # it was the program's own code, which isn't recorded
                    del calls.begun[number]
                elif session.closed:
                    self._spent += cost
            if session.closed:
                del self._open[session]

    def _cost(self, session: Session, item: Interaction) -> float:
        cost = cost_of(item, self._prices)
        return cost if cost is not None else self._recorded(session, item.address, item.metadata)

    def _recorded(self, session: Session, address: str, metadata: Mapping[str, Any]) -> float:
        """Return the price of the recording at a place with the candidate of a call; 0 if none or unknown."""
        number = next((row.number for row in session.source.entries if row.address == address), None)
        if number is None:
            return 0.0
        recorded = session.source.interaction(number)
        return cost_of(tried_with(recorded, metadata.get("candidate")), self._prices) or 0.0


class _Calls:
    """The calls of a session, as a budget counts them."""

    def __init__(self) -> None:
        self.counted = 0  # how many records of the session are counted
        self.begun: dict[int, tuple[ExecutedCall, float]] = {}  # those without a record, with the money set aside


# -- A limit that processes keep together, on any machine.

_NANO = 1_000_000_000  # of a dollar: amounts are whole numbers, so that sums are exact
_RESERVED = re.compile(r"(?P<worker>[0-9a-f]{16})-(?P<number>\d+)-(?P<amount>\d+)")
_STEPS = 8  # a process reserves its part of what is left in so many steps, so that little is lost if it's killed


class SharedLimit:
    """A limit that processes keep together by the names of small objects in a store; a listing shows them all.

    Each process writes how much it may have spent, and then reads the amounts of the others. So of two that reserve the
    last dollar at the same time, at least one sees the other and takes it back. What a killed process had reserved
    counts as spent. Thread-safe.

    Args:
        store: The folder of the folders of plans.
        plan: The plan that the money is for: the name of a folder.
        dollars: The limit in US dollars.
        shards: The number of processes that are expected to share it.
    """

    def __init__(self, store: Location, plan: str, dollars: float, shards: int = 1) -> None:
        self._location, self._store, self._plan = store, folder_store(store), plan
        self._limit = math.floor(dollars * _NANO)
        self._steps = _STEPS * shards
        self._worker = secrets.token_hex(8)
        self._number = self._reserved = self._others = 0
        self._lock = Lock()

    @property
    def elsewhere(self) -> float:
        """The money in US dollars that the other processes had reserved when they were last read."""
        return self._others / _NANO

    def allows(self, dollars: float) -> bool:
        """Return whether this process may spend so much in all, and reserve it if so.

        Raises `CassetteWriteError` if the store can't be written, and `CassetteError` if it can't be listed.
        """
        needed = max(math.ceil(dollars * _NANO), 1)  # a call of unknown cost needs a reserve, too
        with self._lock:
            if needed <= self._reserved:
                return True
            before, left = self._reserved, self._limit - self._read() - self._reserved
            for amount in dict.fromkeys((max(needed, before + left // self._steps), needed)):
                if amount + self._others > self._limit:
                    continue
                self._write(amount)
                if amount + self._read() <= self._limit:
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
        """Return the amount that the others have reserved: of each, the object with the highest number counts."""
        try:
            names = self._store.names(self._plan)
        except OSError as error:
            problem = f"the money that other shards spent can't be listed: {error.strerror or error}"
            raise CassetteError(self._location, problem, remedy="check the address and your rights") from error
        amounts: dict[str, tuple[int, int]] = {}
        for found in filter(None, map(_RESERVED.fullmatch, names)):
            one = int(found["number"]), int(found["amount"])
            amounts[found["worker"]] = max(one, amounts.get(found["worker"], one))
        self._others = sum(amount for worker, (_, amount) in amounts.items() if worker != self._worker)
        return self._others


class _Held:
    """The limit on one plan in this process: all blocks that run at the same time share it."""

    blocks = 0

    def __init__(self, budget: Budget, shared: SharedLimit) -> None:
        self.budget, self.shared = budget, shared
        self.around = budget.held()


_HELD: dict[tuple[Location, str, float], _Held] = {}
_HOLDING = Lock()


@contextmanager
def limit_over_shards(store: Location, plan: str, dollars: float, prices: Prices, shards: int = 1) -> Iterator[Budget]:
    """Hold all sessions of this process to a limit that all shards of a plan keep together, for a block.

    Args:
        store: The store of the results, where the shards see each other's spending.
        plan: The id of the plan.
        dollars: The limit in US dollars. Earlier spending on the plan counts.
        prices: The prices of calls.
        shards: The number of shards.

    Raises:
        ConfigurationError: If prices are missing, or the limit isn't an amount.
    """
    key = store, plan, dollars
    with _HOLDING:
        if (held := _HELD.get(key)) is None:
            folder = store.joined("spent") if isinstance(store, CassetteUrl) else store / "spent"
            shared = SharedLimit(folder, plan, dollars, shards)
            held = _HELD[key] = _Held(Budget(dollars, prices, shared), shared)
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
