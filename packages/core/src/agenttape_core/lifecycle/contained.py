"""Blocks around programs that are replayed for an experiment: sessions that the program opens itself only replay."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING
from weakref import WeakSet

from agenttape_core.garbage import ASIDE
from agenttape_core.lifecycle.failed_blocks import watching_failed_blocks
from agenttape_core.lifecycle.presence import PRESENCE
from agenttape_core.lifecycle.project import replaying_only
from agenttape_core.lifecycle.use_cassette import CassetteBlock
from agenttape_core.scheduling import SCOPES

if TYPE_CHECKING:
    from agenttape_core.lifecycle.open_cassette import CassetteInUse
    from agenttape_core.lifecycle.request import SessionRequest
    from agenttape_core.lifecycle.running_test import FailedBlock
    from agenttape_core.lifecycle.start_session import Opened
    from agenttape_core.session import Session

_running: WeakSet[Session] = WeakSet()  # the sessions of these blocks


class ContainedBlock(CassetteBlock):
    """A block in which the sessions that the program opens itself only replay, whatever mode it gives them.

    Without it, a `mode="once"` in the program would execute and record, in a run that must not execute any call. It
    holds for the whole process, since threads don't inherit it by default.
    """

    def __init__(self, request: SessionRequest) -> None:
        super().__init__(request)
        self.failed: list[FailedBlock] = []  # those that have failed. The program may have caught that.
        self.has_calls = False  # true if the session, which has ended, has replayed a call
        self._around = ExitStack()

    def _enter(self, opened: Opened) -> Session:
        # To look at all objects for streams that aren't read takes longer than many a run. Where other sessions are
        # open, what is there may be theirs.
        has_aside = (ASIDE.is_on or not SCOPES.open()) and ASIDE.begin()
        try:
            session = super()._enter(opened)
        except BaseException:
            if has_aside:
                with ASIDE.ended():
                    raise
            raise
        _running.add(session)
        session.extension(PRESENCE).contains_program(has_aside=has_aside)
        self._around.enter_context(replaying_only(everywhere=True))
        self._around.enter_context(watching_failed_blocks(self._note))
        return session

    def _did_not_begin(self, error: BaseException) -> None:
        self._around.close()
        super()._did_not_begin(error)

    def _end(self) -> CassetteInUse:
        self._around.close()
        used = super()._end()
        report = used.session.report
        self.has_calls = bool(report.replayed or report.stepped_into)
        return used

    def _note(self, block: FailedBlock) -> None:
        if block.session in _running:
            return  # that of another run, in a thread beside this one
        self.failed.append(block._replace(session=None))  # which would live as long as the account
