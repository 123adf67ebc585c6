"""`redact` takes secrets out of cassettes where they are, proves them gone, and says what it could not reach."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, convert, open_cassette, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.schema import Header, Outcome, Redaction, Timing, Volatile
from agenttape_core.storage import Journal

from ...kit.records import call, written
from .conftest import look_up, record

WEATHER = "cassettes/weather.yaml"
KEY = "sk-proj-" + "a1B2" * 12
VALUE = 'hush "7" ünder/cover'
KEYED = Redaction(key="ab" * 32)
RULE = '[tool.agenttape]\nredaction_rules = [{name = "city", literal = "Paris"}]\n'


def planted(path: Path, secret: str = KEY) -> Path:
    """Plant a secret in what somebody has edited, in whatever kind of cassette."""
    text = path.read_text()
    path.write_text(re.sub(r"(?<=content: |country: )(\w)", rf"{secret} \1", text, count=1))
    assert secret in path.read_text()
    return path


def forms(secret: str) -> list[bytes]:
    """Return what would show that a secret is still there."""
    encoded = secret.encode()
    shown = {encoded, json.dumps(secret)[1:-1].encode(), json.dumps(json.dumps(secret))[3:-3].encode(), encoded.hex()}
    return [form.encode() if isinstance(form, str) else form for form in shown]


def assert_gone(folder: Path, secret: str) -> None:
    """No file below a folder holds a secret, packed or not."""
    for path in folder.rglob("*"):
        if path.is_file():
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            for form in forms(secret):
                assert form not in data, f"{form!r} in {path}"


@pytest.mark.process
def test_each_kind(command: Any, recorded: Path) -> None:
    """What is found in a cassette of each framework is replaced; --dry-run only lists; the rest of it stays."""
    before = open_cassette(recorded)
    untouched = recorded.read_bytes()
    assert command("cassette", "redact", recorded).out == "nothing to redact\n"
    assert recorded.read_bytes() == untouched

    planted(recorded)
    edited = recorded.read_bytes()
    checked = command("cassette", "redact", recorded, "--dry-run")
    assert checked.code == 1
    assert "openai at " in checked.out
    assert recorded.read_bytes() == edited

    ended = command("cassette", "redact", recorded)
    assert ended.code == 0, ended
    assert KEY not in ended.out + checked.out
    assert "the history of version control" in ended.out
    assert_gone(recorded.parent, KEY)
    assert command("check", "--only", "secrets", recorded).code == 0
    assert command("cassette", "redact", recorded, "--dry-run").code == 0
    after = open_cassette(recorded)
    assert [entry.address for entry in after.entries] == [entry.address for entry in before.entries]
    assert after.header.volatile == before.header.volatile


def test_a_rule_that_came_later(command: Any, folder: Path) -> None:
    """A session with the rule replays; one without it is told that it lacks it, as if it had been recorded so."""
    (folder / "pyproject.toml").write_text(RULE)
    (row,) = command("cassette", "redact", "--json").json
    assert [leak["kind"] for leak in row["replaced"]] == ["city"] * 2
    assert (row["left"], row["merged"], row["problem"]) == ([], False, None)
    with use_cassette("weather", on_unused="ignore"):
        assert look_up("Paris") == "Paris: sunny"
    (folder / "pyproject.toml").unlink()
    with pytest.raises(ConfigurationError, match=r"rules \['city'\](?s:.)*redaction_rules"), use_cassette("weather"):
        pass


def test_a_value_of_a_variable(command: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value goes wherever it stands and however it is written: names, addresses, JSON in JSON, URLs, hex, base64."""
    escaped = json.dumps(json.dumps({"text": VALUE}))
    hidden = base64.b64encode(f"so {VALUE} it is".encode()).decode()
    item = call(
        address=f"run/{VALUE}",
        name=f"ask {VALUE}",
        tags=[VALUE],
        metadata={VALUE: VALUE},
        request={
            "json": escaped,
            "hex": VALUE.encode().hex(),
            "url": "https://x.example/hush%20%227%22%20%C3%BCnder/cover",
        },
        outcome=Outcome(status="streamed", chunks=[VALUE[:6], VALUE[6:], {"encoded": hidden}], ended="exhausted"),
    )
    volatile = Volatile(turns=[[VALUE]], readings={VALUE: "0"})
    written(folder / "all.jsonl.gz", item, name=VALUE, redaction=KEYED, volatile=volatile)
    monkeypatch.setenv("INTERNAL", VALUE)

    ended = command("cassette", "redact", "all.jsonl.gz", "--value-from-env", "INTERNAL")

    assert ended.code == 0, ended
    assert_gone(folder, VALUE)
    redacted = open_cassette(folder / "all.jsonl.gz")
    (after,) = redacted.interactions()
    assert after.fingerprint != item.fingerprint
    assert redacted.header.name == after.tags[0] == after.address.removeprefix("run/")
    assert VALUE[:6] not in str(after.outcome.chunks)
    assert VALUE[6:] not in str(after.outcome.chunks)
    assert "[REDACTED:secret:" in base64.b64decode(after.outcome.chunks[2]["encoded"]).decode()  # type: ignore[index]
    assert redacted.header.redaction.rules == []


