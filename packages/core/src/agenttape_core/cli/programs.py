"""The program that a verb replays: a function, or a test."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agenttape_core.cli.hash_seed import pin_hash_seed
from agenttape_core.errors import ConfigurationError
from agenttape_core.tools.programs import program_of

if TYPE_CHECKING:
    from agenttape_core.tools.programs import Program

Function = Callable[..., Any]
Result = TypeVar("Result")


def program_argument(function: Function) -> Function:
    """Add the argument and the option that name the program."""
    test = click.option("--test", metavar="NODEID", help="The test to replay, as pytest names it.")
    return click.argument("function", required=False)(test(function))


def with_program(
    function: str | None, test: str | None, work: Callable[[Program], Result], *, cassette: str | Path | None = None
) -> Result:
    """Do something with the program that a command line names, with the hash seed of its recording.

    Args:
        function: The name of the function, or the id of a test.
        test: The id of the test.
        work: Runs the program as often as it likes.
        cassette: The recording; by default that which the program has by itself.

    Raises:
        ConfigurationError: If there is no such program.
        UsageError: If none is named, or two are.
        AnotherSeedError: If the command has to begin anew, with another hash seed.
    """
    if function is not None and "::" in function and test is None:
        function, test = None, function
    if (function is None) == (test is None):
        raise click.UsageError("name a function, or a test with --test")
    if cassette is not None:
        pin_hash_seed(cassette)

    def with_its_seed(program: Program) -> Result:
        if cassette is None and program.cassette is not None and program.cassette.exists():
            pin_hash_seed(program.cassette)
        return work(program)

    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - an entry of the path is a text; modules are found from here
    try:
        if test is None:
            assert function is not None
            return with_its_seed(program_of(function))
        try:
            from agenttape_core.pytest_plugin.programs import with_test
        except ModuleNotFoundError as error:
            if error.name != "pytest":
                raise
            raise ConfigurationError("--test needs pytest, which is not installed") from None
        return with_test(test, with_its_seed)
    finally:
        sys.path.pop(0)
