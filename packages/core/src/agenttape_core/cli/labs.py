"""Shared by the commands that replay a program: the target, its recording, the common options, the report."""

from __future__ import annotations

import functools
import json
import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from agenttape_core.cli.app import FINDINGS, INTERRUPTED, OK
from agenttape_core.cli.cassettes import STDIN, found_one
from agenttape_core.cli.hash_seed import pin_hash_seed
from agenttape_core.cli.output import cli_command, print_json, print_text, progress_bar
from agenttape_core.cli.running import STOPPED, reported_by_pytest
from agenttape_core.experiments.program import COMMAND, Program, is_command, is_test, program_of
from agenttape_core.experiments.targets import with_test
from agenttape_core.storage import location_of
from agenttape_core.tools.reporting import Checked, Judged
from agenttape_core.tools.reporting.forms import WRITTEN, write_report

if TYPE_CHECKING:
    from agenttape_core.experiments.result import Result

Function = Callable[..., Any]
Option = Callable[[Function], Function]
Returned = TypeVar("Returned")

_OF_COMMANDS = frozenset(
    {"target", "targets", "cassette", "cassettes", "jobs", "resume", "reports", "as_json", "no_test_file"}
)
"""The parameters of commands that aren't options of `--cassette-lab`."""


def experiment(example: str, *options: Option) -> Callable[[Function], click.Command]:
    """Make a command of an experiment on one program, from a function of the program and the recording.

    The function takes each option by its name, and `on_run`, which shows the progress; it returns the result. The
    recording and the result files are added to its `options`.
    """

    def made(function: Function) -> click.Command:
        @functools.wraps(function)
        def run(target: str, *, cassette: str | None, reports: tuple[str, ...], as_json: bool, **given: Any) -> int:
            if is_of_tests(target):
                return finished_tests([target], reports, as_json=as_json)
            path = recording_of(cassette)
            with progress_bar(given.get("runs"), "replaying") as advance:
                found = with_program(
                    target, lambda program: function(program, path, on_run=advance, **given), cassette=path
                )
            return finished(found, reports, as_json=as_json)

        command: Function = run
        around: list[Option] = [click.argument("target"), with_cassette, *options, with_report]
        for option in reversed(around):
            command = option(command)
        return lab_command(example)(command)

    return made


class Experiment(click.Command):
    """A command that refuses the options that other experiments have and this one has no use for, with the reason."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse such an option, and any that no experiment has; a command after `--` is one target."""
        if "--" in args:
            place = args.index("--")
            args = [*args[: place + 1], *([COMMAND + shlex.join(args[place + 1 :])] if args[place + 1 :] else [])]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            from agenttape_core.experiments.engine import SHARED, refusal

            word = error.option_name.lstrip("-").replace("-", "_")
            if word not in SHARED:
                raise
            raise click.UsageError(refusal(str(self.name), word, error.option_name), ctx) from None


def lab_command(example: str) -> Callable[[Function], click.Command]:
    """Make a command of an experiment."""
    return cli_command(example, Experiment)


with_cassette: Option = click.option(
    "--cassette", metavar="NAME", help="The recording; by default the one that the target has by itself."
)


def with_runs(default: int, text: str) -> Option:
    """Add the option for the number of replays."""
    return click.option("--runs", type=click.IntRange(1), default=default, show_default=True, metavar="N", help=text)


def with_seed(default: int) -> Option:
    """Add the option for the seed."""
    return click.option("--seed", default=default, show_default=True, help="Draw what is drawn with this seed.")


def with_reports(forms: Collection[str], what: str = "result") -> Option:
    """Add the option for files that are written; their suffixes select one of the `forms`."""
    known = ", ".join(forms)

    def refuse_unknown(_: click.Context, __: click.Parameter, files: tuple[str, ...]) -> tuple[str, ...]:
        for file in files:
            if Path(file).suffix not in forms:
                raise click.BadParameter(f"{file}: the suffix is the form; use one of {known}")
            if not isinstance(location_of(file), Path):
                raise click.BadParameter(f"{file}: a report is a file here; copy it to the URL")
        return files

    text = f"Write the {what} to a file: {known}. Repeatable."
    return click.option("--report", "reports", multiple=True, metavar="FILE", callback=refuse_unknown, help=text)


