"""Recording survives crashes, runs alone, and ends in one atomic step."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agenttape_core.errors import (
    CassetteFormatError,
    CassetteLockedError,
    CassetteNotFoundError,
    CassetteVersionError,
    CassetteWriteError,
    ConfigurationError,
    SessionStateError,
    UnrecordableValueError,
)
from agenttape_core.schema import Header, Interaction, Outcome, Timing, Volatile
from agenttape_core.storage import Journal, leftover_journals, open_cassette, recover, write_cassette

MakeInteraction = Callable[..., Interaction]
HEADER = Header(name="tape")
TIMING = Timing(duration_ms=1.5, offsets_ms=[0.5])


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where the recording goes."""
    return tmp_path / "cassettes" / "tape.yaml"


def names(folder: Path) -> list[str]:
    """All files of a folder, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())


def test_commit_sorts_numbers_and_renames_parents(target: Path, make: MakeInteraction) -> None:
    """The cassette is in the order of the addresses, whatever the order in which the calls ended."""
    journal = Journal(target, HEADER)
    journal.append(make(7, parent=3, address="child"), Timing(duration_ms=7), (1, "b"))
    journal.append(make(9, parent=99, address="orphan"), Timing(duration_ms=9), (1, "a", (2,)))
    journal.append(make(3, address="parent"), Timing(duration_ms=3), (0,))
    journal.commit(HEADER)

    cassette = open_cassette(target)

    assert [(entry.number, entry.address, entry.parent) for entry in cassette.entries] == [
        (1, "parent", None),
        (2, "orphan", None),
        (3, "child", 1),
    ]
    assert {n: t.duration_ms for n, t in cassette.header.volatile.timings.items()} == {1: 3, 2: 9, 3: 7}
    assert names(target.parent) == ["tape.yaml"]


def test_kept_interactions_come_first_with_their_timings(target: Path, make: MakeInteraction) -> None:
    """What an earlier cassette held stays in front; both sets of numbers are made anew."""
    journal = Journal(target, HEADER)
    journal.append(make(2, address="new"), TIMING, (0,))
    journal.append(make(1, address="new child", parent=2), TIMING, (1,))
    old_timings = {5: Timing(duration_ms=5.0), 2: Timing(duration_ms=2.0)}
    journal.commit(
        Header(name="tape", volatile=Volatile(timings=old_timings)),
        keep=[make(2, address="old"), make(5, address="old child", parent=2), make(6, parent=3)],
    )

    cassette = open_cassette(target)

    assert [(entry.address, entry.parent) for entry in cassette.entries] == [
        ("old", None),
        ("old child", 1),
        ("agent/model#6", None),
        ("new", None),
        ("new child", 4),
    ]
    assert [cassette.header.volatile.timings[n].duration_ms for n in (1, 2, 4, 5)] == [2, 5, 1.5, 1.5]


def test_schedules_do_not_change_the_file(tmp_path: Path, make: MakeInteraction) -> None:
    """Threads that finish in any order give the same bytes."""
    interactions = [make(n, request={"messages": [{"n": m} for m in range(n)]}) for n in range(1, 40)]
    files = []
    for attempt in range(3):
        target = tmp_path / f"{attempt}.yaml"
        journal = Journal(target, HEADER)
        shuffled = random.Random(attempt).sample(interactions, len(interactions))

        def work(part: list[Interaction], journal: Journal = journal) -> None:
            for interaction in part:
                journal.append(interaction, TIMING, (interaction.number,))

        threads = [threading.Thread(target=work, args=(shuffled[offset::4],)) for offset in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        journal.commit(HEADER)
        files.append(target.read_bytes())

    assert files[0] == files[1] == files[2]
    assert list(open_cassette(target).interactions()) == interactions


CHILD = """
import sys
from pathlib import Path
from agenttape_core.schema import Header, Interaction, Outcome, Timing
from agenttape_core.storage import Journal

