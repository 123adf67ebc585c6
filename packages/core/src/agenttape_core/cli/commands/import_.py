"""`agenttape import`: cassettes from recordings of other tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path, PurePath

import click

from agenttape_core.cli.app import CASSETTE, FINDINGS, OK, USAGE
from agenttape_core.cli.cassettes import STDIN
from agenttape_core.cli.output import cli_command, print_json, print_text, progress
from agenttape_core.errors import CassetteError, CassetteNotFoundError, ConfigurationError, counted, shown_path
from agenttape_core.lifecycle.imported import Importer, ImportReport
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.settings import load_settings
from agenttape_core.storage import SUFFIXES, is_cassette

# -- Recordings of other tools: which importer reads a file, and which cassette it becomes.


GROUP = "agenttape.importers"
AUTO = "auto"
_OF_MANY = frozenset({"otel"})  # formats that many tools write: a file is tried with the others first
_FOREIGN = (".json", *SUFFIXES)


class Source(NamedTuple):
    """A file that may be of another tool."""

    path: Path  # the file
    relative: PurePath  # its path below the given folder; its name, if the file was given itself


class Planned(NamedTuple):
    """A file, its reader, and the resulting cassette."""

    source: Path
    tool: str
    target: Path


def importers(tool: str = AUTO, framework: str = AUTO) -> dict[str, Importer]:
    """Return the importer of a tool, or all importers, which loads their packages.

    By default, `framework` is the first by name that has an importer of the tool. Raises `ConfigurationError` if there
    is none.
    """
    points = sorted(entry_points(group=GROUP), key=_framework_of, reverse=True)
    if not points:
        raise ConfigurationError(
            "no importer is installed\n"
            "  pip install agenttape-langchain, or agenttape-llamaindex\n"
            '  they make calls of its models; record a program of another framework again, with mode="once"'
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
    """Return the files behind paths, and whether each was given itself; from a folder, those that aren't cassettes.

    Raises `CassetteNotFoundError` if a path doesn't exist.
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
    """Return the tool that wrote a file, if an importer recognizes it."""
    return next((tool for tool, importer in known.items() if importer.recognises(path)), None)


def keeper_of(text: str, known: Mapping[str, Importer]) -> str | None:
    """Return the tool that keeps a recording elsewhere under a name that no file has; None if it is of none."""
    if Path(text).exists():
        return None
    return next((tool for tool, importer in known.items() if importer.names is not None and importer.names(text)), None)


def target_of(source: Source, out: str | None, cassette_dir: str) -> Path:
    """Return the cassette that a file becomes.

    `out` is a folder, or the cassette itself if it has the suffix of one; without it, the folder is `cassette_dir`.
    """
    if out is not None and out.endswith(SUFFIXES):
        return Path(out)
    name = source.relative
    while name.suffix in _FOREIGN:
        name = name.with_suffix("")
    return Path(out or cassette_dir, name.with_name(f"{name.name}.yaml"))


def check_targets(planned: Sequence[Planned]) -> None:
    """Refuse, with `ConfigurationError`, two files into one cassette, or a cassette over its own source."""
    taken: dict[Path, Path] = {}
    for plan in planned:
        if plan.target.resolve() == plan.source.resolve():
            raise ConfigurationError(f"{plan.source} would be replaced by what is made of it\n  name another: -o OUT")
        if (other := taken.setdefault(plan.target.resolve(), plan.source)) != plan.source:
            problem = f"{other} and {plan.source} would both become {plan.target}"
            raise ConfigurationError(f"{problem}\n  import them one by one, each with -o OUT")


class _Imported(NamedTuple):
    plan: Planned
    report: ImportReport | None
    problem: Exception | None = None


