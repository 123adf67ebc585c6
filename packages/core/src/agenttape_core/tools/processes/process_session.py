"""The session of one process of a run, from the first thing that needs it to the end of the process."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import secrets
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from agenttape_core.errors import AgentTapeHalt, BudgetExceededError, CassetteError, counted, halt_in, shown_path
from agenttape_core.guard import OF_PROGRAM, SUBPROCESS
from agenttape_core.guard.caller import is_library
from agenttape_core.lifecycle.chosen_order import Imposing
from agenttape_core.lifecycle.entry_points import watch_broken
from agenttape_core.lifecycle.failed_blocks import watch_failed_blocks
from agenttape_core.lifecycle.missing import missing_packages
from agenttape_core.lifecycle.open_cassette import CassetteInUse, watch_sessions
from agenttape_core.lifecycle.open_session import open_session
from agenttape_core.lifecycle.patched_on_import import PatchedOnImport
from agenttape_core.lifecycle.project import Project, confine_process
from agenttape_core.lifecycle.remedy import is_ours
from agenttape_core.lifecycle.request import SessionRequest
from agenttape_core.lifecycle.running_test import FailedBlock, this_test
from agenttape_core.schema import asks_model
from agenttape_core.session import Session
from agenttape_core.session.executed_call import executing
from agenttape_core.session.listeners import NAMES
from agenttape_core.tools.processes.run_folder import ProcessReport, RunConfig, RunFolder, part_of
from agenttape_core.tools.processes.startup.agenttape_commands import what_runs

if TYPE_CHECKING:
    from agenttape_core.lifecycle.variation import Variation
    from agenttape_core.tools.budget import Budget
    from agenttape_core.tools.processes.startup.agenttape_startup import Process

# -- The end of a process's session, however the process itself ends.


exit_now = os._exit
_to_the_end = ExitStack()


def register_exit_hooks(process: Process) -> None:
    """Register hooks that end the session where `atexit` does not run: in forks, and at `os._exit`."""

    def leave(status: int) -> NoReturn:
        process.end_in_time()
        exit_now(status)

    sys.excepthook = _short(sys.excepthook)
    threading.excepthook = _noting(process, threading.excepthook)
    noting = PatchedOnImport("multiprocessing.process", "BaseProcess.run", partial(_running, process))
    _to_the_end.enter_context(noting)
    os._exit = leave
    if hasattr(os, "register_at_fork"):
        # After the hooks of file locks, which were registered first.
        os.register_at_fork(after_in_child=process.open_after_fork)


def _noting(process: Process, shown: Callable[[threading.ExceptHookArgs], Any]) -> Callable[..., Any]:
    """Return the hook of exceptions of threads, which adds the advice for an error about a missing key."""

    def show(args: threading.ExceptHookArgs, /) -> None:
        process.note_missing_key(args.exc_value)
        shown(args)

    return show


def _running(process: Process, run: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return the main function of the processes of `multiprocessing`, which prints exceptions without any hook."""

    def noting(self: Any) -> None:
        try:
            run(self)
        except Exception as error:
            process.note_missing_key(error)
            raise

    return noting


def _short(shown: Callable[..., Any]) -> Callable[..., Any]:
    """Show only the place at which a halt stopped a program: the command explains it at its end."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        halt = halt_in(error)
        if halt is None:
            shown(kind, error, trace)
            return
        why = "; the pool was stopped with it, as the call was refused in a worker" if halt.in_worker else ""
        sys.stderr.write(f"agenttape: the program was stopped{_place(trace)}{why}\n")

    return show


def _place(trace: TracebackType | None) -> str:
    """Return the last line of the program's own code that led to an error."""
    lines = [(frame, line) for frame, line in traceback.walk_tb(trace) if not is_ours(frame)]
    for frame, line in reversed(lines):
        file = Path(frame.f_code.co_filename)
        if not is_library(str(file)):
            return f" at {file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file}:{line}"
    return ""


def release_waiting_parent(process: Process) -> None:
    """Terminate the owner of a `multiprocessing.Pool` whose worker a halt has ended: it would wait forever."""
    multiprocessing: Any = sys.modules.get("multiprocessing.process")
    owner = multiprocessing.parent_process() if multiprocessing is not None else None
    if owner is None or process.is_terminated or "PoolWorker" not in multiprocessing.current_process().name:
        return
    process.note("the pool was stopped: it would have waited forever for a worker that is gone")
    os.kill(owner.pid, signal.SIGTERM)


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Hold back signals that end the process until the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) is not None  # None: a handler in C, which Python could not restore
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


