"""Failures that are AgentTape's: shown by their messages, at the lines of the user's code."""

from __future__ import annotations

import sysconfig
import traceback
import types
import unittest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core.errors import AgentTapeError, AgentTapeHalt, shown_path
from agenttape_core.lifecycle.running_test import this_test
from agenttape_core.session import current_session
from agenttape_core.session.report import not_as_recorded, side_effects_skipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from _pytest._code.code import TerminalRepr  # the type that `ExceptionInfo.getrepr` returns has no public name

    from agenttape_core.session import Report, Session

KEYLESS = "agenttape.keyless"  # the property of a test that failed because a client had no key
SKIPS = pytest.skip.Exception | unittest.SkipTest
_OURS = "agenttape_"
_PLUGIN = "agenttape_core.pytest_plugin"
_INSTALLED = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib"))


def shown(item: pytest.Item, call: pytest.CallInfo[None]) -> TerminalRepr | str | None:
    """Return the message of a failure that is ours, and the lines of the project that led to it, if any did.

    `None` for any other failure, or if the command line chooses a style of tracebacks.
    """
    option = item.config.option
    if option.tbstyle != "auto" or option.fulltrace or option.usepdb or call.excinfo is None:
        return None
    raised = call.excinfo.value
    error = ours_in(raised)
    if error is None:
        return None
    lines = _of_the_project(error.__traceback__) or _of_the_project(raised.__traceback__)
    if lines is None:  # raised by the session when the test had ended
        return "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
    alone = pytest.ExceptionInfo.from_exception(error.with_traceback(lines))
    return _named_shortly(alone.getrepr(style="short", funcargs=False, chain=False), type(error))


def hide_ours(error: BaseException) -> None:
    """Let pytest leave our lines out of the traceback of an error of ours in any style, but not with `--full-trace`."""
    if ours_in(error) is None:
        return
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).startswith(_OURS):
            frame.f_globals["__tracebackhide__"] = _hides


def _hides(excinfo: pytest.ExceptionInfo[BaseException] | None) -> bool:
    return excinfo is not None and ours_in(excinfo.value) is not None


def missing_key(config: pytest.Config, error: BaseException) -> str:
    """Return advice for an error about a missing key, in a run that only replays; empty for any other."""
    option = config.option
    if option.rerecord is not None or (option.cassette_mode or "none") not in {"none", "replay"}:
        return ""
    from agenttape_core.lifecycle.remedy import remedy_for_key

    return remedy_for_key(error)


def note_missing_key_of(item: pytest.Item, error: Exception, session: Session | None) -> None:
    """Add advice to an error about a missing key, and note that recording again doesn't help this test."""
    session = session or current_session()
    is_replayed = session.is_replay if session is not None else bool(getattr(this_test(), "reports", ()))
    if is_replayed and missing_key(item.config, error):
        from agenttape_core.lifecycle.remedy import note_missing_key

        note_missing_key(error)
        item.user_properties.append((KEYLESS, True))


def not_run(call: pytest.CallInfo[None]) -> list[tuple[str, str]]:
    """Return the section of a failed test that lists skipped side effects and differences from the recording.

    The test may look for what one of them did: for the file that it wrote when it was recorded. A failure that is ours
    explains itself.
    """
    test = this_test()
    if test is None or call.excinfo is None or ours_in(call.excinfo.value) is not None:
        return []
    nondeterminism = dict.fromkeys(line for report in test.reports for line in report.nondeterminism)
    entropy = dict.fromkeys(line for report in test.reports for line in report.entropy)
    unobserved = dict.fromkeys(line for report in test.reports for line in report.unobserved)
    lines = [*not_run_in(test.reports), *not_as_recorded(nondeterminism, entropy, unobserved)]
    return [("AgentTape", line) for line in lines]


def not_run_in(reports: Sequence[Report]) -> list[str]:
    """Return the line that names the tools whose code did not run in some sessions; no line if there are none."""
    tools = dict.fromkeys(tool for report in reports for tool in report.not_run)
    return [side_effects_skipped(tools)] if tools else []


def _named_shortly(shown: Any, kind: type[BaseException]) -> TerminalRepr:
    """Leave out the module of an error: the summary has one line for it, even in CI."""
    whole, short = _names(kind)
    shown.reprcrash.message = shown.reprcrash.message.replace(whole, short, 1).partition("\n")[0]
    last = shown.reprtraceback.reprentries[-1]
    last.lines[:] = [line.replace(whole, short, 1) for line in last.lines]
    representation: TerminalRepr = shown
    return representation


