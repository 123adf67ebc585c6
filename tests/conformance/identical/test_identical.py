"""Every program of the table is the same run when it is replayed, in everything that can be seen of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import pytest

from agenttape_core.testing import Facts, compare_runs, record_run, replay_run

from .outside import Outside
from .rows import RACES
from .table import NARROW, ROWS, Framework, Row, cells

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*(is in beta|is experimental)"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Skipping serialization of known unserializable key"),
]


ROOT = Path(__file__).parents[3]


def named(name: str, driver: str) -> object:
    """Return a cell of the table as a parameter of a test."""
    return pytest.param(name, driver, id=f"{name}-{driver.replace(' ', '-')}")


def recorded_run(row: Row, driver: str, world: Outside, path: Path) -> Facts:
    """Record a program; it must end as the table says: a program that breaks proves nothing."""
    facts = record_run(row.program(driver, world), path)
    (result,) = facts["result"]
    has_failed = isinstance(result, dict) and any(
        key.startswith("$") and key.endswith(("Error", "Warning")) for key in result
    )
    assert has_failed is row.fails, result
    return facts


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recordings made so far, which all workers share."""
    own = tmp_path_factory.getbasetemp()
    shelf = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "identical"
    shelf.mkdir(exist_ok=True)
    return shelf


@pytest.mark.sweep  # the test below replays most of the cells, too
@pytest.mark.parametrize(("name", "driver"), [named(*cell) for cell in cells()])
def test_the_replay_is_the_same_run(
    name: str, driver: str, tmp_path: Path, shelf: Path, pytestconfig: pytest.Config
) -> None:
    """Each part of each replay is equal to the recording, but for those that the table excepts; it reports nothing."""

    def replays_of(row: Row, driver: str, most: int) -> int:
        """Return how often a cell is replayed: large programs half as often as the small ones, which race most."""
        return min(row.times(driver), most if row.replays == RACES else (most + 1) // 2)

    def put(facts: Facts, path: Path, shelf: Path) -> None:
        """Put a recording on the shelf: a folder of its own, which is there when it is whole."""
        made = path.with_suffix("")
        made.mkdir()
        shutil.copy(path, made)
        (made / path.with_suffix(".json").name).write_text(json.dumps(facts), encoding="utf-8")
        if not (shelf / made.name).exists():  # a test may be run again
            made.rename(shelf / made.name)

    row, world, path = ROWS[name], Outside(), tmp_path / f"{name}-{driver}.yaml"
    recorded = recorded_run(row, driver, world, path)
    put(recorded, path, shelf)
    world.gone = True
    for _ in range(replays_of(row, driver, pytestconfig.getoption("replays"))):
        told: list[str] = []
        replayed = replay_run(row.program(driver, world), path, told=told)
        found = [each for each in compare_runs(recorded, replayed) if each.part not in row.never]
        assert found == [], "\n".join([*map(str, found), *told])
        assert told == [], f"an equal replay reports {told}"
    assert world.trespasses == []


@pytest.mark.process
@pytest.mark.parametrize(
    "frameworks", [("LangGraph", "LangChain", "plain Python"), ("LlamaIndex",)], ids=["LangChain", "LlamaIndex"]
)
def test_other_processes_replay_the_same_run(
    frameworks: tuple[Framework, ...], tmp_path: Path, shelf: Path, pytestconfig: pytest.Config
) -> None:
    """Processes with other hash seeds replay programs of the table as the same run, at night all of them each way."""

    def is_told(row: Row, part: str, verdict: str, text: str) -> bool:
        """Return whether the table says that a part of a program differs in another process, and the replay too."""
        if row.missed:
            return row.missed in text or verdict == "order"  # an order that reaches no request by chance
        return part in row.never or (part in row.seeded and (verdict == "order" or part == "saver"))

    def replayed_with(seed: str, folder: Path) -> dict[str, list[tuple[str, str, str]]]:
        """Replay all cassettes of a folder in a process with a hash seed, and return the parts that differ, by cell."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTTAPE_", "PYTEST_"))}
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "tests.conformance.identical.child", str(folder)],
            cwd=ROOT,
            env={**kept, "PYTHONHASHSEED": seed},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        found: dict[str, list[tuple[str, str, str]]] = json.loads(ended.stdout.splitlines()[-1])
        return found

    def depends(name: str) -> bool:
        """Return whether the table says that a part of a program differs in another process, but for its saver."""
        return bool(ROWS[name].missed) or not {"saver"}.issuperset(ROWS[name].seeded)

    often = pytestconfig.getoption("replays") > 4
    wide = [cell for cell in cells(*frameworks) if cell[1] not in NARROW]
    if not often:  # a hash seed changes what a program does, however it's called, and most programs don't depend on it
        wide = [(name, driver) for name, driver in dict(wide).items() if depends(name) or crc32(name.encode()) % 6 == 0]
    for name, driver in wide:
        path = tmp_path / f"{name}-{driver}.yaml"
        if (recorded := shelf / path.stem).is_dir():  # by a test before this one
            shutil.copytree(recorded, tmp_path, dirs_exist_ok=True)
            continue
        facts = recorded_run(ROWS[name], driver, Outside(), path)
        path.with_suffix(".json").write_text(json.dumps(facts), encoding="utf-8")
    for seed in ("1", "2") if often else ("1",):
        found = replayed_with(seed, tmp_path)
        assert len(found) == len(wide)
        texts = [
            f"{cell}: {text[:500]}"
            for cell, parts in found.items()
            for part, verdict, text in parts
            if not is_told(ROWS[cell.partition("-")[0]], part, verdict, text)
        ]
        assert texts == [], "\n".join(texts)
