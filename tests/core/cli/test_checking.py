"""`check` finds secrets, never prints one, judges runs of each framework, and tells which cassettes are stale."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, convert, record_call, use_cassette
from agenttape_core.schema import Outcome, Redaction, Volatile

from ...kit.records import call, step, written
from .conftest import record
from .recorded_kinds import QUESTION

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


CALM = "You are a librarian. Be calm, be polite, and say what we have."
SHORT = "You are a librarian. Be short, be polite, and say what we have."


def aged(
    path: Path,
    days: float,
    system: str = CALM,
    *,
    model: str = "gpt-6",
    packages: dict[str, str] | None = None,
    description: str = "Reserve a book.",
) -> str:
    """Write a cassette of an agent that was recorded so many days ago."""
    created = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "Dune?"}]
    function = {"name": "reserve", "description": description, "parameters": {}}
    request = {"model": model, "messages": messages, "tools": [{"type": "function", "function": function}]}
    volatile = Volatile(created=created, packages=packages or {})
    return written(path, call(1, "agent/model@1/Chat", kind="chat", request=request), volatile=volatile).name


@pytest.fixture
def stale(command: Any, folder: Path) -> Any:
    """Run the command on cassettes; returns its exit code and what it found: cassette, check, text."""

    def stale(*words: object) -> tuple[int, list[tuple[str, str, str]]]:
        words = (*words, *(() if "--only" in words else ("--only", "stale")))
        ended = command("check", *words, "--json")
        assert command("check", *words).code == ended.code
        found = [each for run in ended.json["runs"] for one in run["checks"] for each in one["findings"]]
        return ended.code, [(each["path"], each["rule"], each["message"]) for each in found]

    return stale


@pytest.mark.parametrize("age", ["90", "90d", "12w", "2100h"])
def test_age(stale: Any, folder: Path, age: str) -> None:
    """A cassette may be as old as the option allows, in hours, days or weeks, and of any age without it."""
    old, new = aged(folder / "old.yaml", 99), aged(folder / "new.yaml", 80)
    assert stale(old, new, "--max-age", age) == (1, [(old, "age", "recorded 99 days ago")])
    assert stale(old, new) == (0, [])


def test_models(command: Any, stale: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is gone makes a cassette stale, one that will be is told; only a table of the project says so."""
    assert stale(aged(folder / "old.yaml", 1, model="gpt-4")) == (0, [])
    day = (datetime.now(UTC) + timedelta(days=9)).date().isoformat()
    (folder / "dates.json").write_text(json.dumps({"gone-1": "2026-01-31", "going": day}))
    monkeypatch.setenv("AGENTTAPE_RETIREMENTS", "dates.json")
    gone = aged(folder / "gone.yaml", 1, model="openai/Gone-1-2025-01-01")
    going = aged(folder / "going.yaml", 1, model="going")
    assert stale(gone) == (1, [(gone, "model", "openai/Gone-1-2025-01-01 was retired on 2026-01-31")])
    assert stale(going) == (0, [(going, "model", f"going will be retired on {day}")])
    assert stale(aged(folder / "other.yaml", 1, model="unknown")) == (0, [])
    (folder / "dates.json").write_text(json.dumps({"gone-1": "soon"}))
    ended = command("check", "--only", "stale", gone)
    assert (ended.code, "no table of retirements" in ended.err) == (2, True)


@pytest.mark.parametrize(
    ("version", "is_stale"), [("0.0", True), ("999.1.2", True), ("{}", False), ("{}.post9", False)]
)
def test_packages(stale: Any, folder: Path, version: str, is_stale: bool) -> None:
    """Another minor version of a package makes a cassette stale; what is not installed says nothing."""
    from importlib.metadata import version as installed

    now = ".".join(installed("pydantic").split(".")[:2])
    packages = {"pydantic": version.format(now), "not-installed-here": "1.0"}
    code, found = stale(aged(folder / "a.yaml", 1, packages=packages))
    assert (code, [check for _, check, _ in found]) == ((1, ["package"]) if is_stale else (0, []))