with_report = with_reports(WRITTEN)
with_resume: Option = click.option(
    "--resume", metavar="FILE", type=click.Path(), help="Take over what this earlier --report FILE.json holds."
)
with_max_usd: Option = click.option(
    "--max-usd",
    type=click.FloatRange(0),
    metavar="DOLLARS",
    help="Let models cost so much; without it, none is called.",
)
with_jobs: Option = click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="Run N at a time."
)
with_plan: Option = click.option("--dry-run", is_flag=True, help="Show what it would cost, and call no model.")


def recording_of(cassette: str | None) -> str | Path | None:
    """Return the recording that a command line names, if any. Raises `UsageError` if it's standard input."""
    if cassette == STDIN:
        raise click.UsageError("a cassette that is replayed many times can't be read from standard input")
    return (found_one(cassette).path or cassette) if cassette is not None else None


def finished(found: Result, reports: tuple[str, ...], *, as_json: bool, text: str | None = None) -> int:
    """Print the result of an experiment, or `text`, write it to files, and return the exit code."""
    text = str(found) if text is None else text
    if as_json:
        print_json(found.to_dict())
    else:
        print_text(text)
    for file in reports:
        write_report(file, found.to_checked(), found.to_dict(), text)
    if not found.is_whole:
        return INTERRUPTED
    return OK if found.ok else FINDINGS


def is_of_tests(target: str) -> bool:
    """Return whether a target is a file or a folder of tests, which pytest runs one by one."""
    return not is_command(target) and ":" not in target and Path(target).exists()


def found_in_tests(
    tests: Sequence[str], lab: str | None = None, options: Sequence[str] = ()
) -> tuple[dict[str, Any], int]:
    """Return the results of this command's experiment on tests, in a run of pytest, and the exit code of that.

    Without `tests`, all that pytest finds are run. `lab` has the experiment and its options, as for `--cassette-lab`;
    by default those of this command. Raises `ConfigurationError` if pytest finds no test, or ends with an error.
    """
    context = click.get_current_context()
    if lab is None:
        given = {
            name: ",".join(value) if isinstance(value, list | tuple) else str(value)
            for name, value in context.params.items()
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE and name not in _OF_COMMANDS
        }
        words = ",".join(f"{name}={value}" for name, value in given.items())
        lab, resume = f"{context.info_name}:{words}".rstrip(":"), context.params.get("resume")
        options = [f"--cassette-resume={resume}"] if resume is not None else []
    wanted, jobs = [f"--cassette-lab={lab}", *options], context.params.get("jobs", 1)
    with reported_by_pytest(tests, wanted, until_it_ends=True, jobs=jobs) as (file, code):
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found, INTERRUPTED if code == STOPPED else code


def finished_tests(tests: Sequence[str], reports: tuple[str, ...], *, as_json: bool) -> int:
    """Do the experiment of this command on tests, print its results, write them to files, and return the exit code."""
    plain, code = found_in_tests(tests)
    results = plain.get("results", [])
    text = "\n".join(one["text"] for one in results) or "no test of a cassette was looked at"
    if as_json:
        print_json(plain)
    else:
        print_text(text)
    for file in reports:
        checked = [Checked(one["test"], "", "", tuple(map(Judged.from_dict, one["checked"]))) for one in results]
        write_report(file, checked, plain, text)
    if code == INTERRUPTED:
        return code
    return OK if results and all(one["ok"] for one in results) else FINDINGS


# -- The program that a command replays: a function, or a test.


def with_program(target: str, work: Callable[[Program], Returned], *, cassette: str | Path | None = None) -> Returned:
    """Do something with the program that a command line names, with the hash seed of its recording.

    `target` is `module:function`, `path/to/file.py:function`, the id of a test, or a command, `-- python agent.py`;
    `work` runs the program as often as it likes. The recording is by default the program's own. Raises
    `ConfigurationError` if the program doesn't exist, and `AnotherSeedError` if the command has to start again, with
    another hash seed.
    """
    if is_command(target):  # each process gets the recorded seed
        return work(program_of(target))
    if cassette is not None:
        pin_hash_seed(cassette)

    def with_its_seed(program: Program) -> Returned:
        if cassette is None and program.cassette is not None and program.cassette.exists():
            pin_hash_seed(program.cassette)
        return work(program)

    with from_here():
        if is_test(target):
            return with_test(target, with_its_seed)
        return with_its_seed(program_of(target))


@contextmanager
def from_here() -> Iterator[None]:
    """Find modules from the current folder for the duration of a block."""
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - an entry of the path is a text
    try:
        yield
    finally:
        sys.path.pop(0)
