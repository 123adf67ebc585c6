"""`open_session`: the one composition of settings, cassette, redactor, header, journal and session."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from agenttape_core.engine import IDEMPOTENT, Mode, Policy, parse_mode
from agenttape_core.errors import (
    CassetteFormatError,
    CassetteNotFoundError,
    ChangeNotReachedError,
    ConfigurationError,
    counted,
    how_to_recover,
    shown_path,
)
from agenttape_core.lifecycle.header import new_header, redactor_for
from agenttape_core.lifecycle.prepared import Prepared
from agenttape_core.lifecycle.project import Project, this_project
from agenttape_core.lifecycle.request import SessionRequest
from agenttape_core.lifecycle.running_test import this_test, variation_for
from agenttape_core.lifecycle.shape_only import refuse_shape
from agenttape_core.lifecycle.start_session import Opened, start
from agenttape_core.matching import NO_CALLS, Key, Selector, refuse_unselected
from agenttape_core.on_demand import WAITING, load_late
from agenttape_core.redaction.path_placeholders import HOME, PROJECT, WORKING, Places, can_be_place
from agenttape_core.schema import KINDS, MODEL_KINDS, PURE_KINDS, Header, IndexRow
from agenttape_core.session import Session
from agenttape_core.settings import Settings
from agenttape_core.storage import Cassette, Location, open_cassette
from agenttape_core.storage.files import CONFLICT, choose_side

if TYPE_CHECKING:
    from agenttape_core.interventions import Changes, Placed
    from agenttape_core.storage import LeftOver


_BESIDE_THE_RUN: Mapping[str, object] = {
    "live": (),
    "replay_only": (),
    "step_into": (),
    "freeze": (),
    "http": False,
    "review": False,
}
"""Settings of a session that is never current. They are about the calls and the world of a run, which it has not."""


def open_session(request: SessionRequest) -> Opened:
    """Open a session: read the settings and the cassette, and start the journal of what will be recorded.

    Raises `CassetteError` if there is no cassette to replay, the file can't be read, or it is being recorded elsewhere,
    and `ConfigurationError` if an option, a rule or a setting is not valid.
    """
    return start(prepare(request))


def prepare(request: SessionRequest) -> Prepared:
    """Read the settings and the cassette, and decide all that follows from them. Raises as `open_session` does."""
    if WAITING:
        load_late()
    request = _as_test_replays(request)
    project = request.project or this_project()
    settings = _settings(project, request)
    path = _path(project, request, settings)
    forced = project.forced_mode(path) if "mode" not in request.options else None
    mode = request.mode or forced or parse_mode(settings.mode)
    cassette, is_broken = _recorded(request, path, mode)
    candidates = None
    if request.candidate is not None and request.changes:
        raise ConfigurationError(
            "candidate= and changes are two questions: another model, and the recorded one after a change\n"
            "  give one of them; fakes= and live= say what a candidate may reach"
        )
    given = request.candidate if request.candidate is not None else settings.candidate
    if given is not None and request.is_current and request.derivation is None and request.changes is None:
        from agenttape_core.lifecycle.candidates import candidates_of, with_candidate

        candidates = candidates_of(given, path, cassette, mode, must_be_asked=request.candidate is not None)
        settings = with_candidate(settings, candidates, request.options)
    policy = Policy(
        mode,
        recorded=cassette is not None,
        live=_selector("live", settings.live, cassette) if settings.live else NO_CALLS,
        replay_only=_selector("replay_only", settings.replay_only, cassette) if settings.replay_only else NO_CALLS,
        step_into=(_selector("step_into", settings.step_into, cassette) if settings.step_into else NO_CALLS)
        if request.is_current
        else None,
        on_repeat=settings.on_repeat,
        match_on=settings.match_on,
        on_miss=settings.on_miss,
        accepts_lossy="lossy" in settings.accept,
        repeats=PURE_KINDS if request.is_current else frozenset(),
        is_shared=settings.on_unused == "ignore",
        unrecorded=MODEL_KINDS if candidates is not None else frozenset(),
    )
    if cassette is not None and not policy.records and candidates is None:  # another model may make other calls
        refuse_misspelled(request.options, request.selects, cassette.entries, path)
    request = _varied(request, path, policy)
    prior = cassette.preface if cassette is not None else None
    key = prior.redaction.key if prior is not None else request.key
    matched = prior if policy.replays else None
    if matched is not None:
        refuse_shape(path, matched)
    writes = not policy.offline or request.derivation is not None
    places = _places_of_run(request.places, matched)
    redactor = redactor_for(path, matched, request.redact, settings, key=key, places=places, writes=writes)
    header = new_header(path, prior, settings, redactor, replaces=policy.replaces, clock=request.clock)
    header = header.model_copy(update={"payload": request.payload}) if policy.replaces else header
    changes = _changes(request.changes, cassette, policy) if request.changes and cassette is not None else {}
    began = perf_counter()
    left = _left_over(cassette) if cassette is not None and policy.updates else ()
    return Prepared(
        request, settings, path, cassette, is_broken, policy, redactor, header, began, candidates, changes, left
    )


def _changes(changes: Changes, cassette: Cassette, policy: Policy) -> Mapping[int, Placed]:

    return changes_of(changes, cassette, policy)


def _left_over(cassette: Cassette) -> Sequence[LeftOver]:
    from agenttape_core.storage import left_over  # a replay never looks for them

    return left_over(cassette)


def _selector(option: str, keys: Sequence[Key], cassette: Cassette | None) -> Selector:
    return Selector(keys, cassette.entries if cassette is not None else (), option=option)


def refuse_misspelled(
    options: Mapping[str, Any], names: Collection[str], rows: Sequence[IndexRow], path: Location
) -> None:
    """Refuse a selector that selects none of the recorded calls. A kind may come up in any run.

    `names` are the options that hold for this recording alone. Raises `ConfigurationError` if there's such a selector.
    """
    for name in names:
        if given := [key for key in options.get(name) or () if key not in KINDS and key != IDEMPOTENT]:
            refuse_unselected(given, rows, name, path)


def _settings(project: Project, request: SessionRequest) -> Settings:
    options = request.options if request.is_current else {**_BESIDE_THE_RUN, **request.options}
    settings = project.settings(options)
    if request.is_current and (test := this_test()) is not None:
        given = {"review": test.leaves_pending or None, "pace": None if project.replays_only else test.pace}
        if "on_unused" not in request.options and test.is_part():
            given["on_unused"] = "ignore"  # the tests that do not run here may ask for it
        if given := {name: value for name, value in given.items() if value is not None}:
            settings = settings.chosen(given)
    if not request.added:
        return settings
    return settings.chosen({name: (*(getattr(settings, name) or ()), *more) for name, more in request.added.items()})


def _path(project: Project, request: SessionRequest, settings: Settings) -> Location:
    if request.reads:
        path = project.recording(request.cassette, settings.cassette_dir)
        # What was just recorded is what a replay check replays, wherever it is.
        return test.pending.get(path, path) if project.replays_only and (test := this_test()) is not None else path
    return project.written(request.cassette, settings.cassette_dir)


def _as_test_replays(request: SessionRequest) -> SessionRequest:
    """Return a request with the test's options for its own replays, if the program sets no mode."""
    test = this_test()
    is_plain = request.is_current and request.reads and request.derivation is None and request.mode is None
    if test is None or test.options is None or not is_plain or "mode" in request.options:
        return request
    options = {**request.options, **test.options}
    return request._replace(options=options, may_be_missing=True, judges_unused=False)


