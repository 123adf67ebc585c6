"""Where cassettes are: a setting, a variable and an argument name the same folder for every way of using them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, compare_cassettes, convert, open_cassette, use_cassette
from agenttape_core.asgi import TapeInbound
from agenttape_core.checks import run_of
from agenttape_core.cli.app import run
from agenttape_core.errors import CassetteNotFoundError, ConfigurationError
from agenttape_core.experiments import orders
from agenttape_core.storage import SUFFIXES, cassette_path
from agenttape_core.tools.processes.run import path_of

FOLDERS = {"default": "cassettes", "setting": "by_setting", "variable": "by_variable", "argument": "by_argument"}


@boundary("tool")
def where() -> str:
    """Return the folder that a cassette was recorded for."""
    return "live"


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a cassette `x` in each of the folders, which says in which."""
    project = tmp_path_factory.mktemp("recordings")
    (project / "pyproject.toml").write_text("[tool.agenttape]\n")
    for folder in FOLDERS.values():
        with use_cassette(project / folder / "x.yaml", mode="all"):
            boundary("tool", name="where")(lambda: folder)()  # noqa: B023 - called at once
    return project


@pytest.fixture(autouse=True)
def _recorded(recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shutil.copytree(recordings, tmp_path, dirs_exist_ok=True))


def _in_block(options: dict[str, Any]) -> str:
    with use_cassette("x", **options):
        return where()


def _decorated(options: dict[str, Any]) -> str:
    return use_cassette("x", **options)(where)()


def _derived(options: dict[str, Any]) -> str:
    with use_cassette("x", live={"tool"}, to="made", on_unused="ignore", **options):
        where()
    (made,) = Path().rglob("made.yaml")
    return made.parent.name


def _written(options: dict[str, Any]) -> str:
    with use_cassette("new", mode="all", **options) as session:
        where()
    return Path(session.path).parent.name


def _checked(_: dict[str, Any]) -> str:
    return str(run_of("x").happened[0].result)


