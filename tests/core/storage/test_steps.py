"""Steps stand in the file between interactions, and change nothing of what is known of interactions."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agenttape_core.errors import CassetteFormatError, CassetteWriteError, UnrecordableValueError
from agenttape_core.schema import Header, Interaction, Outcome, RecordedError, Step, StepTiming, Timing, Volatile
from agenttape_core.storage import (
    MIN_ASSET_BYTES,
    Journal,
    convert,
    leftover_journals,
    open_cassette,
    recover,
    write_cassette,
)

MakeInteraction = Callable[..., Interaction]
GOLDEN = Path(__file__).parents[2] / "golden" / "v2"
LAYOUTS = pytest.mark.parametrize("suffix", [".yaml", ".jsonl", ".jsonl.gz"])
FAILURE = RecordedError(type="builtins:ValueError", message="no", args=["no"], bases=["builtins:Exception"])


def step(number: int = 1, **changes: Any) -> Step:
    """A step of which the test says what matters."""
    return Step.model_validate({"number": number, "kind": "chain", "name": "c", "address": f"c#{number}", **changes})


def full_step(number: int) -> Step:
    """A step with every field set."""
    return step(
        number,
        kind="event",
        name="odd:\nname",
        tags=["a", "yes"],
        metadata={"user": 7, "deep": [{"x": None}]},
        status="failed",
        error=FAILURE,
        fidelity="missing",
        fidelity_note="it was cancelled",
        input={"messages": ["one\ntwo\n"]},
        output=[1, 1.0, True],
        data={"$tuple": [1]},
    )


# -- files ---------------------------------------------------------------------------------------------------------


@LAYOUTS
def test_steps_come_back_between_interactions(tmp_path: Path, suffix: str, make: MakeInteraction) -> None:
    """All fields and the order of the file survive; the interactions are what they are without steps."""
    records: list[Interaction | Step] = [step(1), full_step(2), make(1), step(5), make(2, parent=1), make(4), step(6)]
    path = tmp_path / f"tape{suffix}"
    write_cassette(path, Header(name="tape"), records)
    cassette = open_cassette(path)

    assert list(cassette.records()) == records
    assert list(cassette.steps()) == [record for record in records if isinstance(record, Step)]
    assert list(cassette.interactions()) == [make(1), make(2, parent=1), make(4)]
    assert [entry.number for entry in cassette.entries] == [1, 2, 4]
    kinds = {record.kind for record in records if isinstance(record, Step)}
    assert {kind for kind in (*kinds, "gap", "tape") if cassette.has_step(kind)} == kinds


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
).filter(lambda value: "\\ud" not in ascii(value))
words = st.text(st.characters(exclude_categories=["Cs"]))


written_steps = st.builds(
    Step,
    number=st.integers(1, 10**6),
    kind=words,
    name=words,
    address=words,
    tags=st.lists(words, max_size=2),
    metadata=st.dictionaries(words, plain, max_size=2),
    status=st.sampled_from(["ended", "failed", "open"]),
    fidelity_note=words,
    input=plain,
    data=plain,
)


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl"])
@given(written=written_steps)
def test_any_step_comes_back(suffix: str, written: Step) -> None:
    """Whatever a program says of its steps survives both layouts, and the way from one to the other."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"tape{suffix}"
        write_cassette(path, Header(name="tape"), [written])
        other = convert(path, Path(folder) / f"other{'.jsonl' if suffix == '.yaml' else '.yaml'}")
        found = [next(open_cassette(file).steps()) for file in (path, other)]

    assert repr(found) == repr([written, written])


