"""What git shows of cassettes, parsed or not, and how three versions of one become one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.format import volatile_values
from agenttape_core.schema import Header, Interaction, Redaction, Step, StepTiming, Timing, Volatile
from agenttape_core.schema.installed import published
from agenttape_core.storage import Cassette, open_cassette, pieces_of, read_cassette, write_cassette
from agenttape_core.tools.git.driver import CLEAN, CONFLICTS, UNABLE, Merged, diffable, merge_files, merged
from agenttape_core.tools.git.filtered import filtered
from agenttape_core.tools.git.parsed import parsed
from agenttape_core.tools.rewrite import migrate

from ....kit.records import call, step

ROOT = Path(__file__).parents[4]
GOLDEN_FILES = ROOT / "tests" / "golden" / "v2"
RECORDED = sorted(
    [
        *GOLDEN_FILES.glob("*.yaml"),
        *GOLDEN_FILES.with_name("v1").glob("*.yaml"),
        *ROOT.glob("examples/**/cassettes/**/*.yaml"),
    ]
)


@pytest.fixture
def stamped(tmp_path: Path) -> Path:
    """A cassette with steps, stamps, blocks of text and versions of packages, without a stream."""
    text = (GOLDEN_FILES / "stamps.yaml").read_text("utf-8")
    text = text.replace(
        "volatile:\n", 'freeze:\n  seed: x\nvolatile:\n  packages:\n    langchain: "1.4.7"\n    "a b": "2"\n'
    )
    text = text.replace("content: paid", "content: |-\n      name: paid\n\n      --- tool x\n      kind: y")
    third, fourth = text.index("---\ninteraction: 3"), text.index("---\ninteraction: 4")
    text = text[:third] + text[fourth:].replace("continues: 3\n", "continues: 1\n")
    (tmp_path / "run.yaml").write_text(text, "utf-8")
    return tmp_path / "run.yaml"


def test_the_same_text(stamped: Path) -> None:
    """Leaving lines out gives what parsing and writing gives, and neither shows what differs in each recording."""
    text = filtered(stamped.read_bytes())
    assert text is not None
    assert text == diffable(stamped)
    assert b'langchain: "1.4.7"' in text
    assert b"paid" not in text  # it stood in the third call
    for left_out in (b"call_8ASPM4g7", b"\nfingerprint: ", b"timings", b"interaction: ", b"input_tokens"):
        assert left_out not in text


@pytest.mark.parametrize("name", ["steps.yaml", "stamps.yaml", "picture.yaml", "stamps.jsonl"])
def test_what_takes_more(name: str) -> None:
    """A stream, another layout and a cassette of before are parsed; what is not gives the same text."""
    found = filtered((GOLDEN_FILES / name).read_bytes())
    assert found in (None, diffable(GOLDEN_FILES / name))
    assert (found is None) == (name != "steps.yaml")


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_plain_data_is_enough(path: Path) -> None:
    """What is parsed without the models of records has the same text, streams and stamps of any framework included."""
    assert parsed(path.read_bytes()) == diffable(path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"---\ninteraction: 1\n", b"---\ninteraction: 1  # the first\n"),
        (b"system_fingerprint: ${1.system_fingerprint}", b"system_fingerprint: ${1.print}"),
        (b"\n  stamps: |\n", b"\n  stamps: |\n    one\n"),
        (b"\noutcome:\n", b"\noutcome: x\n"),
        (b"kind: chat\n", b"kind: \xff\n"),
    ],
)
def test_what_a_person_changed(tmp_path: Path, before: bytes, after: bytes) -> None:
    """A file that stands otherwise than AgentTape writes it is left to the reader that checks."""
    data = (GOLDEN_FILES / "stamps.yaml").read_bytes()
    assert before in data
    assert parsed(data.replace(before, after, 1)) is None


def test_recorded_before_there_were_stamps(stamped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cassette whose ids stand in its records has the text that it has after it was migrated."""
    read, old = open_cassette(stamped), tmp_path / "old.yaml"
    with monkeypatch.context() as before:
        before.setattr(volatile_values, "MAX_TEXT", 0)
        write_cassette(old, read.header, list(read.records()))
    assert b"chatcmpl-" in old.read_bytes().split(b"---\n", 1)[1]
    assert filtered(old.read_bytes()) is None
    assert diffable(old) == diffable(stamped)
    assert migrate(old).is_due
    migrated = open_cassette(old)
    assert (migrated.has_stamps, list(migrated.records())) == (True, list(read.records()))
    assert not migrate(old).is_due


