"""Thousands of recordings: the work on them, also with workers that are killed, their index, and questions about it."""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

from commands import recorded
from measure import FULL, Row, Scale

from agenttape_core import boundary, use_cassette
from agenttape_core.fleet.index import QUESTIONS, ask, read_index, update_index
from agenttape_core.fleet.items import Experiment, Plan, plan_of, planned
from agenttape_core.fleet.outcomes import key_of, outcomes_in
from agenttape_core.fleet.working import work_all

CALLS = 6  # the calls of a run


def recordings(folder: Path, count: int) -> Path:
    """Write recordings of six calls each, in a folder for each day, with different hashes of requests; return it."""
    chance = random.Random(1)  # noqa: S311 - the same in each run
    recorded(folder / "first.yaml", CALLS)
    text = (folder / "first.yaml").read_text(encoding="utf-8")
    (folder / "first.yaml").unlink()
    for number in range(count):
        path = folder / "runs" / f"2026-11-{number % 30 + 1:02}" / f"run{number:05}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        one = re.sub('(?<=fingerprint: )"?[0-9a-f]{32}"?', lambda _: f'"{chance.getrandbits(128):032x}"', text)
        path.write_text(one, encoding="utf-8")
    return folder / "runs"


def index(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure the index of a month, and the slowest question; the processor's time, as other work may run."""
    runs, path = recordings(folder, 20_000 if scale is FULL else 3), folder / "index.parquet"
    began = time.process_time()
    done = update_index(path, [runs])
    seconds = time.process_time() - began
    found = f"{seconds:.1f} s, {path.stat().st_size / 1e6:.1f} MB"
    yield Row(f"`agenttape fleet index`, {done.calls:,} calls", found, "<= 60 s, <= 10 MB")
    calls, times = read_index(path), dict[str, float]()
    ask("select 1", calls)  # which imports DuckDB
    for name in QUESTIONS:
        began = time.perf_counter()
        ask(name, calls)
        times[name] = time.perf_counter() - began
    slowest = max(times, key=times.__getitem__)
    yield Row(
        f"`agenttape fleet query`, the slowest of {len(QUESTIONS)}: {slowest}", f"{times[slowest]:.2f} s", "<= 0.5 s"
    )


# -- The work on runs of a program of six calls.

RULES = "checks: 1\nevery:\n" + "".join(f"- never: tool_{number}\n" for number in range(20))
MODEL_SECONDS = 0.5  # the time that the model on loopback takes for an answer


@boundary("tool")
def look_up(city: str, number: int) -> str:
    """Return a long fact."""
    return f"{city}, fact {number}: " + "sunny " * 40


@boundary("chat")
def say(messages: list[dict[str, str]]) -> str:
    """Ask the model on loopback, if there is one, and answer in many words."""
    if address:
        with urlopen(address) as answer:  # noqa: S310 - a server of this process
            answer.read()
    return f"{len(messages)} messages: " + "fine " * 40


address = ""


def talk(city: str, turns: int) -> str:
    """Ask the model and the tool in turns."""
    messages = [{"role": "user", "content": city}]
    for number in range(turns):
        messages.append({"role": "assistant", "content": say(list(messages))})
        messages.append({"role": "tool", "content": look_up(city, number)})
    return str(messages[-1])


def runs_of_talk(folder: Path, count: int, turns: int = CALLS // 2) -> Path:
    """Record runs of the program, and return their folder."""
    for number in range(count):
        path = folder / "talks" / f"{number // 1000:02}" / f"{number:05}.jsonl"
        with use_cassette(path, mode="record", redact=False) as cassette:
            cassette.note_input({"city": f"city {number}", "turns": turns})
            talk(f"city {number}", turns)
    return folder / "talks"


def plan_for(runs: Path, experiment: Experiment, candidate: str = "", samples: int = 1) -> Plan:
    """Return the plan of an experiment on all runs; rules are checked, and the program begins each run again."""
    settings = {"checks": {"rules.yaml": RULES}} if experiment == "check" else {}
    program = "" if experiment == "check" else f"--app {__name__}:talk"
    made = planned([str(runs)], experiment, program=program, settings=settings)
    numbers = range(1, samples + 1) if candidate else [0]
    return plan_of(
        (replace(item, candidate=candidate, sample=number) for item in made.items for number in numbers), settings
    )


def work(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure checks and strict replays of a fleet, in the processor's time, as other work may run."""
    count = 2_000 if scale is FULL else 4
    runs = runs_of_talk(folder, count)
    experiments: tuple[tuple[Experiment, str], ...] = (("check", "20 rules"), ("replay", "strictly"))
    for experiment, how in experiments:
        plan = plan_for(runs, experiment)
        half = plan.items[: count // 2], plan.items[count // 2 :]
        began = time.process_time()
        peaks = []
        for items in half:
            work_all(items, output=folder / experiment, settings=plan.settings)
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        each = (time.process_time() - began) / count * 1000
        budget = "<= 3 ms (60 s for 20,000)" if experiment == "check" else "<= 40 ms (7 min for 20,000 in two shards)"
        yield Row(f"`agenttape fleet work`, {experiment}, {how}", f"{each:.1f} ms an item", budget)
        yield Row(f"its memory, in the second half of {count:,}", f"+{peaks[1] - peaks[0]:.0f} MB", "flat")


def killed(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Kill workers at random moments, and count the outcomes that were lost, or made again by the last run."""
    kills = 100 if scale is FULL else 3
    plan, output = plan_for(runs_of_talk(folder, kills * 5), "check"), folder / "outcomes"
    chance = random.Random(7)  # noqa: S311 - the same in each run
    fatal = 0
    for _ in range(kills):
        child = os.fork()
        if not child:
            work_all(plan.items, output=output, settings=plan.settings)
            os._exit(0)
        time.sleep(chance.uniform(0.0, 0.04))
        os.kill(child, signal.SIGKILL)
        fatal += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    ids = {item.id for item in plan.items}
    there = {one.item: (output / one.key).stat().st_mtime_ns for one in outcomes_in(output, ids)}
    done = work_all(plan.items, output=output, settings=plan.settings)
    wrong = sum((output / key_of(one)).stat().st_mtime_ns != moment for one, moment in there.items())
    wrong += abs(len(plan.items) - len(there) - done.verdicts.total())
    stored = [one.item for one in outcomes_in(output, ids)]
    wrong += len(ids ^ set(stored)) + len(stored) - len(set(stored))
    yield Row(f"outcomes lost or made twice after {fatal} kills", f"{wrong} of {len(stored)}", "0")


@contextmanager
def model_on_loopback() -> Iterator[None]:
    """Let the model of the program be a server in another process, which takes its time."""
    global address  # noqa: PLW0603 - as a change of its settings

    class Model(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(MODEL_SECONDS)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"fine")

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        server.socket.listen(128)
        child = os.fork()
        if not child:
            server.serve_forever()
        address = f"http://127.0.0.1:{server.server_port}/"
        try:
            yield
        finally:
            address = ""
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def waiting(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure samples of a model that are taken in parallel, against the time that the model takes."""
    runs, samples, turns = (8, 8, 20) if scale is FULL else (1, 2, 1)
    parallel = runs * samples
    plan = plan_for(runs_of_talk(folder, runs, turns), "model", "own", samples)
    work_all(plan.items[:1], output=folder / "first")  # which imports the program's parts
    with model_on_loopback():
        began, used = time.perf_counter(), time.process_time()
        done = work_all(plan.items, output=folder / "out", concurrency=parallel)
        took, used = time.perf_counter() - began, time.process_time() - used
    assert done.verdicts["same"] == parallel, done
    ideal = turns * MODEL_SECONDS
    yield Row(
        f"{parallel} samples in parallel, {turns} calls of {MODEL_SECONDS} s each ({used:.1f} s of the processor)",
        f"{ideal / took:.2f} of the ideal",
        ">= 0.8",
    )
