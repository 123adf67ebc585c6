"""The program that a command replays: a function, or a test."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agenttape_core.cli.hash_seed import pin_hash_seed
from agenttape_core.experiments.program import is_command, is_test, program_of
from agenttape_core.experiments.targets import with_test

if TYPE_CHECKING:
    from agenttape_core.experiments.program import Program

Function = Callable[..., Any]
Result = TypeVar("Result")


def with_program(target: str, work: Callable[[Program], Result], *, cassette: str | Path | None = None) -> Result:
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

    def with_its_seed(program: Program) -> Result:
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
