"""Programs drawn at random are the same run when they are replayed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agenttape_core.testing import Program, compare_runs, record_run, replay_run

from ..identical.outside import Outside
from .graphs import drawn_graph
from .workflows import drawn_workflow

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Skipping serialization of known unserializable key"),
]
REPLAYS = 2


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Draw as many programs of each framework as the options say."""
    first = metafunc.config.getoption("first_program")
    seeds = range(first, first + metafunc.config.getoption("programs"))
    metafunc.parametrize(
        ("draw", "seed"),
        [
            pytest.param(draw, seed, id=f"{draw.__name__}-{seed}")
            for seed in seeds
            for draw in (drawn_graph, drawn_workflow)
        ],
    )


def test_a_drawn_program_replays_equal(draw: Callable[[int, Outside], Program], seed: int, tmp_path: Path) -> None:
    """Each replay is equal to the recording, and reports nothing."""
    world, path = Outside(seed), tmp_path / "c.yaml"
    recorded = record_run(draw(seed, world), path)
    world.gone = True
    for _ in range(REPLAYS):
        told: list[str] = []
        replayed = replay_run(draw(seed, world), path, told=told)
        found = [each for each in compare_runs(recorded, replayed) if each.part != "tracebacks"]
        assert found == [], "\n".join([*map(str, found), *told])
        assert told == [], f"an equal replay reports {told}"
    assert world.trespasses == []
