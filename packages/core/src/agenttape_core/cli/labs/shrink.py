"""`agenttape lab shrink`: the smallest cassette that still fails."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from agenttape_core.cli.labs import experiment, with_runs
from agenttape_core.experiments.program import Program, Source
from agenttape_core.experiments.strategies.shrink import MAX_REPLAYS, Shrunk
from agenttape_core.experiments.strategies.shrink import shrink as run_shrink
from agenttape_core.storage.names import stem_of


@experiment(
    "agenttape lab shrink tests/test_desk.py::test_no_amounts --cassette runs/incident-417.jsonl",
    click.option("-o", "--output", "to", metavar="FILE", help="Write the cassette here; by default NAME.minimal.yaml."),
    with_runs(MAX_REPLAYS, "Replay the program N times at most."),
    click.option("--no-test-file", is_flag=True, help="Write no pytest file."),
)
def shrink(program: Program, path: Path | None, *, no_test_file: bool, **given: Any) -> Shrunk:
    """Find the smallest cassette with which a program still fails the same way.

    TARGET is a file or the id of a test, module:function, path/to/file.py:function, or a command after --. Writes
    NAME.minimal.yaml, and for a single test or function a pytest file that replays it. No model or tool is called.
    """
    found = run_shrink(program, path, **given)
    if no_test_file or program.source is None:
        return found
    return replace(found, test=_written(found, program.source))


# -- A file of tests with the failure that was shrunk.


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


def _written(found: Shrunk, source: Source) -> Path:
    """Write the test of a shrunk cassette beside it; `source` is the function, or the test, that fails with it."""
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
