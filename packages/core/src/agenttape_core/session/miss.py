"""A call that has no recording: the miss, with its reason, the nearest recording, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isclose
from typing import TYPE_CHECKING, Any, NoReturn

from agenttape_core.engine import Refuse
from agenttape_core.errors import CassetteError, CassetteMissError, UnrecordedCallError, counted, shown_path
from agenttape_core.matching import CanonicalRequest, Ignored, Position
from agenttape_core.schema import GAP, is_gap_of
from agenttape_core.session.hash_seed import advice
from agenttape_core.session.ports import Source
from agenttape_core.session.report import CallRecord, UnrecordedCall
from agenttape_core.session.sources import held

if TYPE_CHECKING:
    from agenttape_core.matching import Nearest  # a miss is rare
    from agenttape_core.session.session import Session  # the type alone: it misses calls by what is here

_SHOWN = 10  # the most unused recordings that are listed
_UNFROZEN = (
    "the run was recorded by a handler, which freezes nothing: a request with a time or a random number in it is "
    "another one now"
)
_PICKED = (
    "so is one with elements picked from a set: their order goes by the hash seed (PYTHONHASHSEED), and by ids that "
    "were drawn at random"
)
_ORDERED = "record it with use_cassette:  a handler freezes no ids, and those in a set change its order under any seed"
_FREEZING = "record it with use_cassette:  it freezes the clock, ids and random numbers"
_ANY = "Any of these helps:"
_ROUNDING = "The numbers differ in their last digits only, as on another machine or with another version of a library."
_readers: list[Callable[[str], str | None]] = []
_run_readers: list[Callable[[Any, str], Sequence[str]]] = []


def register_address_reader(reader: Callable[[str], str | None]) -> None:
    """Register how an integration reads an address in the words of its framework, for a miss.

    Args:
        reader: Returns the words for an address, or `None` for one that is not of its framework.
    """
    _readers.append(reader)


def register_run_reader(reader: Callable[[Any, str], Sequence[str]]) -> None:
    """Register how an integration explains, for a miss, the differences in the run around an address.

    Args:
        reader: Returns a line for each difference, given the session and the address.
    """
    _run_readers.append(reader)


def miss_of(
    session: Session, request: CanonicalRequest, position: Position, reason: str, *, lossy: bool = False
) -> UnrecordedCallError:
    """Raise the miss of a call, or return the equivalent error if the run is to continue.

    `reason` is why it may be neither replayed nor executed; with `lossy`, there is a recording that is not exact.
    Raises `CassetteMissError` if a miss ends the run.
    """
    summary = f"{request.name} {reason}"
    near = nearest_to(session.source, request, position.address, session.setup.ignored) if not lossy else None
    if session.policy.on_miss == "raise":
        _raise_miss(session, request, position, (summary, reason), near)
    found = None if isinstance(near, str) else near
    unrecorded = UnrecordedCall(
        summary,
        kind=request.kind,
        name=request.name,
        address=position.address,
        reason=reason,
        request=request.body,
        nearest=found.row.number if found is not None else None,
        differences=differing_parts(found),
    )
    session.report.add_failure(unrecorded=unrecorded)
    for listener in session.listeners:
        listener.missed(request, position, found, is_fatal=False)
    is_read = request.kind == "tool" or session.setup.candidates is not None
    return UnrecordedCallError(summary, session.setup.unavailable if is_read else None)


def _raise_miss(
    session: Session, request: CanonicalRequest, position: Position, words: tuple[str, str], near: Nearest | str | None
) -> NoReturn:
    """Raise a miss that explains itself, and remember it even if someone eats it."""
    setup, address, path = session.setup, position.address, shown_path(session.path)
    recorded, (summary, reason) = counted(held(setup.source), "call"), words
    mode = session.policy.mode.value
    doing = "replaying" if mode == "replay" else f"mode {mode}"
    lines = [
        f"cassette  {path} ({recorded}, {doing})",
        *explanation(
            session.source,
            request,
            address,
            setup.remedy,
            near=near,
            around=[line for reader in _run_readers for line in reader(session, address)],
            hash_seed=setup.hash_seed,
            zone=setup.zone,
        ),
    ]
    found = None if isinstance(near, str) else near
    miss = CassetteMissError(
        summary,
        "\n" + "\n".join(f"  {line}".rstrip() for line in lines),
        kind=request.kind,
        name=request.name,
        address=address,
        reason=reason,
        cassette=path,
        nearest=found.row.number if found is not None else None,
        differences=differing_parts(found),
    )
    session.report.add_failure(missed=f"{summary} (at {address})")
    for listener in session.listeners:
        listener.missed(request, position, found, is_fatal=True)
    session.latch.keep(miss)
    raise miss


def differing_parts(found: Nearest | None) -> list[tuple[str, Any, Any]]:
    """Return the parts in which a request differs from the nearest one: path, as recorded, as asked."""
    return [(part.path, part.recorded, part.asked) for part in found.found] if found is not None else []


def refusal_reason(refusal: Refuse, known: int, bar: str) -> str:
    """Return in a few words why a call may be neither replayed nor executed.

    `known` counts the recordings of the request, used or not; `bar` is the reason why the boundary is only ever
    replayed, empty if it might be executed.
    """
    if refusal.found is not None:
        return f"was recorded incompletely (call {refusal.found.number}): {refusal.found.lossy}"
    if known:
        times = "once" if known == 1 else f"{known} times"
        return f"was called again with a request that was recorded only {times}"
    return f"was called with a request that isn't in the cassette{f' ({bar})' if bar else ''}"


def nearest_to(source: Source, request: CanonicalRequest, address: str, ignored: Ignored) -> Nearest | str:
    """Return the recording nearest to a call that has none, or else a line with the reason why there's none.

    `ignored` request paths are not compared.
    """
    from agenttape_core.matching import nearest  # a miss is rare

    try:
        near = nearest(request, address, source.entries, lambda number: source.interaction(number).request, ignored)
    except CassetteError as error:  # a record that cannot be read must not hide the miss
        return f"closest   unknown: {error}"
    why = "; nodes are recorded only if replay_nodes names them then" if request.kind == "node" else ""
    return near if near is not None else f"closest   none: no {request.kind} call was recorded{why}"


def explanation(
    source: Source,
    request: CanonicalRequest,
    address: str,
    remedy: Callable[[], Sequence[str]],
    *,
    near: Nearest | str | None,
    around: Sequence[str] = (),
    hash_seed: int | None = None,
    zone: str = "",
) -> list[str]:
    """Return the lines of a miss below the first.

    `remedy` returns lines on how to record the call; `near` is the nearest recording, or a line on why there's none;
    `None` if there's a lossy one. `around` has lines on how the run around the call differs from the recorded one;
    `hash_seed` is the recording's, if it's known; `zone` is a sentence on how the local time zone differs.
    """
    if near is None:
        lossy = 'accept the incomplete recording:  use_cassette(..., accept={"lossy"})'
        return ["", *_aligned([lossy, *remedy()[:1]])]
    words = next((words for reader in _readers if (words := reader(address)) is not None), None)
    place = f" in {words}" if words is not None else "" if address == request.name else f" at {address}"
    is_permuted = not isinstance(near, str) and near.is_permuted
    missing, was_observed = _missing(source, request, address, is_permuted=is_permuted)
    zone_line = [f"{'zone':<10}{zone}"] if zone else []
    if isinstance(near, str):
        causes, todo = zone_line, _intents(remedy())
    elif is_permuted:
        causes, todo = zone_line, _on_order(hash_seed, remedy(), was_observed=was_observed)
    else:
        causes, todo = _on_values(near, request, remedy(), zone, was_observed=was_observed)
    return [
        f"{'call':<10}{request.kind} {request.name}{place}",
        *(f"{'run' if number == 0 else '':<10}{line}" for number, line in enumerate(around)),
        *([near] if isinstance(near, str) else near.lines()),
        *missing,
        *causes,
        "",
        *todo,
    ]


def _intents(remedies: Sequence[str], *more: str) -> list[str]:
    """Return a command for each thing that a reader may want; `remedies` has the one that records all again first."""
    if len(remedies) != _BOTH:
        return _aligned(remedies)
    again, update = remedies
    undo = "undo the change; the traceback shows the line that made this call"
    return ["Did you mean to change this?", *_aligned([f"yes, {update}", f"yes, {again}", f"no:  {undo}", *more])]


_BOTH = 2  # the remedies of a program that can be run again: record everything, or only what changed


def _aligned(lines: Sequence[str]) -> list[str]:
    """Return lines of a label and a command, with the commands in one column."""
    pairs = [line.partition(":  ") for line in lines]
    width = max((len(label) for label, colon, _ in pairs if colon), default=0) + 3
    return [f"  {f'{label}:':<{width}}{command}" if colon else f"  {label}" for label, colon, command in pairs]


def _on_order(hash_seed: int | None, remedies: Sequence[str], *, was_observed: bool) -> list[str]:
    """Return what to do about the same parts in another order. A handler leaves one more cause than a session."""
    yours = ["Did you change the order yourself?", *_aligned([f"yes, {line}" for line in reversed(remedies)])]
    return [
        "If it's the order of a set, recording it again doesn't help:",
        *_aligned([*advice(hash_seed), *([_ORDERED] if was_observed else [])]),
        *(yours if len(remedies) == _BOTH else []),
    ]


def _on_values(  # noqa: PLR0911 - a return for each cause
    near: Nearest, request: CanonicalRequest, remedies: Sequence[str], zone: str, *, was_observed: bool
) -> tuple[list[str], list[str]]:
    """Return why values differ, as far as it shows, and only advice that helps against that."""
    from agenttape_core.session.module_dates import INSIDE, clock_difference  # a miss is rare

    clock = clock_difference(near.leaves, request.body)
    causes = [f"{'zone':<10}{zone}"] if zone else []
    paths = ", ".join(f'"{path}"' for path, _, _ in near.leaves)
    leave_out = f"leave it out of the comparison:  ignore=[{paths}]"
    if clock is None and not near.is_drawn:
        return causes, _intents(remedies, *(["it's new in every run:  record it with use_cassette"] * was_observed))
    if was_observed:
        return causes, [_ANY, *_aligned([_FREEZING, leave_out])]
    if clock is None:
        if all(_is_close(old, new) for _, old, new in near.leaves):
            return causes, [_ROUNDING, *_aligned(["round it before it's sent:  round(the_number, 6)", leave_out])]
        new = "This value is new in every run, so recording again doesn't help."
        return causes, [new, *_aligned([leave_out, "or freeze it:  use uuid, random or time.time"])]
    part = "time" if ":" in clock.spelt else "date"
    only = f"{part:<10}only a {part} differs, {clock.spelt!r}"
    if clock.holder is None and zone and not clock.is_later:
        differ, _, variable = zone.rpartition("; replay with ")
        again = [f"record it in this zone:  {line.partition(':  ')[2]}" for line in remedies[:1] if ":  " in line]
        todo = _aligned([f"replay in its zone:  {variable}", *again, leave_out])
        return [only, f"{'zone':<10}{differ}"], [_ANY, *todo]
    if clock.holder is None and not (clock.is_now or near.is_drawn):
        return [only], _intents(remedies, f"it's new in every run:  {INSIDE}, or ignore=[{paths}]")
    drew = "drew it when it was imported"
    outside = "it was drawn outside the session, perhaps when a module was imported"
    who = f"{clock.holder} {drew}" if clock.holder else outside
    return [f"{only}: {who}"], [_ANY, *_aligned([f"have it replayed:  {INSIDE}", leave_out])]


def _is_close(recorded: Any, asked: Any) -> bool:
    """Return whether two numbers are equal but for rounding. Larger ones may be readings of a clock."""
    are_small = all(isinstance(value, float) and abs(value) < _SMALL for value in (recorded, asked))
    return are_small and isclose(recorded, asked, rel_tol=1e-7)


_SMALL = 1000


def unused_explanation(
    unused: Sequence[CallRecord], replayed: Sequence[CallRecord], remedy: Callable[[], Sequence[str]]
) -> list[str]:
    """Return the lines about recordings that a run never used, below the first.

    `remedy` returns how to record the run again, in its first line; empty if that wouldn't help.
    """
    more = [f"      … and {len(unused) - _SHOWN} more"] if len(unused) > _SHOWN else []
    last = f"{replayed[-1].number}, {replayed[-1].kind} {replayed[-1].name}" if replayed else "none"
    again = [line.partition(":  ")[2] for line in remedy()[:1]]
    fixes = [
        *(f"it should make fewer calls now:  {command}" for command in again),
        'several tests share the cassette:  use_cassette(..., on_unused="ignore")',
    ]
    advice = ["", "Did the program stop early? Then this is the bug.", *_aligned(fixes)] if again else []
    return [*map(str, unused[:_SHOWN]), *more, f"last call made: {last}", *advice]


def _missing(source: Source, request: CanonicalRequest, address: str, *, is_permuted: bool) -> tuple[list[str], bool]:
    """Return the missing calls that the cassette lists, and whether a handler observed the run.

    They are the call at this location, or all calls of a kind. What a handler froze doesn't matter where the same
    parts come in another order: the advice names the hash seed.
    """
    try:
        steps = list(source.steps())
    except CassetteError as error:  # as in `nearest_to`
        return [f"missing   unknown: {error}"], False
    was_observed = any(step.kind == GAP for step in steps)
    named = [
        step
        for step in steps
        if step.fidelity == "missing"
        and ((step.address == address and step.name.partition(".")[0] == request.name) or is_gap_of(step, request.kind))
    ]
    if named:
        return [f"missing   {step.fidelity_note}" for step in named], was_observed
    if is_permuted or not was_observed:
        return [], was_observed
    return [f"observed  {_UNFROZEN}", f"{'':<10}{_PICKED}"], True