def test_assets(command: Any, folder: Path) -> None:
    """An asset with a secret becomes another file with another name; no byte of the old one stays."""

    @boundary("tool")
    def page() -> bytes:
        return b"Bluebird of Oz. " * 3000

    with use_cassette(folder / "big.yaml", mode="all"):
        page()
    (old,) = (folder / "big.yaml.assets").iterdir()
    (folder / "pyproject.toml").write_text('[tool.agenttape]\nredaction_rules = [{name = "p", literal = "Bluebird"}]\n')
    assert command("cassette", "redact", "big.yaml").code == 0
    (new,) = (folder / "big.yaml.assets").iterdir()
    assert new.name != old.name
    assert_gone(folder / "big.yaml.assets", "Bluebird")
    assert command("check", "--only", "files", "big.yaml").code == 0


def test_bytes_that_no_record_has(command: Any, folder: Path) -> None:
    """What was replaced is looked for in every file of the folder of assets, also in what somebody has put there."""

    @boundary("tool")
    def page() -> bytes:
        return f"use {KEY} ".encode() * 1000

    with use_cassette(folder / "big.yaml", mode="all", redact=False):
        page()
    (folder / "big.yaml.assets").mkdir()
    (folder / "big.yaml.assets" / "elsewhere").symlink_to(folder)
    (folder / "big.yaml.assets" / "notes.txt").write_bytes(b"x" + base64.b64encode(f"it was {KEY}".encode()))
    ended = command("cassette", "redact", "big.yaml", "--json")
    assert ended.code == 1
    assert sorted((leak["record"], leak["place"], leak["kind"]) for leak in ended.json[0]["left"]) == [
        ("file", "big.yaml.assets/elsewhere", "unreadable"),
        ("file", "big.yaml.assets/notes.txt", "replaced-elsewhere"),
    ]


def test_equal_secrets_stay_equal(command: Any, folder: Path) -> None:
    """What is replaced now has the pseudonym that it would have had when it was recorded."""
    record(folder / "a.yaml", f"Rain? {KEY}")
    pseudonym = re.search(r"\[REDACTED:openai:\w{8}\]", (folder / "a.yaml").read_text())
    assert pseudonym
    (folder / "a.yaml").write_text((folder / "a.yaml").read_text().replace(pseudonym[0], KEY, 1))
    command("cassette", "redact", "a.yaml")
    text = (folder / "a.yaml").read_text()
    assert set(re.findall(r"\[REDACTED:openai:\w{8}\]", text)) == {pseudonym[0]}


def test_what_is_left_is_told(command: Any, folder: Path) -> None:
    """Names stay and are told, which ends with 1; a text that equals a replaced one is replaced, too, and listed."""
    item = call(address="to/ann@acme-mail.com", request={"arguments": {"api_key": "t0psecret", "note": "t0psecret"}})
    written(folder / "left.yaml", item, redaction=KEYED)
    for words, count in ((["--dry-run"], 1), ([], 1), ([], 0)):
        ended = command("cassette", "redact", "left.yaml", *words)
        assert ended.code == 1
        assert "interaction 1: email at address is left" in ended.out
        assert ended.out.count("secret at request.arguments.note") == count
        assert "t0psecret" not in ended.out
    assert "t0psecret" not in (folder / "left.yaml").read_text(encoding="utf-8")
    ended = command("cassette", "redact", "left.yaml", "--json")
    assert [leak["place"] for leak in ended.json[0]["left"]] == ["address"]