journal = Journal(Path(sys.argv[1]), Header(name="from the child"))
for n in (1, 2, 3):
    interaction = Interaction(number=n, kind="chat", name="m", address=f"a{n}", fingerprint="f",
        request={"messages": [str(m) for m in range(n)]}, outcome=Outcome(status="returned", value=n))
    journal.append(interaction, Timing(duration_ms=1.0), (-n,))
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.process
def test_kill_9_loses_nothing_that_was_finished(target: Path, make: MakeInteraction) -> None:
    """After a kill the old cassette is intact, the lock is free, and every finished interaction comes back."""
    write_cassette(target, Header(name="old"), [make(1)])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", textwrap.dedent(CHILD), str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        with pytest.raises(CassetteLockedError, match=f"process {child.pid}"):
            Journal(target, HEADER)
        assert leftover_journals(target) == []
        child.kill()
        child.wait()

    (left,) = leftover_journals(target)
    recovered = recover(left)

    assert open_cassette(target).header.name == "old"
    assert recovered.name == "tape.recovered.yaml"
    cassette = open_cassette(recovered)
    assert cassette.header.name == "from the child"
    assert [interaction.outcome.value for interaction in cassette.interactions()] == [3, 2, 1]
    assert [len(interaction.request["messages"]) for interaction in cassette.interactions()] == [3, 2, 1]
    assert leftover_journals(target) == []


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_torn_last_line_is_dropped(target: Path, make: MakeInteraction, cut: int) -> None:
    """Half a line is the interaction that was being written; those before it are whole."""
    left = leave(target, [make(1), make(2)])
    left.write_bytes(left.read_bytes()[:-cut])

    recovered = recover(left)

    assert recovered == target
    assert list(open_cassette(target).interactions()) == [make(1)]


def leave(target: Path, interactions: list[Interaction]) -> Path:
    """A journal as a crashed process leaves it."""
    journal = Journal(target, HEADER)
    for interaction in interactions:
        journal.append(interaction, TIMING, (interaction.number,))
    left = journal.abandon(keep=True)
    assert left is not None
    return left


def test_damage_before_the_last_line_is_an_error_with_its_line(target: Path, make: MakeInteraction) -> None:
    """Only the end of a journal may be torn; the journal is kept."""
    left = leave(target, [make(1), make(2)])
    left.write_bytes(left.read_bytes().replace(b"question 1", b"question\x00 1"))

    with pytest.raises(CassetteFormatError, match="cut the journal off") as caught:
        recover(left)

    assert caught.value.line == 2
    assert left.exists()


def test_an_interaction_that_is_there_twice_is_an_error_with_its_line(target: Path, make: MakeInteraction) -> None:
    """The error names the journal and the second of them, not the cassette that could not be written."""
    left = leave(target, [make(1), make(2)])
    lines = left.read_bytes().splitlines(keepends=True)
    left.write_bytes(b"".join([*lines, lines[1]]))

    with pytest.raises(CassetteFormatError, match="there is an interaction 1 above") as caught:
        recover(left)

    assert (caught.value.path, caught.value.line) == (left, len(lines) + 1)
    assert left.exists()


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (b'"agenttape":1', b'"agenttape":99', CassetteVersionError),
        (b'"agenttape":1', b'"agenttape":"1"', CassetteFormatError),
        (b'"order":[1]', b'"order":1', CassetteFormatError),
        (b'"timing":[', b'"timing":["x",', CassetteFormatError),
        (b'"continues":1', b'"continues":2', CassetteFormatError),
        (b'"record":{', b'"record":{"x":1,', CassetteFormatError),
        (b'{"agenttape"', b'["agenttape"', CassetteFormatError),
    ],
)
def test_a_journal_that_says_nonsense_is_refused(
    target: Path, make: MakeInteraction, old: bytes, new: bytes, error: type[Exception]
) -> None:
    """Journals are checked as cassettes are."""
    messages = [{"a": 1}, {"b": 2}]
    left = leave(target, [make(1, request={"messages": messages[:1]}), make(2, request={"messages": messages})])
    left.write_bytes(left.read_bytes().replace(old, new))

    with pytest.raises(error):
        recover(left)


def test_recovery_never_replaces_a_cassette_unless_told_to(target: Path, make: MakeInteraction) -> None:
    """By default a new name is found; an explicit target is obeyed, in any layout."""
    write_cassette(target, Header(name="old"), [])
    lefts = [leave(target, [make(n)]) for n in (1, 2, 3)]

    assert [recover(left).name for left in lefts[:2]] == ["tape.recovered.yaml", "tape.recovered-2.yaml"]
    recover(lefts[2], target.with_name("chosen.jsonl"))

    assert open_cassette(target).header.name == "old"
    assert open_cassette(target.with_name("chosen.jsonl")).interaction(1) == make(3, number=1)


