"""A scheduler for recordings and replays alike: what arrives is admitted when nothing of the program can go on.

Arrivals queue: answers, timers, threads that begin or go on, what threads put into loops. One is admitted when no part
of the program can continue: in the order in which they come in a recording, in the recorded order in a replay. Between
two admissions the program runs by itself, so it does the same again, and nothing has to be counted.

- `turn` has the turn: who has it, what is ready, what is admitted. `strategies` decide which arrival is next, and
  `stalls` finds a participant that blocks where nobody sees it.
- `threads` lets threads take part, `loops` event loops; `seams` are the places of asyncio where they do.
- `calls` has the arrivals of one call, and `scheduler` the scheduler of one session, behind the port of the package.

It's used where `TAPE_SCHEDULER=admission` is set in the environment, for our own tests, until it has won: see
decision 133.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agenttape_core.scheduling.scheduler import Order, Scheduler, Times


def admitting_scheduler(
    order: Order, *, imposes: bool, notes: bool, is_paced: bool, times: Times | None
) -> Scheduler | None:
    """Return such a scheduler, see `AdmittingScheduler`; `None` where the other one is used."""
    if os.environ.get("TAPE_SCHEDULER") != "admission":
        return None
    from agenttape_core.scheduling.admission.scheduler import AdmittingScheduler

    return AdmittingScheduler(order, imposes=imposes, notes=notes, is_paced=is_paced, times=times)
