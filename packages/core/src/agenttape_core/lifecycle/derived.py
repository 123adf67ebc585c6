"""`deriving`: replay a run up to a point, depart from it there, and keep what comes of it as a cassette of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agenttape_core.engine import Mode
from agenttape_core.errors import ConfigurationError, SessionStateError
from agenttape_core.lifecycle.open_session import Derivation, Use
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.matching import Matcher, Way
from agenttape_core.redaction import Rule
from agenttape_core.schema import Outcome, Plain, Step
from agenttape_core.settings import cassette_path, in_project, load_settings, stem_of
from agenttape_core.storage import Location


class deriving(use_cassette):  # noqa: N801 - it is used as `use_cassette` is
    """A replay that departs from its cassette, and writes what comes of it to a *derived* one.

    It begins as a strict replay: all is served, nothing is executed, the network is closed. From the point of departure
    on, calls without a recording are executed. What was served and what was executed are written together, in the order
    of this run; of the old run nothing else is. The cassette that is replayed is never touched.

    Args:
        name_or_path: The cassette that is replayed.
        to: The derived cassette; by default `NAME.derived.yaml` beside it.
        origin: What is noted in its header of what was done: plain data. Redacted.
        outcomes: What calls get instead of what they got, by the number of the interaction; their values encoded. When
            one of them is served, that is the point of departure: `let_go(live)` need not be called.
        live: Whether what is not recorded may be executed from there on, or which kinds and names of boundaries may.
        revise: Returns a step as it is to be kept, or nothing for one that the departure itself broke off.
        match_on: As in `use_cassette`.
        redact: As in `use_cassette`.

    Raises:
        ConfigurationError: On construction, if both cassettes are the same.
    """

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        to: str | Path | None = None,
        origin: Plain = None,
        outcomes: Mapping[int, Outcome] | None = None,
        live: bool | Collection[str] = True,
        revise: Callable[[Step], Step | None] = lambda step: step,
        match_on: Way | Matcher | Sequence[Way | Matcher] | None = None,
        redact: bool | Sequence[Rule] = True,
    ) -> None:
        super().__init__(name_or_path, mode=Mode.NONE, match_on=match_on, redact=redact, unused="ignore")
        self._live = live
        self.derivation = Derivation(
            _target(name_or_path, to), origin, outcomes or {}, on_served=self.let_go, revise=revise
        )

    def let_go(self) -> None:
        """Let what is not recorded be executed from now on, as far as it may be.

        Raises:
            SessionStateError: If this is not open.
        """
        used = self._open()
        if self._live is not False:
            only = None if self._live is True else frozenset(self._live)
            used.let_go(replace(used.session.policy, mode=Mode.NEW_EPISODES, executable=only))

    def _open(self) -> Use:
        if self._used is None:
            raise SessionStateError("this deriving(...) is not open")
        return self._used

    def _begin(self) -> Use:
        if self._used is not None:
            raise SessionStateError("this deriving(...) is open already; make one for each block")
        self._used = Use(
            self._name_or_path,
            self._chosen,
            redact=self._redact,
            ambient=True,
            remedy=_remedy,
            derivation=self.derivation,
        )
        return self._used


def _remedy(_: bool) -> list[str]:
    return [
        "what was recorded is replayed up to the point of departure, and after it what may not be executed:",
        "undo the change, record the run anew, or let this call be executed (live=True, or its kind or name)",
    ]


def _target(name_or_path: str | Path, to: str | Path | None) -> Location:
    folder = load_settings().cassette_dir
    path = in_project(cassette_path(name_or_path, folder))
    if to is None:
        stem = stem_of(path)
        return path.with_name(f"{stem}.derived{path.name.removeprefix(stem)}")
    target = in_project(cassette_path(to, folder))
    if target == path:
        raise ConfigurationError(f"{path} cannot be derived from itself: give the new cassette another name")
    return target
