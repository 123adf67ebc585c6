"""The candidates of a session: made and checked before anything runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from agenttape_core.engine import Mode
from agenttape_core.errors import ConfigurationError, shown_path
from agenttape_core.lifecycle.entry_points import installed_names, load_integration
from agenttape_core.matching import Selector, refuse_unselected
from agenttape_core.schema import MODEL_KINDS, OWN, IndexRow, asks_model
from agenttape_core.session.candidates import HTTP, Candidates, made_candidate, why_not_exchanged
from agenttape_core.settings import Settings
from agenttape_core.storage import Cassette, Location


def candidates_of(
    given: Any, path: Location, cassette: Cassette | None, mode: Mode, *, must_be_asked: bool = False
) -> Candidates:
    """Return the candidates that an option names.

    `given` is a model, its name, or a mapping of selectors of calls to these; with `must_be_asked`, it's an error if
    the recording has no call of a model at all. Raises `ConfigurationError` if there is no recorded call to try them
    on, one can't be made, a selector selects no recorded call of a model, or one that can't call tools would be offered
    some.
    """
    if cassette is None or mode.always_records:
        why = "there is no recording" if cassette is None else f"mode={mode.value} records"
        raise ConfigurationError(
            f"{shown_path(path)}: a candidate is tried on a recording that is replayed, and {why}\n"
            "  record the run with its own model first, then open it with candidate= in the mode replay"
        )
    if isinstance(given, Candidates):
        return given
    asked = asked_in(cassette)
    if must_be_asked and not asked:
        raise nothing_to_try(path)
    if given == OWN:
        return Candidates([])
    frameworks = _frameworks(cassette) if any(row.kind != HTTP for row in asked) else []
    frameworks = [*frameworks, HTTP] if any(row.kind == HTTP for row in asked) else frameworks
    if not isinstance(given, Mapping):
        found = Candidates([(None, made_candidate(given, frameworks))])
    else:
        refuse_unselected(given, asked, "candidate", path)
        selectors = {key: Selector((key,), asked) for key in given}
        keys = sorted(given, key=lambda key: not selectors[key].is_exact(asked))
        found = Candidates([(selectors[key], made_candidate(given[key], frameworks)) for key in keys])
    _refuse_without_tools(found, cassette, asked, path)
    _refuse_other_formats(found, cassette, asked, path)
    return found


def asked_in(cassette: Cassette) -> list[IndexRow]:
    """Return the recorded calls on which another model can be tried: of frameworks, and over HTTP."""
    models = {row.number for row in cassette.entries if row.kind in MODEL_KINDS}
    return [
        row
        for row in cassette.entries
        if row.number in models
        or (
            row.kind == HTTP and row.parent not in models and asks_model(HTTP, cassette.interaction(row.number).request)
        )
    ]


def nothing_to_try(path: Location) -> ConfigurationError:
    """Return the error for a recording in which no model is asked."""
    return ConfigurationError(
        f"{shown_path(path)}: a candidate is tried where models are asked, and none is recorded\n"
        "  record a run that asks one; http=True also records a provider's client that is called without a framework"
    )


def with_candidate(settings: Settings, candidates: Candidates, options: Mapping[str, Any]) -> Settings:
    """Return settings under which a candidate is tried: calls of models are live, and a miss does not stop the run."""
    live = sorted(MODEL_KINDS - set(settings.live)) if candidates.is_everywhere else []
    on_miss = {} if "on_miss" in options else {"on_miss": "return"}
    return settings.chosen({"live": [*settings.live, *live], **on_miss})


def _frameworks(cassette: Cassette) -> Sequence[str]:
    """Return the frameworks of the recording, and those that are imported, with their integrations loaded."""
    packages = {name.replace("-", "_") for name in cassette.preface.volatile.packages}
    installed = sorted(installed_names())
    found = [name for name in installed if name in sys.modules or any(package.startswith(name) for package in packages)]
    for name in found:
        load_integration(name)
    return found


def _refuse_without_tools(found: Candidates, cassette: Cassette, asked: Sequence[IndexRow], path: Location) -> None:
    """Refuse a candidate that calls no tools where the recorded call offers some."""
    if all(candidate.calls_tools for _, candidate in found.chosen):
        return
    for row in asked:
        candidate = found.at(row.kind, row.name, row.address)
        if (
            candidate is not None
            and not candidate.calls_tools
            and cassette.interaction(row.number).request.get("tools")
        ):
            raise ConfigurationError(
                f"candidate {candidate.label}: it calls no tools, and call {row.number} of {shown_path(path)} at "
                f"{row.address} offers some\n"
                "  choose a model that calls tools, or name the places at which it is tried: candidate={NODE: MODEL}"
            )


def _refuse_other_formats(found: Candidates, cassette: Cassette, asked: Sequence[IndexRow], path: Location) -> None:
    """Refuse a candidate that a recorded request over HTTP can't ask."""
    for row in (row for row in asked if row.kind == HTTP):
        candidate = found.at(row.kind, row.name, row.address)
        if candidate is None:
            continue
        why = "it's a model of a framework, and the call is made over HTTP: name it, as PROVIDER:MODEL"
        if HTTP in candidate.models:
            why = why_not_exchanged(candidate.label, cassette.interaction(row.number).request)
        if why:
            raise ConfigurationError(
                f"candidate {candidate.label}: call {row.number} of {shown_path(path)} can't ask it: {why}\n"
                "  choose a model of the recorded provider, or name the calls on which it's tried: "
                f"candidate={{{row.address!r}: MODEL}}"
            )
