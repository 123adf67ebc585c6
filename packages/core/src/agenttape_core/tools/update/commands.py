"""Healing the cassettes of a command, and of its processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agenttape_core.lifecycle.project import project_settings
from agenttape_core.storage import is_pending, open_cassette
from agenttape_core.tools.processes.report import Outcome
from agenttape_core.tools.processes.run import run
from agenttape_core.tools.reading.prices import load_prices
from agenttape_core.tools.update.plans import PLANNING, Departed, Plan, planned

_OPTIONS = {name: value for name, value in PLANNING.items() if name != "mode"}


def plan_of_command(words: Sequence[str], cassette: str | None = None) -> list[Plan]:
    """Return what it would take to update the cassettes of a command: of its main process, and of each further one.

    The command is replayed, and nothing is executed but what it does itself. Its own exit code means nothing.

    Args:
        words: The words of the command, as for `run`.
        cassette: The cassette of its main process; by default named after the command.

    Raises:
        CassetteError: A cassette is not there, or cannot be read.
        ConfigurationError: There is no such command.
    """
    outcome = run(words, mode="replay", cassette=cassette, options=dict(_OPTIONS), apart=True, proves=True)
    settings = project_settings()
    prices, drops = load_prices(settings.prices), settings.on_unused != "ignore"
    plans = []
    for address in dict.fromkeys(report.address for report in outcome.reports):
        reports = [report for report in outcome.reports if report.address == address]
        path = outcome.config.cassette_of(address)
        shown = str(outcome.config.shown(path))
        missed = [line for report in reports for line in report.missed]
        if not path.exists():
            plans.append(Plan(shown, 0, new=tuple(missed)))
            continue
        recorded = open_cassette(path)
        unused = set.intersection(*(set(report.unused) for report in reports))
        changed = {number for report in reports for number in report.elsewise}
        departed = Departed(changed, missed, unused, drops)
        failed = tuple(report.failed_blocks.partition("\n")[0] for report in reports if report.failed_blocks)
        plan = planned(recorded, recorded.header.volatile.timings.get, departed, prices, shown)
        plans.append(replace(plan, failed=failed))
    return plans


def update_command(
    words: Sequence[str], cassette: str | None = None, *, apart: bool = False, pending: bool = False
) -> list[Outcome]:
    """Run a command, execute what has changed, and replay it.

    Args:
        words: The words of the command, as for `run`.
        cassette: The cassette of its main process; by default named after the command.
        apart: Whether what the command writes to standard output goes to standard error.
        pending: Whether what it records waits for review.

    Returns:
        The outcomes of the run and of the replay; there is no replay of what waits for review.
    """
    options = {"review": True} if pending else {}
    updated = run(words, mode="update", cassette=cassette, options=options, apart=apart)
    if any(is_pending(one.path.name) for one in updated.made):
        return [updated]
    replayed = run(words, mode="replay", cassette=cassette, options={"live": []}, apart=True, proves=True)
    return [updated, replayed]
