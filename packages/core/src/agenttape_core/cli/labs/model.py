"""`agenttape lab model`: try another model on recordings, and compare it with the program's own."""

from __future__ import annotations

from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agenttape_core.cli.cassettes import runs_in
from agenttape_core.cli.labs import (
    finished,
    found_in_tests,
    lab_command,
    with_jobs,
    with_plan,
    with_report,
    with_resume,
)
from agenttape_core.cli.output import print_json, progress_bar
from agenttape_core.cli.programs import from_here
from agenttape_core.cli.running import run_pytest
from agenttape_core.experiments.program import is_command

if TYPE_CHECKING:
    from agenttape_core.experiments.strategies.model import CommandRun, ProgramRun, Wanted

_OF_PYTEST = {"max_usd": "--cassette-max-usd", "resume": "--cassette-resume", "fail_under": "--cassette-fail-under"}
"""The options that a run of pytest also has."""


def _samples(_: click.Context, __: click.Parameter, text: str) -> tuple[int, int]:
    candidate, slash, own = text.partition("/")
    if not candidate.isdigit() or int(candidate) < 1 or (slash and not own.isdigit()):
        raise click.BadParameter(f"expected a number from 1, and after a slash one from 0; found {text!r}")
    return int(candidate), int(own if slash else candidate)


@lab_command("agenttape lab model openai:gpt-5-mini desk.py:answer --run runs/ --jobs 4")
@click.argument("candidate", metavar="MODEL")
@click.argument("targets", nargs=-1, metavar="[TARGET...]")
@click.option("--run", "recordings", multiple=True, metavar="PATH", help="A recording: file, folder, glob. Repeatable.")
@click.option("--app", "--asgi", "app", metavar="NAME", help="The program that begins each run again, as module:name.")
@click.option(
    "--samples",
    metavar="N[/N]",
    default="10/10",
    show_default=True,
    callback=_samples,
    help="The most samples of MODEL, and after the slash of the own model.",
)
@with_jobs
@click.option("--max-usd", type=click.FloatRange(0), metavar="DOLLARS", help="Make no call beyond this.")
@click.option("--fail-under", type=click.FloatRange(0, 1), metavar="SHARE", help="Fail if MODEL passes less often.")
@click.option("--checks", multiple=True, metavar="FILE", help="A file of checks that samples must pass. Repeatable.")
@click.option("--oracle", metavar="FILE|URL", help="An oracle that answers calls of tools without a recording.")
@click.option(
    "--live", multiple=True, metavar="CALL", help="Other calls to execute, by kind, name or node. Repeatable."
)
@click.option("-o", "--output", metavar="DIR", help="The folder of the samples; by default .agenttape/candidates.")
@with_plan
@with_resume
@with_report
def model(
    candidate: str,
    targets: tuple[str, ...],
    *,
    recordings: tuple[str, ...],
    app: str | None,
    live: tuple[str, ...],
    output: str | None,
    samples: tuple[int, int],
    dry_run: bool,
    resume: str | None,
    reports: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> int:
    """Try another model on recordings, and compare it with the program's own.

    TARGET is a file or the id of a test; a function with --run, as module:function or path/to/file.py:function; or a
    command, after the options and --. With --app (or --asgi), each run begins again from its recorded input or request.
    Tools are replayed.

    Exits with 1 if MODEL is WORSE, or if no sample counts: those that made no call, lost their endpoint, or made an
    unrecorded call don't.
    """
    has_command = any(map(is_command, targets))
    if (app is not None) + bool(targets) != 1 or (has_command and len(targets) > 1):
        raise click.UsageError("name one: tests, a function, --app or --asgi, or a command after --")
    options |= {"samples": samples[0], "baseline": samples[1]}
    if targets and not (recordings or has_command):
        options |= {"resume": resume, "live": ",".join(live), "to": output}
        return _by_pytest(candidate, targets, options, reports, plans=dry_run, as_json=as_json)
    if len(targets) > 1 or not (has_command or recordings):
        raise click.UsageError("name one function or program, and its recordings: --run PATH")
    from agenttape_core.experiments.strategies.model import Trying, Wanted

    wanted = Wanted(candidate, to=output, options={"live": list(live)} if live else {}, **options)
    with from_here(), progress_bar(None, "sampling") as advance:
        trying = Trying(wanted, _runs(wanted, (*targets, app or "")[0], _meant(recordings)))
        found = trying.found(dry_run=dry_run, resume=resume, on_run=advance)
    return finished(found, reports, as_json=as_json)


def _meant(recordings: Sequence[str]) -> list[Path]:
    """Return the recordings that paths, names and globs mean. Derived cassettes count only if they're named."""
    paths = [each for one in recordings for each in (sorted(glob(one, recursive=True)) or [one])]  # noqa: PTH207
    found = runs_in(paths) if paths else []
    if remote := [each.shown for each in found if each.path is None]:
        raise click.UsageError(
            f"--run: {remote[0]} isn't a local file; agenttape fleet plan takes recordings of a store"
        )
    return [each.path for each in found if each.path is not None]


def _runs(wanted: Wanted, name: str, paths: list[Path]) -> Sequence[ProgramRun | CommandRun]:
    """Return the recorded runs of a command, of a function, or of a program that begins each again."""
    from agenttape_core.cli.hash_seed import pin_hash_seed
    from agenttape_core.experiments.commands import command_in
    from agenttape_core.experiments.program import program_of
    from agenttape_core.experiments.strategies.model import CommandRun, ProgramRun
    from agenttape_core.experiments.targets import restarted
    from agenttape_core.storage import open_cassette
    from agenttape_core.tools.oracle.lookup import fakes_of
    from agenttape_core.tools.processes.run import path_of
    from agenttape_core.tools.target import load_program

    if is_command(name):
        given = command_in(name)
        return [CommandRun(given, path.absolute()) for path in paths] or [CommandRun(given, path_of(given.name))]
    if paths:
        pin_hash_seed(paths[0])
    fakes = fakes_of(wanted.oracle, paths) if wanted.oracle else {}
    if not click.get_current_context().params["app"]:
        return [ProgramRun(program_of(name, **fakes), path) for path in paths]
    loaded = load_program(name)
    return [ProgramRun(restarted(loaded, open_cassette(path), fakes), path) for path in paths]


def _by_pytest(
    candidate: str,
    tests: tuple[str, ...],
    options: dict[str, Any],
    reports: tuple[str, ...],
    *,
    plans: bool,
    as_json: bool,
) -> int:
    """Run tests with pytest, which prints the table, if it's not printed as JSON."""
    for name in ("oracle", "checks"):
        if options[name]:
            raise click.UsageError(f"--{name} is for functions and commands: a test judges by its own assertions")
    words = "".join(f",{key}={options[key]}" for key in ("live", "to") if options[key])
    given = [f"{name}={options[key]}" for key, name in _OF_PYTEST.items() if options[key] is not None]
    given += [
        f"--cassette-samples={options['samples']}/{options['baseline']}",
        *(f"--cassette-report={file}" for file in reports),
    ]
    given += ["--cassette-dry-run"] if plans else []
    if as_json:
        plain, code = found_in_tests(tests, f"model:{candidate}{words}", given)
        print_json(plain)
        return code
    return run_pytest(tests, [f"--cassette-lab=model:{candidate}{words}", *given], jobs=options["jobs"]).returncode
