"""The lines of a cassette that `git diff` shows are the same, whether it was parsed or not."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from agenttape_core.format import volatile_values
from agenttape_core.schema.installed import published
from agenttape_core.storage import open_cassette, write_cassette
from agenttape_core.tools.git.driver import diffable
from agenttape_core.tools.git.filtered import filtered
from agenttape_core.tools.git.parsed import parsed
from agenttape_core.tools.rewrite import migrate

ROOT = Path(__file__).parents[4]
GOLDEN = ROOT / "tests" / "golden" / "v2"
RECORDED = sorted(
    [*GOLDEN.glob("*.yaml"), *GOLDEN.with_name("v1").glob("*.yaml"), *ROOT.glob("examples/**/cassettes/**/*.yaml")]
)


@pytest.fixture
def cassette(tmp_path: Path) -> Path:
    """A cassette with steps, stamps, blocks of text and versions of packages, without a stream."""
    text = (GOLDEN / "stamps.yaml").read_text("utf-8")
    text = text.replace(
        "volatile:\n", 'freeze:\n  seed: x\nvolatile:\n  packages:\n    langchain: "1.4.7"\n    "a b": "2"\n'
    )
    text = text.replace("content: paid", "content: |-\n      name: paid\n\n      --- tool x\n      kind: y")
    third, fourth = text.index("---\ninteraction: 3"), text.index("---\ninteraction: 4")
    text = text[:third] + text[fourth:].replace("continues: 3\n", "continues: 1\n")
    (tmp_path / "run.yaml").write_text(text, "utf-8")
    return tmp_path / "run.yaml"


def test_the_same_text(cassette: Path) -> None:
    """Leaving lines out gives what parsing and writing gives, and neither shows what differs in each recording."""
    text = filtered(cassette.read_bytes())
    assert text is not None
    assert text == diffable(cassette)
    assert b'langchain: "1.4.7"' in text
    assert b"paid" not in text  # it stood in the third call
    for left_out in (b"call_8ASPM4g7", b"\nfingerprint: ", b"timings", b"interaction: ", b"input_tokens"):
        assert left_out not in text


@pytest.mark.parametrize("name", ["steps.yaml", "stamps.yaml", "picture.yaml", "stamps.jsonl"])
def test_what_takes_more(name: str) -> None:
    """A stream, another layout and a cassette of before are parsed; what is not gives the same text."""
    found = filtered((GOLDEN / name).read_bytes())
    assert found in (None, diffable(GOLDEN / name))
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
    data = (GOLDEN / "stamps.yaml").read_bytes()
    assert before in data
    assert parsed(data.replace(before, after, 1)) is None


def test_recorded_before_there_were_stamps(cassette: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cassette whose ids stand in its records has the text that it has after it was migrated."""
    read, old = open_cassette(cassette), tmp_path / "old.yaml"
    with monkeypatch.context() as before:
        before.setattr(volatile_values, "MAX_TEXT", 0)
        write_cassette(old, read.header, list(read.records()))
    assert b"chatcmpl-" in old.read_bytes().split(b"---\n", 1)[1]
    assert filtered(old.read_bytes()) is None
    assert diffable(old) == diffable(cassette)
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
def test_a_diff_imports_no_session(tmp_path: Path) -> None:
    """A diff starts a process for each side of each file: it imports what a cassette is, and readers of streams."""
    cassette = tmp_path / "run.yaml"
    cassette.write_text(streamed("$chat_chunk:\n      content: {}", ["Do", "ne"]), "utf-8")
    code = (
        "import sys; before = set(sys.modules); from agenttape_core.tools.git.__main__ import main; "
        f"assert main(['textconv', {str(cassette)!r}]) == 0; "
        "parts = {name.split('.')[1] for name in sys.modules if name.startswith('agenttape_core.')}; "
        "assert parts <= "
        "{'errors', 'format', 'garbage', 'lazy_patterns', 'locks', 'named_tuples', 'readers', 'redaction', "
        "'schema', 'storage', 'tools'}, parts; "
        "assert not {'pydantic', 'yaml', 'importlib.metadata', 'pathlib', 'dataclasses'} & set(sys.modules) - before"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == diffable(cassette)


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
