"""`agenttape doctor`: does everything hang together?"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import distributions, entry_points
from pathlib import Path

from agenttape_core.checks.judges import JUDGE
from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.cassettes import Found, found_in, paths_argument, reading
from agenttape_core.cli.findings import checksums, damage_of
from agenttape_core.cli.output import cli_command, print_json, print_text
from agenttape_core.errors import CassetteNotFoundError, NetworkBlockedError, counted, shown_path
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.settings import Settings

_INTEGRATIONS = {
    "langchain-core": "agenttape-langchain",
    "langgraph": "agenttape-langgraph",
    "llama-index-core": "agenttape-llamaindex",
}
"""The package that records each framework."""
_BROUGHT = {"langgraph": ("langchain", "agenttape-langchain")}
"""The distribution that brings a framework in any case, and the package that records what that makes of it."""


class _Fact(NamedTuple):
    what: str
    said: str
    is_wrong: bool = False


@cli_command("agenttape doctor")
@paths_argument
def doctor(paths: tuple[str, ...], *, as_json: bool) -> int:
    """Find problems in this project.

    Checks the settings, the packages, the network guard, the cassettes, and leftover files next to them. Exits with 1
    if something is wrong, and with 2 if a setting is.
    """
    facts = [*_settings(), *_packages(), *_guard(), *_cassettes(paths)]
    wrong = [fact for fact in facts if fact.is_wrong]
    if as_json:
        print_json({"wrong": len(wrong), "facts": [fact._asdict() for fact in facts]})
    else:
        for fact in facts:
            print_text(
                f"{'wrong' if fact.is_wrong else 'ok':<7}{fact.what}: {fact.said}", "red" if fact.is_wrong else ""
            )
    return FINDINGS if wrong else OK


def _settings() -> Iterator[_Fact]:
    settings = project_settings()
    own = {name: value for name, value in settings._asdict().items() if value != Settings._field_defaults[name]}
    shown = {name: shown_path(value) if name == "cassette_dir" else value for name, value in sorted(own.items())}
    said = ", ".join(f"{name}={value!r}" for name, value in shown.items())
    yield _Fact("settings", said or "the defaults")


def _packages() -> Iterator[_Fact]:
    """Yield the versions of our packages, frameworks without theirs, and entry points that cannot be loaded."""
    versions = {each.name.lower(): each.version for each in distributions() if each.name}
    ours = {name: version for name, version in versions.items() if name.startswith("agenttape-")}
    said = ", ".join(f"{name} {version}" for name, version in sorted(ours.items()))
    yield _Fact("packages", said, is_wrong=len(set(ours.values())) > 1)
    for framework, package in _INTEGRATIONS.items():
        if framework not in versions or package in versions:
            continue
        brought_by, records = _BROUGHT.get(framework, (framework, package))
        if brought_by in versions and records in versions:
            yield _Fact(framework, f"comes with {brought_by}; for programs of its own: pip install {package}")
        else:
            yield _Fact(framework, f"nothing records it: pip install {package}", is_wrong=True)
    for point in sorted(entry_points(group="agenttape.integrations"), key=lambda each: each.name):
        try:
            point.load()
        except Exception as error:  # noqa: BLE001 - an import of another package may raise anything
            yield _Fact(f"integration {point.name}", f"{type(error).__name__}: {error}", is_wrong=True)


def _guard() -> Iterator[_Fact]:
    """Yield whether a replay refuses a connection."""
    with tempfile.TemporaryDirectory(prefix="agenttape-doctor-") as folder:
        path = Path(folder) / "guard.yaml"
        with use_cassette(path, mode="record", auto=False):
            pass
        try:
            with use_cassette(path, mode="replay", auto=False), socket.socket() as client:
                client.settimeout(1)
                client.connect(("127.0.0.1", 9))
        except NetworkBlockedError:
            yield _Fact("guard", "a replay refuses connections")
            return
        except OSError as error:
            yield _Fact("guard", f"a replay lets connections pass: {error}", is_wrong=True)
            return
    yield _Fact("guard", "a replay lets connections pass", is_wrong=True)


def _cassettes(paths: Sequence[str]) -> Iterator[_Fact]:
    try:
        found = found_in(paths)
    except CassetteNotFoundError as error:
        yield _Fact("cassettes", str(error).partition("\n")[0], is_wrong=bool(paths))
        return
    ill: set[str] = set()
    judged = [(each.shown, damage_of(each)) for each in reading(found)]
    for path, each in [*judged, *checksums(found)]:
        for finding in each.findings:
            ill.add(path)
            line = f"line {finding.line}: " if finding.line is not None else ""
            yield _Fact(path, f"{line}{finding.message}", is_wrong=True)
    count = counted(len(judged), "cassette")
    if len(ill) < len(judged):
        yield _Fact("cassettes", f"{len(judged) - len(ill)} of {count}" if ill else count)
    yield from _left_behind(found)


def _left_behind(found: Sequence[Found]) -> Iterator[_Fact]:
    """Yield journals of recordings that did not end, and what judges asked about runs that are gone."""
    files = [each.path for each in found if each.path is not None]
    for folder in sorted({path.parent for path in files}):
        for journal in sorted(folder.glob(".*.journal")):
            yield _Fact(
                str(journal),
                "a recording did not end: agenttape cassette recover, or agenttape cassette prune",
                is_wrong=True,
            )
    stems = {(path.parent, path.name.partition(".")[0]) for path in files if not path.name.endswith(JUDGE)}
    for path in files:
        if path.name.endswith(JUDGE) and (path.parent, path.name.partition(".")[0]) not in stems:
            yield _Fact(str(path), "what a judge asked about a run that is gone", is_wrong=True)