_CASSETTE = 3
_KNOWN = 10
"""The number of sessions of a program that are known by their cassettes: a server may open one for each request."""
_watched: list[Process] = []  # processes with exit hooks: a fork inherits its parent's


def _request(config: RunConfig, address: str, member: str, has_others: Callable[[], bool]) -> SessionRequest:
    """Return the session of a process: one of several may have no recordings, and each writes its own part."""
    own, project = config.cassette_of(address), Path(config.project)
    unrecorded, recorded = config.remedies
    oracle: dict[str, Any] = {}
    if config.oracle:
        from agenttape_core.tools.oracle import fakes_of  # most commands have none

        oracle = fakes_of(config.oracle, [own] if own.exists() else [])
    return SessionRequest(
        cassette=own,
        options={**config.options, "on_error": "keep"},  # the command as a whole decides what becomes of it
        # Starting a process does not reach the outside by itself: the started one is guarded as well.
        added={"allow_hosts": [f"{OF_PROGRAM}{SUBPROCESS}", *oracle.get("allow_hosts", ())]},
        fakes=oracle.get("fakes", {}),
        remedy=lambda there: recorded if there else unrecorded,
        project=Project(project, replays_only=config.replays_only),
        may_be_missing=True,  # another process has recorded one: each call of this one is then a miss
        leaves_empty=True,
        has_others=has_others,
        is_of_process=True,
        write_to=part_of(own, member),
        shown_as=config.shown(own) if Path.cwd() == project else own,
        key=config.key,
        process=member if address else "",  # several may share a cassette
    )


class ProcessSession:
    """The session of one process."""

    def __init__(self, run_folder: RunFolder, process: Process) -> None:
        config = run_folder.config()
        member = _member(run_folder, process)
        self._own: dict[str, None] = {}
        """The cassettes of the sessions that the program has opened itself, and made calls in."""
        request = _request(config, process.address, member, lambda: bool(self._own))
        self._varied: Variation | None = None
        if config.varied and not process.address:
            from agenttape_core.tools.processes.run_folder import unpacked  # most commands aren't varied

            self._varied = unpacked(config.varied)
            request = self._varied.replayed_by(request._replace(write_to=None))
        watch_sessions(self._note_own)
        if config.confines and request.project is not None:
            confine_process(request.project._replace(replays_only=True))  # for the sessions that it opens itself
            watch_failed_blocks(self._note_failed)
        self._first_failed = ""
        self._failed = 0
        self._budget = _held_to(config.max_usd, request)
        self._run_folder = run_folder
        self._process = process
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._report = ProcessReport(
            os.getpid(), process.address, member, "" if self._varied is not None else str(request.write_to)
        )
        run_folder.write_report(self._name, self._report)  # first: a process that is killed must be known
        watch_broken(process.refuse)
        self._in_use = CassetteInUse(open_session(request))
        self._in_use.enter()
        run_folder.write_report(self._name, dataclasses.replace(self._report, state="open"))

    def end(self) -> None:
        """Close the session, and write the report on it."""
        with signals_blocked():
            self._in_use.leave()
            self._in_use.settle(None)
            failed = self._in_use.failure
            if self._varied is not None:
                self._run_folder.write_end(self._end_of(self._varied, failed))
            self._run_folder.write_report(self._name, self._report_of(self._in_use.session, failed))
        if isinstance(failed, AgentTapeHalt):
            release_waiting_parent(self._process)

    def is_in_call(self) -> bool:
        """Return True if the caller runs for a call that is executed: what that does is recorded, or open to it."""
        call = executing()
        return call is not None and call.is_real

    def _note_own(self, session: Session) -> None:
        """Note a session of the program itself, as opposed to one of the test or of the process."""
        report = session.report
        is_busy = bool(report.replayed or report.recorded or report.stepped_into)
        is_own = this_test() is None and session is not self._in_use.session
        if is_busy and is_own and len(self._own) < _KNOWN:
            self._own[str(shown_path(session.path))] = None

    def _note_failed(self, block: FailedBlock) -> None:
        """Note that a block of the command has failed: it may catch that. Those of a test are the test's business."""
        if this_test() is None:
            self._first_failed = self._first_failed or block.said
            self._failed += 1

    def _failed_blocks(self) -> str:
        """Return the message of the first block of the command that has failed, and how many more have."""
        others = self._failed - 1
        more = f"\n  and so did {counted(others, 'other block')} of the command" if others > 0 else ""
        return f"{self._first_failed}{more}"

    def _report_of(self, session: Session, failed: BaseException | None) -> ProcessReport:
        report = session.report
        return dataclasses.replace(
            self._report,
            state="ended",
            replayed=[call_record.number for call_record in report.replayed],
            stepped_into=[call_record.number for call_record in report.stepped_into],
            elsewise=[one.number for one in (*report.replayed, *report.stepped_into) if one.match_rule == "address"],
            not_run=list(map(str, report.not_run)),
            recorded=len(report.recorded),
            asked=sum(asks_model(item.kind, item.request) for item in session.ledger.executed()),
            unused={call_record.number: str(call_record) for call_record in report.judged},
            missed=list(report.missed),
            unrecorded=list(map(str, report.unrecorded)),
            unrecorded_calls=[call.to_dict() for call in report.unrecorded],
            blocked=list(report.blocked),
            uncovered=list(report.uncovered),
            nondeterminism=list(report.nondeterminism),
            entropy=list(report.entropy),
            unobserved=list(report.unobserved),
            missing=missing_packages(),
            unmatched=session.extension(NAMES).unmatched(),
            failure=str(failed) if failed is not None else self._failed_blocks(),
            problem=isinstance(failed, CassetteError),
            spent=self._budget.spent if self._budget is not None else 0.0,
            is_over_budget=isinstance(failed, BudgetExceededError),
            failed_blocks=self._failed_blocks(),
            own=list(self._own),
        )

    def _end_of(self, varied: Variation, failed: BaseException | None) -> str:
        """Return the end of a varied session for the process that began the command."""
        from agenttape_core.tools.processes.run_folder import SessionEnd, packed

        changes = {number: str(one.change) for number, one in self._in_use.changes.items()}
        end = SessionEnd(self._in_use.session.report, changes, failed)
        if isinstance(varied.order, Imposing):
            end = end._replace(choices=varied.order.choices, rows=tuple(varied.order.rows))
        try:
            return packed(end)
        except Exception:  # noqa: BLE001 - the error of a user's class
            return packed(end._replace(failure=AgentTapeHalt(str(failed))))

    def forget_after_fork(self) -> None:
        """Leave the session to the parent of this forked process."""
        self._in_use.abandon()


