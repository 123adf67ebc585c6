"""Commands, with good and bad input, as text and as JSON, and what each ends with."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

from agenttape_core import use_cassette
from agenttape_core.cli.app import COMMANDS, EXPERIMENTS, GROUPS, MEANT, OF_CASSETTES, OF_FLEETS, agenttape

from .conftest import look_up, record

WEATHER = "cassettes/weather.yaml"


OF_GROUPS = {"lab": EXPERIMENTS, "fleet": OF_FLEETS, "cassette": OF_CASSETTES}


@pytest.mark.parametrize("group", OF_GROUPS)
def test_each_command_of_a_group_is_listed(group: str) -> None:
    """The list of a group has all commands of its module, and no other one."""
    own = vars(import_module(f"agenttape_core.cli.commands.{group}"))
    assert sorted(name for name, each in own.items() if isinstance(each, click.Command)) == sorted(OF_GROUPS[group])


@pytest.mark.parametrize("subcommand", [*COMMANDS, *(f"lab {name}" for name in EXPERIMENTS)])
def test_help(command: Any, subcommand: str) -> None:
    """Each command takes --json and shows an example; each experiment takes --report and says what the list says."""
    ended = command(*subcommand.split(), "--help")
    assert ended.code == 0
    assert "--json" in ended.out or subcommand in {"lab", "fleet"}
    assert "--report FILE" in ended.out or not subcommand.startswith("lab ")
    assert EXPERIMENTS.get(subcommand.removeprefix("lab "), "") in " ".join(ended.out.split())
    assert f"Example: agenttape {subcommand}" in ended.out


def test_the_list_of_commands(command: Any) -> None:
    """The help lists the commands in groups, each with its first sentence, whole on a line of 80 columns."""
    summaries = {name: said for group in GROUPS.values() for name, said in group.items()}
    for group in (agenttape, *(agenttape.commands[name] for name in OF_GROUPS)):
        for name, summary in group.summaries.items():
            said = group.get_command(click.Context(group), name).help
            assert " ".join(said.split("\n\n")[0].split()) == summary
    summaries |= OF_CASSETTES
    shown = (command("--help").out + command("cassette", "--help").out).splitlines()
    for name, said in summaries.items():
        (line,) = [line for line in shown if line.split()[:1] == [name]]
        assert line.endswith(f" {said}")
        assert len(line) <= 80
    assert [line.rstrip(":") for line in shown if line.endswith(":") and line[:-1] in GROUPS] == list(GROUPS)


WORDS = {
    "compare": "agenttape diff",
    "gc": "agenttape cassette prune",
    "migrate": "agenttape cassette migrate",
    "lint": "agenttape check",
    "scan": "agenttape check --only secrets",
    "report": "agenttape diff --base",
    "stats": "agenttape show --stats",
    "accept": "agenttape review accept",
    "view": "agenttape show --open",
    "shwo": "there is no command 'shwo'; did you mean: agenttape show?",
    "test": "pytest --cassette-mode=once",
    "rm": "agenttape cassette prune",
    "zzz": "commands are init",
}


@pytest.mark.parametrize("word", WORDS)
def test_words_of_other_tools(command: Any, word: str) -> None:
    """A word of another tool, or a mistyped one, is refused with the command that does it here."""
    ended = command(word)
    assert ended.code == 2
    assert WORDS[word] in ended.err
    meant = {command.partition(" --")[0] for command in MEANT.values() if not command.startswith("review ")}
    assert meant <= {*COMMANDS, *(f"lab {name}" for name in EXPERIMENTS)}


def test_a_mistyped_name(command: Any, folder: Path) -> None:
    """The error names the cassettes beside it that are called nearly so; without any, the command that records it."""
    record(folder / "storms.yaml", "Snow?")
    assert command("show", "strom.yaml").err.splitlines()[1:] == ["  did you mean:  storms.yaml"]
    recorded = "  record it once:  agenttape record --cassette quite/other.yaml -- COMMAND"
    assert command("show", "quite/other.yaml").err.splitlines()[1] == recorded


def test_ls(command: Any, folder: Path) -> None:
    """A folder is listed with what each of its cassettes amounts to; one that is broken with its problem, and 3."""
    (listed,) = command("ls", "--json").json
    assert (listed["path"], listed["interactions"], listed["models"]) == (WEATHER, 3, {"gpt-5": 1})
    assert (listed["raised"], listed["tools"]) == (1, {"look_up": 2})
    line = command("ls").out.splitlines()[1]
    assert line.split()[0] == WEATHER
    assert "unknown" in line
    assert line.rstrip().endswith("gpt-5")
    (folder / "cassettes" / "broken.yaml").write_text("agenttape: 2\nname: x\n---\ninteraction: x\n")
    ended = command("ls", "--json")
    assert (ended.code, command("ls").code) == (3, 3)
    assert [{"dollars", "problem"} & row.keys() for row in ended.json] == [{"dollars"}, {"problem"}]


def test_show(command: Any) -> None:
    """A run is shown as a tree or as data, and one of its calls in full; a number that there is not ends with 3."""
    out = command("show", "weather").out
    for part in (
        "1  chat answer",
        "> user: Rain?",
        "< Rain? Yes.",
        "3  tool look_up",
        "! builtins:LookupError: it has sunk",
    ):
        assert part in out
    shown = command("show", WEATHER, "--json").json
    assert shown["header"]["name"] == "weather"
    assert [item["name"] for item in shown["records"]] == ["answer", "look_up", "look_up"]
    assert "message: it has sunk" in command("show", WEATHER, "--call", 3).out
    one = command("show", WEATHER, "--call", 2, "--json").json
    assert one["outcome"] == {"status": "returned", "value": "Paris: sunny"}
    assert command("show", WEATHER, "--call", 9).code == 3
    assert command("show", WEATHER, "--step", 1).code == 3


def test_stats(command: Any, folder: Path) -> None:
    """Cassettes are added up."""
    record(folder / "other.yaml")
    total = command("show", "--stats", ".", "--json").json
    assert (total["cassettes"], total["interactions"], total["kinds"]) == (2, 6, {"tool": 4, "chat": 2})
    assert "model gpt-5" in command("show", "--stats").out


@pytest.mark.parametrize("data", [b"", b"services: {}\n", b"\x1f\x8bnot gzip", b"{}"])
def test_nonsense_on_standard_input(command: Any, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """What is no cassette on standard input ends with 3."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert command("show", "--stats", "-").code == 3