def _varied(request: SessionRequest, path: Location, policy: Policy) -> SessionRequest:
    """Return a request with what surrounds a replay differs in, such as a fault."""
    variation = variation_for(str(path)) if request.is_current and policy.recorded and not policy.records else None
    if variation is None:
        return request
    if request.changes is None:
        request = request._replace(changes=variation.changes, judges_changes=False)
    return request._replace(order=variation.order) if request.order is None else request


def _recorded(request: SessionRequest, path: Location, mode: Mode) -> tuple[Cassette | None, bool]:
    """Return the recordings, and whether there is a file instead that cannot be read and is to be replaced."""
    if not request.reads:
        return None, False
    try:
        return open_cassette(path), False
    except CassetteNotFoundError:
        if mode is Mode.REPLAY and not request.may_be_missing:
            from agenttape_core.storage import leftover_journals  # most cassettes are there

            remedy = "\n  ".join([*request.remedy(False), *map(recoverable, leftover_journals(path))])
            raise CassetteNotFoundError.unrecorded(path, remedy) from None
        return None, False
    except CassetteFormatError as error:
        from agenttape_core.storage import is_replaceable  # most cassettes can be read

        if request.mode is not None or not is_replaceable(path):
            raise
        if mode is not Mode.RECORD:
            raise _broken(request, path, error) from None
        return None, True


def _broken(request: SessionRequest, path: Location, error: CassetteFormatError) -> CassetteFormatError:
    lines, kept = request.remedy(True)[:1], f"which keeps this file as {path.name}.broken"
    if error.problem == CONFLICT:
        remedy = "\n  ".join([choose_side(path), *(["or,", *lines, kept] if lines else [])])
    else:
        remedy = ", or\n  ".join(["restore it from version control", *lines]) + (f"\n  {kept}" if lines else "")
    return CassetteFormatError(error.path, error.problem, remedy=remedy, line=error.line)


