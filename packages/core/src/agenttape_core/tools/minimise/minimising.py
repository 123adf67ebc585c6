"""`minimise`: from a run that fails to the smallest cassette with which it still fails alike."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError, VerificationError, shown_path
from agenttape_core.lifecycle.project import this_project
from agenttape_core.storage import open_cassette
from agenttape_core.storage.names import stem_of
from agenttape_core.tools.minimise.replayed import RESERVE, ReplayedRun
from agenttape_core.tools.minimise.result import Minimised
from agenttape_core.tools.minimise.shrinking import Shrinking
from agenttape_core.tools.programs import Failure, Opening, Program, program_of, steady
from agenttape_core.tools.rewrite.redacting import redact

MAX_REPLAYS = 300
"""The replays that a search may take, unless more are allowed."""
_FEWEST = RESERVE + 4


def minimise(
    cassette: str | Path,
    function: Callable[[], Any] | str | Program,
    *,
    to: str | Path | None = None,
    max_replays: int = MAX_REPLAYS,
    on_replay: Callable[[int], object] = lambda _: None,
    **options: Any,
) -> Minimised:
    """Find the smallest cassette with which a program still fails as it does with a given one.

    What was recorded is left out and emptied, piece by piece, as long as the same exception is raised at the same line
    of the program. The program itself runs each time, so what it asks is made by its own code; nothing is executed. The
    result can be replayed strictly. It is a run that need not be possible: its answers are tagged `edited`. The search
    draws nothing at random: it finds the same each time.

    Args:
        cassette: The cassette, as `use_cassette` takes it.
        function: The program: a function without arguments, or its name.
        to: The cassette to write; by default `NAME.minimal.yaml` beside the other one.
        max_replays: How often the program may be replayed.
        on_replay: Called after each replay, with the number of replays so far.
        options: Options of `use_cassette`.

    Raises:
        CassetteError: If the cassette cannot be read, or the result cannot be written.
        ConfigurationError: If there is nothing in it, the program does not fail, or an argument is not valid.
        VerificationError: If the program is not the same in two replays.
    """
    if max_replays < _FEWEST:
        raise ConfigurationError(f"max_replays={max_replays}: a search needs {_FEWEST} replays at least")
    source = _local(cassette, options)
    target = _target(source, to)
    program = program_of(function, **options) if callable(function) or isinstance(function, str) else function
    options = _options_of(source)
    failure, says_which = _failing(program, Opening(source, options))
    with tempfile.TemporaryDirectory(prefix="agenttape-") as folder:
        run = ReplayedRun(
            program,
            source,
            failure,
            folder=Path(folder),
            name=f"{stem_of(source)}.yaml",
            says_which=says_which,
            options=options,
            limit=max_replays,
            on_replay=on_replay,
        )
        run.replays = 2  # those that have shown that it holds still
        ended = Shrinking(run).shrink()
        _write(run, source, target, failure)
        kept = tuple(options.get("redaction_off", ()))
        if kept and _redacted(run, target, Path(folder) / "redacted"):
            kept = ()
        calls = [len(open_cassette(path).entries) for path in (source, target)]
        return Minimised(
            cassette=target,
            source=source,
            program=program.name,
            failure=failure,
            calls=(calls[0], calls[1]),
            sizes=(_size(source), _size(target)),
            replays=run.replays,
            is_minimal=ended,
            keeps=kept,
        )


def _options_of(source: Path) -> dict[str, Any]:
    """Return the options with which a cassette is replayed: kinds of secrets that it holds are not looked for."""
    off = open_cassette(source).preface.redaction.off
    return {"redaction_off": off} if off else {}


def _failing(program: Program, opening: Opening) -> tuple[Failure, bool]:
    """Return the failure, and whether its message is the same in two replays."""
    first, ending = steady(program, opening)
    if first.failure is None or ending.failure is None:
        raise ConfigurationError(
            f"{program.name} does not fail when it replays {shown_path(opening.cassette)}: it ended well\n"
            "  name the function or the test that fails with this cassette"
        )
    return ending.failure, first.failure == ending.failure


def _write(run: ReplayedRun, source: Path, target: Path, failure: Failure) -> None:
    """Write the result, and prove that it fails alike when it is replayed strictly."""
    origin = {"minimised": source.name, "failure": f"{failure.name} in {failure.function}"}
    written = run.run(run.opening(run.cassette, write_to=target, origin=origin))
    proof = run.run(run.opening(target)) if target.is_file() else written
    if not (run.is_alike(written) and run.is_alike(proof)):
        raise VerificationError(
            f"{shown_path(target)} does not replay as {shown_path(source)} does: {proof.left or proof.failure}\n"
            "  this should not happen; please report it"
        )


def _redacted(run: ReplayedRun, target: Path, folder: Path) -> bool:
    """Replace secrets in the result that were kept in its source, if it fails alike without them."""
    folder.mkdir()
    copy = Path(shutil.copy(target, folder))
    redact(copy, this_project().settings())
    if not run.is_alike(run.run(Opening(copy))):
        return False
    shutil.copy(copy, target)
    return True


def _local(cassette: str | Path, options: dict[str, Any]) -> Path:
    project = this_project()
    path = project.recording(cassette, options.get("cassette_dir") or project.settings().cassette_dir)
    if not isinstance(path, Path):
        raise ConfigurationError(f"{path} is no local file, beside which the result could be written\n  download it")
    return path


def _target(source: Path, to: str | Path | None) -> Path:
    target = Path(to) if to is not None else source.with_name(f"{stem_of(source)}.minimal.yaml")
    if target.resolve() == source.resolve():
        raise ConfigurationError(f"{shown_path(target)} is the cassette to minimise: give the result another name")
    return target


def _size(path: Path) -> int:
    return path.stat().st_size
