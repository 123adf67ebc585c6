"""A limit on the cost of the model calls that this process makes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any

from agenttape_core.errors import BudgetExceededError, ConfigurationError
from agenttape_core.schema import Interaction
from agenttape_core.session import Session, SessionCall, stop_watching, watch_calls
from agenttape_core.tools.reading.prices import INSTALL, Prices
from agenttape_core.tools.reading.provider_calls import MODELS
from agenttape_core.tools.reading.summary import cost_of, tried_with


class Budget:
    """A limit in US dollars. The call that would exceed it is not made: its session fails, its cassette stays.

    A call is assumed to cost the price of its recorded tokens with the model that is called, or the cost of the most
    expensive call so far. A call without counted tokens is assumed to have cost the price of its recording. Raises
    `ConfigurationError` if there are no prices, or the limit isn't an amount.
    """

    def __init__(self, dollars: float, prices: Prices) -> None:
        if not 0 <= dollars < math.inf:
            raise ConfigurationError(f"expected a limit in US dollars, 0 or more; found {dollars}")
        if not prices.are_there:
            raise ConfigurationError(f"a limit of ${dollars:g} needs prices: {INSTALL}")
        self._dollars = dollars
        self._prices = prices
        self._spent = 0.0
        self._dearest = 0.0
        self._counted: dict[Session, int] = {}
        """The sessions that may still have calls to count, with how many were counted."""
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

    def _begins(self, session_call: SessionCall) -> None:
        if session_call.is_replayed or not session_call.is_real:
            return
        if session_call.boundary.kind not in MODELS:
            return
        session = session_call.session
        with self._lock:
            self._counted.setdefault(session, 0)
            self._count()
            expected = max(self._recorded(session, session_call.position.address, session_call.metadata), self._dearest)
            spent = self._spent
        if spent + expected > self._dollars or self._dollars == 0:
            error = BudgetExceededError(
                self._dollars, spent, f"{session_call.boundary.kind} at {session_call.position.address}"
            )
            session.latch.keep(error)
            raise error

    def _count(self) -> None:
        for session, counted in list(self._counted.items()):
            kept = session.ledger.executed()
            for item in kept[counted:]:
                cost = self._cost(session, item) if item.kind in MODELS else 0.0
                self._spent += cost
                self._dearest = max(self._dearest, cost)
            self._counted[session] = len(kept)
            if session.closed:
                del self._counted[session]

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
