"""The difference between a replay and a plain one, and the replays that get one from what surrounds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agenttape_core.engine import Mode, parse_mode
from agenttape_core.errors import ConfigurationError
from agenttape_core.lifecycle.chosen_order import Imposing, Order
from agenttape_core.lifecycle.request import Derivation, SessionRequest, no_remedy
from agenttape_core.lifecycle.running_test import AROUND, Around, this_test
from agenttape_core.schema import Plain

if TYPE_CHECKING:  # most sessions change nothing
    from agenttape_core.interventions import Changes, OnNewCall


@dataclass(frozen=True, slots=True)
class Variation:
    """All that may differ from a plain replay. Without live calls, no call is executed in it.

    Args:
        cassette: The cassette; by default the one of the program or of the block.
        options: Options of `use_cassette`, which replace those of the program or the block; `redact` adds its rules.
        changes: Other answers for recorded calls: `raises`, `returns`, `edits`, `cut` or `late`, by the number,
            address, kind or name of the call, or a pattern of places such as `"**/search"`. The first attempt is
            changed, and the next one gets the recorded answer; `always` changes each.
        write_to: The file of the derived cassette; `None` if none is written.
        keeps: Whether that is also written if the program fails.
        origin: A note on the change, for the header of the derived cassette.
        live: The kinds and names of calls that are executed.
        candidate: The models to call instead of using recordings, as for `use_cassette`.
        on_new_call: The answer to a call without a recording, once a change was reached: `"stop"` raises a miss,
            `"address"` takes the recording at its address, and kinds or names are made for real.
        diverges: Apply `on_new_call` from the first call on, since the program itself has changed.
        order: The calls to answer first where several wait, in this order: numbers as `agenttape show` prints them
            (`"5,3"`), or a list with addresses. What isn't named comes after them, in the recorded order. The report
            lists what can't be reached in `nondeterminism`. By default, the recorded order is kept.
        environment: What differs around and within a new process, by the factors of `agenttape_core.verify`. No replay
            in this process can have it.
    """

    cassette: str | Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    changes: Changes = field(default_factory=dict)
    write_to: Path | None = None
    keeps: bool = True
    origin: Plain = None
    live: tuple[str, ...] = ()
    candidate: Any = None
    on_new_call: OnNewCall = "stop"
    diverges: bool = False
    order: Order | Imposing | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def executes(self) -> bool:
        """True if calls may be executed."""
        return bool(self.live) or self.candidate is not None or not isinstance(self.on_new_call, str)

    def applied_to(self, request: SessionRequest) -> SessionRequest:
        """Return a request to open a session, with what differs in this replay.

        Args:
            request: The request of the program or of the block.

        Raises:
            ConfigurationError: If it's not for a replay, or a part of this isn't valid.
        """
        if self.environment:
            raise ConfigurationError(f"environment={dict(self.environment)}: a replay in this process keeps its own")
        options = {**request.options, **self.options}
        mode, redact = options.pop("mode", None), request.redact
        if (rules := options.pop("redact", None)) is not None and redact is not False:
            redact = rules if isinstance(rules, bool) or isinstance(redact, bool) else [*redact, *rules]
        if mode is not None and parse_mode(mode) is not Mode.REPLAY:
            raise ConfigurationError(
                f"vary=... is for a replay, and mode={mode!r} records\n"
                "  record the run first, then vary it in the mode replay"
            )
        if self.live:
            options["live"] = self.live
        if self.write_to is not None:
            options["on_error"] = "keep" if self.keeps else "discard"
        from agenttape_core.interventions import checked_on_new_call

        on_new_call = checked_on_new_call(self.on_new_call)
        derives = self.write_to is not None or request.derived_as is not None or not isinstance(on_new_call, str)
        candidate = self.candidate if self.candidate is not None else request.candidate
        is_own = bool(self.live) or candidate is not None  # which derives a cassette by itself
        return request._replace(
            cassette=self.cassette if self.cassette is not None else request.cassette,
            options=options,
            redact=redact,
            mode=Mode.REPLAY,
            write_to=self.write_to if self.write_to is not None else request.write_to,
            derivation=(
                Derivation(origin=self._origin, is_begun=self.diverges)
                if self.diverges or (derives and not is_own)
                else request.derivation
            ),
            changes=self.changes if self.changes or candidate is None else None,
            candidate=candidate,
            on_new_call=on_new_call,
            order=self.order,
        )

    def replayed_by(self, request: SessionRequest) -> SessionRequest:
        """Return the request of a replay for an experiment: unused recordings aren't an error.

        Args:
            request: The request of the program.
        """
        options = {**request.options, "on_unused": "ignore", "live": (), "review": False}
        options.pop("mode", None)
        # Recording anew is no remedy for a race.
        remedy = no_remedy if isinstance(self.order, Imposing) else request.remedy
        plain = request._replace(options=options, candidate=None, judges_changes=False, events=None, remedy=remedy)
        return self.applied_to(plain)

    def _origin(self) -> Plain:
        if self.origin is not None or not self.changes:
            return self.origin
        return {"changes": {str(key): str(change) for key, change in self.changes.items()}}


@contextmanager
def varying(variation: Variation, cassette: str | None = None) -> Iterator[None]:
    """Let replays that are opened inside differ from plain ones, whoever opens them: in their changes and their order.

    Args:
        variation: The difference.
        cassette: The path of the only cassette for which it holds; by default it holds for all.
    """
    test, around = this_test(), Around(variation, cassette)
    token = AROUND.set(around)
    if test is not None:
        test.varied.append(around)  # it runs in another context
    try:
        yield
    finally:
        AROUND.reset(token)
        if test is not None:
            test.varied.remove(around)
