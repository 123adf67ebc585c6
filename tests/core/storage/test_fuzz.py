"""Damaged files are cassettes or cassette errors, and nothing else happens.

What is done to the files is in `fuzzing/damage.py`, what must hold in `fuzzing/child.py`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agenttape_core.errors import AgentTapeError, CassetteError
from agenttape_core.storage import open_cassette

CHILD = Path(__file__).parent / "fuzzing" / "child.py"


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="processor time and memory are bounded as POSIX does it")
def test_damaged_files_are_read_or_refused(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Each is an error with the file and the line, or a cassette that can be read, replayed and written again.

    In bounded time and memory, and nothing is imported, executed, or opened outside of the folder.
    """
    count = request.config.getoption("--fuzz-files")
    command = [sys.executable, str(CHILD), str(tmp_path), str(count)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    assert child.returncode == 0, f"ended with {child.returncode}; the last files or the error: {child.stderr[-2000:]}"
    report: dict[str, Any] = json.loads(child.stdout)
    assert not report["failures"], "\n".join(report["failures"][:50])
    tally = Counter(report["tally"])
    assert tally["refused"] + tally["read"] == count
    assert tally["read"] > count // 10  # the damage is not so great that nothing is left to be read
    assert tally["replayed"] > count // 2


HOSTILE = {
    "laughs": b"agenttape: 1\nname: x\ninput:\n  a: &a [x, x]\n" + b"  b: &b [*a, *a]\n" * 5_000 + b"...\n",
    "brackets": b"agenttape: 1\nname: x\ninput: " + b"[" * 1_000_000 + b"\n...\n",
    "braces": b"agenttape: 1\nname: x\ninput: " + b"{" * 1_000_000 + b"\n...\n",
    "keys in keys": b"agenttape: 1\nname: x\ninput:\n  " + b"? " * 500_000 + b"\n...\n",
    "dashes": b"agenttape: 1\nname: x\ninput:\n- " + b"- " * 500_000 + b"x\n...\n",
    "tags": b"agenttape: 1\nname: x\ninput: " + b"!!a " * 300_000 + b"x\n...\n",
    "a long key": b"agenttape: 1\nname: x\n" + b"k" * 2_000_000 + b": 1\n...\n",
    "a long line": b"agenttape: 1\nname: x\ninput: " + b"a: " * 700_000 + b"\n...\n",
    "documents": b"agenttape: 1\nname: x\n" + b"---\n" * 500_000 + b"...\n",
    "blank lines": b'agenttape: 1\nname: x\ninput: "' + b"\n" * 2_000_000 + b"...\n",
    "a number": b"agenttape: 1\nname: x\nvolatile:\n  clock: " + b"9" * 2_000_000 + b"\n...\n",
    "a deep line": b'{"agenttape":1,"name":"x","input":' + b"[" * 1_000_000 + b'\n{"end":true}\n',
    "a deep line that closes": b'{"agenttape":1,"name":"x","input":'
    + b'{"a":' * 100_000
    + b"1"
    + b"}" * 100_001
    + b'\n{"end":true}\n',
    "a long number": b'{"agenttape":' + b"1" * 2_000_000 + b'}\n{"end":true}\n',
    "backslashes": b'{"agenttape":1,"name":"' + b"\\" * 2_000_001 + b'"}\n{"end":true}\n',
    "empty lines": b'{"agenttape":1,"name":"x"' + b"\n" * 2_000_000 + b'{"end":true}\n',
    "keys": b'{"agenttape":1,"name":"x",' + b'"a":1,' * 300_000 + b'"b":1}\n{"end":true}\n',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_large_hostile_files_are_refused(tmp_path: Path, name: str) -> None:
    """What makes other readers recurse, multiply or go back and forth is an error here."""
    data = HOSTILE[name]
    path = tmp_path / ("tape.jsonl" if data.startswith(b"{") else "tape.yaml")
    path.write_bytes(data)

    with pytest.raises(CassetteError):
        _ = list(open_cassette(path).interactions())


_CALL = b'}\n{"interaction":1,"kind":"a","name":"b","address":"c","fingerprint":"d","request":{},'
WRONG = [
    b',"volatile":{"schedule":[' + b"{}," * 330_000 + b"1]}}\n",
    b',"volatile":{"turns":[' + b"0," * 500_000 + b"1]}}\n",
    b',"volatile":{"packages":{' + b",".join(b'"%d":0' % number for number in range(90_000)) + b"}}}\n",
    _CALL + b'"acts":[' + b"{}," * 330_000 + b'1],"outcome":{"status":"returned"}}\n',
    _CALL + b'"outcome":{"status":"returned","effects":[' + b"0," * 500_000 + b"1]}}\n",
]
"""Files of 1 MB in which as many values as possible are wrong."""


@pytest.mark.process
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is told in kilobytes there")
def test_many_errors_cost_no_more_than_one(tmp_path: Path) -> None:
    """A file of 1 MB in which everything is wrong is refused with its line in less than 300 MB and 2 s."""
    reads = dedent("""
        import resource, sys, time
        from agenttape_core.storage import open_cassette
        from agenttape_core.errors import CassetteFormatError
        for path in sys.argv[1:]:
            before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
            try:
                list(open_cassette(path).records())
            except CassetteFormatError as error:
                grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
                print(error.line is not None, grown // 1024, time.process_time() - began)
    """)

    for number, middle in enumerate(WRONG):
        data = b'{"agenttape":1,"name":"x"' + middle + b'{"end":true}\n'
        (tmp_path / f"{number}.jsonl").write_bytes(data)
    paths = [str(tmp_path / f"{number}.jsonl") for number in range(len(WRONG))]
    child = subprocess.run([sys.executable, "-c", reads, *paths], capture_output=True, text=True, check=True)
    told = [line.split() for line in child.stdout.splitlines()]
    assert [has_line for has_line, _, _ in told] == ["True"] * len(WRONG)
    assert max(int(grown) for _, grown, _ in told) < 300
    assert max(float(seconds) for _, _, seconds in told) < 2


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl", ".jsonl.gz"])
def test_random_bytes_are_refused(tmp_path: Path, suffix: str) -> None:
    """Files that never were cassettes are refused on opening."""
    source = random.Random(7)
    path = tmp_path / f"noise{suffix}"
    for size in range(200):
        path.write_bytes(source.randbytes(size))
        with pytest.raises(CassetteError):
            open_cassette(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes as POSIX has them")
@pytest.mark.parametrize("what", ["folder", "link to nothing", "link to itself", "long name", "NUL"])
def test_what_is_no_file_is_refused(tmp_path: Path, what: str) -> None:
    """A name of something else, or of nothing, is an error of ours too."""
    path = tmp_path / "tape.yaml"
    if what == "folder":
        path.mkdir()
    elif what == "link to nothing":
        path.symlink_to("nowhere.yaml")
    elif what == "link to itself":
        path.symlink_to(path)
    elif what == "long name":
        path = tmp_path / ("x" * 300 + ".yaml")
    else:
        path = tmp_path / "a\0b.yaml"

    with pytest.raises(AgentTapeError):
        open_cassette(path)
