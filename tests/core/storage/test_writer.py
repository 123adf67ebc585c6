"""Writing a cassette: the layout of the text, its size, and what happens when the disk does not cooperate."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agenttape_core.errors import CassetteWriteError, UnrecordableValueError
from agenttape_core.format import limits, volatile_values
from agenttape_core.format.written_steps import Stored, WrittenStep
from agenttape_core.schema import Header, Interaction, Outcome, Timing, Volatile
from agenttape_core.storage import Journal, convert, open_cassette, write_cassette, writer
from agenttape_core.storage.writer import Shelf

MakeInteraction = Callable[..., Interaction]
as_user = pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="permissions do not bind this user")


def test_the_text_reads_as_a_transcript(tmp_path: Path, make: MakeInteraction) -> None:
    """The exact layout: fixed keys first, blocks of text, continuations, nothing that is empty, an end mark."""
    first = make(1, request={"model": "fake", "messages": [{"role": "human", "content": "Hi\nthere: you"}]})
    second = make(
        2,
        parent=1,
        ids=["run-1"],
        fingerprint="0" * 32,
        request={
            "model": "fake",
            "messages": [{"role": "human", "content": "Hi\nthere: you"}, {"role": "tool", "content": "yes"}],
        },
        outcome=Outcome(status="streamed", chunks=["a", [1.5, 2], {"x": {"z": []}}], ended="exhausted"),
    )
    volatile = Volatile(created="2026-01-02", timings={1: Timing(duration_ms=12.34, offsets_ms=[1, 2.06])})
    path = tmp_path / "tape.yaml"

    write_cassette(path, Header(name="tape", volatile=volatile), [first, second])

    assert path.read_text() == (
        "agenttape: 1\n"
        "name: tape\n"
        "volatile:\n"
        '  created: "2026-01-02"\n'
        "  timings: |\n"
        "    1 12.3 1.0 2.1\n"
        "---\n"
        "interaction: 1\n"
        "kind: chat\n"
        "name: FakeModel\n"
        "address: agent/model#1\n"
        "fingerprint: f0000000000000000000000000000001\n"
        "request:\n"
        "  model: fake\n"
        "  messages:\n"
        "  - role: human\n"
        "    content: |-\n"
        "      Hi\n"
        "      there: you\n"
        "outcome:\n"
        "  status: returned\n"
        "  value:\n"
        "    role: ai\n"
        "    content: answer 1\n"
        "---\n"
        "interaction: 2\n"
        "kind: chat\n"
        "name: FakeModel\n"
        "address: agent/model#2\n"
        'fingerprint: "00000000000000000000000000000000"\n'
        "parent: 1\n"
        "ids:\n"
        "- run-1\n"
        "continues: 1\n"
        "request:\n"
        "  messages:\n"
        "  - role: tool\n"
        '    content: "yes"\n'
        "outcome:\n"
        "  status: streamed\n"
        "  chunks:\n"
        "  - a\n"
        "  - [1.5, 2]\n"
        "  - x:\n"
        "      z: []\n"
        "  ended: exhausted\n"
        "...\n"
    )


def test_a_rename_that_fails_keeps_old_and_new(
    tmp_path: Path, make: MakeInteraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old cassette is untouched, and the complete new one is where the error says."""
    path = tmp_path / "tape.yaml"
    write_cassette(path, Header(name="old"), [])

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(CassetteWriteError, match="No space left on device; what was recorded is kept in"):
        write_cassette(path, Header(name="new"), [make(1)])
    monkeypatch.undo()

    assert open_cassette(path).header.name == "old"
    (kept,) = tmp_path.glob(".tape.yaml.*.tmp")
    assert open_cassette(kept.rename(tmp_path / "kept.yaml")).interaction(1) == make(1)


