"""What importers write with: a cassette of foreign recordings, and the report on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import Boundary, current_session, intercept
from agenttape_core.integration.importing import CallFacts, Graded, Importing, ImportReport

ORACLE = Boundary("call")


def ask(question: str) -> str:
    """Ask something that must be replayed."""
    session = current_session()
    assert session is not None
    return str(intercept(session.cross(ORACLE, "oracle", {"question": question}), lambda: pytest.fail("executed")))


def test_what_is_imported_replays(tmp_path: Path) -> None:
    """Requests are found by the fingerprints of the integration; tags, metadata and durations are kept."""
    told = CallFacts(tags=["old"], metadata={"by": "hand"}, duration_ms=12.5)
    with Importing(tmp_path / "new.yaml", tags=["imported"]) as importing:
        importing.session_call(ORACLE, "oracle", {"question": "Why?"}, told).returned("Because.")
        importing.session_call(ORACLE, "oracle", {"question": "When?"}).raised(ValueError("never"))
    with use_cassette(tmp_path / "new.yaml"):
        assert ask("Why?") == "Because."
        with pytest.raises(ValueError, match="never"):
            ask("When?")
    cassette = open_cassette(tmp_path / "new.yaml")
    first = cassette.interaction(1)
    assert (first.tags, first.metadata, first.fidelity) == (["old"], {"by": "hand"}, "exact")
    assert (cassette.header.tags, cassette.header.volatile.timings[1].duration_ms) == (["imported"], 12.5)


def test_what_is_lost_is_kept_with_the_interaction(tmp_path: Path) -> None:
    """A loss makes an interaction lossy, with the reason; what is missing is a step, once."""
    with Importing(tmp_path / "new.yaml") as importing:
        importing.session_call(ORACLE, "oracle", {"question": "Why?"}, CallFacts(loss="the end of it")).returned(
            "Because."
        )
        importing.missing("call", "others of them")
        importing.missing("call", "others of them")
    cassette = open_cassette(tmp_path / "new.yaml")
    assert (cassette.interaction(1).fidelity, cassette.interaction(1).fidelity_note) == ("lossy", "the end of it")
    assert [step.fidelity_note for step in cassette.steps()] == ["others of them"]


def test_ignored_paths_do_not_count_on_replay(tmp_path: Path) -> None:
    """What the foreign recording does not know may be anything when it is asked for."""
    with Importing(tmp_path / "new.yaml", ignore=["name"]) as importing:
        importing.session_call(ORACLE, "oracle", {"question": "Why?"}).returned("Because.")
    with use_cassette(tmp_path / "new.yaml") as session:
        session_call = session.cross(ORACLE, "oracle", {"question": "Why?", "name": "Ann"})
        assert intercept(session_call, lambda: pytest.fail("executed")) == "Because."


def test_calls_inside_others_are_their_children(tmp_path: Path) -> None:
    """A call that went on inside another one is used with it."""
    with Importing(tmp_path / "new.yaml") as importing:
        outer = importing.session_call(ORACLE, "oracle", {"question": "Why?"})
        place = importing.root.child("inside")
        importing.session_call(ORACLE, "inner", {}, CallFacts(place, parent=outer)).returned(1)
        outer.returned("Because.")
    assert [(row.address, row.parent) for row in open_cassette(tmp_path / "new.yaml").entries] == [
        ("oracle", None),
        ("inside", 1),
    ]
    with use_cassette(tmp_path / "new.yaml"):
        assert ask("Why?") == "Because."


def test_a_failed_import_leaves_nothing(tmp_path: Path) -> None:
    """An import that raises writes no cassette and leaves no journal, and a cassette that was there stays."""
    (tmp_path / "new.yaml").write_text("mine", encoding="utf-8")
    with pytest.raises(RuntimeError), Importing(tmp_path / "new.yaml", overwrite=True) as importing:
        importing.session_call(ORACLE, "oracle", {"question": "Why?"}).returned("Because.")
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["new.yaml"]
    assert (tmp_path / "new.yaml").read_text("utf-8") == "mine"


def test_whatever_is_there_is_not_replaced(tmp_path: Path) -> None:
    """A file that is there, a cassette or not, is refused unless it is to be replaced."""
    (tmp_path / "new.yaml").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="overwrite=True"):
        Importing(tmp_path / "new.yaml")


def test_the_clock_of_the_recording_is_frozen(tmp_path: Path) -> None:
    """A clock that stood still in the recorded program stands still in the replay."""
    with Importing(tmp_path / "new.yaml", clock=1e9) as importing:
        importing.session_call(ORACLE, "oracle", {"question": "Why?"}).returned("Because.")
    header = open_cassette(tmp_path / "new.yaml").header
    assert (header.freeze.kinds, header.volatile.clock) == (["clock"], 1e9)


def test_the_report_can_be_read() -> None:
    """A report counts the grades, and shows what has a reason with its place."""
    items = (
        Graded("interaction 1", "chat a", "exact"),
        Graded("interaction 2", "chat b", "lossy", "no chunks"),
        Graded("interaction 3", "http c", "missing", "unknown"),
    )
    report = ImportReport(Path("runs.json"), Path("new.yaml"), items)
    assert (report.exact, report.lossy, report.missing) == (items[:1], items[1:2], items[2:])
    assert str(report).splitlines() == [
        "runs.json -> new.yaml: 1 exact, 1 lossy, 1 missing",
        "  lossy   interaction 2: chat b",
        "          no chunks",
        "  missing interaction 3: http c",
        "          unknown",
    ]
