"""Commands on large cassettes, each in its own process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from measure import FULL, Row, Scale, fake

from agenttape_core import use_cassette
from agenttape_langchain import tape

_SIZES = (5_000, 20_000)
COMMANDS = (
    *("show", "show --stats", "show --stats --by turn", "show --timeline", "show --html", "ls", "diff"),
    *("check", "check --only files", "check --only secrets", "check --stale", "check --coverage"),
    *("export", "export --format otel", "cassette checksum", "cassette redact", "cassette migrate", "cassette convert"),
)
"""The commands that are measured, without their files."""
_MEASURING = """
import atexit, resource, sys
from pathlib import Path
from agenttape_core.cli import main

def report():
    used, status = resource.getrusage(resource.RUSAGE_SELF), Path("/proc/self/status")
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime + others.ru_utime + others.ru_stime
    # Where there is no such file, the greatest memory may be that of the process that began this one.
    lines = status.read_text().splitlines() if status.exists() else [f"VmHWM: {used.ru_maxrss}"]
    kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    print(seconds, kilobytes / 1024, file=sys.stderr)

atexit.register(report)
main(sys.argv[1:])
"""


def commands(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure the processor's time and the memory of each command, and of closing the recording."""
    for size in _SIZES if scale is FULL else scale.sizes:
        path = folder / f"calls{size}.yaml"
        closed = recorded(path, size)
        yield Row(f"close a recording of {size} calls", f"{closed:.1f} s", "linear")
        for subcommand in COMMANDS if scale is FULL else COMMANDS[:1]:
            seconds, megabytes = _spent(command_line(subcommand, path, folder))
            found = f"{seconds:.1f} s, {megabytes:.0f} MB"
            yield Row(f"`agenttape {subcommand}`, {size} calls", found, "<= 2 s" if size == _SIZES[0] else "linear")


def gate(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure the processors' time and the memory of twenty checks over a fleet, and over a tenth of it."""
    many = folder / "many"
    many.mkdir()
    recorded(many / "run0.yaml", 6)
    rules = [f"never: tool{number}" for number in range(17)]
    rules += ["at_most: {calls: 6, seconds: 60}", "no_errors: true", "output: {regex: .}"]
    checks = folder / "checks.yaml"
    checks.write_text("checks: 1\nevery:\n" + "".join(f"- {rule}\n" for rule in rules), encoding="utf-8")
    before = 1
    for count, budget in ((2_000, "<= 12 s"), (20_000, "<= 120 s, 300 MB")) if scale is FULL else ((3, ""),):
        for number in range(before, count):
            shutil.copy(many / "run0.yaml", many / f"run{number}.yaml")
        before = count
        seconds, megabytes = _spent(["check", str(many), "--checks", str(checks)])
        yield Row(f"`agenttape check`, {count} cassettes, 20 rules", f"{seconds:.1f} s, {megabytes:.0f} MB", budget)


def recorded(path: Path, size: int) -> float:
    """Record calls, each with a question of its own; the seconds of the processor that the end of the session took."""
    model, block = tape(fake()), use_cassette(path, mode="record")
    block.__enter__()
    for number in range(size):
        model.invoke(f"question {number}: what is the weather in city {number}?")
    began = time.process_time()
    block.__exit__(None, None, None)
    return time.process_time() - began


def command_line(subcommand: str, path: Path, folder: Path) -> list[str]:
    """Return the words of a command with its files.

    Args:
        subcommand: One of `COMMANDS`.
        path: The cassette.
        folder: The folder of what the command writes.
    """
    files = {
        "diff": [str(path), str(path)],
        "show --html": [str(folder / "page.html"), str(path)],
        "cassette convert": [str(path), str(folder / f"{path.stem}.jsonl")],
        "cassette checksum": [str(path), "-o", str(folder / "checksums.json")],
    }.get(subcommand, [str(path)])
    return [*subcommand.split(), *files]


def _spent(words: list[str]) -> tuple[float, float]:
    """The seconds of the processor and the greatest memory in MB that a command line takes."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AGENTTAPE_")}
    done = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-c", _MEASURING, *words],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    seconds, megabytes = done.stderr.splitlines()[-1].split()
    return float(seconds), float(megabytes)