def test_a_write_that_fails_leaves_nothing_behind(
    tmp_path: Path, make: MakeInteraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a temporary file is of no use and is removed."""

    def refuse(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(CassetteWriteError, match="Input/output error"):
        write_cassette(tmp_path / "tape.yaml", Header(name="new"), [make(1)])

    assert list(tmp_path.iterdir()) == []


@as_user
def test_a_read_only_folder_is_a_write_error(tmp_path: Path) -> None:
    """The system's refusal becomes an error with the path of the cassette."""
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(CassetteWriteError):
            write_cassette(tmp_path / "tape.yaml", Header(name="x"), [])
    finally:
        tmp_path.chmod(0o700)


def test_a_folder_that_cannot_be_made_is_a_write_error(tmp_path: Path) -> None:
    """A file in the place of the folder is explained, not raised as it is."""
    (tmp_path / "file").write_text("")

    with pytest.raises(CassetteWriteError, match="folder cannot be created"):
        write_cassette(tmp_path / "file" / "deep" / "tape.yaml", Header(name="x"), [])


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes and links")
def test_links_and_modes_survive(tmp_path: Path) -> None:
    """A link to a cassette stays a link, and the permissions of the file stay as they were."""
    real, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    write_cassette(real, Header(name="old"), [])
    real.chmod(0o640)
    link.symlink_to(real)

    write_cassette(link, Header(name="new"), [])

    assert link.is_symlink()
    assert open_cassette(real).header.name == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_nothing_is_written_that_could_not_be_read(
    tmp_path: Path, make: MakeInteraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values that are not plain, numbers that do not grow, and records over the limit are refused."""
    path = tmp_path / "tape.yaml"
    with pytest.raises(UnrecordableValueError, match=r"outcome\.value"):
        write_cassette(path, Header(name="x"), [make(1, outcome=Outcome(status="returned", value={1, 2}))])
    with pytest.raises(UnrecordableValueError, match=r"request\.messages\[0\]"):
        write_cassette(path, Header(name="x"), [make(1, request={"messages": [object()]})])
    with pytest.raises(UnrecordableValueError, match="input"):
        write_cassette(path, Header(name="x", input=b"raw"), [])
    with pytest.raises(UnrecordableValueError, match="duration"):
        timings = {1: Timing(duration_ms=float("inf"))}
        write_cassette(path, Header(name="x", volatile=Volatile(timings=timings)), [])
    with pytest.raises(CassetteWriteError, match="numbers must grow"):
        write_cassette(path, Header(name="x"), [make(2), make(2)])
    monkeypatch.setattr(limits, "MAX_RECORD_BYTES", 100)
    with pytest.raises(CassetteWriteError, match=r"record 1 .*larger than the limit"):
        write_cassette(path, Header(name="x"), [make(1)])

    assert not path.exists()


# -- files grow with what is new ------------------------------------------------------------------------------


MakeAgent = Callable[[int], list[Interaction]]


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl"])
def test_an_agent_of_200_turns_fits_in_600_kilobytes(tmp_path: Path, agent: MakeAgent, suffix: str) -> None:
    """400 interactions over a growing history stay small and come back whole."""
    path = tmp_path / f"agent{suffix}"
    recorded = agent(200)

    write_cassette(path, Header(name="agent"), recorded)

    assert path.stat().st_size <= 600_000
    assert list(open_cassette(path).interactions()) == recorded


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl"])
def test_files_grow_linearly(tmp_path: Path, agent: MakeAgent, suffix: str) -> None:
    """Twice the turns make twice the file."""
    sizes = []
    for turns in (20, 40):
        path = tmp_path / f"agent{turns}{suffix}"
        write_cassette(path, Header(name="agent"), agent(turns))
        sizes.append(path.stat().st_size)

    assert sizes[1] < 2.1 * sizes[0]


def test_the_journal_grows_linearly_too(tmp_path: Path, agent: MakeAgent) -> None:
    """A recording in progress needs no more room on disk than its cassette."""
    journal = Journal(tmp_path / "agent.yaml", Header(name="agent"))
    for interaction in agent(100):
        journal.append(interaction, Timing(duration_ms=1.0), (interaction.number,))
    size = journal.path.stat().st_size
    journal.commit(Header(name="agent"))

    assert size < 1.5 * (tmp_path / "agent.yaml").stat().st_size


# -- large cassettes are written from packed records ----------------------------------------------------------


GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.mark.parametrize(
    "name",
    [
        "v1/weather.yaml",
        "v1/weather.jsonl",
        "v2/picture.yaml",
        "v2/stamps.yaml",
        "v2/stamps.jsonl",
        "v2/steps.yaml",
    ],
)
@pytest.mark.parametrize("most", [0, 1 << 20])
def test_packed_records_give_the_same_file(
    name: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All records packed or none: the file, its stamps and its assets are the same, also where there are too many."""
    monkeypatch.setattr(volatile_values, "MAX_TEXT", most)
    written = []
    for first in (1_000, 0):
        monkeypatch.setattr(writer, "_AS_THEY_ARE", first)
        monkeypatch.setattr(volatile_values, "_MANY", first)
        target = tmp_path / str(first) / Path(name).name
        convert(GOLDEN / name, target)
        files = [path for path in target.parent.rglob("*") if path.is_file()]
        written.append({path.relative_to(target.parent): path.read_bytes() for path in files})
    assert written[0] == written[1]


@pytest.mark.parametrize("together", [1, 2, 200])
def test_what_is_packed_comes_back(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of a class of its own, and a step as it was written, come back as they were, and in their order."""
    monkeypatch.setattr(writer, "_AS_THEY_ARE", 1)
    monkeypatch.setattr(writer, "_TOGETHER", together)
    odd = {"value": type("Text", (str,), {})("text")}
    step = WrittenStep(1, "a", '"text"}')
    records: list[Stored] = [{"first": 1}, {"second": [1.5, None, "x"]}, step, odd, step.numbered(2)]
    found = Shelf(records)
    assert (list(found), list(found), len(found), odd in found, {} in found) == (records, records, 5, True, False)
    assert [type(record) for record in found] == [dict, dict, WrittenStep, dict, WrittenStep]