def _held_to(max_usd: float | None, request: SessionRequest) -> Budget | None:
    """Hold the calls of models of this process to a limit, if there is one."""
    if max_usd is None or request.project is None:
        return None
    from agenttape_core.tools.budget import Budget
    from agenttape_core.tools.reading.prices import load_prices

    return Budget(max_usd, load_prices(request.project.settings({}).prices)).watch()


def open_process_session(process: Process) -> ProcessSession:
    """Open the session of a process. Without one, it ends: it would run unrecorded or unguarded."""
    run_folder = RunFolder(Path(process.folder))
    try:
        session = ProcessSession(run_folder, process)
    except CassetteError as error:
        _refuse(run_folder, process, error)
    if process not in _watched:
        _watched.append(process)
        register_exit_hooks(process)
    return session


def _member(run_folder: RunFolder, process: Process) -> str:
    """Return the name of this process among those at its address: its arguments, then the order in which they began."""
    if not process.address:
        return "main"
    # A fork has the arguments of its parent. Only the last parts of paths count: temporary folders differ in each run.
    arguments = [] if process.is_fork else [os.path.basename(word) for word in what_runs(sys.orig_argv)[2]]  # noqa: PTH119
    words = hashlib.sha256("\0".join(arguments).encode(errors="replace")).hexdigest()[:6] if arguments else ""
    number = run_folder.claim(process.address, words)
    return f"{words}-{number}" if words else str(number)


def _refuse(run_folder: RunFolder, process: Process, error: CassetteError) -> NoReturn:
    report = ProcessReport(os.getpid(), process.address, "", "", state="ended", failure=str(error), problem=True)
    run_folder.write_report(f"{os.getpid()}-refused", report)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # a closed stream loses nothing that could be seen
            stream.flush()
    exit_now(_CASSETTE)
