"""A limit on the cost of the model calls that this process makes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Protocol

from agenttape_core.errors import BudgetExceededError, ConfigurationError
from agenttape_core.locks import Lock
from agenttape_core.schema import Interaction, model_path
from agenttape_core.session import ExecutedCall, Session
from agenttape_core.session.call import stop_watching, watch_calls
from agenttape_core.tools.reading.prices import INSTALL, Prices
from agenttape_core.tools.reading.provider_calls import MODELS, is_refused, model_call
from agenttape_core.tools.reading.summary import cost_of, tried_with

_PAUSE = 0.02  # the seconds after which a call that waits for the end of others asks again
_MOMENT = 1  # the seconds in which a call that has ended is recorded


class Purse(Protocol):
    """The money that this process may take from a limit of several processes."""

    @property
    def elsewhere(self) -> float:
        """The money in US dollars that the others have reserved."""

    def allows(self, dollars: float) -> bool:
        """Return whether this process may spend so much in all, and reserve it if so."""


class Budget:
    """A limit in US dollars. The call that would exceed it is not made: its session fails, its cassette stays.

    A call is assumed to cost the price of its recorded tokens with the model that is called, or the cost of the most
    expensive call so far. That much is reserved before it begins, and settled after. A call without counted tokens, or
    without a record, is assumed to have cost the reserved amount.

    A call waits while calls of other runs have reserved the money that it needs. A call with an unknown cost runs
    alone. A run that has a call in flight doesn't wait, since that one may be waiting for it.

    With `shared`, other processes spend from the same limit. Raises `ConfigurationError` if there are no prices, or the
    limit isn't an amount.
    """

    def __init__(self, dollars: float, prices: Prices, shared: Purse | None = None) -> None:
        refuse_no_amount(dollars)
        if not prices.are_there:
            raise ConfigurationError(f"a limit of ${dollars:g} needs prices: {INSTALL}")
        self._dollars = dollars
        self._prices = prices
        self._shared = shared
        self._spent = 0.0
        self._dearest: float | None = None  # the cost of the most expensive call; `None` before the first
        self._open: dict[Session, _Calls] = {}  # the sessions that may still have calls to count
        self._refused = -1.0  # the sum for which there was too little money when a call began to wait
        self._lock = Lock()
        self._turn = Lock()  # held by the one that waits

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
        return self._spent + sum(one.cost or 0.0 for calls in self._open.values() for one in calls.begun.values())

    def _begins(self, call: ExecutedCall) -> None:
        if call.is_replayed or not call.is_real or not _asks_model(call):
            return
        if not self._reserves(call):
            with self._turn:
                while not self._reserves(call):
                    time.sleep(_PAUSE)
            call.begin_now()

    def _reserves(self, call: ExecutedCall) -> bool:
        """Reserve the money for a call, and return False if it must wait. Raises `BudgetExceededError`."""
        session = call.session
        with self._lock:
            self._count()
            known = self._recorded(session, call.position.address, call.metadata), self._dearest
            expected = max((cost for cost in known if cost is not None), default=None)
            others = self._others(session)
            is_alone = not others or (expected is not None and None not in others)
            total = self._committed() + (expected or 0.0)
            if others and (not is_alone or total == self._refused):
                return False  # without another look at what other processes spend
            if not self._allows(session, total):
                if others:
                    self._refused = total
                    return False
                elsewhere = self._shared.elsewhere if self._shared is not None else 0.0
                what = f"{call.boundary.kind} at {call.position.address}"
                error = BudgetExceededError(self._dollars, self._spent + elsewhere, what)
                session.latch.keep(error)
                raise error
            self._open.setdefault(session, _Calls()).begun[call.number] = _Reserved(call, expected)
            return True

    def _others(self, session: Session) -> list[float | None]:
        """Return what calls of other runs have reserved, for which this run may wait."""
        each = [(one, reserved) for one, calls in self._open.items() for reserved in calls.begun.values()]
        in_flight = [(one, reserved) for one, reserved in each if reserved.is_in_flight()]
        if any(one is session or reserved.thread == get_ident() for one, reserved in in_flight):
            return []
        return [reserved.cost for _, reserved in in_flight]

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
                reserved = calls.begun.pop(item.number, None)
                is_model = item.kind in MODELS or reserved is not None
                if is_model and (cost := self._cost(session, item, reserved)) is not None:
                    self._spent += cost
                    self._dearest = max(self._dearest or 0.0, cost)
            calls.counted = len(kept)
            for number, one in list(calls.begun.items()):
                if one.call.is_run_again:  # it was the program's own code, which isn't recorded
                    del calls.begun[number]
                elif session.closed:
                    self._spent += one.cost or 0.0
            if session.closed:
                del self._open[session]

    def _cost(self, session: Session, item: Interaction, reserved: _Reserved | None) -> float | None:
        if is_refused(item):
            return 0.0
        if (cost := cost_of(model_call(item), self._prices)) is not None:
            return cost
        return reserved.cost if reserved is not None else self._recorded(session, item.address, item.metadata)

    def _recorded(self, session: Session, address: str, metadata: Mapping[str, Any]) -> float | None:
        """Return the price of the recording at a place with the candidate of a call; `None` if there's none."""
        number = next((row.number for row in session.source.entries if row.address == address), None)
        if number is None:
            return None
        recorded = model_call(session.source.interaction(number))
        return cost_of(tried_with(recorded, metadata.get("candidate")), self._prices)


def _asks_model(call: ExecutedCall) -> bool:
    """Return whether a call is billed: of a model, or an HTTP request to one that no call of a model sends."""
    kind, around = call.boundary.kind, call.parent
    if kind in MODELS:
        return True
    is_inside = around is not None and around.boundary.kind in MODELS
    return kind == "http" and not is_inside and bool(model_path(call.request.body)[0])


def refuse_no_amount(dollars: float) -> None:
    """Refuse a limit that isn't an amount, with `ConfigurationError`."""
    if not 0 <= dollars < math.inf:
        raise ConfigurationError(f"expected a limit in US dollars, 0 or more; found {dollars}")


class _Reserved:
    """A call without a record, and the money that is reserved for it; `None` if its cost is unknown."""

    def __init__(self, call: ExecutedCall, cost: float | None) -> None:
        self.call, self.cost, self.thread = call, cost, get_ident()
        self._ended: float | None = None  # the moment when it was first seen to have ended

    def is_in_flight(self) -> bool:
        """Return True until it's recorded. One that was given up never is, and has a moment for it."""
        if self.call.is_left:
            return True
        self._ended = self._ended or time.monotonic()
        return time.monotonic() - self._ended < _MOMENT


class _Calls:
    """The calls of a session, as a budget counts them."""

    def __init__(self) -> None:
        self.counted = 0  # how many records of the session are counted
        self.begun: dict[int, _Reserved] = {}  # those without a record
