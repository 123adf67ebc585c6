"""Shared by commands that run programs: the options of `record` and `replay`, exit codes, pytest."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.output import print_json, printable
from agenttape_core.errors import ConfigurationError

if TYPE_CHECKING:
    from agenttape_core.tools.processes.report import Outcome

Function = Callable[..., Any]
NO_TESTS, STOPPED = 5, 2  # the exit codes of pytest if it has found no tests, and after Ctrl-C

_SEVERAL = {
    "live": "Make this call for real in any mode: a kind, name, node, number or pattern of places.",
    "replay_only": "Replay this call in any mode; selected like --live.",
    "step_into": "Run the code of this call, and replay the calls inside; selected like --live.",
    "match_on": "Find recordings by this rule: exact, request, address or ordered; several are tried in turn.",
    "ignore": "Leave this path of requests out when comparing, such as arguments.now.",
    "freeze": "Keep the recorded value of this: clock, clock:ticking, uuid, random, numpy, env.",
    "accept": "Accept lossy recordings in a replay, or placeholders of values without a codec (opaque).",
    "allow_hosts": "Let a replay reach this HOST or HOST:PORT, or loopback; only in live calls, if there are any.",
}


def running(function: Function) -> Function:
    """Add the argument and the options that both commands have."""
    words = click.argument("words", nargs=-1, required=True, metavar="[--] WORDS...")
    return words(with_options(function))


def with_options(function: Function) -> Function:
    """Add the options that both commands have."""
    for name, text in reversed(_SEVERAL.items()):
        option = f"--{name.replace('_', '-')}"
        function = click.option(option, name, multiple=True, metavar="WORD", help=f"{text} Repeatable.")(function)
    cassette = click.option(
        "--cassette",
        metavar="NAME",
        help="The name or path of the cassette. By default, it has the name of the command.",
    )
    http = click.option(
        "--http/--no-http",
        default=None,
        help="Record HTTP requests that no framework makes, or don't. By default as recorded.",
    )
    return cassette(http(function))


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given, as `use_cassette` takes them."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in options.items()
        if value not in (None, ())
    }


def before_command(command: click.Command) -> click.Command:
    """End the options of a command at the first word of the command that it runs, whose own options follow."""
    command.context_settings["allow_interspersed_args"] = False
    return command


def replayed_with(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a recording that also apply to its replay: no call is live."""
    return {**given({name: options[name] for name in _SEVERAL}), "live": []}


def report(outcome: Outcome, *, as_json: bool, check: Outcome | None = None) -> int:
    """Print how a command ended: on standard error, or as JSON on standard output. Returns the exit code."""
    differs = list(_differences(outcome, check)) if check is not None else []
    code = FINDINGS if differs else outcome.exit_code
    if as_json:
        checked = {} if check is None else {"replay_check": {**check.to_dict(), "differences": differs}}
        print_json({**outcome.to_dict(), **checked, "exit_code": code})
        return code
    lines = [*outcome.lines(), *outcome.failures()]
    if check is not None:
        lines += [f"replay check: {line}" for line in check.lines()]
    if differs:
        lines += ["the recording does not replay:", *differs]
    for line in lines:
        click.echo(f"agenttape: {printable(line)}", err=True)
    return code


def _differences(outcome: Outcome, check: Outcome) -> Iterator[str]:
    """Yield how the replay of a command differs from its recording."""
    if check.code != outcome.code:
        yield f"the command ended with {check.code}, and with {outcome.code} when it was recorded"
    yield from check.failures()


@contextmanager
def reported_by_pytest(
    tests: Sequence[str], options: Sequence[str], *, until_it_ends: bool = False, jobs: int = 1
) -> Iterator[tuple[Path, int]]:
    """Run pytest as `run_pytest` does, without its output, and yield its report as JSON and its exit code.

    Raises `ConfigurationError` if pytest finds no test, or ends with an error.
    """
    with tempfile.TemporaryDirectory(prefix="agenttape-") as folder:
        file = Path(folder) / "report.json"
        wanted = [*options, f"--cassette-report={file}"]
        ended = run_pytest(tests, wanted, quietly=True, until_it_ends=until_it_ends, jobs=jobs)
        is_usual = ended.returncode in {OK, FINDINGS} or (until_it_ends and ended.returncode == STOPPED)
        if not is_usual or not file.exists():
            why = "found no tests" if ended.returncode == NO_TESTS else f"ended with {ended.returncode}"
            raise ConfigurationError(f"pytest {why}\n{ended.stdout.strip()}\n{ended.stderr.strip()}".strip())
        yield file, ended.returncode


def run_pytest(
    tests: Sequence[str],
    options: Sequence[str] = (),
    *,
    quietly: bool = False,
    until_it_ends: bool = False,
    jobs: int = 1,
) -> subprocess.CompletedProcess[str]:
    """Run pytest in a separate process, with the hash seed with which the tests were recorded.

    Without `tests`, all that it finds are run. With `quietly`, its output is kept, and not shown; with `until_it_ends`,
    it's waited for even after Ctrl-C, because it then writes its results; `jobs` are processes of pytest-xdist. Raises
    `UsageError` if there are several jobs, and pytest-xdist isn't installed.
    """
    if jobs > 1 and find_spec("xdist") is None:
        raise click.UsageError(f"--jobs {jobs}: tests run in parallel with pytest-xdist: pip install pytest-xdist")
    from agenttape_core.tools.hash_seeds import seed_of_tests, with_seed

    spread = [f"--numprocesses={jobs}"] if jobs > 1 else []
    command = [sys.executable, "-m", "pytest", "-q", *tests, *options, *spread]
    environment = {**os.environ, **with_seed(seed_of_tests(tests))}
    pipe = subprocess.PIPE if quietly else None
    # S603: the user's own tests.
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:  # noqa: S603
        while True:
            try:
                said = process.communicate()
            except KeyboardInterrupt:  # which the process gets, too
                if not until_it_ends:
                    raise
            else:
                return subprocess.CompletedProcess(command, process.returncode, *said)
