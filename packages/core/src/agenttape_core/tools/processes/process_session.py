"""The session of one process of a run, from the first thing that needs it to the end of the process."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from agenttape_core.engine import Mode, Policy
from agenttape_core.errors import AgentTapeError, AgentTapeHalt, CassetteError, CassetteNotFoundError
from agenttape_core.guard import SUBPROCESS
from agenttape_core.lifecycle.open_session import Use
from agenttape_core.session import Session
from agenttape_core.settings import Settings, load_settings, replay_only
from agenttape_core.storage import Cassette, Location
from agenttape_core.tools.processes.run_folder import Account, Orders, Papers, part_of
from agenttape_core.tools.processes.shutdown import die, end_in_any_case, stop_who_waits, undisturbed
from agenttape_core.tools.processes.startup.agenttape_startup import what_runs

if TYPE_CHECKING:
    from agenttape_core.tools.processes.startup.agenttape_startup import Process

_CASSETTE = 3
_watched: list[Process] = []
"""Those whose end is seen to already: a fork inherits that."""


class _Use(Use):
    """The use of a cassette by a process: one of several may have no recordings, and each writes a part of its own."""

    def __init__(self, orders: Orders, address: str, member: str) -> None:
        self._project = Path(orders.project)
        self._own = orders.cassette_of(address)
        self.part = part_of(self._own, member)
        self._first_key = orders.key
        self._shown = orders.shown(self._own) if Path.cwd() == self._project else self._own
        options = {**orders.options, "on_error": "keep"}  # whether it is the cassette's, the command as a whole decides
        unrecorded, recorded = orders.remedies
        super().__init__(
            self._own, options, redact=True, ambient=True, remedy=lambda there: recorded if there else unrecorded
        )

    def prepare(self) -> None:
        super().prepare()
        self._path = self._session.path = self._shown

    def settle(self, error: BaseException | None) -> None:
        """Write what was recorded; a process that asked for nothing leaves nothing."""
        report = self._session.report
        if self._journal is not None and not report.executed and not report.served:
            self._journal.abandon(keep=False)
        else:
            super().settle(error)

    @property
    def problem(self) -> AgentTapeError | AgentTapeHalt | Exception | None:
        """What failed first, whether or not somebody caught it."""
        return self._session.failure or self._problem

    def _chosen(self) -> Settings:
        chosen = load_settings(self._project).chosen(self._options)
        # Who starts a process does not reach the outside by it: what it starts is guarded as well.
        return chosen.model_copy(update={"egress": (*chosen.egress, SUBPROCESS)})

    def _read(self, mode: Mode) -> Cassette | None:
        try:
            return super()._read(mode)
        except CassetteNotFoundError:
            return None  # another process has recorded one: each call of this one is a miss

    def _target(self, policy: Policy) -> Location:  # noqa: ARG002 - whether it is derived, is seen when parts are joined
        return self.part


class Taking:
    """A session that was taken by a process.

    Args:
        papers: Those of the run.
        process: The process.
    """

    def __init__(self, papers: Papers, process: Process) -> None:
        orders = papers.orders()
        if orders.replays_only:
            replay_only(Path(orders.project))
        member = _member(papers, process)
        self._papers = papers
        self._process = process
        self._use = _Use(orders, process.address, member)
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._account = Account(os.getpid(), process.address, member, str(self._use.part))
        papers.tell(self._name, self._account)  # first of all: whoever is killed then leaves nothing unknown
        self._use.prepare()
        session = self._use.session
        if process.address:  # several may share a cassette, in which each has a place of its own
            session.root = session.root.child(f"process {member}")
        self._use.enter()
        if process.address and session.frozen is not None:
            session.frozen.seed = f"{session.frozen.seed}:{member}"  # or all would make the same ids
        papers.tell(self._name, dataclasses.replace(self._account, state="open"))

    def end(self) -> None:
        """Close the session, and tell what became of it."""
        with undisturbed():
            self._use.leave()
            self._use.settle(None)
            failed = self._use.problem
            self._papers.tell(self._name, self._account_of(self._use.session, failed))
        if isinstance(failed, AgentTapeHalt):
            stop_who_waits(self._process)

    def _account_of(self, session: Session, failed: BaseException | None) -> Account:
        report = session.report
        return dataclasses.replace(
            self._account,
            state="ended",
            served=[crossed.number for crossed in report.served],
            executed=len(report.executed),
            unused={crossed.number: str(crossed) for crossed in report.unused},
            missed=list(report.missed),
            drift=list(report.drift),
            blocked=list(report.blocked),
            unmatched=session.unmatched(),
            failure=str(failed) if failed is not None else "",
            problem=isinstance(failed, CassetteError),
        )

    def disown(self) -> None:
        """Leave the session to the process that this one was forked from."""
        self._use.leave()
        self._use.abandon()


def take(process: Process) -> Taking:
    """Open the session of a process.

    A process that cannot have one ends at once: it would run unrecorded, or unguarded.

    Args:
        process: The process.
    """
    papers = Papers(Path(process.folder))
    try:
        taking = Taking(papers, process)
    except AgentTapeError as error:
        _refuse(papers, process, error)
    if process not in _watched:
        _watched.append(process)
        end_in_any_case(process)
    return taking


def _member(papers: Papers, process: Process) -> str:
    """Return which one of the processes at an address this is: by its arguments, then by who came first."""
    if not process.address:
        return "main"
    # A fork has the arguments of another one. And they are no paths all, but those of temporary files differ.
    arguments = [] if process.is_fork else [os.path.basename(word) for word in what_runs(sys.orig_argv)[2]]  # noqa: PTH119
    words = hashlib.sha256("\0".join(arguments).encode(errors="replace")).hexdigest()[:6] if arguments else ""
    number = papers.claim(process.address, words)
    return f"{words}-{number}" if words else str(number)


def _refuse(papers: Papers, process: Process, error: AgentTapeError) -> NoReturn:
    account = Account(os.getpid(), process.address, "", "", state="ended", failure=str(error), problem=True)
    papers.tell(f"{os.getpid()}-refused", account)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed, or gone: nobody would see what is left in it anyway
            stream.flush()
    die(_CASSETTE)