def test_only_journals_can_be_recovered(tmp_path: Path) -> None:
    """Another name, or none at all, is explained."""
    with pytest.raises(ConfigurationError, match="not named as a journal"):
        recover(tmp_path / "tape.yaml")
    with pytest.raises(CassetteNotFoundError):
        recover(tmp_path / ".tape.yaml.1-ab.journal")


def test_one_writer_at_a_time(target: Path, make: MakeInteraction) -> None:
    """A second session is refused by name of the process, its journal is never touched, and the next one may write."""
    first = Journal(target, HEADER)
    first.append(make(1), TIMING, (1,))

    with pytest.raises(CassetteLockedError, match=f"process {os.getpid()}"):
        Journal(target, HEADER)
    with pytest.raises(CassetteLockedError):
        recover(first.path)
    assert leftover_journals(target) == []
    other = Journal(target.with_name("other.yaml"), HEADER)
    other.abandon(keep=False)
    first.commit(HEADER)

    Journal(target, HEADER).commit(HEADER)
    assert names(target.parent) == ["tape.yaml"]


def test_abandon_leaves_the_cassette_alone(target: Path, make: MakeInteraction) -> None:
    """Without `keep` nothing stays; with it the journal stays, unless nothing was recorded."""
    write_cassette(target, Header(name="old"), [])
    journal = Journal(target, HEADER)
    journal.append(make(1), TIMING, (1,))

    assert journal.abandon(keep=False) is None
    assert journal.abandon(keep=True) is None
    assert Journal(target, HEADER).abandon(keep=True) is None
    assert names(target.parent) == ["tape.yaml"]
    assert leave(target, [make(1)]) == leftover_journals(target)[0]
    assert open_cassette(target).header.name == "old"


def test_a_closed_journal_refuses_more(target: Path, make: MakeInteraction) -> None:
    """After its end a journal can neither grow nor be committed again."""
    journal = Journal(target, HEADER)
    journal.commit(HEADER)

    with pytest.raises(SessionStateError):
        journal.append(make(1), TIMING, (1,))
    with pytest.raises(SessionStateError):
        journal.commit(HEADER)


def test_a_commit_that_fails_keeps_the_recording(
    target: Path, make: MakeInteraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the journal and how to get it back; the old cassette is intact; the lock is free."""
    write_cassette(target, Header(name="old"), [])
    journal = Journal(target, HEADER)
    journal.append(make(1), TIMING, (1,))

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(CassetteWriteError, match=r"kept in .*\.journal\n.*agenttape cassette recover "):
        journal.commit(HEADER)
    monkeypatch.undo()

    assert open_cassette(target).header.name == "old"
    assert journal.abandon(keep=True) == journal.path
    assert open_cassette(recover(journal.path, target)).interaction(1) == make(1)
    assert names(target.parent) == ["tape.yaml"]


def test_where_there_is_no_room_at_all_memory_keeps_the_line(
    target: Path, make: MakeInteraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append that fails half-way is an error that loses nothing; the torn line does not stay in the file."""
    journal = Journal(target, HEADER)
    journal.append(make(1, request={"messages": ["a"]}), TIMING, (1,))
    write, calls = os.write, iter([7])
    whole = journal.path.read_bytes()

    def short(descriptor: int, data: memoryview) -> int:
        size = next(calls, None)
        if size is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:size])

    monkeypatch.setenv("XDG_STATE_HOME", str(target.parent / "state"))
    monkeypatch.setattr(tempfile, "tempdir", str(target.parent))
    monkeypatch.setattr(os, "write", short)
    with pytest.raises(CassetteWriteError, match=r"1 record kept in .*, 1 in memory until there is room"):
        journal.append(make(2, request={"messages": ["a", "b"]}), TIMING, (2,))
    assert journal.path.read_bytes() == whole
    assert list(target.parent.glob("**/url")) == []
    monkeypatch.undo()
    last = make(3, request={"messages": ["a", "b", "c"]})
    journal.append(last, TIMING, (3,))
    journal.commit(HEADER)

    requests = [interaction.request["messages"] for interaction in open_cassette(target).interactions()]
    assert requests == [["a"], ["a", "b"], ["a", "b", "c"]]