def test_journals(command: Any, folder: Path) -> None:
    """What a broken recording left beside a cassette is not rewritten, and told, also if it can't be read."""
    journal = Journal(folder / WEATHER, Header(name=KEY.replace("a1B2", "c3D4")))
    journal.append(next(open_cassette(folder / WEATHER).interactions()), Timing(duration_ms=1.0), ())
    journal.abandon(keep=True)
    planted(folder / WEATHER)
    (folder / "cassettes" / ".weather.yaml.1-0a1b2c3d.journal").write_text("nonsense\nmore\nand more\n")
    ended = command("cassette", "redact", WEATHER)
    assert ended.code == 1
    assert ".journal: header: openai at name is left" in ended.out
    assert "unreadable at .weather.yaml.1-0a1b2c3d.journal is left" in ended.out
    assert KEY not in (folder / WEATHER).read_text()


def test_values_on_standard_input(command: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values may come in lines on standard input; the ids of a call beside its request are looked into, too."""
    item = next(open_cassette(folder / WEATHER).interactions()).model_copy(update={"ids": ["call-4711-secret"]})
    written(folder / "cassettes" / "ids.yaml", item, redaction=KEYED)
    monkeypatch.setattr("sys.stdin", io.StringIO("sunny\n\n4711-secret\nAtlantis\n"))
    assert command("cassette", "redact", "--value", "-").code == 0
    for value in ("sunny", "4711-secret", "Atlantis"):
        assert_gone(folder, value)


def test_a_text_with_a_pseudonym_in_it(command: Any, folder: Path) -> None:
    """A rule that takes in what was a pseudonym already is told: a session would make another pseudonym of it."""
    record(folder / "mail.yaml", "write to ann@acme-mail.com now")
    (folder / "pyproject.toml").write_text(
        "[tool.agenttape]\nredaction_rules = [{name = 'note', keys = ['content']}]\n"
    )
    ended = command("cassette", "redact", "mail.yaml")
    assert "already held a pseudonym" in ended.out


def test_the_key_of_the_environment(command: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cassette whose key is not in it needs the key, and says so."""
    monkeypatch.setenv("AGENTTAPE_REDACTION_KEY", "cd" * 32)
    planted(record(folder / "keyed.yaml"))
    monkeypatch.delenv("AGENTTAPE_REDACTION_KEY")
    ended = command("cassette", "redact", "keyed.yaml")
    assert ended.code == 3
    assert "set AGENTTAPE_REDACTION_KEY" in ended.out
    monkeypatch.setenv("AGENTTAPE_REDACTION_KEY", "cd" * 32)
    assert command("cassette", "redact", "keyed.yaml").code == 0
    assert open_cassette(folder / "keyed.yaml").header.redaction.key is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--value", "hunter2"], "--value takes - only"),
        (["--value-from-env", "NOT_SET"], "NOT_SET: this variable is not set"),
        (["--value-from-env", "SHORT"], "less than 4 characters"),
        (["-"], "a cassette on standard input cannot be replaced"),
        (["-", "--dry-run", "--value", "-"], "the cassette is there"),
    ],
)
def test_wrong_usage(command: Any, monkeypatch: pytest.MonkeyPatch, words: list[str], told: str) -> None:
    """What is asked wrongly ends with 2, and no value is repeated."""
    monkeypatch.setenv("SHORT", "abc")
    ended = command("cassette", "redact", *words)
    assert ended.code == 2
    assert told in ended.err
    assert "hunter2" not in ended.err


def test_what_cannot_be_written(command: Any, folder: Path) -> None:
    """A cassette that is being recorded, or is none, ends with 3; the others are redacted all the same."""
    planted(folder / WEATHER)
    planted(record(folder / "cassettes" / "zoo.yaml"))
    journal = Journal(folder / WEATHER, Header(name="x"))
    ended = command("cassette", "redact", "cassettes")
    journal.abandon(keep=False)
    assert ended.code == 3
    assert KEY in (folder / WEATHER).read_text()
    assert KEY not in (folder / "cassettes" / "zoo.yaml").read_text()
    assert command("cassette", "redact", "gone.yaml").code == 3
    assert not list(folder.glob(".gone*"))


@pytest.mark.parametrize("name", ["w.jsonl", "w.yaml.gz", "w.jsonl.zst"])
def test_layouts(command: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each layout and packing is redacted in place; a cassette on standard input can be checked."""

    def _texts(path: Path) -> Iterator[str]:
        for item in open_cassette(path).interactions():
            yield from re.findall(r"\[REDACTED:openai:\w{8}\]", str(item.request))

    data = planted(folder / WEATHER).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert command("cassette", "redact", "-", "--dry-run").code == 1
    convert(folder / WEATHER, folder / name)
    assert command("cassette", "redact", name).code == 0
    assert command("check", "--only", "secrets", name).code == 0
    assert list(_texts(folder / name))
