"""Settings come from the call, the environment, the project's file and the defaults, in this order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agenttape_core import Rule, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.settings import Settings, load_settings
from agenttape_core.storage import cassette_path, stem_of

from .session.world import World


def project(folder: Path, table: str) -> Path:
    """Write a project with a table of settings."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(f"[tool.agenttape]\n{table}\n", encoding="utf-8")
    return folder


def test_defaults(tmp_path: Path) -> None:
    """Without a file and variables a session replays strictly, from `cassettes`."""
    settings = load_settings(tmp_path, {})
    assert settings == Settings()
    assert (settings.mode, settings.cassette_dir, settings.judges_unused, settings.on_error, settings.on_repeat) == (
        "replay",
        "cassettes",
        "fail",
        "discard",
        "fail",
    )
    assert settings.freeze == ("clock", "uuid", "random", "numpy")


ALL: dict[str, tuple[str, str, Any]] = {
    "mode": ('"once"', "once", "once"),
    "cassette_dir": ('"tapes"', "tapes", "tapes"),
    "live": ('["chat", "roll"]', "chat, roll", ("chat", "roll")),
    "replay_only": ('["tool"]', "tool", ("tool",)),
    "step_into": ('["task"]', "task", ("task",)),
    "on_repeat": ('"last"', "last", "last"),
    "match_on": ('["exact", "address"]', "exact, address", ("exact", "address")),
    "ignore": ('["**.now", "arguments.at"]', "arguments.at, **.now", ("**.now", "arguments.at")),
    "on_miss": ('"return"', "return", "return"),
    "candidate": ('"openai:gpt-5-mini"', "openai:gpt-5-mini", "openai:gpt-5-mini"),
    "on_unrecorded": ('"fail"', "fail", "fail"),
    "unavailable": ('"Not now."', "Not now.", "Not now."),
    "review": ("true", "true", True),
    "accept": ('["lossy"]', "lossy", ("lossy",)),
    "on_unused": ('"warn"', "warn", "warn"),
    "on_error": ('"keep"', "keep", "keep"),
    "pace": ('"recorded"', "recorded", 1.0),
    "check_replay": ('"fail"', "FAIL", "fail"),
    "http": ("true", "true", True),
    "freeze": ("[]", "", ()),
    "allow_hosts": ('["a.example"]', "a.example,", ("a.example",)),
    "events": ('"events.jsonl"', "events.jsonl", "events.jsonl"),
    "tags": ('["x"]', " x ", ("x",)),
    "run_id": ('"build-7"', "build-7", "build-7"),
    "redaction_rules": (
        r"[{name = 'ticket', pattern = 'T-\d+'}, {name = 'customer', keys = ['customer_id']}]",
        r'[{"name": "ticket", "pattern": "T-\\d+"}, {"name": "customer", "keys": ["customer_id"]}]',
        (Rule("ticket", pattern=r"T-\d+"), Rule("customer", keys=("customer_id",))),
    ),
    "prices": ('"prices.json"', "prices.json", "prices.json"),
    "retirements": ('"retirements.json"', "retirements.json", "retirements.json"),
}


PATHS = {"cassette_dir", "events", "prices", "retirements"}
"""The settings that are paths: those of a file start from its folder."""


def test_all_are_listed() -> None:
    """The table of these tests knows every setting."""
    assert set(ALL) | {"redaction_key"} == set(Settings._fields)


@pytest.mark.parametrize("key", ALL)
def test_from_the_file_and_the_environment(tmp_path: Path, key: str) -> None:
    """Every setting can stand in the file, and in a variable that mirrors it."""
    toml, variable, expected = ALL[key]
    in_file = str(tmp_path / "p" / expected) if key in PATHS else expected
    assert getattr(load_settings(project(tmp_path / "p", f"{key} = {toml}"), {}), key) == in_file
    assert getattr(load_settings(tmp_path, {f"AGENTTAPE_{key.upper()}": variable}), key) == expected


def test_precedence(tmp_path: Path) -> None:
    """The call wins over the environment, the environment over the file, the file over the default."""
    folder = project(tmp_path, 'on_unused = "warn"\ncassette_dir = "file"\non_error = "keep"')
    settings = load_settings(folder, {"AGENTTAPE_CASSETTE_DIR": "env", "AGENTTAPE_ON_UNUSED": "ignore", "OTHER": "x"})
    settings = settings.chosen({"on_unused": "fail"})
    assert (settings.on_unused, settings.cassette_dir, settings.on_error) == ("fail", "env", "keep")


def test_nearest_project(tmp_path: Path) -> None:
    """The nearest `pyproject.toml` at or above the folder that has a table for us counts, even if that is empty."""
    project(tmp_path, 'mode = "once"')
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text('[project]\nname = "other"\n', encoding="utf-8")
    assert load_settings(tmp_path / "a" / "b", {}).mode == "once"
    project(tmp_path / "a", "")
    assert load_settings(tmp_path / "a" / "b", {}).mode == "replay"