def test_an_older_prompt(stale: Any, folder: Path) -> None:
    """A cassette with an older version of the prompt that a later one has is stale, and it says which words."""
    old, new = aged(folder / "old.yaml", 9), aged(folder / "new.yaml", 1, SHORT)
    code, ((path, check, what),) = stale(old, new)
    assert (code, path, check) == (1, old, "prompt")
    assert what.startswith(f"older than the system prompt with the tools reserve in {new}: ")
    assert "[-calm-]" in what
    assert "{+short+}" in what
    assert stale(old, new, "--only", "tool") == (0, [])


def test_prompts_that_differ_by_design(stale: Any, folder: Path) -> None:
    """What is recorded together, what is used again later, and what is not alike is no older version."""
    together = [aged(folder / f"{n}.yaml", 1 + n / 1000, system) for n, system in enumerate((CALM, SHORT))]
    assert stale(*together) == (0, [])
    ages = enumerate([(9, CALM), (5, SHORT), (1, CALM)])
    again = [aged(folder / f"{n}.yaml", day, system) for n, (day, system) in ages]
    assert stale(*again)[1] == []
    other = aged(folder / "b.yaml", 1, "Translate all of this into French, please.")
    assert stale(aged(folder / "a.yaml", 9), other) == (0, [])


def test_prompts_that_are_different_each_time(stale: Any, folder: Path) -> None:
    """Of a place with many prompts, none is taken for an older version."""
    paths = [aged(folder / f"{n}.yaml", n + 1, f"{CALM} It is day {n}.") for n in range(21)]
    assert stale(*paths) == (0, [])
    assert stale(*paths[:2])[0] == 1


def test_an_older_tool(stale: Any, folder: Path) -> None:
    """A cassette whose model was offered an older form of a tool than in a later one is stale."""
    old = aged(folder / "old.yaml", 9)
    new = aged(folder / "new.yaml", 1, description="Reserve a book for a week.")
    code, ((path, check, what),) = stale(old, new)
    assert (code, path, check) == (1, old, "tool")
    assert what.startswith(f"reserve is older than in {new}: ")


@pytest.mark.parametrize("created", ["", "yesterday", "2026-13-99"])
def test_a_time_that_is_none(command: Any, stale: Any, folder: Path, created: str) -> None:
    """A cassette that does not say when it was recorded is too old for any limit; it is listed all the same."""
    path = folder / aged(folder / "a.yaml", 1)
    text = path.read_text()
    was = text[text.index("created:") :].partition("\n")[0]
    path.write_text(text.replace(was, f'created: "{created}"'))
    assert stale("a.yaml", "--max-age", "90d") == (1, [("a.yaml", "age", "it does not say when it was recorded")])
    assert stale("a.yaml") == (0, [])
    assert command("ls", "a.yaml").out.splitlines()[1].split()[1] == "?"
    path.write_text(text.replace('Z"\n', '"\n'))  # a time without a zone is taken for UTC
    assert [stale("a.yaml", "--max-age", age)[0] for age in ("20h", "30h")] == [1, 0]


def test_what_is_matched(command: Any, folder: Path) -> None:
    """A request that was edited by hand ends with 1: its fingerprint is another one's; all is read to the last line."""
    path, files = folder / WEATHER, ("check", "--only", "files")
    assert (command(*files).code, command(*files, "--json").json["passed"]) == (0, True)
    text = path.read_text()
    path.write_text(text.replace("city: Paris", "city: Paris, Texas", 1))
    ended = command(*files)
    assert (ended.code, "was edited" in ended.out) == (1, True)
    assert command(*files, "--json").json["passed"] is False
    path.write_text(text.replace("status: raised", "status: gone"))  # in its last record
    ended = command(*files)
    assert (ended.code, "weather.yaml:" in ended.out) == (3, True)


