"""The recordings of a session: the one that answers a call, and the known facts about each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agenttape_core.engine import Decision, Policy, Replay, StepInto, decide
from agenttape_core.errors import shown_path
from agenttape_core.matching import STRICT, Canonicaliser, CanonicalRequest, RecordingIndex, recorded_request
from agenttape_core.matching import Candidate as Match
from agenttape_core.scheduling import Ending
from agenttape_core.schema import Plain, Timing
from agenttape_core.session.setup import Setup
from agenttape_core.session.sources import ATTEMPTS, Edited, original

if TYPE_CHECKING:
    from agenttape_core.redaction.everywhere import Path

# -- The requests of a session as plain, redacted data: made canonical, they have a fingerprint to be found by.


class RecordedFirst:
    """Makes requests canonical, and redacts only those that no recording has unchanged.

    A recorded request is redacted, and to redact it again changes nothing. So one that equals it holds no secret, as
    nearly all requests of a replay, which then searches no text and imports none of the detectors. `as_is` makes
    requests canonical without redaction, and `redacted` with it; `is_recorded` returns whether a recorded request has a
    fingerprint.
    """

    def __init__(self, as_is: Canonicaliser, redacted: Canonicaliser, is_recorded: Callable[[str], bool]) -> None:
        self._as_is: Canonicaliser | None = as_is
        self._redacted = redacted
        self._is_recorded = is_recorded

    def request(
        self, kind: str, name: str, body: Mapping[str, Any], ids: tuple[str, ...] = (), around: tuple[str, ...] = ()
    ) -> CanonicalRequest:
        """Return the canonical form of a request, as `Canonicaliser.request` does."""
        if self._as_is is not None:
            request = self._as_is.request(kind, name, body, ids, around)
            if self._is_recorded(request.fingerprint):
                return request
        request = self._redacted.request(kind, name, body, ids, around)
        if self._is_recorded(request.fingerprint):
            self._as_is = None  # this run has secrets, and most of its requests repeat them
        return request


def canonicaliser(
    setup: Setup,
    encode: Callable[[Any], Plain],
    warn: Callable[[Warning], object],
    is_recorded: Callable[[str], bool] | None,
) -> Canonicaliser | RecordedFirst:
    """Return what makes canonical requests.

    `warn` gives a warning when the session has ended; `is_recorded` returns whether a recorded request has a
    fingerprint, and is `None` if requests are recorded.
    """
    redactor = setup.redactor

    def plain(value: Any) -> Any:
        return redactor.value(encode(value))

    def plain_items(name: str, values: Sequence[Any]) -> list[Any]:
        """Return values under one name as plain, redacted data."""
        harmless, is_plain = redactor.harmless_keys, redactor.is_plain
        return [
            dict(value) if name in harmless and is_plain(value) else next(iter(plain({name: value}).values()))
            for value in values
        ]

    look = None
    if setup.policy.records and setup.frozen is not None:
        from agenttape_core.session.module_dates import ModuleDates  # a replay needs none

        look = ModuleDates(warn, shown_path(setup.path)).look
    redacted = Canonicaliser(plain, setup.ignored, plain_items, look)
    # What isn't compared isn't known to hold no secret, which an answer may repeat.
    return (
        redacted
        if is_recorded is None or setup.ignored.paths
        else RecordedFirst(Canonicaliser(encode), redacted, is_recorded)
    )


Places = list[tuple["Path", Plain]]  # the parts of a recorded request that have pseudonyms
_MOST_ALIGNED = 100  # the most recorded requests that one without a recording is compared with


def only_replays(setup: Setup) -> bool:
    """Return True if every call of a session gets its unchanged recording, as soon as it's made.

    No call is live, run by name or tried with a candidate; no change or pace applies; and no record is written. It's
    asked once, when the session opens, and no more once its policy has changed.
    """
    policy, source = setup.policy, setup.source
    if not policy.offline or policy.replay_only or policy.step_into or policy.executable is not None:
        return False
    if setup.notes_divergences or isinstance(source, Edited) or setup.scheduler.is_chosen or policy.accepts_lossy:
        return False
    return setup.candidates is None and setup.pace is None and setup.sink is None


class Recordings:
    """The recordings of a session, each of which answers one call. Thread-safe."""

    def __init__(self, setup: Setup) -> None:
        self._source = source = setup.source
        self._timings = setup.timings
        self._redactor, self._ignored = setup.redactor, setup.ignored
        self._pseudonyms: dict[tuple[str, str], list[tuple[str, Places]]] = {}
        self._addresses: dict[int, str] | None = None
        self.has_changed = False
        """True once a change was reached: the program may make calls again that were replayed already."""
        note = source.fidelity_note if not setup.policy.accepts_lossy else None
        self.index = RecordingIndex(
            source.entries,
            setup.policy.match_on,
            source.interaction,
            fidelity_note=note,
            acted=lambda number: source.interaction(number).acts != [],
        )

    # -- the one that answers a call ---------------------------------------------------------------------------

    def decide(
        self,
        policy: Policy,
        request: CanonicalRequest,
        address: str,
        *,
        is_tried: bool = False,
        is_idempotent: bool = False,
    ) -> Decision:
        """Find, decide, then use: a recording that is found and refused stays for the next equal call.

        With `is_tried`, another model is tried on the call; with `is_idempotent`, the boundary declares its calls safe
        to repeat.
        """
        kind, name = request.kind, request.name
        if is_tried or not policy.may_replay(kind, name, address):
            return decide(policy, kind, name, None, address=address, is_tried=is_tried)
        while True:
            found = self._find(policy, request, address)
            if found is None and (aligned := self._aligned(request, address)) is not None:
                found = self._find(policy, aligned, address)
            decision = decide(policy, kind, name, found, address=address, is_idempotent=is_idempotent)
            if not isinstance(decision, Replay | StepInto):
                return decision
            if self.index.use(decision.found, alone=isinstance(decision, StepInto)):
                return decision
            # Another thread has found the same recording, and was faster: find again among the others.

    def _find(self, policy: Policy, request: CanonicalRequest, address: str) -> Match | None:
        """Return the recording that answers a call: one that is left, or, in some cases, one that has answered already.

        Once a change has been reached, a program may repeat calls that were replayed already: a whole node that is
        tried again, for example. Their last recording answers them if no call may be executed, but not forever.
        """
        if self.has_changed and policy.offline:
            strict = tuple(way for way in policy.match_on if way in STRICT)
            others = tuple(way for way in policy.match_on if way not in STRICT)
            found = self.index.find(request, address, ways=strict) or self._once_more(policy, request)
            return found or self.index.find(request, address, policy.on_repeat, ways=others)
        found = self.index.find(request, address, policy.on_repeat)
        if found is None and request.kind in policy.repeats:
            return self.index.again(request, self._has_returned)
        return found

    def _aligned(self, request: CanonicalRequest, address: str) -> CanonicalRequest | None:
        """Return a request that has no recording, with the secrets replaced that a recorded request reveals.

        The recorded run found them elsewhere, perhaps later. This one may not have come to that yet, or never does.
        """
        for recorded in self._with_pseudonyms(request.kind, request.name, address):
            aligned = self._redactor.aligned(recorded, request.body)
            if isinstance(aligned, dict) and aligned is not request.body:
                found = recorded_request(request.kind, request.name, aligned, self._ignored)
                if self.index.numbers(found.fingerprint):
                    return found
        return None

    def _with_pseudonyms(self, kind: str, name: str, address: str) -> Iterator[Places]:
        """Yield the pseudonyms in the recorded requests of a boundary, one address's first."""
        if (kind, name) not in self._pseudonyms:
            from agenttape_core.redaction.everywhere import places_of  # most requests have a recording

            rows = {row.fingerprint: row for row in self._source.entries if (row.kind, row.name) == (kind, name)}
            held = ((row.address, [*places_of(self._source.interaction(row.number).request)]) for row in rows.values())
            self._pseudonyms[kind, name] = [(place, found) for place, found in held if found]
        nearest_first = sorted(self._pseudonyms[kind, name], key=lambda held: held[0] != address)
        return (places for _, places in nearest_first[:_MOST_ALIGNED])

    def _once_more(self, policy: Policy, request: CanonicalRequest) -> Match | None:
        found, source = self.index.again(request, self._has_returned), self._source
        if found is None or request.kind in policy.repeats:
            return found
        is_changed = isinstance(source, Edited) and source.change_of(found.number) is not None
        return None if is_changed or found.repeats >= ATTEMPTS else found

    def _has_returned(self, number: int) -> bool:
        return self._source.outcome(number).status in {"returned", "streamed"}

    # -- what is known of one ----------------------------------------------------------------------------------

    def address_of(self, number: int) -> str:
        """Return where a call was made when it was recorded."""
        if self._addresses is None:
            self._addresses = {row.number: row.address for row in self._source.entries}
        return self._addresses[number]

    def timing_of(self, number: int) -> Timing | None:
        """Return the recorded times of a call, if they are known."""
        return self._timings().get(original(self._source, number))

    def seconds_of(self, number: int) -> float:
        """Return how long a recorded call took, as far as that is known."""
        timing = self.timing_of(number)
        return timing.duration_ms / 1000 if timing is not None else 0.0

    def ending_of(self, number: int) -> Ending:
        """Return when a recorded call ended: one that was cancelled then waits as long to be cancelled again."""
        timing = self.timing_of(number)
        took = self.seconds_of(number)
        start = timing.start_ms if timing is not None else None
        return Ending(took, until=took + (start or 0.0) / 1000)