def test_paths_start_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cassette is one file from every folder of the project; in a variable, a path starts from the working folder."""
    world, deep = World(), project(tmp_path, 'mode = "once"\ncassette_dir = "tests/tapes"') / "src" / "deep"
    deep.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with use_cassette("c"):
        assert world.tool("t") == "t 1"
    monkeypatch.chdir(deep)
    with use_cassette("c") as session:
        assert world.tool("t") == "t 1"
    assert session.path == tmp_path / "tests" / "tapes" / "c.yaml"
    monkeypatch.setenv("AGENTTAPE_CASSETTE_DIR", "here")
    with use_cassette("c"):
        assert world.tool("t") == "t 2"
    assert (deep / "here" / "c.yaml").is_file()
    monkeypatch.delenv("AGENTTAPE_CASSETTE_DIR")
    project(tmp_path, 'mode = "once"')  # as does the default, where there is a table
    with use_cassette("c"):
        assert world.tool("t") == "t 3"
    assert (tmp_path / "cassettes" / "c.yaml").is_file()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            "cassete_dir = 1",
            r'pyproject.toml: \[tool.agenttape\] has no setting "cassete_dir". Did you mean "cassette_dir"\?$',
        ),
        ("zzz = 1", r'\[tool.agenttape\] has no setting "zzz".\n  all settings:  mode, cassette_dir, '),
        ('on_unused = "never"', r"\[tool.agenttape\] on_unused: expected 'fail', 'warn' or 'ignore'$"),
        ('live = "chat"', r"\[tool.agenttape\] live: expected a list$"),
        ("mode = 3", r"\[tool.agenttape\] mode: expected a string$"),
        ('http = "perhaps"', r"\[tool.agenttape\] http: expected true or false$"),
        ('redaction_key = "00"', "redaction_key belongs in the environment, not in a file"),
        ("mode = ", "not valid TOML"),
    ],
)
def test_invalid_files(tmp_path: Path, table: str, message: str) -> None:
    """An unknown key, a wrong value, a key of redaction and broken TOML are refused with the file and the key."""
    with pytest.raises(ConfigurationError, match=message) as caught:
        load_settings(project(tmp_path, table), {})
    assert str(tmp_path / "pyproject.toml") in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (
            "AGENTTAPE_MODUS",
            "x",
            "the environment variable AGENTTAPE_MODUS isn't a setting. Did you mean AGENTTAPE_MODE",
        ),
        ("AGENTTAPE_ON_UNUSED", "never", "the environment variable AGENTTAPE_ON_UNUSED: expected 'fail'"),
    ],
)
def test_invalid_variables(tmp_path: Path, variable: str, value: str, message: str) -> None:
    """So are unknown variables and wrong values in them."""
    with pytest.raises(ConfigurationError, match=message):
        load_settings(tmp_path, {variable: value})


def test_unknown_option() -> None:
    """An option without a setting is refused by name, with the one that is most like it."""
    with pytest.raises(ConfigurationError, match=r"'on_mis' isn't an option. Did you mean \"on_miss\"\?"):
        Settings().chosen({"on_mis": "raise"})
    assert Settings().chosen({"redaction_rules": ()}) == Settings()


def test_in_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`use_cassette` reads the settings when it is entered, not when it is made."""
    world, used = World(), use_cassette("c", on_unused="ignore")
    monkeypatch.chdir(project(tmp_path, 'cassette_dir = "tapes"\nmode = "once"'))
    with used as session:
        world.tool("t")
    assert (tmp_path / "tapes" / "c.yaml").is_file()
    assert session.mode == "once"
    monkeypatch.setenv("AGENTTAPE_MODE", "all")
    with used as session:
        assert world.tool("t") == "t 2"
    with use_cassette("c", mode="none"):
        assert world.tool("t") == "t 2"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a", "d/a.yaml"),
        ("a/b", "d/a/b.yaml"),
        ("v1.2", "d/v1.2.yaml"),
        ("a.yaml", "a.yaml"),
        ("x/a.yml", "x/a.yml"),
        ("a.jsonl", "a.jsonl"),
        ("a.jsonl.gz", "a.jsonl.gz"),
        ("a.yaml.zst", "a.yaml.zst"),
    ],
)
def test_paths(name: str, path: str) -> None:
    """A bare name, with whatever dots, lives in the folder; a path with a known suffix is used as it is."""
    assert cassette_path(name, "d") == cassette_path(Path(name), Path("d")) == Path(path)


@pytest.mark.parametrize(
    ("path", "stem"),
    [("d/a.yaml", "a"), ("a.jsonl.gz", "a"), ("v1.2.yaml.zst", "v1.2"), ("a.derived.yml", "a.derived"), ("a", "a")],
)
def test_stems(path: str, stem: str) -> None:
    """The name of a cassette is its file without the known suffixes."""
    assert stem_of(Path(path)) == stem
