"""The end of a recording: what was recorded becomes a cassette, or is put aside."""

from __future__ import annotations

from agenttape_core.engine import Mode
from agenttape_core.errors import shown_path
from agenttape_core.lifecycle.header import finished_header, with_environment, with_turns
from agenttape_core.lifecycle.open_session import Opened, Prepared, recoverable
from agenttape_core.matching import Order, Place
from agenttape_core.schema import Header, Interaction, Step, Timing
from agenttape_core.session import Session
from agenttape_core.storage import Carried, Cassette, Journal, leftover_journals, open_cassette, put_aside


def settle(opened: Opened, failed: BaseException | None) -> None:
    """Write what was recorded, or put it aside where the run failed.

    Args:
        opened: The session, which has ended.
        failed: The failure of the run, if it failed.

    Raises:
        CassetteWriteError: If the file cannot be written; a note says where the recording is kept.
    """
    journal = opened.journal
    if journal is None:
        return
    try:
        _settle(opened, journal, failed)
    except BaseException as error:
        left = journal.abandon(keep=True)
        if left is not None:
            error.add_note(f"AgentTape: {recoverable(left, journal.unkept)}")
        raise


def _settle(opened: Opened, journal: Journal, failed: BaseException | None) -> None:
    session = opened.session
    if _has_nothing_to_write(opened, journal):
        journal.abandon(keep=False)
    elif failed is None or opened.prepared.settings.on_error == "keep" or _keeps_first(opened, failed):
        unreadable = put_aside(journal.target, kept_in=journal.path) if opened.prepared.is_broken else None
        _commit(opened.prepared, session, journal)
        session.completed(open_cassette(journal.target), journal.target, unreadable)
        for superseded in leftover_journals(journal.target):
            superseded.unlink(missing_ok=True)
        if failed is not None and session.policy.records:
            failed.add_note(f"AgentTape: {shown_path(journal.target)} keeps what was recorded; the next run replays it")
    else:
        derives = opened.prepared.request.derivation is not None
        left = journal.abandon(keep=bool(session.report.executed) and (session.policy.records or derives))
        if left is not None:
            kept = recoverable(left, journal.unkept)
            target = shown_path(journal.target)
            failed.add_note(f"AgentTape: the run failed, so {target} was left as it was; {kept}")


def _keeps_first(opened: Opened, failed: BaseException) -> bool:
    """Return whether a recording is kept of a failed run: it is the only one, and the next run would be served it."""
    prepared, session = opened.prepared, opened.session
    adds = session.policy.records and session.policy.mode is not Mode.ALL
    is_first = prepared.cassette is None and not prepared.is_broken and adds
    is_whole = session.failure is None and not session.was_cut and session.report.executed
    return bool(is_first and is_whole and "on_error" not in prepared.request.options) and (
        prepared.request.keeps_first(failed)
    )


def _has_nothing_to_write(opened: Opened, journal: Journal) -> bool:
    session, request = opened.session, opened.prepared.request
    if request.leaves_empty and journal.is_empty and not (session.report.served or session.report.ran_through):
        return True
    return request.derivation is None and not session.report.executed and not session.policy.replaces


def _commit(prepared: Prepared, session: Session, journal: Journal) -> None:
    before = prepared.cassette
    header = _header(prepared, session)
    if before is None:
        journal.commit(finished_header(header, {}))
    elif prepared.request.derivation is None and session.policy.mode is Mode.NEW_EPISODES:
        volatile = before.header.volatile
        full = finished_header(header, volatile.timings, volatile.steps)
        journal.commit(full, _kept(before, session), session.ledger.standing_for)
    else:
        _carry_over(session, journal)
        journal.commit(finished_header(header, {}), standing_for=session.ledger.standing_for)


def _header(prepared: Prepared, session: Session) -> Header:
    """Return the header with what became known of the run."""
    header, derivation, frozen = prepared.header, prepared.request.derivation, session.frozen
    if frozen is not None and frozen.environment is not None:
        header = with_environment(header, frozen.environment.learned, prepared.redactor)
    if prepared.request.is_current:
        header = with_turns(header, session.turns.groups())
    if derivation is not None or not session.policy.records:
        header = header.model_copy(update={"derived_from": prepared.path.name})
    if derivation is not None and (origin := derivation.origin()) is not None:
        header = header.model_copy(update={"origin": prepared.redactor.value(origin)})
    return header


def _kept(before: Cassette, session: Session) -> list[Interaction | Step]:
    """Return the records of a cassette that stay beside new ones: all but those that were made anew, being live."""
    again = session.executed_live()
    records = (_as_now(session, record) for record in before.records())
    return [record for record in records if isinstance(record, Step) or record.fingerprint not in again]


def _as_now(session: Session, record: Interaction | Step) -> Interaction | Step:
    return record if isinstance(record, Step) else session.interaction_now(record.number)


def _carry_over(session: Session, journal: Journal) -> None:
    """Put what was served beside what was executed, each at its place in this run."""
    orders = dict(session.ledger.served_at)
    for number in session.used_numbers():
        item = session.interaction_now(number)
        if number not in orders:  # inside a recording that was served, where this run asked for nothing
            orders[number] = _below(orders.get(item.parent or 0, ()), number)
        timing = (session.timing_of(number) or Timing(duration_ms=0.0)).model_copy(update={"start_ms": None})
        journal.carry(Carried(item, timing, orders[number], inside=session.ledger.inside.get(number, 0)))


def _below(order: Order, number: int) -> Order:
    return (*order, Place(number))
