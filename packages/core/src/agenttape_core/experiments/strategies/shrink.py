"""From a run that fails to the smallest cassette with the same failure."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError, VerificationError, shown_path
from agenttape_core.experiments.engine import drive
from agenttape_core.experiments.program import Failure, Program
from agenttape_core.experiments.result import Result, Summary
from agenttape_core.experiments.steady import steady
from agenttape_core.experiments.strategies.shrinking import RESERVE, ReplayedRun, Shrinking
from agenttape_core.experiments.targets import recorded, takes_tests
from agenttape_core.lifecycle.project import this_project
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.redaction import Rule
from agenttape_core.storage import open_cassette
from agenttape_core.storage.names import stem_of
from agenttape_core.tools.reporting.findings import Finding
from agenttape_core.tools.rewrite.redacting import redact


@dataclass(frozen=True, slots=True)
class Shrunk(Result):
    """The smallest cassette that was found with the same failure of a program.

    Args:
        cassette: The cassette.
        source: The one that it was made of.
        program: The name of the program.
        failure: The failure.
        calls: The number of calls in the source, and in the result.
        sizes: The bytes of both files.
        replays: How often the program was replayed.
        is_minimal: Whether no single piece can be left out any more; if not, the search has ended early.
        keeps: Kinds of secrets that were not looked for when the source was recorded, and that the failure needs.
        test: The file of the test that replays it; `None` if none was written.
    """

    cassette: Path
    source: Path
    program: str
    failure: Failure
    calls: tuple[int, int]
    sizes: tuple[int, int]
    replays: int
    is_minimal: bool
    keeps: tuple[str, ...] = ()
    test: Path | None = None

    experiment = "shrink"
    ok = True  # there's always one, and its failure is the same even if the search was interrupted

    @property
    def share(self) -> float:
        """The size of the result as a share of the source's, from 0 to 1."""
        return self.sizes[1] / self.sizes[0]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "cassette": shown_path(self.cassette),
            "source": shown_path(self.source),
            "test": shown_path(self.test) if self.test is not None else None,
            "program": self.program,
            "failure": {**asdict(self.failure), "file": shown_path(Path(self.failure.file))},
            "calls": {"before": self.calls[0], "after": self.calls[1]},
            "bytes": {"before": self.sizes[0], "after": self.sizes[1]},
            "share": round(self.share, 4),
            "replays": self.replays,
            "minimal": self.is_minimal,
            "keeps": list(self.keeps),
        }

    def summary(self) -> Summary:
        """Return the cassette, the failure, and how small it has become."""
        table = [
            f"failure  {self.failure}",
            f"calls    {self.calls[0]} → {self.calls[1]}",
            f"bytes    {self.sizes[0]} → {self.sizes[1]} ({self.share:.1%})",
            f"replays  {self.replays}" + ("" if self.is_minimal else ": ended early, not minimal yet"),
        ]
        if self.keeps:
            table.append(f"holds    what may be secret, as it fails alike only with it: {', '.join(self.keeps)}")
        table += [f"test     {shown_path(self.test)}"] if self.test is not None else []
        cassette, lines = shown_path(self.cassette), [f"  {line}" for line in table]
        line = f"{self.program} fails alike with {cassette}"
        return Summary(self.program, cassette, line, lines, [Finding(str(self.failure))])


MAX_REPLAYS = 300  # the replays that a search may take, unless more are allowed
_FEWEST = RESERVE + 4