def test_diff(command: Any, folder: Path) -> None:
    """The first divergence and each difference are shown; only --exit-code makes it end with 1."""
    record(folder / "other.yaml", "Snow?")
    assert command("diff", "weather", "other.yaml").code == 0
    ended = command("diff", "--exit-code", "weather", "other.yaml")
    assert ended.code == 1
    assert "the first divergence is interaction 1 / 1  chat answer" in ended.out
    assert command("diff", "--exit-code", "weather", "weather").code == 0
    assert command("diff", "weather", "other.yaml", "--json").json["identical"] is False
    assert command("diff", "weather", ".").code == 2


def test_convert(command: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cassette, also one on standard input, is written in another layout, over an existing one only when asked."""
    assert command("cassette", "convert", WEATHER, "a.jsonl").out == f"{WEATHER} converted to a.jsonl\n"
    ended = command("cassette", "convert", WEATHER, "a.jsonl")
    assert ended.code == 3
    assert "agenttape: a.jsonl: there is a cassette already\n" in ended.err
    assert "--overwrite" in ended.err
    again = command("cassette", "convert", WEATHER, "a.jsonl", "--overwrite", "--json").json
    assert again["written"].endswith("a.jsonl")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((folder / "a.jsonl").read_bytes())))
    assert command("cassette", "convert", "-", "back.yaml").out == "standard input converted to back.yaml\n"
    assert (folder / "back.yaml").read_bytes() == (folder / WEATHER).read_bytes()


@pytest.mark.process
def test_verify(command: Any, folder: Path) -> None:
    """Replays of a function are compared: one that depends on the environment ends with 1, and JSON shows the cause."""
    program = (
        "from agenttape_core import boundary\n\n@boundary\ndef ask(x):\n    return x\n\n"
        "def other():\n    return [ask(1), hash('a')]\n"
    )
    (folder / "agent.py").write_text(program)
    names: dict[str, Any] = {}
    exec(program, names)
    with use_cassette("v", mode="all"):
        names["ask"](1)
    ended = command("verify", "agent.py:other", "--cassette", "v", "--runs", 2, "--vary", "hash_seed", "--json")
    assert ended.code == 1
    (difference,) = ended.json["differences"]
    assert (difference["what"], difference["cause"]["name"]) == ("return value at $[1]", "hash seed")
    assert [run["same"] for run in ended.json["runs"]] == [True, False]
    assert [ended.json[key] for key in ("function", "same", "failure")] == ["agent.py:other", False, None]


def test_without_the_package_of_mcp(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, `mcp` says what to install; its tools can be listed even so."""
    monkeypatch.setitem(sys.modules, "mcp", None)
    ended = command("mcp")
    assert (ended.code, ended.err.splitlines()[1]) == (2, "  pip install 'agenttape-core[mcp]'")
    assert {tool["name"] for tool in command("mcp", "--json").json} > {"ls", "explain", "update"}


@pytest.mark.process
def test_without_the_extra() -> None:
    """Without click and rich, the command says what to install, and ends with 2."""
    code = "import sys; sys.modules['click'] = None\nfrom agenttape_core.cli import main\nmain(['ls'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "the command agenttape needs click and rich\n  pip install 'agenttape-core[cli]'\n",
    )