@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_an_interruption_neither_doubles_nor_loses_what_follows(
    target: Path, make: MakeInteraction, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Ctrl-C while a line is written: the line is there once, and those after it continue the right ones."""
    journal = Journal(target, HEADER)
    journal.append(make(1, request={"messages": ["a"]}), TIMING, (1,))
    write = os.write

    def interrupted(descriptor: int, data: memoryview) -> int:
        if when != "before":
            write(descriptor, data[: 9 if when == "between" else len(data)])
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        journal.append(make(2, request={"messages": ["a", "b"]}), TIMING, (2,))
    monkeypatch.undo()
    journal.append(make(3, request={"messages": ["a", "b", "c"]}), TIMING, (3,))
    journal.append(make(4, request={"messages": ["a", "b", "c", "d"]}), TIMING, (4,))
    journal.commit(HEADER)

    requests = [interaction.request["messages"] for interaction in open_cassette(target).interactions()]
    assert requests == [["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]]


def test_a_value_that_is_not_plain_leaves_no_trace(target: Path, make: MakeInteraction) -> None:
    """A refused interaction neither stands in the journal nor is continued by later ones."""
    journal = Journal(target, HEADER)
    request = {"messages": ["a", "b"]}
    with pytest.raises(UnrecordableValueError):
        journal.append(make(1, request=request, outcome=Outcome(status="returned", value=b"x")), TIMING, (1,))
    with pytest.raises(UnrecordableValueError):
        journal.append(make(1, request={"messages": [b"x"]}), TIMING, (1,))
    with pytest.raises(UnrecordableValueError, match="finite"):
        journal.append(make(1), Timing(duration_ms=float("nan")), (1,))
    journal.append(make(1, request=request), TIMING, (1,))
    journal.commit(HEADER)

    assert [interaction.request for interaction in open_cassette(target).interactions()] == [request]


def test_a_journal_needs_a_folder_and_a_known_suffix(tmp_path: Path) -> None:
    """What cannot become a cassette is refused before anything is recorded."""
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigurationError):
        Journal(tmp_path / "tape.txt", HEADER)
    with pytest.raises(CassetteWriteError):
        Journal(tmp_path / "file" / "tape.yaml", HEADER)
    with pytest.raises(UnrecordableValueError):
        Journal(tmp_path / "tape.yaml", Header(name="x", input={1}))
    assert names(tmp_path) == ["file"]


def test_a_user_without_a_home_can_record(target: Path, make: MakeInteraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders elsewhere are for a need; that they cannot be named is no hindrance, nor that both have no room."""

    def nowhere(*_: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    left = leave(target, [make(1)])

    assert leftover_journals(target) == [left]
    assert recover(left) == target


def test_a_journal_that_was_removed_meanwhile_is_still_committed(target: Path, make: MakeInteraction) -> None:
    """Somebody cleans the folder while a session records: what is still open can be read."""
    journal = Journal(target, HEADER)
    journal.append(make(1), TIMING, (1,))
    if sys.platform != "win32":  # where an open file cannot be removed
        journal.path.unlink()

    journal.append(make(2), TIMING, (2,))
    journal.commit(HEADER)

    assert len(open_cassette(target).entries) == 2
    assert names(target.parent) == ["tape.yaml"]


@pytest.mark.skipif(sys.platform == "win32", reason="owners as POSIX has them")
def test_a_folder_that_others_may_write_to_is_not_trusted(
    tmp_path: Path, make: MakeInteraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else says where a journal is recovered to."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "agenttape" / ("0" * 16)
    left = leave(folder / "tape.yaml", [make(1), make(2)])
    (folder / "url").write_text((tmp_path / "elsewhere" / "tape.yaml").as_uri())
    (tmp_path / "agenttape").chmod(0o777)

    assert recover(left) == folder / "tape.yaml"

    left = leave(folder / "other.yaml", [make(1)])
    (tmp_path / "agenttape").chmod(0o700)
    assert recover(left) == tmp_path / "elsewhere" / "other.yaml"
