"""`check --only secrets` finds secrets wherever a cassette can hold them, and never prints one."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, convert, record_call, use_cassette
from agenttape_core.schema import Outcome, Redaction, Volatile

from ...kit.records import call, step, written
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


def test_everywhere(command: Any, folder: Path) -> None:
    """Header, volatile block, names, addresses, JSON and base64 in texts, chunks, errors and steps are looked into."""
    error = {"type": "builtins:ValueError", "message": KEY, "args": []}
    broken = {"status": "streamed", "chunks": [KEY[:20], KEY[20:]], "ended": "raised", "error": error}
    item = call(
        address=f"run/{KEY}",
        name=f"ask {KEY}",
        tags=[KEY],
        metadata={"note": KEY},
        request={"arguments": json.dumps({"deep": json.dumps({"api_key": "plain-0pen"})})},
        outcome=Outcome.model_validate(broken),
    )
    encoded = base64.b64encode(f"the key is {KEY}".encode()).decode()
    event = step(kind="event", data={"encoded": encoded, KEY: 1})
    volatile = Volatile(turns=[[f"run/{KEY}"]], readings={f"run/{KEY} a": "0"}, python=KEY)
    written(folder / "all.yaml", item, event, tags=[KEY], input={"x": KEY}, volatile=volatile)

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


def test_journals(command: Any, folder: Path) -> None:
    """What a recording left that was cut off is looked into, beside a cassette and in a folder."""
    with pytest.raises(ZeroDivisionError), use_cassette(WEATHER, mode="all", redact=False):
        record_call("call", "{}".format, KEY)
        raise ZeroDivisionError
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


def test_a_message_is_told_once(command: Any, folder: Path) -> None:
    """What every later request repeats is told where it was asked first."""
    said = [{"role": "user", "content": f"use {KEY}"}, {"role": "user", "content": "and again"}]
    turns = [{"role": "user", "content": f"turn {number} {KEY if number == 2 else ''}"} for number in (1, 2, 3)]
    items = [
        call(number, f"m#{number}", kind="chat", request={"messages": [*said, turn]})
        for number, turn in enumerate(turns, 1)
    ]
    written(folder / "long.yaml", *items)
    assert leaks(command("check", "--only", "secrets", "long.yaml", "--json")) == [
        ("interaction 1", "request.messages[0].content", "openai"),
        ("interaction 2", "request.messages[2].content", "openai"),
    ]


def test_hostile_keys(command: Any, folder: Path) -> None:
    """What stands in the path to a secret cannot do anything to a terminal."""
    item = call(request={"\x1b[2J\x07": {"[bold]": KEY}})
    written(folder / "evil.yaml", item, redaction=Redaction(key="ab" * 32))
    for subcommand in ("check", "cassette redact"):
        out = command(*subcommand.split(), "evil.yaml").out
        assert "openai at request.\\x1b[2J\\x07.[bold]" in out
        assert "\x1b" not in out