@LAYOUTS
def test_timings_are_in_the_header(tmp_path: Path, suffix: str, make: MakeInteraction) -> None:
    """When steps began and how long they took is volatile, and apart from when interactions happened."""
    volatile = Volatile(
        created="2026-01-02T03:04:05Z",
        steps={1: StepTiming(start_ms=0.5, duration_ms=70.0), 2: StepTiming(start_ms=-1.0, duration_ms=0.0)},
        timings={1: Timing(duration_ms=3.0, offsets_ms=[1.0])},
    )
    path = tmp_path / f"tape{suffix}"
    write_cassette(path, Header(name="tape", volatile=volatile), [step(1), make(1), step(2)])

    assert open_cassette(path).header.volatile == volatile
    assert open_cassette(path).preface.volatile == Volatile(created="2026-01-02T03:04:05Z")


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl"])
def test_the_version_is_the_lowest_that_suffices(tmp_path: Path, suffix: str, make: MakeInteraction) -> None:
    """Only a file with something new is of version 2; one without is what it was before there were steps."""

    def version(header: Header, *records: Interaction | Step) -> int:
        path = tmp_path / f"tape{suffix}"
        write_cassette(path, header, records)
        return int(path.read_bytes().partition(b"agenttape")[2].lstrip(b'": ')[:1])

    plainly, ignoring = Header(name="tape"), Header(name="tape", ignore=["arguments.now"])
    assert version(plainly, make(1, tags=["t"])) == 1
    assert [version(plainly, step()), version(ignoring, make(1))] == [2, 2]
    assert version(plainly, make(1, metadata={"user": 1})) == 2
    assert version(plainly, make(1, fidelity="lossy", fidelity_note="half of it")) == 2


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl"])
def test_large_binaries_of_steps_are_assets(tmp_path: Path, suffix: str, make: MakeInteraction) -> None:
    """What steps carry is treated as requests are; what merely looks like a reference stays as it is."""
    import base64

    large = base64.b64encode(bytes(range(256)) * (MIN_ASSET_BYTES // 256)).decode()
    records: list[Interaction | Step] = [
        step(1, input={"image": large}, output={"$asset": 1}, data=large),
        make(1, outcome=Outcome(status="returned", value={"$asset": {"plain": 1}})),
    ]
    path = tmp_path / f"tape{suffix}"
    write_cassette(path, Header(name="tape"), records)

    assert large not in path.read_text()
    assert list(open_cassette(path).records()) == records
    write_cassette(path, Header(name="tape"), [step(1, data={"$asset": 1}), *records[1:]])
    assert not path.with_name(f"{path.name}.assets").exists()
    assert list(open_cassette(path).records()) == [step(1, data={"$asset": 1}), *records[1:]]


@pytest.mark.parametrize("name", ["steps.yaml", "steps.jsonl"])
def test_golden_steps(tmp_path: Path, name: str, make: MakeInteraction) -> None:
    """A file with steps is read and written as it always was."""
    volatile = Volatile(
        steps={1: StepTiming(start_ms=0.0, duration_ms=90.5), 2: StepTiming(start_ms=60.0, duration_ms=0.0)},
        timings={1: Timing(duration_ms=50.0)},
    )
    header = Header(name="steps", volatile=volatile)
    lossy = make(1, tags=["a"], metadata={"user": 7}, fidelity="lossy", fidelity_note="its chunks were not seen")
    records = [step(1, kind="agent", input={"question": "Rain?"}, output="No."), lossy, full_step(2)]
    write_cassette(tmp_path / name, header, records)

    golden = open_cassette(GOLDEN / name)
    assert (golden.header, list(golden.records())) == (header, records)
    assert (tmp_path / name).read_bytes() == (GOLDEN / name).read_bytes()


# -- what is wrong with a file ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("step: 2\n", "step: 1\n"), "`step: 1` after 1: numbers must grow"),
        (("step: 2\n", "step: two\n"), "number"),
        (("kind: chain\nname: c\naddress: c#2", "kind: chain\nname: c\naddress: c#2\nnumber: 3"), "'number'"),
        (("address: c#2", "address: c#2\nstatus: done"), "status"),
        (("address: c#2\n", ""), "address"),
    ],
)
def test_malformed_step_has_its_line(tmp_path: Path, change: tuple[str, str], problem: str) -> None:
    """A step that is not one is refused when steps are read, with the file and the line; interactions are replayed."""
    path = tmp_path / "tape.yaml"
    write_cassette(path, Header(name="tape"), [step(1), step(2)])
    path.write_text(path.read_text().replace(*change))

    cassette = open_cassette(path)
    assert cassette.entries == ()
    with pytest.raises(CassetteFormatError, match=problem) as caught:
        list(cassette.steps())
    assert caught.value.line == 9


@pytest.mark.parametrize("timings", ["1 2.0\n", "1 2.0 3.0", "x 1.0 1.0\n", "1 2.0 3.0 4.0\n"])
def test_malformed_timings_of_steps(tmp_path: Path, timings: str) -> None:
    """The header is refused when its timings are asked for."""
    path = tmp_path / "tape.jsonl"
    write_cassette(path, Header(name="tape", volatile=Volatile(steps={1: StepTiming(start_ms=7, duration_ms=8)})), [])
    path.write_text(path.read_text().replace("1 7.0 8.0\\n", timings.replace("\n", "\\n")))
    with pytest.raises(CassetteFormatError, match="timing of a step"):
        open_cassette(path).header  # noqa: B018