@pytest.mark.parametrize("chunk", ["{}", "$chunk:\n      content: {}", "$chat_chunk:\n      content: {}"])
def test_where_a_stream_was_cut(tmp_path: Path, chunk: str) -> None:
    """The same stream in other chunks has the same text, whichever framework recorded it."""
    texts = []
    for pieces in (["Do", "ne"], ["Done"], ["D", "o", "n", "e"]):
        (tmp_path / "run.yaml").write_text(streamed(chunk, pieces), "utf-8")
        texts.append(diffable(tmp_path / "run.yaml"))
    assert b"Done" in texts[0]
    assert texts == texts[:1] * 3


def streamed(chunk: str, pieces: list[str]) -> str:
    """Return a cassette of one stream."""
    chunks = "".join(f"  - {chunk.format(piece)}\n" for piece in pieces)
    return (
        "agenttape: 2\nname: run\n---\ninteraction: 1\nkind: chat\nname: Model\naddress: a\n"
        f'fingerprint: "{"1" * 32}"\nrequest: {{}}\n'
        f"outcome:\n  status: streamed\n  chunks:\n{chunks}  ended: exhausted\n...\n"
    )


@pytest.mark.process
def test_a_diff_imports_no_session(stamped: Path, tmp_path: Path) -> None:
    """A diff starts a process for each side of each file: it imports what a cassette is, and readers of streams."""
    chunks = tmp_path / "chunks.yaml"
    chunks.write_text(streamed("$chat_chunk:\n      content: {}", ["Do", "ne"]), "utf-8")
    code = (
        "import sys; before = set(sys.modules); from agenttape_core.tools.git.__main__ import main; "
        f"assert main(['textconv', {str(stamped)!r}]) == 0; "
        "assert not {'pydantic', 'yaml', 'json'} & set(sys.modules) - before; "
        f"assert main(['textconv', {str(chunks)!r}]) == 0; "
        "parts = {name.split('.')[1] for name in sys.modules if name.startswith('agenttape_core.')}; "
        "assert parts <= "
        "{'errors', 'format', 'garbage', 'lazy_patterns', 'locks', 'named_tuples', 'readers', 'redaction', "
        "'schema', 'storage', 'tools'}, parts; "
        "assert not {'pydantic', 'yaml', 'importlib.metadata', 'pathlib', 'dataclasses'} & set(sys.modules) - before"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == diffable(stamped) + diffable(chunks)


def test_what_distributions_publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first distribution of a name counts, and one in an archive is found, too."""

    def installed(folder: Path, name: str, entries: str) -> None:
        """Write what an installer says about a distribution."""
        told = folder / f"{name}-1.0.dist-info"
        told.mkdir(parents=True)
        (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
        (told / "entry_points.txt").write_text(entries, "utf-8")

    for place, published_as in (("a", "json:dumps"), ("b", "json:loads")):
        entries = f"[console_scripts]\nx = json:load\n\n# ours\n[agenttape.tests]\nx.y={published_as} [extra]\n"
        installed(tmp_path / place, "Some_Name", entries)
    installed(tmp_path / "b", "other", "[agenttape.tests]\nmain = textwrap : TextWrapper.fill\n")
    installed(tmp_path / "b", "without", "")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "a"), str(tmp_path / "none"), str(tmp_path / "b"), *sys.path])
    assert list(published("agenttape.tests")) == [json.dumps, textwrap.TextWrapper.fill]
    assert list(published("agenttape.other")) == []
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("third-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: third\nVersion: 1.0\n")
        archive.writestr("third-1.0.dist-info/entry_points.txt", "[agenttape.tests]\nz = json:load\n")
    monkeypatch.syspath_prepend(str(tmp_path / "c.zip"))
    assert set(published("agenttape.tests")) == {json.load, json.dumps, textwrap.TextWrapper.fill}


GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "v2"
PATH = Path("run.yaml")


def cassette(*records: Interaction | Step, **header: Any) -> Cassette:
    """Return a cassette of records."""
    return Cassette(PATH, b"".join(pieces_of(PATH, Header(**{"name": "run", **header}), records)))


def merge(base: Cassette | None, ours: Cassette, theirs: Cassette) -> Merged:
    """Merge, where that can be done."""
    result = merged(base, ours, theirs)
    assert result is not None
    return result


def test_the_place_of_what_is_new() -> None:
    """A record that only their side has stands behind the one that it stands behind there, and all are renumbered."""

    def addresses(result: Merged) -> list[str]:
        """Return where the records of a merge stand."""
        return [record.address for slot in result.slots for record in slot.records]

    base = cassette(call(1, "b"), call(2, "d"))
    theirs = cassette(call(1, "a"), call(2, "b"), call(3, "c"), call(4, "d"), call(5, "e"))
    result = merge(base, cassette(call(1, "b"), call(2, "bb"), call(3, "d")), theirs)
    assert addresses(result) == ["a", "b", "c", "bb", "d", "e"]
    assert [record.number for slot in result.slots for record in slot.records] == [1, 2, 3, 4, 5, 6]


def test_numbers_that_point_to_records() -> None:
    """The call that was executing, and the times, are those of the same records after they got other numbers."""
    base = cassette(call(1, "b"), call(2, "b/x", parent=1), step(1, "s"))
    times = Volatile(timings={n: Timing(duration_ms=float(n)) for n in (1, 2, 3)}, created="2026-01-01")
    ours = cassette(call(1, "a"), call(2, "b"), call(3, "b/x", parent=2), step(1, "s"), volatile=times)
    marks = Volatile(steps={1: StepTiming(start_ms=1.0, duration_ms=2.0), 2: StepTiming(start_ms=3.0, duration_ms=4.0)})
    more = call(1, "0"), call(2, "b"), call(3, "b/x", parent=2)
    theirs = cassette(*more, step(1, "r"), step(2, "s"), volatile=marks)
    result = merge(base, ours, theirs)
    found = {record.address: record for slot in result.slots for record in slot.records}
    inner = found["b/x"]
    assert isinstance(inner, Interaction)
    assert inner.parent == found["b"].number == 3
    volatile = result.header.volatile
    assert {n: timing.duration_ms for n, timing in volatile.timings.items()} == {2: 1.0, 3: 2.0, 4: 3.0}
    assert volatile.steps == {found["r"].number: marks.steps[1]}


def test_the_same_place_several_times() -> None:
    """Events that stand at one address are told apart by their order."""
    events = [step(n, "a", kind="event", data=n) for n in (1, 2, 3)]
    changed = events[1].model_copy(update={"data": 9})
    result = merge(cassette(*events), cassette(*events), cassette(events[0], changed, events[2]))
    assert [record.data for slot in result.slots for record in slot.records if isinstance(record, Step)] == [1, 9, 3]


@pytest.mark.parametrize("value", [1.0, True, "1"])
def test_equal_is_not_the_same(value: Any) -> None:
    """A value of another type is another value."""
    result = merge(cassette(call(1, "a", 1)), cassette(call(1, "a", value)), cassette(call(1, "a", None)))
    assert len(result.conflicts) == 1


def test_what_headers_say() -> None:
    """A field that one side changed is taken; if both changed it, there is no merge."""
    base, tagged = cassette(tags=["a"]), cassette(tags=["b"])
    assert merge(base, cassette(tags=["a"]), tagged).header.tags == ["b"]
    assert merge(base, tagged, base).header.tags == ["b"]
    assert merged(base, cassette(tags=["c"]), tagged) is None
    assert merge(None, tagged, tagged).header.tags == ["b"]


def test_what_differs_from_run_to_run() -> None:
    """What is volatile is that of the side that changed it; if both did, of the one that was recorded later."""

    def recorded(created: str) -> Cassette:
        return cassette(volatile=Volatile(created=created, python=created))

    old, new, newest = recorded("2026-01-01"), recorded("2026-02-01"), recorded("2026-03-01")
    for base, ours, theirs, expected in [
        (old, old, new, "2026-02-01"),
        (new, old, new, "2026-01-01"),
        (old, newest, new, "2026-03-01"),
        (old, new, newest, "2026-03-01"),
        (None, newest, new, "2026-03-01"),
    ]:
        assert merge(base, ours, theirs).header.volatile.python == expected


def test_pseudonyms_of_two_keys() -> None:
    """Recordings whose pseudonyms were made with different keys are not mixed; without pseudonyms no key matters."""
    base = cassette(redaction=Redaction(key="0a"))
    for value, mixes in (("[REDACTED:email:7f3a09bc]", True), ("said", False)):
        ours = cassette(call(1, "a", value), redaction=Redaction(key="0a"))
        theirs = cassette(call(1, "b"), redaction=Redaction(key="0b"))
        assert (merged(base, ours, theirs) is None) is mixes


def test_words_that_are_gone(tmp_path: Path) -> None:
    """A call that was asked with the old answer is a conflict; one that only has the same model in it is not."""
    model = {"request": {"model": "gpt-5"}}
    old, new = call(1, "a", {"said": "old", "by": "gpt-5"}, **model), call(1, "a", "new", **model)
    told, free = call(2, "b", request={"told": ["old"]}), call(3, "c", **model)
    result = merge(cassette(old), cassette(new), cassette(old, told, free))
    assert [slot.records[0].address for slot in result.conflicts] == ["b"]
    result = merge(cassette(old), cassette(old, told, free), cassette(new))
    assert [slot.records[0].address for slot in result.conflicts] == ["b"]
    sides = [b"".join(pieces_of(PATH, Header(name="run"), side)) for side in ([old], [new], [old, told, free])]
    code, said = merge_files(*files(tmp_path, *sides), marker=7, name="run.yaml")
    assert (code, "was asked with what a came to, which the other side changed" in said) == (CONFLICTS, True)


RECORDS = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 2)), unique_by=lambda pair: pair[0], max_size=5)


def made(pairs: list[tuple[str, int]]) -> Cassette:
    """Return a cassette of calls at places, in their order."""
    return cassette(*(call(n, address, value) for n, (address, value) in enumerate(sorted(pairs), 1)))


@given(RECORDS, RECORDS)
def test_laws(one: list[tuple[str, int]], other: list[tuple[str, int]]) -> None:
    """If one side changed nothing, the merge is the other; if both are alike, it is either."""

    def values(result: Merged) -> list[tuple[str, Any]]:
        """Return what a merge without conflicts holds."""
        assert not result.conflicts
        records = [record for slot in result.slots for record in slot.records]
        return [(record.address, record.outcome.value) for record in records if isinstance(record, Interaction)]

    assert values(merge(made(one), made(one), made(other))) == sorted(other)
    assert values(merge(made(one), made(other), made(one))) == sorted(other)
    assert values(merge(made(one), made(other), made(other))) == sorted(other)


@given(RECORDS, RECORDS, RECORDS)
def test_nothing_is_lost(
    base: list[tuple[str, int]], ours: list[tuple[str, int]], theirs: list[tuple[str, int]]
) -> None:
    """Whatever a side changed or added is in the merge, or in a conflict, whichever side is ours."""
    results = [merge(made(base), *map(made, sides)) for sides in ((ours, theirs), (theirs, ours))]
    kept = [
        {(r.address, r.outcome.value) for slot in result.slots for r in slot.records if isinstance(r, Interaction)}
        for result in results
    ]
    assert (set(ours) | set(theirs)) - set(base) <= kept[0] == kept[1]


def files(folder: Path, *contents: bytes) -> list[Path]:
    """Return files as git hands them to a driver: without a suffix."""
    paths = [folder / name for name in ("base", "ours", "theirs")]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


def test_assets_stay_where_they_are(tmp_path: Path) -> None:
    """A merge needs no asset, which git may not have checked out yet, and keeps the references to them."""
    base = (GOLDEN / "picture.yaml").read_bytes()
    ours = base.replace(b"name: picture", b"name: painting")
    theirs = base.replace(b"status: returned", b"status: returned", 1)
    paths = files(tmp_path, base, ours, theirs)
    assert merge_files(*paths, marker=7, name="picture.yaml") == (CLEAN, "")
    merged_file = tmp_path / "picture.yaml"
    merged_file.write_bytes(paths[1].read_bytes())
    shutil.copytree(GOLDEN / "picture.yaml.assets", tmp_path / "picture.yaml.assets")
    before = [record.model_dump() for record in open_cassette(GOLDEN / "picture.yaml").records()]
    assert [record.model_dump() for record in open_cassette(merged_file).records()] == before
    assert b"$asset" in diffable(GOLDEN / "picture.yaml")


def test_a_conflict_with_either_side_is_a_cassette(tmp_path: Path) -> None:
    """Each side of a conflict is whole: what it continues is not lost with the other side."""
    history = [{"role": "user", "content": "x" * 600}]

    def side(said: str) -> bytes:
        more = [*history, {"role": "assistant", "content": said}]
        first = call(1, "a", said, kind="chat", request={"messages": history})
        calls = [first, call(2, "b", "said", kind="chat", request={"messages": more})]
        return b"".join(pieces_of(Path("run.jsonl"), Header(name="run"), calls))

    paths = files(tmp_path, side("old"), side("ours"), side("theirs"))
    code, told = merge_files(*paths, marker=9, name="run.jsonl")
    assert (code, "2 of 2 records in conflict" in told) == (CONFLICTS, True)

    text = paths[1].read_text()
    assert text.count(f"{'<' * 9} ours\n") == 2
    sides = re.compile(rf"{'<' * 9} ours\n.*?{'=' * 9}\n(.*?){'>' * 9} theirs\n", re.DOTALL)
    paths[1].write_text(sides.sub(r"\1", text))
    with paths[1].open("rb") as stream:
        assert [item.outcome.value for item in read_cassette(stream).interactions()] == ["theirs", "said"]


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_a_side_that_is_no_cassette(tmp_path: Path, broken: int) -> None:
    """If one version cannot be read, nothing is written, and it is said which."""
    content = (GOLDEN / "steps.yaml").read_bytes()
    contents = [content] * 3
    contents[broken] = b"services: {}\n"
    paths = files(tmp_path, *contents)
    code, told = merge_files(*paths, marker=7, name="steps.yaml")
    assert code == UNABLE
    assert ("the common version", "our version", "their version")[broken] in told
    assert [path.read_bytes() for path in paths] == contents


@pytest.mark.process
def test_the_command_of_git(tmp_path: Path) -> None:
    """A wrong call ends with 2 and says what is right; a hostile name in a cassette stays on its line."""
    command = [sys.executable, "-m", "agenttape_core.tools.git"]
    wrong = subprocess.run([*command, "merge"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, "textconv FILE" in wrong.stderr) == (2, True)
    sides = [b"".join(pieces_of(PATH, Header(name="odd"), [call(1, "a\x1b[2J", value)])) for value in (1, 2, 3)]
    refused = subprocess.run(
        [*command, "merge", *files(tmp_path, *sides), "7", "run.yaml"], capture_output=True, check=False
    )
    assert (refused.returncode, b"\x1b" in refused.stderr, b"a\\x1b[2J: both" in refused.stderr) == (
        CONFLICTS,
        False,
        True,
    )
    odd = tmp_path / "odd.yaml"
    odd.write_bytes(b"".join(pieces_of(odd, Header(name="odd"), [call(1, "a\n--- b", name="\x1b[2J")])))
    shown = subprocess.run([*command, "textconv", str(odd)], capture_output=True, check=True).stdout
    assert b"\x1b" not in shown
    assert sum(line.startswith(b"--- ") for line in shown.splitlines()) == 1