def name_shortly(report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
    """Leave out the module of an error of ours from the summary's line in any style of tracebacks, including `no`."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if (
        crash is not None
        and call.excinfo is not None
        and isinstance(call.excinfo.value, AgentTapeError | AgentTapeHalt)
    ):
        crash.message = crash.message.replace(*_names(type(call.excinfo.value)), 1)


def _names(kind: type[BaseException]) -> tuple[str, str]:
    """Return the name of an error with its module and without, as they stand before its message."""
    return f"{kind.__module__}.{kind.__qualname__}: ", f"{kind.__qualname__}: "


def ours_in(error: BaseException) -> AgentTapeError | AgentTapeHalt | None:
    """Return the first of our errors in an exception: itself, or inside the group of a task group."""
    return next((found for found in _leaves(error) if isinstance(found, AgentTapeError | AgentTapeHalt)), None)


def is_of_the_test(error: BaseException) -> bool:
    """Return whether a failure is an assertion of the test: it judges results, and no call was cut short."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_of_the_test, error.exceptions))
    names = {str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(error.__traceback__)}
    inside = any(name.startswith(_OURS) and not name.startswith(_PLUGIN) for name in names)
    return isinstance(error, AssertionError | pytest.fail.Exception) and not inside


def is_expected(item: pytest.Item, error: BaseException) -> bool:
    """Return whether an error is the outcome of a test: it was skipped, or is marked to fail by such an error."""
    if isinstance(error, SKIPS | pytest.xfail.Exception):
        return True
    if not isinstance(error, Exception | pytest.fail.Exception) or ours_in(error) is not None:
        return False
    marker = _expected_by(item)
    return marker is not None and _matches(marker.kwargs.get("raises") or object, error)


def is_expected_again(item: pytest.Item, error: BaseException, session: Session) -> bool:
    """Return whether an error is the outcome of a test so surely that its recording may replace the one that there is.

    A skip may have cut it short, an error that the marker doesn't name too; an outage may be why it made no call, or
    why one failed or was given up. For a test of unittest, only pytest's own error is known, whatever it raised.
    """
    marker, of_unittest = _expected_by(item), issubclass(getattr(item, "cls", None) or object, unittest.TestCase)
    is_told = is_of_the_test(error) or (marker is not None and bool(marker.kwargs.get("raises")))
    outcomes = [call.outcome for call in session.ledger.executed()]
    is_whole = bool(outcomes) and not any(one.has_failed or one.given_up is not None for one in outcomes)
    return is_told and is_whole and not of_unittest and is_expected(item, error)


def _expected_by(item: pytest.Item) -> pytest.Mark | None:
    """Return the marker by which pytest expects a failure: the first of which a condition holds, if it has some."""
    ignores = getattr(item.config.option, "runxfail", True)  # without its plugin, no failure is expected
    for marker in () if ignores else item.iter_markers("xfail"):
        conditions = [marker.kwargs["condition"]] if "condition" in marker.kwargs else list(marker.args)
        if not all(isinstance(condition, bool) for condition in conditions):  # pytest evaluates texts
            return None
        if any(conditions) or not conditions:
            return marker
    return None


def _matches(raises: Any, error: BaseException) -> bool:
    """Return whether an error is one of a class or some, or what pytest's `RaisesExc` and `RaisesGroup` describe."""
    if isinstance(raises, type | tuple):
        return isinstance(error, raises)
    matches = getattr(raises, "matches", None)
    return matches is not None and bool(matches(error))


def fail_for_miss(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Fail a test that's marked `xfail` if its run was cut short by a miss: the expected failure isn't what happened.

    A marker with `raises=CassetteMissError` expects the miss itself.
    """
    halt = ours_in(call.excinfo.value) if call.excinfo is not None else None
    if not isinstance(halt, AgentTapeHalt):
        return
    expected: list[Any] = [marker.kwargs.get("raises") for marker in item.iter_markers("xfail")]
    classes = [kind for each in expected for kind in (each if isinstance(each, tuple) else (each,))]
    if not any(isinstance(kind, type) and issubclass(kind, AgentTapeHalt) for kind in classes):
        report.outcome = "failed"
        del report.wasxfail


def place_of(error: BaseException) -> str:
    """Return `file:line` of the innermost line of the project that led to an error; empty if there is none."""
    kept = _of_the_project(error.__traceback__)
    while kept is not None and kept.tb_next is not None:
        kept = kept.tb_next
    return f"{shown_path(kept.tb_frame.f_code.co_filename)}:{kept.tb_lineno}" if kept is not None else ""


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _of_the_project(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """Return those entries of a traceback that are lines of the project."""
    entries = []
    while traceback is not None:
        if _is_of_the_project(traceback.tb_frame):
            entries.append(traceback)
        traceback = traceback.tb_next
    kept: types.TracebackType | None = None
    for entry in reversed(entries):
        kept = types.TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _is_of_the_project(frame: types.FrameType) -> bool:
    if str(frame.f_globals.get("__name__")).startswith(_OURS):
        return False
    path = Path(frame.f_code.co_filename).resolve()
    return not any(path.is_relative_to(folder) for folder in _INSTALLED)