def recoverable(journal: Path, unkept: int = 0) -> str:
    """Return how to make a cassette of a left journal, which could not hold `unkept` records."""
    return (
        f"an unfinished recording is kept; to make a cassette of it:  {how_to_recover(journal)}{lost_records(unkept)}"
    )


def lost_records(unkept: int) -> str:
    """Return the last line of a message about records for which no disk had space; empty if there are none."""
    return f"\n  lost, as no disk had space: {counted(unkept, 'record')}" if unkept else ""


# The folders of this run that are others elsewhere: of the project, of the user, of a test, and the current one.

_ROOTS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")  # the files and folders that the root of a project holds
_SIGNS = ("pytest.ini", "tox.ini", "uv.lock", "poetry.lock", "requirements.txt")
"""Files that tell the root of a project without any of those, such as one that was copied without its history."""


def _places_of_run(given: Mapping[str, str], prior: Header | None) -> Places:
    """Return the places of this run."""
    if prior is not None and not prior.redaction.places:
        return Places(given, is_plain=True)
    test = this_test()
    found = {**(test.places() if test is not None else {}), **given}
    try:
        working = os.getcwd()  # noqa: PTH109 - a text is needed
    except OSError:  # somebody has removed it
        working = ""
    home = os.path.expanduser("~")  # noqa: PTH111
    project = _project_root(str(test.folder) if test is not None else working)
    return _places_among(tuple(found.items()), project, working, home)


@lru_cache(maxsize=64)
def _places_among(given: tuple[tuple[str, str], ...], project: str, working: str, home: str) -> Places:
    """Return the given places, and the folders that add information. The same in most sessions."""
    found = dict(given)
    if project != home:
        _add(found, PROJECT, project)
    if not _is_below(working, found.values()):
        _add(found, WORKING, working)
    _add(found, HOME, home)
    return Places(found)


def _add(found: dict[str, str], name: str, path: str) -> None:
    if can_be_place(path) and path not in found.values():
        found.setdefault(name, path)


def _is_below(path: str, folders: Collection[str]) -> bool:
    return path in folders or path.startswith(tuple([f"{folder}/" for folder in folders]))


@lru_cache(maxsize=64)
def _project_root(start: str) -> str:
    """Return the nearest folder at or above another one that looks like the root of a project; empty if none does."""
    return _nearest(start, _ROOTS) or _nearest(start, _SIGNS)


def _nearest(start: str, names: Sequence[str]) -> str:
    """Return the nearest folder at or above another one that holds one of these; empty if none does."""
    folder = start
    while folder:
        if any(os.path.exists(f"{folder}/{name}") for name in names):  # noqa: PTH110
            return folder
        above = os.path.dirname(folder)  # noqa: PTH120
        folder = above if above != folder else ""
    return ""


# -- The changes of a session: checked before anything runs, and judged when it has ended.

_SHOWN_CHANGES = 10


def changes_of(changes: Changes, cassette: Cassette, policy: Policy) -> dict[int, Placed]:
    """Return the changes of recorded calls, by their numbers.

    `changes` are by what selects the calls. Raises `ConfigurationError` if one selects no call, or can't be reached.
    """
    from agenttape_core.interventions import placed  # most sessions change nothing

    found = placed(changes, cassette)
    for row in cassette.entries:
        if row.number not in found:
            continue
        if not policy.may_replay(row.kind, row.name, row.address):
            why = "it is live, so it is not replayed"
        elif policy.must_step_into(row.kind, row.name, row.address):
            why = "its code is stepped into, so its recorded outcome is not used"
        else:
            continue
        raise ConfigurationError(
            f"changes: interaction {row.number}, {row.kind} {row.name} at {row.address}, cannot be changed: {why}"
        )
    return found


def unlanded_error(session: Session, changes: Mapping[int, Placed], shown: Location) -> ChangeNotReachedError | None:
    """Return the error that names the changes of which none was reached; `None` if one of each key was."""
    reached = {changes[one.number].key for one in session.report.reached}
    left = {number: one.change for number, one in changes.items() if one.key not in reached}
    if not left:
        return None
    rows = {row.number: row for row in session.source.entries}
    lines = []
    for number, change in list(left.items())[:_SHOWN_CHANGES]:
        row = rows.get(number)
        where = f"{row.kind} {row.name} at {row.address}" if row is not None else "a call"
        lines.append(f"{number:>4}  {where}: {change}")
    more = [f"and {len(left) - _SHOWN_CHANGES} more"] if len(left) > _SHOWN_CHANGES else []
    verb = "wasn't" if len(left) == 1 else "weren't"
    first = f"{shown_path(shown)}: {counted(len(left), 'change')} {verb} reached: the run didn't make the call"
    remedy = "a run in which nothing was changed shows nothing: change a call that it makes"
    return ChangeNotReachedError("\n  ".join([first, *lines, *more, remedy]))