def test_what_cannot_be_written(tmp_path: Path) -> None:
    """Numbers that do not grow and values that are not plain are refused, with their place."""
    with pytest.raises(CassetteWriteError, match="step 2 comes after 2"):
        write_cassette(tmp_path / "tape.yaml", Header(name="x"), [step(2), step(2)])
    with pytest.raises(UnrecordableValueError, match=r"data\.a"):
        write_cassette(tmp_path / "tape.yaml", Header(name="x"), [step(data={"a": {1}})])


# -- recording -----------------------------------------------------------------------------------------------------


def test_commit_puts_steps_in_order(tmp_path: Path, make: MakeInteraction) -> None:
    """A step that ends after what lies below it stands before it; both sorts are numbered for themselves."""
    journal = Journal(tmp_path / "tape.yaml", Header(name="tape"))
    journal.append(make(9, address="a/m"), Timing(duration_ms=9), ((0, (), 0, "a", 1), (0, (), 0, "m", 1)))
    journal.append_step(step(0, address="a"), StepTiming(start_ms=1.0, duration_ms=10.0), ((0, (), 0, "a", 1),))
    journal.append_step(step(0, address="b"), StepTiming(start_ms=0.0, duration_ms=1.0), ())
    journal.commit(Header(name="tape"), keep=[step(4, address="old"), make(3, address="kept")])

    cassette = open_cassette(tmp_path / "tape.yaml")
    assert [(record.number, record.address) for record in cassette.records()] == [
        (1, "old"),
        (1, "kept"),
        (2, "b"),
        (3, "a"),
        (2, "a/m"),
    ]
    assert cassette.header.volatile.steps == {
        2: StepTiming(start_ms=0.0, duration_ms=1.0),
        3: StepTiming(start_ms=1.0, duration_ms=10.0),
    }
    assert cassette.header.volatile.timings == {2: Timing(duration_ms=9)}


STAMPED = {"id": "chatcmpl-0d1f6a3e9c", "usage_metadata": {"total_tokens": 5}, "said": "${1.id}"}


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl"])
@example(step(data=STAMPED, metadata=STAMPED))
@example(step(data={"status": "open", "step": {"step": 0, "kind": "a"}}, address='","step":{"step":0,'))
@example(step(data=[{"$asset": 1}, "QUFB" * (MIN_ASSET_BYTES // 2)]))
@given(written=written_steps)
@settings(max_examples=30, deadline=None)
def test_a_journal_becomes_what_a_writer_writes(suffix: str, written: Step) -> None:
    """A step that comes from a journal stands in the cassette, byte for byte, as one that is written at once."""
    timing = StepTiming(start_ms=1.0, duration_ms=2.0)
    header = Header(name="tape", volatile=Volatile(steps={1: timing, 2: timing}))
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / place / f"tape{suffix}" for place in ("journal", "written")]
        journal = Journal(files[0], Header(name="tape"))
        for place in (("a", 2), ("a", 1)):
            order: Any = ("${", '","step":{', place)
            journal.append_step(written.model_copy(update={"number": 0, "name": str(place)}), timing, order)
        journal.commit(Header(name="tape"))
        twice: list[Interaction | Step] = [
            written.model_copy(update={"number": n, "name": str(("a", n))}) for n in (1, 2)
        ]
        write_cassette(files[1], header, twice)
        assets = [sorted(path.name for path in file.parent.rglob("*") if path.is_file()) for file in files]
        assert files[0].read_bytes() == files[1].read_bytes()
        assert assets[0] == assets[1]


@pytest.mark.process
def test_steps_survive_the_process(tmp_path: Path) -> None:
    """After a kill, what had ended is recovered, steps and interactions in their order."""
    program = """
        import os, signal, sys
        from agenttape_core.integration import Boundary, StepEvent, intercept, record_step
        from agenttape_core.integration.observing import Observation
        observation = Observation(sys.argv[1])
        session = observation.session
        above = session.root.child("agent")
        call = session.cross(Boundary("tool"), "t", {"x": 1}, position=above.child("t"))
        intercept(call, lambda: "done")
        record_step(session, StepEvent("agent", "agent", above.address, above.order, 0.0, output="all"))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    target = tmp_path / "tape.jsonl"
    process = subprocess.run([sys.executable, "-c", textwrap.dedent(program), str(target)], check=False)
    assert process.returncode != 0
    assert not target.exists()

    (journal,) = leftover_journals(target)
    cassette = open_cassette(recover(journal))
    assert [(type(record).__name__, record.address) for record in cassette.records()] == [
        ("Step", "agent"),
        ("Interaction", "agent/t"),
    ]
    assert next(cassette.steps()).output == "all"
