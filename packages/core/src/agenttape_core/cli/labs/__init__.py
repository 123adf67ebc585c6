"""The experiments of `agenttape lab`, a module each, and what they share: the target, its recording, the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from agenttape_core.cli.cassettes import STDIN, found_one
from agenttape_core.cli.output import print_json, print_text
from agenttape_core.tools.reporting.forms import FORMS

if TYPE_CHECKING:
    from agenttape_core.tools.reporting.findings import Checked

Function = Callable[..., Any]

EXPERIMENTS: Mapping[str, str] = {
    "bisect": "Find the first commit whose program doesn't replay its recording.",
    "change": "Replay what was recorded with two revisions, and show which recordings the change affects.",
    "faults": "Let each recorded call fail once in each way, offline, and show what came of it.",
    "flaky": "Find the part of a flaky program that makes it so: code, order, a tool, the model, or the judge.",
    "mutants": "Edit prompts, tools and schemas, one at a time, and list the edits that no cassette notices.",
    "orders": "Answer recorded calls in other orders, and show which of them change the outcome.",
    "shrink": "Find the smallest cassette with which a program still fails alike.",
    "why": "Find which recorded answers have moved a call, each link tested by a replay.",
}
"""Each is a function in a module of its name, imported when it's used; with the first sentence of its help."""


class Reported(Protocol):
    """The result of an experiment."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""


def with_cassette(function: Function) -> Function:
    """Add the option for the recording."""
    return click.option(
        "--cassette", metavar="NAME", help="The recording; by default the one that the target has by itself."
    )(function)


def with_runs(default: int, text: str) -> Callable[[Function], Function]:
    """Add the option for the number of replays.

    Args:
        default: The number if it isn't given.
        text: Its help.
    """
    return click.option("--runs", type=click.IntRange(1), default=default, show_default=True, metavar="N", help=text)


def with_seed(default: int) -> Callable[[Function], Function]:
    """Add the option for the seed.

    Args:
        default: The seed if it isn't given.
    """
    return click.option("--seed", default=default, show_default=True, help="Draw what is drawn with this seed.")


def with_report(function: Function) -> Function:
    """Add the option for files of the result."""
    return click.option(
        "--report",
        "reports",
        multiple=True,
        metavar="FILE",
        callback=_refuse_unknown,
        help=f"Write the result to a file: .json, .txt, {', '.join(FORMS)}. Repeatable.",
    )(function)


def _refuse_unknown(_: click.Context, __: click.Parameter, files: tuple[str, ...]) -> tuple[str, ...]:
    for file in files:
        if Path(file).suffix not in {".json", ".txt", *FORMS}:
            raise click.BadParameter(f"{file}: the suffix is the form; use one of .json, .txt, {', '.join(FORMS)}")
    return files


def recording_of(cassette: str | None) -> str | Path | None:
    """Return the recording that a command line names; `None` if it names none.

    Raises:
        UsageError: If it is standard input.
    """
    if cassette == STDIN:
        raise click.UsageError("a cassette that is replayed many times can't be read from standard input")
    return (found_one(cassette).path or cassette) if cassette is not None else None


def show(found: Reported, *, as_json: bool, text: str | None = None) -> None:
    """Print what an experiment has found.

    Args:
        found: The result.
        as_json: Whether it is printed as JSON.
        text: The text in place of its own.
    """
    if as_json:
        print_json(found.to_dict())
    else:
        print_text(str(found) if text is None else text)


def write_reports(files: tuple[str, ...], plain: Any, text: str, checked: list[Checked] | None = None) -> None:
    """Write a result to files, each in the form of its suffix.

    Args:
        files: The files.
        plain: The result as plain data.
        text: The result as text.
        checked: The result for the reporters of checks.

    Raises:
        UsageError: If this result has no such form.
    """
    for file in files:
        suffix = Path(file).suffix
        if suffix == ".json":
            content = json.dumps(plain, indent=2, default=str)
        elif suffix in FORMS and checked is not None:
            content = FORMS[suffix](checked)
        elif suffix == ".md":
            content = f"```text\n{text}\n```\n"
        elif suffix == ".txt":
            content = f"{text}\n"
        else:
            raise click.UsageError(f"--report {file}: this experiment has no findings for {suffix}; use .json or .txt")
        Path(file).write_text(content, encoding="utf-8", newline="\n")
