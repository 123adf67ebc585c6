"""From a run that fails to the smallest cassette with the same failure."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError, VerificationError, shown_path
from agenttape_core.experiments.engine import drive
from agenttape_core.experiments.program import Failure, Program, Source
from agenttape_core.experiments.result import Result, Summary
from agenttape_core.experiments.steady import steady
from agenttape_core.experiments.strategies.shrinking import RESERVE, ReplayedRun, Shrinking
from agenttape_core.experiments.targets import recorded, takes_tests
from agenttape_core.lifecycle.project import this_project
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.redaction import Rule
from agenttape_core.storage import open_cassette
from agenttape_core.storage.names import stem_of
from agenttape_core.tools.reporting import Finding
from agenttape_core.tools.rewrite import redact


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


# -- The pytest file that replays a shrunk cassette.


_FUNCTION = '''\
def {test}() -> None:
    """Replay the shrunk run."""
    with use_cassette(HERE / {cassette}, mode="replay"):
        {call}
'''
_TEST = '''\
@functools.wraps(recorded.{name})
{head}def {test}(*args, **kwargs):
    """Replay the shrunk run."""
    return {wait}recorded.{name}(*args, **kwargs)

{case}
_others = [{mark} for mark in getattr(recorded.{name}, "pytestmark", []) if mark.name != "cassette"]
{test}.pytestmark = [pytest.mark.cassette(str(HERE / {cassette}), mode="replay").mark, *_others]
'''
_CASE = '''
def _case(mark):
    """Return a mark with the values of the recorded test only, of all that it is called with."""
    names = mark.args[0] if mark.args and isinstance(mark.args[0], str) else ",".join(mark.args[:1] and mark.args[0])
    place = {case}.get(names.split(",")[0].strip())
    if mark.name != "parametrize" or place is None:
        return mark
    return pytest.mark.parametrize(mark.args[0], [list(mark.args[1])[place]]).mark

'''
_CLASS = '''

class {cls}(recorded.{owner}):
    """The class of the recorded test, with no other test."""


for _name in [name for name in dir({cls}) if name.startswith("test")]:
    setattr({cls}, _name, None)
{cls}.{name} = {test}
'''


def _name_of_test(cassette: Path) -> str:
    """Return the name of the test that replays a cassette."""
    return f"test_{re.sub(r'[^0-9a-zA-Z]+', '_', stem_of(cassette)).strip('_').lower()}"


def write_test(found: Shrunk, source: Source) -> Path:
    """Write the test of a shrunk cassette next to it; `source` is the function, or the test, that fails with it."""
    path = found.cassette.with_name(f"{_name_of_test(found.cassette)}.py")
    cassette, test = json.dumps(_from(path, found.cassette)), _name_of_test(found.cassette)
    module = source.importable
    if source.is_test:
        imports, ours = ["functools"], ["import pytest"]
        theirs = [f"import {module} as recorded  # noqa: E402"]
        theirs += [f"from {module} import {name}  # noqa: E402, F401" for name in source.fixtures]
        body = _body_of(source, test, cassette)
    else:
        imports, ours = ["asyncio"] if source.is_async else [], ["from agenttape_core import use_cassette"]
        theirs = [f"from {module} import {source.name.partition('.')[0]}  # noqa: E402"]
        call = f"asyncio.run({source.name}())" if source.is_async else f"{source.name}()"
        body = _FUNCTION.format(test=test, cassette=cassette, call=call)
    place = (
        [] if source.root is None else [f"sys.path.insert(0, str(HERE / {json.dumps(_from(path, source.root))}))", ""]
    )
    standard = [f"import {name}" for name in (*imports, "sys")]
    lines = [_head(found), *standard, "from pathlib import Path", "", *ours, "", "HERE = Path(__file__).parent"]
    lines += [*place, *theirs, "", "", body]
    path.write_text("\n".join(lines), encoding="utf-8", newline="\n")
    return path


def _body_of(source: Source, test: str, cassette: str) -> str:
    """Return the test that calls another one: with its values, and in its class, if it has some."""
    head, wait = ("async ", "await ") if source.is_async else ("", "")
    case = _CASE.format(case=json.dumps(source.case)) if source.case else ""
    inner = f"_{test}" if source.owner else test
    name = f"{source.owner}.{source.name}" if source.owner else source.name
    mark = "_case(mark)" if source.case else "mark"
    body = _TEST.format(name=name, test=inner, cassette=cassette, head=head, wait=wait, case=case, mark=mark)
    if not source.owner:
        return body
    cls = "".join(word.capitalize() for word in test.split("_"))
    return body + _CLASS.format(cls=cls, owner=source.owner, name=test, test=inner)


def _head(found: Shrunk) -> str:
    failure = found.failure
    place = f"{Path(failure.file).name}, {failure.function}" if failure.file else "no line of the program"
    return (
        f'"""The smallest run that fails as {found.source.name} does: {failure.name} in {place}.\n\n'
        "Made by `agenttape lab shrink`. It fails until that is mended. If the program then goes on, it asks for what\n"
        "was never recorded: record that.\n"
        '"""\n'
    )


def _from(path: Path, other: Path) -> str:
    """Return the relative path from the folder of a file to another one."""
    return Path(os.path.relpath(other.resolve(), path.resolve().parent)).as_posix()