def test_bad_input(command: Any, folder: Path) -> None:
    """An age that is none ends with 2; a cassette that cannot be read ends with 3, beside what was found."""
    assert command("check", "--only", "stale", "--max-age", "soon").code == 2
    assert "--max-age=soon: expected a number of days" in command("check", "--only", "stale", "--max-age", "soon").err
    aged(folder / "old.yaml", 99)
    (folder / "broken.yaml").write_text("agenttape: 2\nname: x\n---\ninteraction: x\n")
    ended = command("check", "--only", "stale", ".", "--max-age", "90d", "--json")
    assert ended.code == 3
    assert {run["path"] for run in ended.json["runs"]} >= {"old.yaml", "broken.yaml"}
    assert command("check", "--only", "stale", "gone.yaml").code == 3


CHECK = ("check", "--only", "checksums")
PATH = Path("cassettes/weather.yaml")
JSONL = Path("cassettes/lines.jsonl")


def problems(ended: Any) -> dict[str, list[str]]:
    """Return what was found, by the path."""
    found = {
        run["path"]: [each["message"] for one in run["checks"] for each in one["findings"]]
        for run in ended.json["runs"]
    }
    return {path: messages for path, messages in found.items() if messages}


def test_a_changed_byte_is_named(command: Any, folder: Path) -> None:
    """One flipped byte in an outcome is a finding with the number of its record, in either layout."""
    assert command("cassette", "convert", PATH, JSONL).code == 0
    assert command("cassette", "checksum").out == "checksums of 2 cassettes written to agenttape-checksums.json\n"
    assert command(*CHECK).code == 0
    for path in (PATH, JSONL):
        text = path.read_text()
        path.write_text(text.replace("Paris: sunny", "Paris: funny"))
        ended = command(*CHECK, "--json")
        assert (ended.code, problems(ended)) == (1, {str(path): ["interaction 2 was changed"]})
        path.write_text(text)
    assert command(*CHECK).out == "2 runs, 2 checks: all passed\n"


def test_the_same_run_recorded_anew_keeps_its_checksums(command: Any, folder: Path) -> None:
    """A new recording of an unchanged run differs in the volatile block alone, which has no checksum."""

    @boundary("tool")
    def roll(sides: int) -> int:
        return 4

    def record(sides: int) -> None:
        with use_cassette("dice", mode="all"):
            roll(sides)

    record(6)
    command("cassette", "checksum", "cassettes/dice.yaml")
    before = Path("cassettes/dice.yaml").read_text()
    record(6)
    assert Path("cassettes/dice.yaml").read_text() != before
    assert command(*CHECK, "cassettes/dice.yaml").code == 0
    record(8)
    assert "cassettes/dice.yaml: checksum: interaction 1 was changed\n" in command(*CHECK, "cassettes/dice.yaml").out


def test_what_is_missing_or_new_is_a_finding(command: Any, folder: Path) -> None:
    """A cassette that has no checksum, or that is gone, and records that were added or removed, are findings."""
    command("cassette", "checksum")
    text = PATH.read_text()
    first, *others = re.split(r"(?<=\n)(?=---\n)", text)
    PATH.write_text("".join([first, *others[:-1], "...\n"]))
    (folder / "cassettes" / "new.yaml").write_text(text)
    assert problems(command(*CHECK, "--json")) == {
        "cassettes/new.yaml": ["it has no checksum: agenttape cassette checksum"],
        str(PATH): ["interaction 3 is gone"],
    }
    PATH.unlink()
    assert problems(command(*CHECK, "--json"))[str(PATH)] == ["it has a checksum, and is gone"]
    assert command("cassette", "checksum").code == 0  # forgets it
    assert command(*CHECK).code == 0


@pytest.mark.parametrize("text", ["{", "[]", '{"checksums": {"a": 1}}', '{"checksums": {"a": {"header": 1}}}'])
def test_a_damaged_file_of_checksums_is_refused(command: Any, folder: Path, text: str) -> None:
    """A damaged file of checksums is an error that says what to do, and stays as it is."""
    Path("agenttape-checksums.json").write_text(text)
    ended = command("cassette", "checksum")
    assert (ended.code, "restore it from version control" in ended.err) == (2, True)
    assert Path("agenttape-checksums.json").read_text() == text


