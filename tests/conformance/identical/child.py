"""The program of a process with another hash seed: it replays what another has recorded, and prints what differs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from agenttape_core.testing import compare_runs, replay_run

from .outside import Outside
from .table import ROWS


def main(folder: Path) -> None:
    """Replay each cell that has a cassette in a folder."""
    found = {}
    for facts in sorted(folder.glob("*.json")):
        name, driver = facts.stem.split("-")
        world = Outside()
        world.gone = True
        told: list[str] = []
        replayed = replay_run(ROWS[name].program(driver, world), facts.with_suffix(".yaml"), told=told)
        recorded = json.loads(facts.read_text(encoding="utf-8"))
        found[facts.stem] = [
            [each.part, each.verdict, "\n  ".join([str(each), str(replayed.get("result")), *told])]
            for each in compare_runs(recorded, replayed)
        ]
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
