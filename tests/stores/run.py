"""Commands on recordings in S3, as moto's server speaks it: the reports are those of a folder and of memory.

`make stores` runs this in an environment of its own, as s3fs and moto require other versions than we test with.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path

import fsspec
from moto.server import ThreadedMotoServer

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.cli.app import run
from agenttape_core.storage import create_once, list_files, location_of, read_ahead

KEY = "sk-proj-" + "a1B2" * 12
RULES = "checks: 1\nevery:\n- called: look_up\n- never: delete_user\n- at_most: {calls: 2}\n"


@boundary("tool")
def look_up(city: str) -> str:
    """Answer with the weather, as a tool."""
    return f"{city}: sunny, {KEY if city == 'city 11' else ''}"


def record(folder: Path, count: int) -> None:
    """Record a run for each number, of which one breaks a rule; the last one is damaged."""
    for number in range(count):
        path = folder / f"day{number % 7}" / f"{number:05}.yaml"
        with use_cassette(path, mode="all", redact=number != 11):
            for extra in range(3 if number == 5 else 1):
                look_up(f"city {number + extra}")
    path.write_text(path.read_text()[:-40])


def output_of(*words: str) -> tuple[int, str, float]:
    """Run a command; its exit code, what it prints, and how long it takes."""
    began, out = time.perf_counter(), io.StringIO()
    with redirect_stdout(out):
        code = run(list(words))
    return code, out.getvalue(), time.perf_counter() - began


def compare(count: int) -> None:
    """Check the same recordings in a folder, in memory and in S3."""
    record(Path("runs"), count)
    Path("checks.yaml").write_text(RULES)
    for system, target in (("memory", "/bucket/"), ("s3", "bucket/")):
        fsspec.filesystem(system).put("runs", target, recursive=True)
    reports = {}
    for store in ("runs", "memory://bucket/runs", "s3://bucket/runs", "s3://bucket/runs/**/*.yaml"):
        code, out, seconds = output_of("check", store, "--checks", "checks.yaml", "--json")
        reports[store] = (code, out.replace(store.removesuffix("/**/*.yaml"), "runs"))
        print(f"agenttape check {store}: {count} recordings, exit code {code}, {seconds:.1f} s")
    assert len(set(reports.values())) == 1, "the reports differ"
    assert code == 3, "a recording is damaged"


def create() -> None:
    """Create an object by many writers: one of them does."""
    target = location_of("s3://bucket/results/ab/item.json")
    with ThreadPoolExecutor(16) as pool:
        wrote = list(pool.map(lambda number: create_once(target, b"%d" % number), range(64)))
    ((file, read),) = read_ahead(list_files("s3://bucket/results", lambda name: True))
    assert wrote.count(True) == 1, wrote
    assert read() == b"%d" % wrote.index(True)
    assert file.etag, "S3 keeps a version of each object"
    print("one of 64 writers has created an object")


def change() -> None:
    """Redact and erase in S3, and be refused a bucket that isn't there."""
    assert output_of("cassette", "redact", "s3://bucket/runs/day4/00011.yaml")[0] == 0
    assert KEY not in str(open_cassette("s3://bucket/runs/day4/00011.yaml").outcome(1).value)
    before = len(list_files("s3://bucket/runs"))
    _, out, _ = output_of("fleet", "forget", "s3://bucket/runs/day1", "--older-than", "0h")
    after = len(list_files("s3://bucket/runs"))
    assert after < before, out
    assert output_of("ls", "s3://bucket/runs/day1")[0] == 3
    assert output_of("ls", "s3://no-such-bucket/runs")[0] == 3
    print(f"redacted one recording, erased {before - after}")


def main() -> None:
    """Run it on a fresh server, with as many recordings as the command line says."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it logs each request
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ |= {"AWS_ACCESS_KEY_ID": "demo", "AWS_SECRET_ACCESS_KEY": "demo"}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        os.chdir(folder)
        fsspec.filesystem("s3").mkdir("bucket")
        compare(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
        create()
        change()
        os.chdir("/")
    server.stop()


if __name__ == "__main__":
    main()