def test_checksums_are_sorted(command: Any, folder: Path) -> None:
    """The file is the same whatever was added first, and has paths from its own folder."""
    (folder / "cassettes" / "a.yaml").write_text(PATH.read_text())
    command("cassette", "checksum", PATH)
    command("cassette", "checksum", "cassettes/a.yaml")
    separate = Path("agenttape-checksums.json").read_text()
    command("cassette", "checksum")
    assert Path("agenttape-checksums.json").read_text() == separate
    assert list(json.loads(separate)["checksums"]) == ["cassettes/a.yaml", str(PATH)]


@pytest.mark.parametrize("data", [b"\x7fELF\xd0\x00", b"", b"agenttape: 99\n...\n"], ids=["binary", "empty", "newer"])
@pytest.mark.parametrize("path", [PATH, JSONL], ids=["yaml", "jsonl"])
def test_what_cannot_be_read_gets_no_checksum(command: Any, folder: Path, path: Path, data: bytes) -> None:
    """A file that isn't a cassette gets no checksum, and fails a check."""
    command("cassette", "checksum")
    path.write_bytes(data)
    assert command("cassette", "checksum", path).code == 3
    assert command("check", path).code == 3


WRONG = {
    "functions": ["no_errors: true", "called: {tool: temperature, times: 1}"],
    "langchain": ["never: temperature", "at_most: {steps: 2}", "exactly: []", "output: {regex: '^No'}"],
    "langgraph": ["before: {first: left, then: right, kind: node}", "never: {tool: join, kind: node}"],
    "llamaindex": ["never: temperature", "called: {tool: temperature, arguments: {city: Oslo}}", "at_most: {calls: 1}"],
}
"""What is not."""


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("layout", ["yaml", "jsonl", "jsonl.gz"])
def test_every_framework(kind: str, layout: str, recorded: Path, command: Any) -> None:
    """Checks pass and fail over a run of each framework, in each layout, and cases find it by its prompt."""
    # What is true of the run of each kind.
    checks = {
        "functions": ["called: {tool: temperature, times: 2}", "never: delete_user", "at_most: {calls: 5}"],
        "langchain": [
            "called: {tool: temperature, arguments: {city: Paris}}",
            "trajectory: {strict: [temperature]}",
            "exactly: {calls: [model, tools, model], kind: node}",
            "at_most: {calls: 3, steps: 3}",
            "no_errors: true",
            "output: {contains: '18 degrees'}",
        ],
        "langgraph": [
            "before: {first: left, then: join, kind: node}",
            "called: {tool: right, kind: node}",
            "never: {tool: lost, kind: node}",
            "no_errors: true",
        ],
        "llamaindex": [
            "called: {tool: temperature, arguments: {city: Paris}}",
            "exactly: [temperature]",
            "no_errors: true",
            "output: {contains: '18 degrees in Paris'}",
        ],
    }

    path = recorded.with_suffix(f".{layout}")
    assert layout == "yaml" or command("cassette", "convert", recorded, path).code == 0
    case = f"cases:\n- prompt: {QUESTION}\n  called: temperature\n" if kind in {"langchain", "llamaindex"} else ""
    Path("right.yaml").write_text("checks: 1\nevery:\n" + "".join(f"- {each}\n" for each in checks[kind]) + case)
    Path("wrong.yaml").write_text("checks: 1\nevery:\n" + "".join(f"- {each}\n" for each in WRONG[kind]))
    right = command("check", path, "--checks", "right.yaml")
    assert (right.code, right.err) == (0, ""), right.out
    wrong = command("check", path, "--checks", "wrong.yaml", "--json")
    assert [check["passed"] for check in wrong.json["runs"][0]["checks"]] == [False] * len(WRONG[kind]) + [True, True]
