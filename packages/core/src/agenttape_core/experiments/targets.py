"""The targets of experiments: functions, tests, files of tests and commands, each with its recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from agenttape_core.errors import ConfigurationError, shown_path
from agenttape_core.experiments.program import FunctionProgram, Program, is_command, is_test, program_of
from agenttape_core.lifecycle.project import this_project
from agenttape_core.lifecycle.replay_source import finished, run_to_its_end
from agenttape_core.lifecycle.restarting import begin_of, source_of
from agenttape_core.storage import Cassette, open_cassette

Given = ParamSpec("Given")
Found = TypeVar("Found")

_TESTS = "agenttape_core.pytest_plugin.programs"
"""The module that runs tests as programs. It's above this package, which only has its name."""


def tests_in(target: str) -> list[str]:
    """Return the ids of the tests with a cassette in a file or a folder; any other target is its own."""
    if is_command(target) or ":" in target or not Path(target).exists():
        return [target]
    found: list[str] = _tests().tests_in(target)
    return found


def with_test(target: str, work: Callable[[Program], Found]) -> Found:
    """Do something with a test as a program: pytest is started, and collects it."""
    found: Found = _tests().with_test(target, work)
    return found


def _tests() -> Any:
    try:
        return import_module(_TESTS)
    except ModuleNotFoundError as error:
        if error.name != "pytest":
            raise
        raise ConfigurationError("a test needs pytest, which is not installed") from None


def takes_tests(experiment: Callable[Given, Found]) -> Callable[Given, Found]:
    """Let an experiment also take the id of a test as its target."""

    @wraps(experiment)
    def run(*args: Given.args, **options: Given.kwargs) -> Found:
        if args and is_test(args[0]):
            others: Any = args[1:]
            return with_test(str(args[0]), lambda program: experiment(program, *others, **options))  # type: ignore[arg-type]
        return experiment(*args, **options)

    return run


def recorded(
    target: Callable[[], Any] | str | Program, cassette: str | Path | None, options: Mapping[str, Any]
) -> tuple[Program, Path]:
    """Return the program that a target is, and the file of its recording."""
    named: Any = target
    program: Program = named if hasattr(target, "run") and not callable(target) else program_of(named, **options)
    if cassette is not None:
        return program, recording(cassette, options)
    if program.cassette is None:
        raise ConfigurationError(f"{program.name} has no cassette\n  name one: cassette=, --cassette")
    return program, program.cassette


def recording(cassette: str | Path, options: Mapping[str, Any] = {}) -> Path:
    """Return the file of a recording, as `use_cassette` finds it."""
    project = this_project()
    path = project.recording(cassette, options.get("cassette_dir") or project.settings().cassette_dir)
    if not isinstance(path, Path):
        raise ConfigurationError(f"{path} isn't a local file\n  download it")
    return path


def opened(path: Path) -> Cassette:
    """Return a recording that has calls."""
    cassette = open_cassette(path)
    if not cassette.entries:
        raise ConfigurationError(f"{shown_path(path)} holds no call, so there is nothing in it to vary")
    return cassette


def restarted(app: Any, cassette: Cassette, options: Mapping[str, Any]) -> FunctionProgram:
    """Return the program that begins a recorded run again with an app, from the input in its recording."""
    source = source_of(cassette)

    async def inside() -> Any:
        return await finished(begin_of(app, source))

    def around() -> Any:
        return run_to_its_end(begin_of(app, source), is_awaited=source.entry.awaited)

    return FunctionProgram(inside if source.entry.inside else around, options=options)