@pytest.mark.parametrize("words", [["show", WEATHER], ["show", "--timeline", WEATHER], ["show", "--json", WEATHER]])
@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_no_unicode(command: Any, monkeypatch: pytest.MonkeyPatch, encoding: str, words: list[str]) -> None:
    """Where the output has no character for what is told, it is told in others, and JSON is still JSON."""
    record(Path(WEATHER), "Regen in Łódź 🌧?")
    told = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr("sys.stdout", told)
    assert command(*words).code == 0
    told.seek(0)
    text = told.read()
    assert "\\u0141" in text or "--timeline" in words
    assert "--json" not in words or "Regen in Łódź 🌧?" in str(json.loads(text))
    assert "= a call   - a step" in text or "--timeline" not in words


@pytest.mark.parametrize(
    ("subcommand", "said"),
    [
        ("check", "2 runs, 3 checks: 1 run failed"),
        ("cassette redact", "nothing to redact, 1 cassette could not be redacted"),
    ],
)
def test_a_summary_tells_what_it_does_not_speak_for(command: Any, subcommand: str, said: str) -> None:
    """A cassette that cannot be read is not summed up as one that is fine, and is named as on the command line."""
    ended = command(*subcommand.split(), WEATHER, "gone.yaml")
    assert (ended.code, ended.out.splitlines()[-1]) == (3, said)
    assert "gone.yaml: " in ended.out
    assert "there is no such cassette" in ended.out


def test_recover_by_the_name_of_the_cassette(folder: Path, command: Any) -> None:
    """A cassette's name means the recordings to it that were cut off, also before there was a cassette."""
    first = Path("tests/cassettes/test_desk/test_hi.yaml")
    for name in ("weather", first):
        with pytest.raises(ZeroDivisionError), use_cassette(name, mode="all"):
            look_up("Oslo")
            raise ZeroDivisionError
    assert command("cassette", "recover", "weather", "--dry-run").out.endswith("journal can be recovered\n")
    (recovered,) = command("cassette", "recover", "cassettes/weather.yaml", "--json").json
    assert recovered["written"].endswith("weather.recovered.yaml")
    assert command("cassette", "recover", "weather").out == "nothing to recover\n"
    assert command("cassette", "recover", "rain").code == 3
    (journal,) = first.parent.glob(".*.journal")
    assert f"{journal} can be recovered" in command("cassette", "recover", "test_hi", "--dry-run").out
    assert command("cassette", "recover", "test_desk/test_hi").out == f"{journal} is now {first}\n"
    assert first.is_file()


def test_a_name_is_found_wherever_it_is(folder: Path, command: Any) -> None:
    """A name means the only cassette below here that has it, with folders before it if it takes them."""
    for place in ("tests/cassettes/test_desk", "tests/cassettes/test_shop"):
        Path(place).mkdir(parents=True)
    for name in ("tests/cassettes/test_desk/test_hi[a-b].yaml", "tests/cassettes/test_shop/test_bye.jsonl"):
        assert command("cassette", "convert", WEATHER, name).code == 0
    assert "tests/cassettes/test_shop/test_bye.jsonl" in command("ls", "test_bye").out
    assert command("show", "test_hi[a-b]").out == command("show", "tests/cassettes/test_desk/test_hi[a-b].yaml").out
    assert command("cassette", "recover", "test_bye").out == "nothing to recover\n"
    assert "did you mean:  tests/cassettes/test_desk/test_hi[a-b].yaml" in command("show", "--stats", "test_hi").err
    assert "did you mean:  tests/cassettes/test_desk/test_hi[a-b].yaml" in command("cassette", "recover", "a-b").err
    assert command("cassette", "convert", WEATHER, "tests/cassettes/test_desk/test_bye.yaml").code == 0
    for subcommand in ("show", "cassette recover", "show --stats"):
        ended = command(*subcommand.split(), "test_bye")
        assert ended.code == 2
        assert "test_bye is the name of 2 cassettes; name one by its path:\n  tests/cassettes/test_desk/" in ended.err
        assert command(*subcommand.split(), "test_shop/test_bye").code == 0
    assert command("cassette", "convert", WEATHER, "cassettes/test_bye.yaml").code == 0
    assert command("cassette", "recover", "test_bye").code == 0  # the folder of the settings comes first
