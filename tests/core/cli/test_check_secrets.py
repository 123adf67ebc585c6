"""`check --only secrets` finds secrets wherever a cassette can hold them, and never prints one."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, convert, use_cassette
from agenttape_core.schema import Header, Interaction, Outcome, Step
from agenttape_core.storage import write_cassette

from .conftest import record

WEATHER = "cassettes/weather.yaml"
KEY = "sk-proj-" + "a1B2" * 12
RULE = '[tool.agenttape]\nredaction_rules = [{name = "project", literal = "Bluebird"}]\n'


def planted(path: Path) -> Path:
    """Plant a key and the word of a rule in a cassette that somebody has edited."""
    path.write_text(path.read_text().replace("content: Rain?", f"content: Rain? {KEY} Bluebird"))
    return path


def leaks(ended: Any) -> list[tuple[str, str, str]]:
    """Return record, place and kind of what was found."""
    said = [each["message"] for run in ended.json["runs"] for check in run["checks"] for each in check["findings"]]
    found = [re.fullmatch(r"([^:]+): (\S+) at (.*)", message) for message in said]
    return [(match[1], match[3], match[2]) for match in found if match is not None]


def test_finds_and_never_tells(command: Any, folder: Path) -> None:
    """A secret is found with its record, place and kind; nothing that is printed holds it."""
    assert command("check", "--only", "secrets").code == 0
    assert command("check", "--only", "secrets").out == "1 run, 1 check: all passed\n"
    planted(folder / WEATHER)
    ended = command("check", "--only", "secrets")
    assert ended.code == 1
    assert f"{WEATHER}: secret: interaction 1: openai at request.messages[0].content" in ended.out
    assert "1 run failed" in ended.out
    assert KEY not in ended.out + command("check", "--only", "secrets", "--json").out


def test_rules_of_the_project(command: Any, folder: Path) -> None:
    """What the settings say is secret is found, as a session with these settings would replace it."""
    planted(folder / WEATHER)
    (folder / "pyproject.toml").write_text(RULE)
    assert [kind for _, _, kind in leaks(command("check", "--only", "secrets", "--json"))] == ["openai", "project"]


def test_a_rule_that_is_wrong(command: Any, folder: Path) -> None:
    """A rule that cannot work is refused with 2 and its place in the file."""
    (folder / "pyproject.toml").write_text('[tool.agenttape]\nredaction_rules = [{name = "x", pattern = "("}]\n')
    ended = command("check", "--only", "secrets")
    assert ended.code == 2
    assert "redaction_rules[0]: the redaction rule 'x' is not valid" in ended.err


def test_everywhere(command: Any, folder: Path) -> None:
    """Header, volatile block, names, addresses, JSON and base64 in texts, chunks, errors and steps are looked into."""
    error = {"type": "builtins:ValueError", "message": KEY, "args": []}
    item = Interaction(
        number=1,
        kind="tool",
        name=f"ask {KEY}",
        address=f"run/{KEY}",
        fingerprint="0" * 32,
        tags=[KEY],
        metadata={"note": KEY},
        request={"arguments": json.dumps({"deep": json.dumps({"api_key": "plain-0pen"})})},
        outcome=Outcome.model_validate(
            {"status": "streamed", "chunks": [KEY[:20], KEY[20:]], "ended": "raised", "error": error}
        ),
    )
    encoded = base64.b64encode(f"the key is {KEY}".encode()).decode()
    step = Step(number=1, kind="event", name="e", address="run", data={"encoded": encoded, KEY: 1})
    header = Header.model_validate(
        {
            "name": "n",
            "tags": [KEY],
            "input": {"x": KEY},
            "volatile": {"turns": [[f"run/{KEY}"]], "readings": {f"run/{KEY} a": "0"}, "python": KEY},
        }
    )
    write_cassette(folder / "all.yaml", header, [item, step])

    found = leaks(command("check", "--only", "secrets", "all.yaml", "--json"))

    assert {(record, place.split("[REDACTED")[0]) for record, place, _ in found} == {
        *(
            ("header", place)
            for place in ("tags[0]", "input.x", "volatile.turns[0][0]", "volatile.readings.run/", "volatile.python")
        ),
        *(("interaction 1", place) for place in ("name", "address", "tags[0]", "metadata.note", "request.arguments")),
        *(("interaction 1", place) for place in ("outcome.chunks[0]", "outcome.error.message")),
        *(("step 1", place) for place in ("data.encoded", "data.")),
    }


@pytest.mark.parametrize("name", ["big.yaml", "big.jsonl.gz", "big.yaml.zst"])
def test_assets(command: Any, folder: Path, name: str) -> None:
    """What is in a file of its own is looked into: text as text, and other data for what has a form of its own."""

    def _url(data: bytes) -> str:
        return f"data:image/png;base64,{base64.b64encode(data).decode()}"

    @boundary("tool")
    def picture() -> dict[str, Any]:
        noise = b"\x89PNG\r\n\x1a\n\xff" + b"\x80" * 20_000
        return {"raw": noise + KEY.encode() + noise, "text": b"Bluebird " * 3000, "url": _url(noise + KEY.encode())}

    with use_cassette(folder / "big.yaml", mode="all", redact=False):
        picture()
    if name != "big.yaml":
        convert(folder / "big.yaml", folder / name)
    (folder / "pyproject.toml").write_text(RULE)
    assert leaks(command("check", "--only", "secrets", name, "--json")) == [
        ("interaction 1", "outcome.value.raw.$bytes", "openai"),
        ("interaction 1", "outcome.value.text.$bytes", "project"),
        ("interaction 1", "outcome.value.url", "openai"),
    ]


@pytest.mark.process
def test_journals(command: Any, folder: Path) -> None:
    """What a recording left that was cut off is looked into, beside a cassette and in a folder."""
    code = f"""
