"""`deriving`: replay a run up to a point, diverge there, and write the new run to a new cassette."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agenttape_core.engine import Mode
from agenttape_core.errors import ConfigurationError
from agenttape_core.interventions import ASKING, OnNewCall
from agenttape_core.lifecycle.project import this_project
from agenttape_core.lifecycle.request import Derivation, SessionRequest, unchanged
from agenttape_core.lifecycle.use_cassette import CassetteBlock
from agenttape_core.matching import Matcher, Way
from agenttape_core.redaction import Rule
from agenttape_core.schema import Plain, Step
from agenttape_core.settings import explicit
from agenttape_core.storage import Location, derived_path

if TYPE_CHECKING:  # most sessions change nothing
    from agenttape_core.interventions import Changes


class deriving(CassetteBlock):  # noqa: N801 - it is used as `use_cassette` is
    """A replay that diverges from its cassette, and writes the new run to a *derived* one.

    It begins as a strict replay: every call is replayed, none is executed, the network is closed. After the divergence,
    calls without a recording are executed, tools only if they are named. Replayed and executed calls are written
    together, in the order of this run, without the rest of the old run. The replayed cassette is never touched.

    Args:
        name_or_path: The cassette to replay.
        to: The derived cassette; by default `NAME.derived.yaml` beside it.
        origin: A note on the change for its header: plain data, or a function that returns it at the end. Redacted.
        changes: Other answers for recorded calls, by number, address, kind, name or pattern.
        on_reached: Called when one of them is about to be reached; by default `allow_execution`, so that the run
            diverges at the change.
        live: Which calls without a recording are executed after the divergence: `True` for models, embeddings and
            retrievals, which only ask; kinds and names, the only way to execute tools and whatever else may act;
            `False` for none.
        revise: Returns the step to keep, or `None` for one that the divergence itself broke off.
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
        origin: Plain | Callable[[], Plain] = None,
        changes: Changes | None = None,
        on_reached: Callable[[], None] | None = None,
        live: bool | Collection[str] = True,
        revise: Callable[[Step], Step | None] = unchanged,
        match_on: Way | Matcher | Sequence[Way | Matcher] | None = None,
        redact: bool | Sequence[Rule] = True,
    ) -> None:
        derivation = Derivation(
            origin=origin if callable(origin) else lambda: origin, on_reached=on_reached, revise=revise
        )
        super().__init__(
            SessionRequest(
                cassette=name_or_path,
                options=explicit({"match_on": match_on}),
                redact=redact,
                remedy=_remedy,
                mode=Mode.REPLAY,
                write_to=_target(name_or_path, to),
                derivation=derivation,
                changes=changes or {},
                on_new_call=_on_new_call(live),
                judges_changes=False,
            )
        )

    def allow_execution(self) -> None:
        """Execute calls without a recording from now on, as far as `live` allows.

        Raises:
            SessionStateError: If this is not open.
        """
        self.in_use.diverge()


def _on_new_call(live: bool | Collection[str]) -> OnNewCall:
    if live is False:
        return "stop"
    return ASKING if live is True else frozenset(live)


def _remedy(_: bool) -> list[str]:
    return [
        "a call before the first change needs a recording:  undo the change in the program, or record the run again",
        "a call after it can be made for real:  live={...} with its kind or name",
        "live=True calls models, embeddings and retrievals, but no tools: after a change, their effects are unknown",
    ]


def _target(name_or_path: str | Path, to: str | Path | None) -> Location:
    project = this_project()
    folder = project.settings().cassette_dir
    path = project.recording(name_or_path, folder)
    if to is None:
        return derived_path(path)
    target = project.recording(to, folder)
    if target == path:
        raise ConfigurationError(f"{path} cannot be derived from itself: give the new cassette another name")
    return target
