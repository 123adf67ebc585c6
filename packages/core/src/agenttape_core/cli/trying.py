"""A candidate on a command: what `agenttape replay --candidate --samples` does."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agenttape_core.cli.app import FINDINGS
from agenttape_core.cli.output import print_json, print_text

if TYPE_CHECKING:
    from agenttape_core.tools.processes.command import Command


class Trying(NamedTuple):
    """The trial that a command line asks for.

    Args:
        candidate: The name of the model.
        samples: How often it is tried.
        baseline: How often the command's own model is asked again.
        folder: The folder of the derived cassettes; by default one below `.agenttape`.
        output: The file of the result, as JSON; `None` for none.
    """

    candidate: str
    samples: int
    baseline: int
    folder: str | None
    output: str | None


def tried(
    words: tuple[str, ...] | Command,
    cassette: str | None,
    how: Trying,
    options: Mapping[str, Any],
    *,
    plans: bool,
    as_json: bool,
) -> int:
    """Try a candidate on a command, print the table, and return the exit code: 1 if a sample failed or drifted.

    Args:
        words: The command.
        cassette: Its cassette.
        how: The trial.
        options: The options of `use_cassette` that were given.
        plans: Whether nothing is executed.
        as_json: Whether the result is printed as JSON.
    """
    from agenttape_core.lifecycle.project import project_settings
    from agenttape_core.tools.processes.command import Command, command_of
    from agenttape_core.tools.processes.run import path_of
    from agenttape_core.tools.reading.prices import load_prices
    from agenttape_core.tools.trials import lines_of, plain_of
    from agenttape_core.tools.trials.commands import estimate, try_command
    from agenttape_core.tools.upkeep.verified import own_folder

    command = words if isinstance(words, Command) else command_of(words)
    source = path_of(cassette or command.name)
    if plans:
        prices = load_prices(project_settings().prices)
        found = estimate(source, how.candidate, how.samples, how.baseline, prices)
        if as_json:
            print_json(found)
        else:
            calls = sum(found["calls"].values())
            price = f"about ${found['dollars']:.4f}" if found["all_priced"] else "at an unknown price"
            print_text(f"{how.candidate}: at least {calls} calls of models, {price}")
        return 0
    own = own_folder(Path.cwd()) / "candidates" if not how.folder else None  # which git ignores
    folder = own / how.candidate.replace(":", "-") if own is not None else Path(how.folder or "")
    trial = try_command(
        words,
        cassette=cassette,
        candidate=how.candidate,
        samples=how.samples,
        baseline=how.baseline,
        to=folder,
        options={"drift": "report", **options},
        apart=as_json,
    )
    plain = {"run_id": uuid.uuid4().hex, "source": str(source), **plain_of([trial])["trials"][0]}
    if how.output:
        Path(how.output).write_text(json.dumps(plain, indent=2), encoding="utf-8")
    if as_json:
        print_json(plain)
    else:
        print_text("\n".join(lines_of([trial])))
    candidate = trial.lane("candidate")
    fails = options.get("drift", "fail") == "fail" and any(sample.drift for sample in candidate)
    return FINDINGS if fails or not all(sample.passed for sample in candidate) else 0