@takes_tests
def shrink(
    target: Callable[[], Any] | str | Program,
    cassette: str | Path | None = None,
    *,
    to: str | Path | None = None,
    runs: int = MAX_REPLAYS,
    on_run: Callable[[], object] = lambda: None,
    **options: Any,
) -> Shrunk:
    """Find the smallest cassette with which a program still fails as it does with a given one.

    What was recorded is left out and emptied, piece by piece, as long as the same exception is raised at the same line
    of the program. The program itself runs each time, so what it asks is made by its own code; nothing is executed. The
    result can be replayed strictly. It is a run that need not be possible: its answers are tagged `edited`. The search
    draws nothing at random: it finds the same each time.

    Args:
        target: The program: a function without arguments, or its name.
        cassette: The cassette, as `use_cassette` takes it; by default the program's own.
        to: The cassette to write; by default `NAME.minimal.yaml` beside the other one.
        runs: How often the program may be replayed.
        on_run: Called after each run.
        options: Options of `use_cassette`.

    Raises:
        CassetteError: If the cassette cannot be read, or the result cannot be written.
        ConfigurationError: If there is nothing in it, the program does not fail, or an argument is not valid.
        VerificationError: If the program is not the same in two replays.
    """
    if runs < _FEWEST:
        raise ConfigurationError(f"runs={runs}: a search needs {_FEWEST} replays at least")
    program, source = recorded(target, cassette, options)
    written = _target(source, to)
    kept_kinds = [Rule(kind, keep=True) for kind in open_cassette(source).preface.redaction.off]
    options = {"redact": kept_kinds} if kept_kinds else {}  # kinds of secrets that it keeps
    failure, says_which = _failing(program, source, options)
    with tempfile.TemporaryDirectory(prefix="agenttape-") as folder:
        run = ReplayedRun(
            program,
            source,
            failure,
            folder=Path(folder),
            name=f"{stem_of(source)}.yaml",
            says_which=says_which,
            options=options,
            limit=runs,
            on_run=on_run,
        )
        run.replays = 2  # those that have shown that it holds still
        ended = Shrinking(run).shrink()
        _write(run, source, written, failure)
        kept = tuple(open_cassette(source).preface.redaction.off)
        if kept and _redacted(run, written, Path(folder) / "redacted"):
            kept = ()
        calls = [len(open_cassette(path).entries) for path in (source, written)]
        return Shrunk(
            cassette=written,
            source=source,
            program=program.name,
            failure=failure,
            calls=(calls[0], calls[1]),
            sizes=(_size(source), _size(written)),
            replays=run.replays,
            is_minimal=ended,
            keeps=kept,
        )


def _failing(program: Program, source: Path, options: Mapping[str, Any]) -> tuple[Failure, bool]:
    """Return the failure, and whether its message is the same in two replays."""
    first, ending = drive(program, steady(program, Variation(source, options)))
    if first.failure is None or ending.failure is None:
        raise ConfigurationError(
            f"{program.name} does not fail when it replays {shown_path(source)}: it ended well\n"
            "  name the function or the test that fails with this cassette"
        )
    return ending.failure, first.failure == ending.failure


def _write(run: ReplayedRun, source: Path, target: Path, failure: Failure) -> None:
    """Write the result, and prove that a strict replay has the same failure."""
    origin = {"shrunk": source.name, "failure": f"{failure.name} in {failure.function}"}
    written = run.run(run.opening(run.cassette, write_to=target, origin=origin))
    check = run.run(run.opening(target)) if target.is_file() else written
    if not (run.is_alike(written) and run.is_alike(check)):
        raise VerificationError(
            f"{shown_path(target)} does not replay as {shown_path(source)} does: {check.left or check.failure}\n"
            "  this should not happen; please report it"
        )


def _redacted(run: ReplayedRun, target: Path, folder: Path) -> bool:
    """Replace secrets in the result that were kept in its source, if the failure doesn't need them."""
    folder.mkdir()
    copy = Path(shutil.copy(target, folder))
    redact(copy, this_project().settings())
    if not run.is_alike(run.run(Variation(copy))):
        return False
    shutil.copy(copy, target)
    return True


def _target(source: Path, to: str | Path | None) -> Path:
    target = Path(to) if to is not None else source.with_name(f"{stem_of(source)}.minimal.yaml")
    if target.resolve() == source.resolve():
        raise ConfigurationError(f"{shown_path(target)} is the cassette to shrink: give the result another name")
    return target


def _size(path: Path) -> int:
    return path.stat().st_size
