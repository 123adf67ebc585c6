"""Recordings of other tools: which importer reads a file, and which cassette it becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path, PurePath
from typing import NamedTuple

from agenttape_core.errors import CassetteNotFoundError, ConfigurationError
from agenttape_core.lifecycle.imported import Importer
from agenttape_core.storage import SUFFIXES, is_cassette

GROUP = "agenttape.importers"
AUTO = "auto"
_OF_MANY = frozenset({"otel"})
"""Formats that many tools write: a file is tried with the others first."""
_FOREIGN = (".json", *SUFFIXES)


class Source(NamedTuple):
    """A file that may be of another tool.

    Args:
        path: The file.
        relative: Where it lies below the folder that was named; its name, if the file was named itself.
    """

    path: Path
    relative: PurePath


class Planned(NamedTuple):
    """A file, what reads it, and what it becomes."""

    source: Path
    tool: str
    target: Path


def importers(tool: str = AUTO, framework: str = AUTO) -> dict[str, Importer]:
    """Return the importer of a tool, or those of all tools, which loads the packages that they are in.

    Args:
        tool: The tool.
        framework: The framework whose calls they make; by default the first by name that has an importer of the tool.

    Raises:
        ConfigurationError: There is none.
    """
    points = sorted(entry_points(group=GROUP), key=_framework_of, reverse=True)
    if not points:
        raise ConfigurationError(
            "no importer is installed\n"
            "  pip install agenttape-langchain, or agenttape-llamaindex\n"
            '  they make calls of its models; record a program of another framework anew, with mode="once"'
        )
    if framework != AUTO:
        known = sorted({_framework_of(point) for point in points})
        if framework not in known:
            raise ConfigurationError(
                f"no importer that makes calls of {framework!r} is installed; there are: {', '.join(known)}"
            )
        points = [point for point in points if _framework_of(point) == framework]
    chosen = {point.name: point for point in points}
    if tool not in (AUTO, *chosen):
        raise ConfigurationError(f"no importer for {tool!r} is installed; there are: {', '.join(sorted(chosen))}")
    in_order = sorted(chosen, key=lambda name: (name in _OF_MANY, name))
    return {name: chosen[name].load() for name in in_order if tool in (AUTO, name)}


def _framework_of(point: EntryPoint) -> str:
    """Return the framework that an entry point is for, by the name of its distribution."""
    return point.dist.name.removeprefix("agenttape-") if point.dist is not None else ""


def sources_in(paths: Sequence[str]) -> list[tuple[Source, bool]]:
    """Return the files that paths name, and whether each was named itself; of a folder those that are no cassettes.

    Raises:
        CassetteNotFoundError: A path is nothing.
    """
    found: dict[Path, tuple[Source, bool]] = {}
    for path in map(Path, paths):
        if path.is_dir():
            for file in sorted(path.rglob("*")):
                if file.is_file() and file.name.endswith(_FOREIGN) and not is_cassette(file):
                    found.setdefault(file, (Source(file, file.relative_to(path)), False))
        elif path.exists():
            found[path] = (Source(path, PurePath(path.name)), True)
        else:
            raise CassetteNotFoundError(path, "there is no such file to import", remedy="check the path")
    return list(found.values())


def recognised(path: Path, known: Mapping[str, Importer]) -> str | None:
    """Return the tool that wrote a file, if one of the importers knows it.

    Args:
        path: The file.
        known: The importers, by the name of their tool.
    """
    return next((tool for tool, importer in known.items() if importer.recognises(path)), None)


def keeper_of(text: str, known: Mapping[str, Importer]) -> str | None:
    """Return the tool that keeps a recording elsewhere under a name that no file has; None if it is of none.

    Args:
        text: The name.
        known: The importers, by the name of their tool.
    """
    if Path(text).exists():
        return None
    return next((tool for tool, importer in known.items() if importer.names is not None and importer.names(text)), None)


def target_of(source: Source, out: str | None, cassette_dir: str) -> Path:
    """Return the cassette that a file becomes.

    Args:
        source: The file.
        out: A folder, or the cassette itself if it has the suffix of one.
        cassette_dir: The folder of the project's cassettes, if nothing else was said.
    """
    if out is not None and out.endswith(SUFFIXES):
        return Path(out)
    name = source.relative
    while name.suffix in _FOREIGN:
        name = name.with_suffix("")
    return Path(out or cassette_dir, name.with_name(f"{name.name}.yaml"))


def check_targets(planned: Sequence[Planned]) -> None:
    """Refuse to write two files into one cassette, or a cassette over what it is made of.

    Raises:
        ConfigurationError: That would happen.
    """
    taken: dict[Path, Path] = {}
    for plan in planned:
        if plan.target.resolve() == plan.source.resolve():
            raise ConfigurationError(f"{plan.source} would be replaced by what is made of it\n  name another: -o OUT")
        if (other := taken.setdefault(plan.target.resolve(), plan.source)) != plan.source:
            problem = f"{other} and {plan.source} would both become {plan.target}"
            raise ConfigurationError(f"{problem}\n  import them one by one, each with -o OUT")
