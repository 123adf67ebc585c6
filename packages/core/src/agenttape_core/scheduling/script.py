"""A recorded group of deliveries of one event loop, on its way through a replay."""

from __future__ import annotations

from agenttape_core.scheduling.delivery_log import LEFT_OPEN
from agenttape_core.schema import Delivery, Scheduled, Sender


class Script:
    """A group of a recorded schedule, on its way through a replay.

    Args:
        group: It.
    """

    def __init__(self, group: Scheduled) -> None:
        self.calls = list(group.calls)
        deliveries = group.deliveries()
        self._deliveries = [one for one in deliveries if (one.sender, one.which) != ("post", LEFT_OPEN)]
        self._leaves_open = len(self._deliveries) < len(deliveries)
        self._at = 0
        self.knows_only_ends = group.knows_only_ends
        """True if it has no steps, no timers and no posts of threads: these come whenever they do."""
        self.was_observed = group.knows_only_ends
        """True if it is that of an observed run, which says nothing of how streams are opened."""
        self._begun: dict[str, int] = {}
        self._senders = {one.sender for one in self._deliveries}

    @property
    def next(self) -> Delivery | None:
        """The delivery that is next; `None` if there are no more. What comes at once needs no turn."""
        while self._at < len(self._deliveries) and self._deliveries[self._at].at_once:
            self._at += 1
        return self._deliveries[self._at] if self._at < len(self._deliveries) else None

    @property
    def place(self) -> int:
        """The number of the deliveries that have come, or have been passed over."""
        return self._at

    def pass_next(self) -> None:
        """Note that what is next has come, or never will."""
        self._at += 1

    def begins(self, name: str, made: int = 0) -> bool:
        """Note that one of its calls, or its job, begins; false if it was begun before, by another run.

        Args:
            name: It.
            made: The identity of the call in this run, which may be awaited, and then its stream.
        """
        return self._begun.setdefault(name, made) == made

    def begins_after(self, deliveries: int) -> None:
        """Pass over what has come before the first call of the group."""
        while deliveries and (following := self.next) is not None and following.sender != "call":
            self.pass_next()
            deliveries -= 1

    def knows(self, sender: Sender) -> bool:
        """Return True if it has deliveries of a sender: recordings of before have none of some."""
        return sender in self._senders

    def expects(self, sender: Sender, which: int | None = None) -> bool:
        """Return True if a delivery of a sender is to come, or a certain one."""
        left = self._deliveries[self._at :]
        return any(one.sender == sender and which in (None, one.which) for one in left)

    def expects_closing(self, number: int) -> bool:
        """Return True if a generator that the program has left is closed later on, at last at the end of the loop."""
        return self._leaves_open or self.expects("post", number)

    def knows_end_of(self, address: str) -> bool:
        """Return True if it says when a call ended that was cancelled."""
        left = self._deliveries[self._at :]
        return any(one.sender == "cancelled" and self.calls[one.which] == address for one in left)

    def comes_again(self) -> bool:
        """Return True if there is more to come of the call that is next."""
        left = self._deliveries[self._at :]
        return sum(one.sender == "call" and one.which == left[0].which for one in left) > 1

    def leave_out(self, address: str) -> None:
        """Leave out what is left of a call that has ended: a stream may be served whole."""
        if address in self.calls:
            which = self.calls.index(address)
            self._deliveries[self._at :] = [
                one for one in self._deliveries[self._at :] if one.sender != "call" or one.which != which
            ]

    def serve_whole(self, address: str) -> None:
        """Leave out what is inside of a call: it is served, where the recording expects that its code runs.

        The call ends where the last of the calls inside did. How many steps of the program that is after what came
        before it is not known: they were counted with those inside. So only the order of calls is kept from here on.

        Args:
            address: Where the recording of the call stands.
        """
        inside = {place for place, call in enumerate(self.calls) if call.startswith(f"{address}/")}
        left = [one for one in self._deliveries[self._at :] if one.sender in {"call", "cancelled"}]
        places = [place for place, one in enumerate(left) if one.which in inside]
        self.calls.append(address)
        end = Delivery("call", len(self.calls) - 1)
        last = places[-1] if places else 0
        before, after = left[:last], left[last + bool(places) :]
        kept = [*(one for one in before if one.which not in inside), end, *after]
        self._deliveries = [one._replace(after=None) for one in kept]
        self._at = 0
        self.knows_only_ends = True

    def run_through(self, address: str) -> None:
        """Leave out the end of a call: its code is run, where the recording expects that it is served."""
        ends = {place for place, call in enumerate(self.calls) if call == address}
        left = [one for one in self._deliveries[self._at :] if one.sender != "call" or one.which not in ends]
        self._deliveries[self._at :] = left