@cli_command("agenttape import old/greetings.yaml -o cassettes/greetings.yaml")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--from",
    "tool",
    default=AUTO,
    metavar="TOOL",
    help="Read the files of this tool: vcrpy, langsmith, otel, agenttape01.",
)
@click.option(
    "--for", "framework", default=AUTO, metavar="FRAMEWORK", help="Make calls of this framework: langchain, llamaindex."
)
@click.option(
    "-o", "--output", "out", metavar="OUT", help="Write this cassette, or to this folder; by default to cassette_dir."
)
@click.option("--overwrite", is_flag=True, help="Replace existing cassettes.")
def import_(
    files: tuple[str, ...], *, tool: str, framework: str, out: str | None, overwrite: bool, as_json: bool
) -> int:
    """Read recordings of vcrpy, LangSmith or the older agenttape.

    FILE is a file, a folder, a trace of OpenTelemetry or OpenInference, or the id of a LangSmith run. From a folder, it
    imports all recordings that it recognizes. The report grades each call as exact, lossy or missing; the command
    exits with 1 if one is lossy or missing, and still writes the cassette.
    """
    if STDIN in files:
        raise click.UsageError("recordings of other tools cannot come from standard input; name a file")
    known = importers(tool, framework)
    planned, skipped = _planned(files, known, out)
    done = [_imported(plan, known[plan.tool], overwrite=overwrite) for plan in progress(planned, "importing")]
    if as_json:
        print_json([*map(_plain, done), *({"source": str(path), "tool": None} for path in skipped)])
    else:
        for each in done:
            print_text(_report_of(each), "" if each.report else "red")
        if skipped:
            print_text(f"{counted(len(skipped), 'file')} skipped: no known tool wrote such a file")
        elif not done:
            print_text("nothing to import")
    return _code(done)


def _planned(files: Sequence[str], known: dict[str, Importer], out: str | None) -> tuple[list[Planned], list[Path]]:
    folder = shown_path(load_settings().cassette_dir)
    kept = {name: tool for name in files if (tool := keeper_of(name, known)) is not None}
    planned = [Planned(Path(name), tool, target_of(_kept(name), out, folder)) for name, tool in kept.items()]
    skipped = []
    for source, is_named in sources_in([name for name in files if name not in kept]):
        # A file that is named is of the tool that was named; other files in a folder may be anything.
        tool = next(iter(known)) if is_named and len(known) == 1 else recognised(source.path, known)
        if tool is not None:
            planned.append(Planned(source.path, tool, target_of(source, out, folder)))
        elif is_named:
            raise _unknown(source.path, known)
        else:
            skipped.append(source.path)
    if out is not None and out.endswith(SUFFIXES) and len(planned) > 1:
        raise click.UsageError(f"-o {out} is one cassette, and there are {len(planned)} files; name a folder")
    check_targets(planned)
    return planned, skipped


def _kept(name: str) -> Source:
    return Source(Path(name), PurePath(name))


def _unknown(path: Path, known: Iterable[str]) -> ConfigurationError:
    if is_cassette(path):
        return ConfigurationError(
            f"{path} is already a cassette of AgentTape\n  use it as it is, or agenttape cassette convert"
        )
    remedy = f"name the tool that wrote it: --from {' or '.join(known)}"
    return ConfigurationError(f"{path} was written by no known tool\n  {remedy}")


def _imported(plan: Planned, importer: Importer, *, overwrite: bool) -> _Imported:
    if plan.target.exists() and not overwrite:
        remedy = "replace it: --overwrite, or name another: -o OUT"
        return _Imported(plan, None, ConfigurationError(f"{plan.target} exists\n  {remedy}"))
    try:
        return _Imported(plan, importer.run(plan.source, plan.target, overwrite=overwrite))
    except (CassetteError, ConfigurationError) as error:
        return _Imported(plan, None, error)


def _report_of(done: _Imported) -> str:
    """Return the report with whole paths: files in several folders may have the same names."""
    if done.report is None:
        return str(done.problem)
    graded = str(done.report).removeprefix(f"{done.report.source.name} -> {done.report.target.name}")
    return f"{done.plan.source} -> {done.plan.target}{graded}"


def _code(done: Sequence[_Imported]) -> int:
    problems = [each.problem for each in done if each.problem is not None]
    if problems:
        return CASSETTE if any(isinstance(problem, CassetteError) for problem in problems) else USAGE
    return FINDINGS if any(report.lossy or report.missing for report in _reports(done)) else OK


def _reports(done: Sequence[_Imported]) -> Iterator[ImportReport]:
    return (each.report for each in done if each.report is not None)


def _plain(done: _Imported) -> dict[str, object]:
    plan, report = done.plan, done.report
    row: dict[str, object] = {"source": str(plan.source), "tool": plan.tool, "target": str(plan.target)}
    if report is None:
        return {**row, "problem": str(done.problem)}
    counts = {grade: len(getattr(report, grade)) for grade in ("exact", "lossy", "missing")}
    items = [{"place": i.place, "what": i.what, "fidelity": i.fidelity, "reason": i.reason} for i in report.items]
    return {**row, **counts, "interactions": items}
