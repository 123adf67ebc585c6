"""The end of a recording: the recorded calls become a cassette, or are put aside."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path

from agenttape_core.engine import Mode
from agenttape_core.errors import counted, how_to_recover, shown_path
from agenttape_core.lifecycle.everywhere import ReplacedEverywhere
from agenttape_core.lifecycle.header import finished_header, with_beginning, with_environment, with_order, with_readings
from agenttape_core.lifecycle.open_session import lost_records, recoverable
from agenttape_core.lifecycle.prepared import Prepared
from agenttape_core.lifecycle.running_test import this_test
from agenttape_core.lifecycle.start_session import Opened
from agenttape_core.matching import Order, SiblingPosition
from agenttape_core.schema import PURE_KINDS, Header, Interaction, Step, Timing
from agenttape_core.session import Session, runs
from agenttape_core.storage import (
    Carried,
    Cassette,
    Journal,
    Retaken,
    is_pending,
    leftover_journals,
    open_cassette,
    put_aside,
    real_location,
)
from agenttape_core.storage.pending import remove_pending


def settle(opened: Opened, failed: BaseException | None) -> None:
    """Write the recorded calls, or put them aside if the run failed.

    Raises `CassetteWriteError` if the file can't be written; a note shows where the recording is kept.
    """
    journal = opened.journal
    if journal is None:  # one that only replays
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
    elif failed is None or opened.prepared.settings.on_error == "keep" or _keeps_failed(opened, failed):
        unreadable = put_aside(journal.target, kept_in=journal.path) if opened.prepared.is_broken else None
        _commit(opened.prepared, session, journal)
        session.source, session.written, session.put_aside = open_cassette(journal.target), journal.target, unreadable
        for superseded in leftover_journals(journal.target) if not journal.is_unique else ():
            superseded.unlink(missing_ok=True)
        _note_pending(opened.prepared, session)
        if failed is not None:
            kept = "what was recorded; the next run replays it" if session.policy.records else "what this run did"
            failed.add_note(f"AgentTape: {shown_path(journal.target)} keeps {kept}")
    else:
        derives = opened.prepared.request.derivation is not None
        left = journal.abandon(keep=bool(session.report.recorded) and (session.policy.records or derives))
        if left is not None:
            target = shown_path(journal.target)
            what = f"{target} is unchanged." if opened.prepared.cassette is not None else f"There is still no {target}."
            calls = counted(len(session.report.recorded), "call")
            whole = journal.target
            named = whole if isinstance(whole, Path) and left in leftover_journals(whole) else left
            kept = f"keep the {calls} recorded so far:  {how_to_recover(named)}{lost_records(journal.unkept)}"
            failed.add_note(f"AgentTape: nothing was saved, because the run failed. {what}\n  {kept}")


def _note_pending(prepared: Prepared, session: Session) -> None:
    """Let a replay check find a waiting recording, and drop one that is older than the recording in its place."""
    path, written = prepared.path, session.written
    if isinstance(written, Path) and is_pending(written.name):
        if (test := this_test()) is not None:
            test.pending[path] = written
    elif (
        isinstance(path, Path)
        and written == real_location(path)
        and (session.policy.replaces or session.policy.updates)
    ):
        remove_pending(path)


def _keeps_failed(opened: Opened, failed: BaseException) -> bool:
    """Return whether the recording of a failed run is kept, if the option isn't set.

    A first one is if the next run would get it. The record of a replay with live calls, which doesn't replace a
    cassette, and contains the reason why the run failed.
    """
    if "on_error" in opened.prepared.request.options:
        return False
    if not opened.session.policy.records and opened.prepared.request.derivation is None:
        return True
    return _keeps_first(opened, failed)


def _keeps_first(opened: Opened, failed: BaseException) -> bool:
    prepared, session = opened.prepared, opened.session
    adds = session.policy.records and session.policy.mode is not Mode.RECORD
    is_first = prepared.cassette is None and not prepared.is_broken and adds
    is_whole = session.failure is None and not session.was_cut and session.report.recorded
    return bool(is_first and is_whole) and prepared.request.keeps_first(failed)


def _has_nothing_to_write(opened: Opened, journal: Journal) -> bool:
    session, request = opened.session, opened.prepared.request
    if request.leaves_empty and journal.is_empty and not (session.report.replayed or session.report.stepped_into):
        return not (session.policy.replaces and request.has_others())
    if request.derivation is not None or session.report.recorded or session.policy.replaces:
        return False
    if session.policy.updates:
        left = {one.interaction.number for one in opened.prepared.left_over}
        return not (session.ledger.again or _dropped(session) or left.intersection(runs.used_numbers(session)))
    before = opened.prepared.cassette
    return before is None or not session.policy.adds or not _has_new_runs(session, before)


def _dropped(session: Session) -> list[int]:
    """Return the recordings that an update drops because no call used them."""
    stay = set(_left_alone(session))
    return [one.number for one in session.report.unused if one.number not in stay]


def _left_alone(session: Session) -> list[int]:
    """Return the recordings that stay although no call used them.

    An embedding may be there for a store that is built once in a process, by whoever comes first. It is removed if this
    run also embedded texts, and different ones.
    """
    if not session.policy.updates:
        return []
    pure = PURE_KINDS - {call_record.kind for call_record in session.report.recorded}
    return [one.number for one in session.report.unused if one.kind in pure]


def _has_new_runs(session: Session, before: Cassette) -> bool:
    """Return whether a run was taken whose beginning isn't recorded, although its calls are: the earlier run died.

    A run with the same calls as a finished one counts as that one with another input.
    """
    addresses = {row.number: row.address for row in before.entries}
    new = session.ledger.runs - {_run(address) for address in (*before.step_addresses(), *addresses.values())}
    ended = {step.address for step in before.outermost_steps() if step.status != "open"} if new else set()
    replayed = (*session.report.replayed, *session.report.stepped_into)
    return bool(new - {_run(one.address) for one in replayed if _run(addresses[one.number]) in ended})


def _run(address: str) -> str:
    return address.partition("/")[0]


def _commit(prepared: Prepared, session: Session, journal: Journal) -> None:
    before = prepared.cassette
    finishing = ReplacedEverywhere(prepared.redactor, session.setup.ignored)
    header = finishing.header(_header(prepared, session))
    if before is None:
        journal.commit(finished_header(header, {}), finishing=finishing)
    elif prepared.request.derivation is None and session.policy.adds:
        volatile = before.header.volatile
        full = finished_header(header, volatile.timings, volatile.steps)
        ledger = session.ledger
        remade = _remade(before, session)
        retaken = Retaken(ledger.replayed_at, ledger.inside, remade)
        kept = finishing.records(_kept(before, session, remade))
        journal.commit(full, kept, ledger.standing_for, retaken, finishing=finishing)
    else:
        _carry_over(session, journal)
        journal.commit(finished_header(header, {}), standing_for=session.ledger.standing_for, finishing=finishing)


def _header(prepared: Prepared, session: Session) -> Header:
    """Return the header with what became known of the run."""
    header, derivation, frozen = prepared.header, prepared.request.derivation, session.frozen
    if frozen is not None and frozen.environment is not None:
        header = with_environment(header, frozen.environment.learned, prepared.redactor)
    if frozen is not None:
        header = with_readings(header, frozen.readings())
    if prepared.request.is_current:
        header = with_order(header, session.scheduler.order())
    if session.policy.records:
        begun, anew = session.first_input.begun, session.policy.updates
        header = with_beginning(header, session.report.run_id, begun, prepared.redactor, anew=anew)
    if derivation is not None or not session.policy.records:
        header = header.model_copy(update={"derived_from": prepared.path.name})
    if prepared.candidates is not None and not session.policy.records:
        header = header.model_copy(update={"origin": {"candidate": prepared.candidates.described()}})
    if derivation is not None and (origin := derivation.origin()) is not None:
        header = header.model_copy(update={"origin": prepared.redactor.value(origin)})
    return header


def _kept(before: Cassette, session: Session, remade: Mapping[int, int]) -> list[Interaction | Step]:
    """Return the records of a cassette that stay beside new ones, and those in whose place a new one comes.

    Live calls that were made less often than before lose the surplus recordings.
    """
    again = _executed_live(session)
    records = (_as_now(session, record) for record in before.records())
    return [
        record
        for record in records
        if isinstance(record, Step) or record.number in remade or record.fingerprint not in again
    ]


def _executed_live(session: Session) -> set[str]:
    """Return the fingerprints of live calls that were made and have ended."""
    return {
        item.fingerprint
        for item in session.ledger.executed()
        if session.policy.is_live(item.kind, item.name, item.address)
    }


def _remade(before: Cassette, session: Session) -> dict[int, int]:
    """Return the number, in this run, of the call that replaces each recorded one that is live.

    A call at the same address comes first, then those that are left, in their order.
    """
    again = _executed_live(session)
    new = [item for item in session.ledger.executed() if item.fingerprint in again]
    remade: dict[int, int] = {}
    for key in (attrgetter("fingerprint", "address"), attrgetter("fingerprint")):
        for row in before.entries:
            found = next((item for item in new if row.number not in remade and key(item) == key(row)), None)
            if found is not None:
                remade[row.number] = found.number
                new.remove(found)
    return remade


def _as_now(session: Session, record: Interaction | Step) -> Interaction | Step:
    return record if isinstance(record, Step) else runs.interaction_now(session, record.number)


def _carry_over(session: Session, journal: Journal) -> None:
    """Combine replayed, kept and new calls, each at its place in this run."""
    orders = dict(session.ledger.replayed_at)
    for number in sorted({*runs.used_numbers(session), *_left_alone(session)}):
        item = runs.interaction_kept(session, number)
        if number not in orders:  # inside a recording that was replayed, or one that this run did not ask for
            orders[number] = _below(orders.get(item.parent or 0, ()), number)
        timing = (session.recordings.timing_of(number) or Timing(duration_ms=0.0)).model_copy(update={"start_ms": None})
        journal.carry(Carried(item, timing, orders[number], inside=session.ledger.inside.get(number, 0)))


def _below(order: Order, number: int) -> Order:
    return (*order, SiblingPosition(number))