import os
from agenttape_core import use_cassette, record_call
with use_cassette({WEATHER!r}, mode="all", redact=False):
    record_call("call", "{{}}".format, {KEY!r})
    os._exit(1)
"""
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=False)
    for words in ([], [WEATHER]):
        ended = command("check", "--only", "secrets", *words)
        assert ended.code == 1
        assert ".journal: secret: interaction 1: openai at outcome.value" in ended.out


def test_what_cannot_be_read(command: Any, folder: Path) -> None:
    """A cassette that cannot be read ends with 3, and the others are scanned all the same."""
    record(folder / "cassettes" / "zoo.yaml")
    planted(folder / WEATHER)
    (folder / "cassettes" / "broken.yaml").write_text("agenttape: 2\nname: x\n---\ninteraction: x\n")
    ended = command("check", "--only", "secrets", "--json")
    assert ended.code == 3
    assert [[each["rule"] for each in run["checks"] if each["findings"]] for run in ended.json["runs"]] == [
        ["readable"],
        ["secret"],
        [],
    ]


@pytest.mark.process
def test_each_kind(command: Any, recorded: Path) -> None:
    """A cassette of each framework is read whole, and nothing in it is taken for a secret."""
    assert command("check", "--only", "secrets", recorded).code == 0
    text = recorded.read_text()
    recorded.write_text(re.sub(r"(?<=content: |country: )(\w)", rf"{KEY} \1", text, count=1))
    ended = command("check", "--only", "secrets", recorded, "--json")
    assert {kind for _, _, kind in leaks(ended)} == {"openai"}
    assert KEY not in ended.out


def test_a_message_is_told_once(command: Any, folder: Path) -> None:
    """What every later request repeats is told where it was asked first."""
    said = [{"role": "user", "content": f"use {KEY}"}, {"role": "user", "content": "and again"}]
    items = [
        Interaction(
            number=number,
            kind="chat",
            name="m",
            address=f"m#{number}",
            fingerprint="0" * 32,
            request={"messages": [*said, {"role": "user", "content": f"turn {number} {KEY if number == 2 else ''}"}]},
            outcome=Outcome(status="returned", value="ok"),
        )
        for number in (1, 2, 3)
    ]
    write_cassette(folder / "long.yaml", Header(name="long"), items)
    assert leaks(command("check", "--only", "secrets", "long.yaml", "--json")) == [
        ("interaction 1", "request.messages[0].content", "openai"),
        ("interaction 2", "request.messages[2].content", "openai"),
    ]


def test_hostile_keys(command: Any, folder: Path) -> None:
    """What stands in the path to a secret cannot do anything to a terminal."""
    item = Interaction(
        number=1,
        kind="tool",
        name="t",
        address="t",
        fingerprint="0" * 32,
        request={"\x1b[2J\x07": {"[bold]": KEY}},
        outcome=Outcome(status="returned"),
    )
    write_cassette(folder / "evil.yaml", Header.model_validate({"name": "e", "redaction": {"key": "ab" * 32}}), [item])
    for subcommand in ("check", "cassette redact"):
        out = command(*subcommand.split(), "evil.yaml").out
        assert "openai at request.\\x1b[2J\\x07.[bold]" in out
        assert "\x1b" not in out
