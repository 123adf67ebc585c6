"""One test and its cassette: open before the fixtures, closed when the test function has ended."""

from __future__ import annotations

import functools
import inspect
import os
import shlex
import unittest
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from agenttape_core.engine import Mode
from agenttape_core.errors import (
    AgentTapeError,
    AgentTapeHalt,
    CassetteFormatError,
    CassetteNotFoundError,
    ConfigurationError,
    counted,
    shown_path,
)
from agenttape_core.lifecycle.contained import ContainedBlock
from agenttape_core.lifecycle.presence import PRESENCE, Aftermath
from agenttape_core.lifecycle.project import this_project
from agenttape_core.lifecycle.request import SELECTING, no_remedy
from agenttape_core.lifecycle.use_cassette import CassetteBlock, use_cassette
from agenttape_core.pytest_plugin.cassette_options import Chosen, chosen_by, mode_of, own_cassette, places_of, too_old
from agenttape_core.pytest_plugin.claims import claim, refuse_twin
from agenttape_core.pytest_plugin.costs import prices_of
from agenttape_core.pytest_plugin.failures import SKIPS, is_expected, is_expected_again, is_of_the_test, ours_in
from agenttape_core.pytest_plugin.fixture import TestCassette
from agenttape_core.pytest_plugin.naming import FOLDER, safe
from agenttape_core.pytest_plugin.replayed import AGAIN, REPLAYED
from agenttape_core.pytest_plugin.rerun import caught_by_unittest
from agenttape_core.pytest_plugin.verdict import Verdict
from agenttape_core.session import Report, Session
from agenttape_core.settings import CheckReplay

if TYPE_CHECKING:
    from agenttape_core.session import Session

# -- The function of a test, run inside the session of the test.


def run_inside(item: pytest.Item, session: Session) -> Callable[[], None]:
    """Wrap the innermost part of a test's call, inside all that other plugins do; return a function to undo it."""
    test: Any = item
    runtest = test.runtest

    def inside() -> None:
        with session.extension(PRESENCE).resumed():
            runtest()

    with ExitStack() as undo:
        _replace(undo, test, "runtest", inside)
        if inspect.iscoroutinefunction(getattr(test, "obj", None)):
            function = _in_task(test.obj, session)
            _replace(undo, test, "_obj", function)
            if isinstance(getattr(test, "instance", None), unittest.TestCase):  # it calls its own attribute
                _replace(undo, test.instance, test.name, function)
        return undo.pop_all().close


