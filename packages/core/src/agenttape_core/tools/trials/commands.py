"""Try a candidate on a command that was recorded with `agenttape record`."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agenttape_core.lifecycle.project import project_settings
from agenttape_core.schema import MODEL_KINDS
from agenttape_core.session import OWN
from agenttape_core.storage import open_cassette
from agenttape_core.tools.processes.command import Command
from agenttape_core.tools.processes.report import Outcome
from agenttape_core.tools.processes.run import run
from agenttape_core.tools.reading.prices import Prices, load_prices
from agenttape_core.tools.report.trajectory import trajectory_of
from agenttape_core.tools.trials.judging import Lane, Sample, Trial
from agenttape_core.tools.trials.reading import sample_of


def try_command(
    words: Sequence[str] | Command,
    *,
    cassette: str | None,
    candidate: str,
    samples: int,
    baseline: int,
    to: Path,
    options: Mapping[str, Any],
    apart: bool,
) -> Trial:
    """Run a command several times with its own model, and several times with another one, while tools are held still.

    Args:
        words: The command.
        cassette: Its cassette; by default that of the program.
        candidate: The name of the model.
        samples: How often it is tried.
        baseline: How often the command's own model is asked again.
        to: The folder of the derived cassettes.
        options: More options of `use_cassette`.
        apart: Whether the standard output of the command goes to the standard error.

    Raises:
        ConfigurationError: If the command, an option or a setting is wrong.
        CassetteError: If there is nothing to replay, or it cannot be read.
    """
    prices = load_prices(project_settings().prices)
    found: list[Sample] = []
    lanes: tuple[tuple[Lane, str, int], ...] = (("baseline", OWN, baseline), ("candidate", candidate, samples))
    recorded, name = None, ""
    for lane, model, count in lanes:
        for number in range(1, count + 1):
            ended = run(words, mode="none", cassette=cassette, options={**options, "candidate": model}, apart=apart)
            if recorded is None:
                recorded = trajectory_of(open_cassette(Path(ended.config.cassette)), prices)
                name = " ".join(ended.command)
            kept = _kept(ended, to, f"{lane}.{number}")
            drift = [one for report in ended.reports for one in report.drifted]
            problem = next(iter(ended.failures()), "").partition("\n")[0]
            passed = ended.code == 0 and not problem
            found.append(sample_of(lane, number, kept, recorded, prices, passed=passed, drift=drift, problem=problem))
    assert recorded is not None
    return Trial(name, candidate, recorded, tuple(found))


def _kept(ended: Outcome, to: Path, name: str) -> Path | None:
    """Move the derived cassettes of a run to a folder, and return that of the main process."""
    main = None
    to.mkdir(parents=True, exist_ok=True)
    for made in ended.made:
        infix = f".{made.address.replace('/', '.')}" if made.address else ""
        target = to / f"{name}{infix}.yaml"
        shutil.move(made.path, target)
        main = target if not made.address else main
    return main


def estimate(cassette: Path, candidate: str, samples: int, baseline: int, prices: Prices) -> dict[str, Any]:
    """Return what a trial would take, as far as the recording says it: nothing is executed.

    Args:
        cassette: The recording.
        candidate: The name of the model.
        samples: How often it would be tried.
        baseline: How often the command's own model would be asked again.
        prices: The prices of tokens.
    """
    opened, own, other, calls = open_cassette(cassette), 0.0, 0.0, 0
    known = True
    for item in opened.interactions():
        if item.kind not in MODEL_KINDS:
            continue
        calls += 1
        usage = item.outcome.usage
        names = (item.request.get("model"), candidate.partition(":")[2])
        costs = [prices.cost(str(name), item.name, usage) if usage and name else None for name in names]
        known = known and None not in costs
        own, other = own + (costs[0] or 0.0), other + (costs[1] or 0.0)
    total = own * baseline + other * samples
    return {
        "candidate": candidate,
        "calls": {"baseline": calls * baseline, "candidate": calls * samples},
        "dollars": round(total, 6),
        "all_priced": known,
    }