def _shown(_: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert run(["export", "x", "--format", "jsonl"]) == 0
    out = capsys.readouterr().out
    return next(folder for folder in FOLDERS.values() if f'"{folder}"' in out)


def _compared(_: dict[str, Any]) -> str:
    return Path(compare_cassettes("x", "x").first.path).parent.name


def _explored(_: dict[str, Any]) -> str:
    found: list[str] = []
    orders(lambda: found.append(where()), "x", runs=1)
    return found[0]


def _of_a_command(_: dict[str, Any]) -> str:
    return path_of("x").parent.name


def _inbound(options: dict[str, Any]) -> str:
    given = {"folder": options["cassette_dir"]} if options else {}
    return TapeInbound(lambda *_: None, **given)._folder.name  # type: ignore[arg-type,return-value]


WAYS: dict[str, Callable[..., str]] = {
    "a block": _in_block,
    "a decorator": _decorated,
    "a derived cassette": _derived,
    "a new cassette": _written,
    "check": _checked,
    "a command with a name": _shown,
    "compare": _compared,
    "explore": _explored,
    "record and replay": _of_a_command,
    "TapeInbound": _inbound,
}
WITHOUT_ARGUMENT = {"check", "a command with a name", "compare", "explore", "record and replay"}


@pytest.mark.sweep
@pytest.mark.parametrize("given", [(), ("setting",), ("variable",), ("setting", "variable"),
                                   ("argument",), ("setting", "variable", "argument")])  # fmt: skip
@pytest.mark.parametrize("way", WAYS)
def test_the_folder_of_a_bare_name(
    way: str, given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An argument wins over a variable, a variable over the setting, and the setting over `cassettes`."""
    if "argument" in given and way in WITHOUT_ARGUMENT:
        given = tuple(each for each in given if each != "argument")
    if "setting" in given:
        Path("pyproject.toml").write_text('[tool.agenttape]\ncassette_dir = "by_setting"\n')
    if "variable" in given:
        monkeypatch.setenv("AGENTTAPE_CASSETTE_DIR", "by_variable")
    options = {"cassette_dir": "by_argument"} if "argument" in given else {}
    more = {"capsys": capsys} if way == "a command with a name" else {}
    expected = FOLDERS[given[-1] if given else "default"]
    assert WAYS[way](options, **more) == ("runs" if way == "TapeInbound" and not given else expected)


@pytest.mark.parametrize("suffix", [".yml", ".jsonl", ".yaml.gz", ".jsonl.gz", ".jsonl.zst"])
def test_a_bare_name_finds_its_cassette_in_every_format(suffix: str) -> None:
    """A cassette is found by its name, replayed, and recorded again, in the format that it has."""
    packed = Path(f"cassettes/x{suffix}")
    assert run(["cassette", "convert", "cassettes/x.yaml", str(packed)]) == 0
    assert sorted(path.name for path in Path("cassettes").iterdir()) == [packed.name]
    assert _in_block({}) == "cassettes"
    assert _checked({}) == "cassettes"
    with use_cassette("x", mode="all") as session:
        where()
    assert Path(session.path).name == packed.name
    assert _in_block({}) == "live"
    assert sorted(path.name for path in Path("cassettes").iterdir()) == [packed.name]


def test_a_name_of_several_cassettes_is_refused() -> None:
    """Two cassettes of one name may differ, so neither is taken; the error names both."""
    convert("cassettes/x.yaml", "cassettes/x.jsonl")
    with pytest.raises(
        ConfigurationError, match=r"x is the name of 2 cassettes:\n  cassettes/x.yaml\n  cassettes/x.jsonl"
    ):
        _in_block({})
    with use_cassette("cassettes/x.jsonl"):
        assert where() == "cassettes"


def test_a_copy_is_kept_elsewhere_and_where_you_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    """`convert` replaces a cassette only by one of its own name and folder, with its assets, and not with --keep."""
    with use_cassette("big", mode="all"):
        boundary("tool", name="where")(lambda: b"\0" * 100_000)()
    assert Path("cassettes/big.yaml.assets").is_dir()
    assert run(["cassette", "convert", "cassettes/big.yaml", "copies/big.jsonl"]) == 0
    assert run(["cassette", "convert", "cassettes/big.yaml", "cassettes/other.jsonl"]) == 0
    assert run(["cassette", "convert", "cassettes/big.yaml", "cassettes/big.jsonl", "--keep"]) == 0
    assert Path("cassettes/big.yaml.assets").is_dir()
    Path("cassettes/big.jsonl").unlink()
    capsys.readouterr()
    assert run(["cassette", "convert", "cassettes/big.yaml", "cassettes/big.jsonl", "--overwrite"]) == 0
    assert "cassettes/big.yaml converted to cassettes/big.jsonl, which takes its place" in capsys.readouterr().out
    assert not Path("cassettes/big.yaml").exists()
    assert not Path("cassettes/big.yaml.assets").exists()
    with use_cassette("big"):
        assert where() == b"\0" * 100_000


@pytest.mark.parametrize("name", ["traces/w.trace.json", "w.json", "w.har", "s3://bucket/w.txt"])
def test_the_suffix_of_another_sort_of_file_is_refused(name: str) -> None:
    """A path to another sort of file is no bare name; the error names the suffixes that there are."""
    with pytest.raises(ConfigurationError, match=r"a cassette doesn't end with \.\w+\n  expected .*\.jsonl\.gz"):
        cassette_path(name, "cassettes")
    assert run(["record", "--cassette", name, "--", "true"]) == 2
    assert not Path("cassettes/traces").exists()


@pytest.mark.parametrize("name", ["v1.2", "test_x[1.5-a]", "runs/2026.11", "a.b/c"])
def test_other_dots_are_part_of_a_name(name: str) -> None:
    """A dot in a name is no suffix."""
    assert cassette_path(name, "cassettes") == Path(f"cassettes/{name}.yaml")
    assert all(cassette_path(f"{name}{suffix}", "cassettes") == Path(f"{name}{suffix}") for suffix in SUFFIXES)


def test_a_missing_name_is_told_with_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was looked for is the path in the folder that holds."""
    monkeypatch.setenv("AGENTTAPE_CASSETTE_DIR", "by_variable")
    with pytest.raises(CassetteNotFoundError, match=r"by_variable/nothing\.yaml"):
        open_cassette(cassette_path("nothing", "by_variable"))
