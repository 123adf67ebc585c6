"""`--cassette-lab=live`: a passed test is run once more for real; the recording is thrown away."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agenttape_core.errors import shown_path
from agenttape_core.experiments.strategies.trials import diverges_at
from agenttape_core.matching import NOTHING, CanonicalRequest, Ignored, differences, recorded_request
from agenttape_core.pytest_plugin.rerun import Excinfo, run_again
from agenttape_core.schema import Interaction
from agenttape_core.session import Session
from agenttape_core.storage import Cassette, open_cassette
from agenttape_core.tools.reading.messages import joined
from agenttape_core.tools.reading.prices import NoPrices
from agenttape_core.tools.report import trajectory_of
from agenttape_core.tools.upkeep.verified import note_verified

LIVE: pytest.StashKey[Path] = pytest.StashKey()
"""The temporary recording of a test that is run for real to be compared with its cassette."""
_VERIFIED = "agenttape.verified"
_WITH_ANSWERS = frozenset({"tool", "retrieval"})
"""The kinds of calls whose answers are facts. Those of models are other words each time, of which the test judges."""
_OF_A_RUN = frozenset({"id", "tool_call_id"})


def verify(item: pytest.Item, nextitem: pytest.Item | None, key: pytest.StashKey[Any]) -> None:
    """Run a passed test once more, for real; fail it if that differs from its recording. Arguments: see `look_at`."""
    first = item.stash[key]
    session: Session = first.session
    with tempfile.TemporaryDirectory(prefix="agenttape-") as folder:
        item.stash[LIVE] = target = Path(folder) / "live.yaml"
        del item.stash[key]  # if the setup fails, there is no other
        try:
            raised = run_again(item, nextitem)
            failed = item.stash[key].failed_inside if key in item.stash else []
        finally:
            del item.stash[LIVE]
            item.stash[key] = first
        found = [*_unrecorded_calls(raised, session.path, target), *failed]
    if found:
        lines = [f"{shown_path(session.path)} is not what a recording made now would be", *found]
        pytest.fail("\n  ".join(lines), pytrace=False)
    item.user_properties.append((_VERIFIED, _from_root(item, session.path)))


def _unrecorded_calls(raised: Excinfo | None, recorded: Path | str, live: Path) -> Iterator[str]:
    if raised is not None:
        yield f"the test fails when it is run for real: {raised.exconly().partition(chr(10))[0]}"
        return
    if not live.is_file():
        yield "it makes no call when it is run for real"
        return
    before, now = open_cassette(recorded), open_cassette(live)
    paths = trajectory_of(before, NoPrices()), trajectory_of(now, NoPrices())
    if place := diverges_at(*paths):
        yield f"its calls diverge: {place}"
    elif len(paths[0].calls) != len(paths[1].calls):
        yield f"it made {len(paths[0].calls)} calls, and now makes {len(paths[1].calls)}"
    else:
        yield from _other_answers(before, now)
    if _nodes(before) != _nodes(now):
        yield f"its nodes part: {' '.join(_nodes(before))} → {' '.join(_nodes(now))}"


def _other_answers(before: Cassette, now: Cassette) -> Iterator[str]:
    """Yield the tools and retrievers whose answers differ from the recording, with the places that differ.

    What `ignore` leaves out of requests, it leaves out of answers, whose paths begin with `answer`. The same calls were
    made in both runs, so that they pair off.
    """
    ignored = Ignored.of(before.preface.ignore)
    pairs = zip(_answering(before), _answering(now), strict=False)
    for old, new in pairs:
        recorded, answered = _answer(old, ignored), _answer(new, ignored)
        if recorded.fingerprint == answered.fingerprint:  # in which ids of a run are placeholders
            continue
        for difference in differences(recorded.body, answered.body):
            where = difference.path.removeprefix("answer").lstrip(".")
            said = f"{old.kind} {old.name} now answers differently{f' at {where}' if where else ''}"
            yield f"{said}: {difference.recorded} → {difference.asked}"


def _answering(cassette: Cassette) -> Iterator[Interaction]:
    return (item for item in cassette.interactions() if item.kind in _WITH_ANSWERS)


def _answer(item: Interaction, ignored: Ignored) -> CanonicalRequest:
    """Return a call's answer, without the ids that differ in each run."""
    error, value = item.outcome.error, joined(item.outcome)
    if isinstance(value, dict) and isinstance(message := value.get("$message"), dict):
        value = {"$message": {key: part for key, part in message.items() if key not in _OF_A_RUN}}
    answer = {"answer": value if error is None else f"{error.type}: {error.message}"}
    left = ignored.stripped(answer)
    return recorded_request(item.kind, item.name, left if isinstance(left, dict) else {}, NOTHING)


def _nodes(cassette: Cassette) -> list[str]:
    return sorted(step.name for step in cassette.steps() if step.kind == "node")


def _from_root(item: pytest.Item, path: Path | str) -> str:
    root = item.config.rootpath
    if isinstance(path, Path) and path.absolute().is_relative_to(root):
        return path.absolute().relative_to(root).as_posix()
    return str(path)


def verified_in(properties: Iterable[tuple[str, object]]) -> list[str]:
    """Return the cassettes that the properties of a report call verified."""
    return [str(value) for name, value in properties if name == _VERIFIED]


def keep_verified(root: Path, cassettes: Iterable[str]) -> None:
    """Note in the project which cassettes were verified now."""
    note_verified(root, cassettes, datetime.now(UTC))