def _replace(undo: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Set an attribute of one object until `undo`."""
    if name in vars(owner):
        undo.callback(setattr, owner, name, vars(owner)[name])
    else:
        undo.callback(delattr, owner, name)
    setattr(owner, name, value)


def _in_task(function: Callable[..., Any], session: Session) -> Callable[..., Any]:
    """Run a coroutine function in the session: its task may have a context that was copied earlier."""

    @functools.wraps(function)
    async def in_session(*args: Any, **kwargs: Any) -> Any:
        with session.extension(PRESENCE).resumed():
            return await function(*args, **kwargs)

    return in_session


def refuse_file_of_recording(request: pytest.FixtureRequest, path: Path | str) -> None:
    """Refuse a cassette that would be the file of pytest-recording for the same test.

    The plugin is https://github.com/kiwicom/pytest-recording. Raises `ConfigurationError` if it is the same file.
    """
    if request.node.get_closest_marker("vcr") is None or not request.config.pluginmanager.has_plugin("recording"):
        return
    folder, name = (request.getfixturevalue(fixture) for fixture in ("vcr_cassette_dir", "default_cassette_name"))
    if Path(path).resolve() == Path(folder, f"{name}.yaml").resolve():
        raise ConfigurationError(
            f"{path} is where pytest-recording keeps the HTTP of this test (its marker vcr), so one would replace the "
            "other\n  give this cassette a name: @pytest.mark.cassette('NAME'); or let the fixture vcr_cassette_dir "
            "return another folder"
        )


Result = TypeVar("Result")


class _NotCalled(BaseException):
    """The test was not called: a fixture failed, or pytest only sets up."""


class _TooOldError(ConfigurationError):
    """The cassette is older than the command line allows."""


class Running:
    """The life of the cassette of one test.

    `config` has the options from the fixture `cassette_config`. Raises `ConfigurationError` if an option of a marker,
    the fixture or the command line is not valid, or the cassette is too old.
    """

    def __init__(self, request: pytest.FixtureRequest, config: Mapping[str, Any]) -> None:
        self._request = request
        self._item = item = request.node
        self._chosen = chosen = chosen_by(item, config)
        refuse_file_of_recording(request, chosen.path)
        if isinstance(chosen.path, Path) and not chosen.is_named:
            refuse_twin(chosen.path)
        mode = mode_of(item, chosen.path)
        limit = item.config.option.cassette_max_age
        if limit is not None and mode is not Mode.RECORD and (old := too_old(chosen.path, limit)) is not None:
            raise _TooOldError(_too_old(chosen, old, item))
        self.plans = item.config.option.cassette_plans
        """True if the test is replayed to plan the update of its cassette."""
        options = chosen.options if mode is None else {**chosen.options, "mode": mode}
        if self.plans:
            from agenttape_core.pytest_plugin.planning import OPTIONS

            options = {**options, **OPTIONS}
        live = None
        if item.config.option.cassette_drift:
            from agenttape_core.pytest_plugin.verifying import LIVE

            live = item.stash.get(LIVE, None)
        if live is not None:
            options = {**options, "mode": Mode.RECORD, "check_replay": False}
        self._is_apart = live is not None
        opening = use_cassette(chosen.path, **options).request
        # In a replay check, nothing that was just recorded becomes better by recording it anew.
        remedy = no_remedy if this_project().replays_only else functools.partial(_remedy, item, chosen)
        wanted = opening._replace(
            remedy=remedy,
            keeps_first=is_of_the_test,
            places=places_of(request),
            may_be_missing=self.plans,
            judges_unused=not self.plans,
            selects=SELECTING & chosen.own,
            write_to=live,
        )
        if (changed := item.stash.get(REPLAYED, None)) is not None:
            wanted, self._is_apart = changed.replayed_by(wanted), True
        self._block = (ContainedBlock if item.stash.get(AGAIN, False) else CassetteBlock)(wanted)
        self._cassette: TestCassette | None = None
        self._is_open = False
        self._aftermath: Aftermath | None = None
        self._check_replay: CheckReplay = False
        self.proving_seconds = 0.0  # the time that the check took
        self._is_recorded = False
        self.has_failed = False  # true once the setup of the test has failed
        self.is_skipped = False  # true once a fixture of the test has skipped it
        self.has_passed = False  # true once the test function has passed
        self._has_failed_subtest = False  # each is reported before its test

    def begin(self) -> TestCassette:
        """Open the cassette. From now on, the context of the caller belongs to its session."""
        session = plainly(self._block.__enter__, self._item)
        self._is_open = True
        self._check_replay = self._chosen_check()
        self._cassette = TestCassette(session, self._item.nodeid, _command(self._item), is_apart=self._is_apart)
        if session.policy.records and not self._is_apart:
            try:
                plainly(lambda: claim(self._chosen.path, self._request), self._item)
            except BaseException:
                self.give_up()
                raise
        return self._cassette

    def pause(self) -> None:
        """Take the context of the caller out of the session until the test is called."""
        if self._cassette is not None:
            self._cassette.session.extension(PRESENCE).pause()

    @contextmanager
    def called(self) -> Iterator[None]:
        """Run the test function inside the session, and end the session with it."""
        cassette = self._cassette
        assert cassette is not None
        restore = run_inside(self._item, cassette.session)
        error: BaseException | None = None
        try:
            yield
            caught = caught_by_unittest(self._item)
            error = caught[0].value if caught else None
        except BaseException as raised:
            error = raised
            raise
        finally:
            restore()
            self._close(cassette, error)

    @property
    def failed_inside(self) -> list[str]:
        """The failures of sessions that the program opened itself, a line each, if the test was run again."""
        if not isinstance(self._block, ContainedBlock) or not (failed := self._block.failed):
            return []
        from agenttape_core.pytest_plugin.swallowed import of_the_program

        return [block.line for block in of_the_program(self._item, failed)]

    def end(self, error: BaseException | None) -> None:
        """End a session that was opened while the test function ran."""
        if self._is_open and self._cassette is not None:
            self._close(self._cassette, error)

    @property
    def session(self) -> Session:
        """The session of the test."""
        assert self._cassette is not None
        return self._cassette.session

    @property
    def opened(self) -> Session | None:
        """The session of the test, if the cassette was opened."""
        return self._cassette.session if self._cassette is not None else None

    @property
    def is_to_try(self) -> bool:
        """True if the test has passed with its recording, and another model is to be tried on it."""
        is_asked = bool(self._item.config.option.cassette_candidate) and self._cassette is not None
        return (
            is_asked and self.has_passed and not self.session.policy.records and self.session.setup.candidates is None
        )

    @property
    def is_to_verify(self) -> bool:
        """True if the test has passed with its recording, and is to be compared with a run for real."""
        is_asked = self._item.config.option.cassette_drift and self._cassette is not None
        return bool(is_asked) and self.has_passed and not self.session.policy.records

    @property
    def report(self) -> Report | None:
        """The report on the calls, if the cassette was opened."""
        return self._cassette.report if self._cassette is not None else None

    @property
    def is_to_check(self) -> bool:
        """True if the test has passed and recorded, and the recording is to be checked."""
        return self._is_recorded and self.has_passed and self._check_replay is not False and not self._is_apart

    def check_replay(self, nextitem: pytest.Item | None, key: pytest.StashKey[Running]) -> None:
        """Run the test again with its new recording, and keep the verdict."""
        from agenttape_core.pytest_plugin.replay_check import ADVICE, difference_of

        began = perf_counter()
        try:
            found = difference_of(self._item, nextitem, key, named(self._item))
        finally:
            self.proving_seconds = perf_counter() - began
        if found is None:
            return
        verdict = Verdict.from_properties(self._item.user_properties)
        assert verdict is not None
        fails = found and self._check_replay == "fail"  # then the failure shows the difference
        checked = replace(
            verdict, replay_check="differs" if found else "same", difference="" if fails else "\n".join(found)
        )
        _keep(checked, self._item)
        if fails:
            pytest.fail("\n".join([*found, *ADVICE]), pytrace=False)

    def _chosen_check(self) -> CheckReplay:
        """Return the treatment of the recording: the marker is specific, so it wins over the command line."""
        is_strict = "replay-check" in self._item.config.option.cassette_strict
        is_set = "check_replay" in self._chosen.options
        return "fail" if is_strict and not is_set else self._block.in_use.settings.check_replay

    def tear_down(self) -> None:
        """Refuse calls of the test's fixtures during teardown: it isn't part of the recording."""
        if self._aftermath is not None:
            self._aftermath.begin()

    def let_go(self) -> None:
        """Leave the caller's context. The fixtures of the test have ended; wider fixtures aren't its own."""
        if self._aftermath is not None:
            self._aftermath.end()

    def give_up(self) -> None:
        """End the session of a test whose function was not called, because a fixture failed or skipped it."""
        if self._is_open and self._cassette is not None:
            ended: type[BaseException] = pytest.skip.Exception if self.is_skipped else _NotCalled
            with suppress(AgentTapeError, AgentTapeHalt) if self.has_failed else nullcontext():
                self._close(self._cassette, ended("the test was not called"), judges=self.has_failed)

    def reported(self, report: pytest.TestReport) -> None:
        """Keep the findings of checks, and the artifacts of a failed test, if the command line requires them."""
        self._has_failed_subtest = self._has_failed_subtest or report.failed
        self.has_passed = report.passed and not self._has_failed_subtest
        folder = self._item.config.option.cassette_artifacts
        if self._cassette is not None and self._cassette.checked:
            from agenttape_core.pytest_plugin.reporting import is_wanted, keep_checked

            if is_wanted(self._item.config):
                self._item.user_properties[:] = keep_checked(self._item.user_properties, self._cassette.checked)
        if report.failed and folder is not None and self._cassette is not None:
            from agenttape_core.pytest_plugin.artifacts import keep_artifacts

            kept = keep_artifacts(Path(folder), self._cassette, report)
            report.sections.append(("AgentTape", f"the calls of the run are kept in {kept}"))

    def _is_outcome(self, error: BaseException, session: Session) -> bool:
        if not session.policy.recorded:
            return is_expected(self._item, error)
        return "on_error" not in self._block.request.options and is_expected_again(self._item, error, session)

    def _close(self, cassette: TestCassette, error: BaseException | None, *, judges: bool = True) -> None:
        self._is_open = False
        prices = prices_of(self._item.config, self._block.in_use.settings)
        cassette.end(counts=prices.are_there)
        self._aftermath = cassette.session.extension(PRESENCE).aftermath()
        is_other = error is not None and not isinstance(error, Exception) and ours_in(error) is None
        if cassette.session.failure is not None and is_other:
            caught_by_unittest(self._item).clear()  # a skip gives way to the failure
        # A recording in which the test ended as it is expected to is whole: the next run ends in the same way.
        policy = cassette.session.policy
        is_whole = error is not None and policy.records and self._is_outcome(error, cassette.session)
        broken = None if is_whole else error
        try:
            self._block.__exit__(type(broken) if broken is not None else None, broken, None)
            is_written = cassette.session.policy.records and cassette.session.written is not None
            if error is None or is_written:
                cassette.write_snapshots()
            self._is_recorded = error is None and is_written
        finally:
            if judges:
                config = self._item.config
                verdict = Verdict.of(
                    cassette.session,
                    cassette.replayed_by_models,
                    cassette.saved_seconds,
                    config.rootpath,
                    uncounted=cassette.uncounted,
                    prices=prices,
                    ended="" if broken is None else "skipped" if isinstance(broken, SKIPS) else "failed",
                )
                _keep(verdict, self._item)
                if self.plans:
                    from agenttape_core.pytest_plugin.planning import keep_plan

                    keep_plan(self._item, named(self._item), cassette.session)


def plainly(work: Callable[[], Result], item: pytest.Item) -> Result:
    """Do something before the test that may fail; an error of ours fails the test by its message, without traceback."""
    try:
        return work()
    except AgentTapeError as error:
        problem = str(error)
        is_there = not isinstance(error, CassetteNotFoundError)
        renewable = isinstance(error, CassetteFormatError | _TooOldError)
        verdict = Verdict.unopened(_path_of(item), item.config.rootpath, is_there=is_there, renewable=renewable)
        _keep(verdict, item)
        problem = problem.replace(f"{Path.cwd()}{os.sep}", "").replace(
            "No cassette yet:", "No cassette for this test yet:"
        )
        if item.config.option.cassette_plans:
            from agenttape_core.pytest_plugin.planning import keep_refusal

            keep_refusal(item, named(item), problem)
    pytest.fail(problem, pytrace=False)


def _keep(verdict: Verdict, item: pytest.Item) -> None:
    item.user_properties[:] = verdict.added_to(item.user_properties)


def _path_of(item: pytest.Item) -> Path | str:
    """Return the cassette of a test, whether or not its markers are valid."""
    with suppress(ConfigurationError):
        return chosen_by(item, {}).path
    with suppress(ConfigurationError):
        return own_cassette(item)
    return item.path.parent / FOLDER / item.path.stem / f"{safe(item.name)}.yaml"  # several have its name


def _command(item: pytest.Item) -> str:
    """Return the command that runs a test, from the folder in which pytest was started."""
    return f"pytest {shlex.quote(named(item))}"


def named(item: pytest.Item) -> str:
    """Return the id of a test as you'd pass it to pytest in the folder in which pytest was started."""
    file, colons, rest = str(item.nodeid).partition("::")
    seen = os.path.relpath(item.config.rootpath / file, item.config.invocation_params.dir)
    return Path(seen).as_posix() + colons + rest


def _remedy(item: pytest.Item, chosen: Chosen, recorded: bool) -> list[str]:
    command = f"{_command(item)} --cassette-mode"
    if not recorded:
        return [f"record it (calls the real model):  {command}=once", *_moves(item, chosen)]
    return [f"record everything again:  {command}=record", f"record only what changed:  {command}=update"]


def _moves(item: pytest.Item, chosen: Chosen) -> list[str]:
    """Return how to move the cassette of a test that was most likely renamed, a line each; no line if there is none."""
    if chosen.is_named or not isinstance(chosen.path, Path):
        return []
    from agenttape_core.pytest_plugin.orphans import renamed
    from agenttape_core.storage.asset_files import assets_of

    old = renamed(chosen.path, item.path)
    if old is None:
        return []
    if (all_of_them := _moves_of_parameters(old, chosen.path)) is not None:
        return [f"or, if the test was renamed, move the cassettes of all its parameters:  {all_of_them}"]
    beside = [(assets_of(old), assets_of(chosen.path))] if assets_of(old).is_dir() else []
    pairs = [(old, chosen.path), *beside]
    folder = [] if chosen.path.parent.is_dir() else [f"mkdir -p {_shown(chosen.path.parent)}"]
    moves = " && ".join([*folder, *(f"mv {_shown(before)} {_shown(now)}" for before, now in pairs)])
    return [f"or, if the test was renamed or its cassettes moved, move its cassette:  {moves}"]


def _moves_of_parameters(old: Path, new: Path) -> str | None:
    """Return the command that moves the cassettes of all parameters of a test; `None` if only the one has to move."""
    was, bracket, parameter = old.name.partition("[")
    now = new.name.removesuffix(bracket + parameter)
    if not bracket or now == new.name or old.parent != new.parent or "[" in shown_path(old.parent):
        return None
    files = f"{_shown(old.with_name(was))}\\[*"
    return f'for f in {files}; do mv "$f" {_shown(new.with_name(now))}"[${{f#*\\[}}"; done'


def _shown(path: Path) -> str:
    return shlex.quote(shown_path(path))


def _too_old(chosen: Chosen, age: timedelta, item: pytest.Item) -> str:
    return (
        f"{shown_path(chosen.path)} was recorded {counted(age.days, 'day')} ago; --cassette-max-age allows "
        f"{item.config.option.cassette_max_age}\n  record it again:  {_command(item)} --rerecord"
    )
