"""`agenttape lab`: run a recorded program again and again, with something varied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agenttape_core import experiments
from agenttape_core.cli.app import FINDINGS, INTERRUPTED, OK
from agenttape_core.cli.cassettes import runs_in
from agenttape_core.cli.labs import (
    experiment,
    finished,
    finished_tests,
    found_in_tests,
    from_here,
    is_of_tests,
    lab_command,
    recording_of,
    with_cassette,
    with_jobs,
    with_max_usd,
    with_plan,
    with_program,
    with_report,
    with_resume,
    with_runs,
    with_seed,
)
from agenttape_core.cli.output import print_json, progress_bar
from agenttape_core.cli.running import run_pytest
from agenttape_core.experiments.engine import SEED
from agenttape_core.experiments.program import Program, is_command
from agenttape_core.experiments.result import read
from agenttape_core.experiments.strategies.fault_kinds import chosen_kinds
from agenttape_core.experiments.strategies.faults import FaultMatrices, FaultMatrix
from agenttape_core.experiments.strategies.flaky import PROCESSES, SAMPLES, FlakyParts
from agenttape_core.experiments.strategies.mutants import MOST, MutationScore
from agenttape_core.experiments.strategies.order_search import Exploration
from agenttape_core.experiments.strategies.orders import ORDERS
from agenttape_core.experiments.strategies.shrink import MAX_REPLAYS as SHRINK_REPLAYS
from agenttape_core.experiments.strategies.shrink import Shrunk, write_test
from agenttape_core.experiments.strategies.why import MAX_REPLAYS as WHY_REPLAYS
from agenttape_core.experiments.strategies.why import Why

if TYPE_CHECKING:
    from agenttape_core.experiments.strategies.model import CommandRun, ProgramRun, Wanted


UNJUDGED = 125  # the exit code of `git bisect run` for what can't be judged


@lab_command("agenttape lab bisect desk.py:answer --cassette desk --good v1.2 --bad HEAD")
@click.argument("target")
@with_cassette
@click.option("--good", required=True, metavar="REV", help="A commit that replays the recording.")
@click.option("--bad", default="HEAD", show_default=True, metavar="REV", help="A later commit that doesn't.")
@with_report
def bisect(target: str, *, cassette: str | None, good: str, bad: str, reports: tuple[str, ...], as_json: bool) -> int:
    """Find the first commit whose program doesn't replay its recording.

    TARGET is a file or the id of a test, module:function, path/to/file.py:function, or a command after --. Each commit
    that is tried is replayed strictly in a worktree, and half of the others are ruled out by it. No model or tool is
    called. Exits with 125 if commits can't be judged, so that it's one of several.
    """
    if is_of_tests(target):
        return finished_tests([target], reports, as_json=as_json)
    path = recording_of(cassette)
    with progress_bar(None, "replaying") as advance:
        found = experiments.bisect(target, path, good=good, bad=bad, on_run=advance)
    code = finished(found, reports, as_json=as_json)
    return UNJUDGED if found.is_whole and not found.is_found else code


@lab_command("agenttape lab change tests/test_desk.py::test_answer --base main --max-usd 1")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--cassette", "cassettes", multiple=True, metavar="NAME", help="A recording of the function. Repeatable.")
@click.option("--base", required=True, metavar="REV", help="The revision to compare with, such as main.")
@click.option("--to", metavar="REV", help="The changed revision; by default the working tree.")
@click.option("--samples", type=click.IntRange(1), default=10, show_default=True, help="The most pairs of a recording.")
@with_max_usd
@click.option("--live", multiple=True, metavar="CALL", help="Let this tool be called, too. Repeatable.")
@click.option("--checks", multiple=True, metavar="FILE", help="A file of checks that samples must pass. Repeatable.")
@with_jobs
@with_plan
@with_resume
@with_report
def change(
    targets: tuple[str, ...], *, cassettes: tuple[str, ...], reports: tuple[str, ...], as_json: bool, **options: Any
) -> int:
    """Replay recordings with two revisions, and show which ones the change affects.

    TARGET is a file or the id of a test; with --cassette module:function or path/to/file.py:function; or a command
    after --. Both revisions replay each recording strictly: what makes the same calls is decided, for free. With
    --max-usd, the calls that the change affects are made by both revisions in pairs, and all others are replayed. Exits
    with 1 if a recording is WORSE, CHANGED, or can't be compared.
    """
    paths = [recording_of(one) or one for one in cassettes] or None
    with progress_bar(None, "replaying") as advance:
        found = experiments.change(targets, paths, on_run=advance, **options)
    return finished(found, reports, as_json=as_json)


def _words(_: click.Context, __: click.Parameter, given: str | None) -> tuple[str, ...]:
    return tuple(one.strip() for one in (given or "").split(",") if one.strip())


@lab_command("agenttape lab faults tests/test_support.py --kinds timeout,cut_stream")
@click.argument("targets", nargs=-1, metavar="[TARGET...]")
@with_cassette
@click.option("--kinds", callback=_words, default="all", metavar="KINDS", help="Try only these, such as timeout,empty.")
@click.option("--call", multiple=True, metavar="CALL", help="Let only these fail, by kind, name or node. Repeatable.")
@with_jobs
@with_resume
@with_report
def faults(
    targets: tuple[str, ...],
    *,
    cassette: str | None,
    kinds: tuple[str, ...],
    reports: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> int:
    """Make each recorded call fail once in each way, offline, and show the outcomes.

    TARGET is a file, a folder or the id of a test, by default all that pytest finds; a function with --cassette, as
    module:function or path/to/file.py:function; or a command after the options and --. What passes with its recording
    is run again for each fault. No model or tool is called, and no file changes.

    Exits with 0 if all is well, and with 1 if a run passed although its agent did something else (SILENT), or a test
    was excluded because it fails without a fault. Ctrl-C ends it with the results so far, which --resume continues
    from.
    """
    chosen = None if kinds == ("all",) else kinds
    if chosen is not None:
        chosen_kinds(chosen)
    path = recording_of(cassette)
    if path is None and not any(map(is_command, targets)):
        plain, code = found_in_tests(targets)
        matrices = tuple(read(FaultMatrix, one) for one in plain["tests"])
        tests = FaultMatrices(matrices, is_stopped=code == INTERRUPTED)
        return finished(tests, reports, as_json=as_json)
    if len(targets) != 1:
        raise click.UsageError("--cassette is for one function or command: name it, and nothing else")
    with progress_bar(None, "replaying") as advance:

        def work(program: Program) -> FaultMatrix:
            return experiments.faults(program, path, chosen, on_run=advance, **options)

        found = FaultMatrices((with_program(targets[0], work, cassette=path),))
    return finished(found, reports, as_json=as_json)


@experiment(
    "agenttape lab flaky tests/test_desk.py::test_answer --samples 10 --max-usd 1",
    click.option("--samples", default=SAMPLES, show_default=True, help="Run each part so often."),
    with_max_usd,
    with_plan,
    click.option("--live", multiple=True, metavar="TOOL", help="Let this tool be called. Repeatable."),
    click.option("--judge", metavar="NAME", help="The boundary that judges."),
    click.option(
        "--processes", default=PROCESSES, show_default=True, metavar="N", help="Also replay N times in new processes."
    ),
    with_seed(SEED),
    with_jobs,
)
def flaky(program: Program, path: Path | None, *, live: tuple[str, ...], **given: Any) -> FlakyParts:
    """Find the part of a flaky program that makes it so: code, order, a tool, the model, or the judge.

    TARGET is a file or the id of a test, module:function, path/to/file.py:function, or a command after --. Each part
    varies alone, while all others are replayed: first the free ones, and models only with --max-usd. Exits with 1 if
    something has failed.
    """
    return experiments.flaky(program, path, live=live or None, **given)


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
    from agenttape_core.tools.oracle import fakes_of
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


@lab_command("agenttape lab mutants tests --only prompts,tools --base main --fail-under 0.8")
@click.argument("targets", nargs=-1, metavar="[TARGET...]")
@with_cassette
@click.option("--only", callback=_words, metavar="KINDS", help="Edit only these: some of prompts, tools, schemas.")
@click.option("--source", multiple=True, metavar="PATH", help="Edit this file or folder. Repeatable.")
@click.option("--base", metavar="REV", help="Edit only lines that have changed since this revision of git.")
@with_runs(MOST, "Try N edits at most.")
@with_seed(SEED)
@click.option("--mutant", metavar="ID", help="Try only this edit.")
@click.option("--live", callback=_words, metavar="NAMES", help="Call these kinds or names for real, such as tool.")
@with_jobs
@with_resume
@click.option("--fail-under", type=click.FloatRange(0, 1), metavar="SHARE", help="Exit with 1 if less is killed.")
@with_report
def mutants(
    targets: tuple[str, ...],
    *,
    cassette: str | None,
    mutant: str | None,
    fail_under: float | None,
    reports: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> int:
    """Edit prompts, tools and schemas, one at a time, and list the edits that no test catches.

    TARGET is a file, a folder or the id of a test, by default all that pytest finds; or a function with --cassette, as
    module:function or path/to/file.py:function. Edits are made when a file is imported, in separate processes: no file
    changes. Nothing is called for real but what --live names, with the edits in it.

    Exits with 1 if less than --fail-under is killed, or a test fails without an edit; with --mutant, if it survives.
    """
    path = recording_of(cassette)
    if path is not None and len(targets) != 1:
        raise click.UsageError("--cassette is for one function: name it, and nothing else")
    with progress_bar(None, "editing") as advance:
        meant = targets[0] if path is not None else list(targets)
        found = experiments.mutants(meant, path, mutant=mutant, on_run=advance, **options)
    text = "\n".join(map(str, found.judged)) if mutant is not None else None
    finished(found, reports, as_json=as_json, text=text)
    return _code(found, fail_under, mutant)


def _code(found: MutationScore, fail_under: float | None, mutant: str | None) -> int:
    if not found.is_whole:
        return INTERRUPTED
    if mutant is not None:
        return FINDINGS if found.survivors else OK
    is_under = fail_under is not None and found.score.share < fail_under
    return FINDINGS if is_under or found.excluded else OK


@experiment(
    "agenttape lab orders tests/agent.py:run --cassette cassettes/weather.yaml",
    with_runs(ORDERS, "Try N orders at most."),
    with_seed(SEED),
    click.option("--order", help="Try only this order, as a finding names it: numbers of calls, such as 5,3."),
)
def orders(program: Program, path: Path | None, **given: Any) -> Exploration:
    """Answer recorded calls in other orders, and show which of them change the outcome.

    TARGET is a file or the id of a test, module:function, path/to/file.py:function, or a command after --. Calls that
    wait side by side in an event loop or in threads are answered in every order, or in those nearest to the recorded
    one and others by chance. Exits with 1 if an order changes the outcome.
    """
    return experiments.orders(program, path, **given)


@experiment(
    "agenttape lab shrink tests/test_desk.py::test_no_amounts --cassette runs/incident-417.jsonl",
    click.option("-o", "--output", "to", metavar="FILE", help="Write the cassette here; by default NAME.minimal.yaml."),
    with_runs(SHRINK_REPLAYS, "Replay the program N times at most."),
    click.option("--no-test-file", is_flag=True, help="Write no pytest file."),
)
def shrink(program: Program, path: Path | None, *, no_test_file: bool, **given: Any) -> Shrunk:
    """Find the smallest cassette with which a program still fails the same way.

    TARGET is a file or the id of a test, module:function, path/to/file.py:function, or a command after --. Writes
    NAME.minimal.yaml, and for a single test or function a pytest file that replays it. No model or tool is called.
    """
    found = experiments.shrink(program, path, **given)
    if no_test_file or program.source is None:
        return found
    return replace(found, test=write_test(found, program.source))


@experiment(
    "agenttape lab why desk.py:answer --cassette cassettes/desk.yaml --text 9981",
    click.option("--call", type=int, metavar="N", help="Ask about this call; by default the last answer of a model."),
    click.option("--text", metavar="TEXT", help="Ask about this text, as it is in an answer."),
    with_runs(WHY_REPLAYS, "Replay the program N times at most."),
    with_jobs,
)
def why(program: Program, path: Path | None, **given: Any) -> Why:
    """Find which recorded answers have changed a call, each link tested by a replay.

    TARGET is a file or the id of a test, module:function, path/to/file.py:function, or a command after --. Each
    recorded answer is changed once, and the program replayed: the calls that then request something else depend on it.
    No model or tool is called.
    """
    return experiments.why(program, path, **given)
