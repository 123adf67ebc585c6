"""The port of scheduling, and what is behind it: when an answer, a timer or a thread reaches the program.

Code outside of this package knows what this module exports, and none of the words behind it:

- Each session has one `Scheduler`, and each call its `Arrivals`: its chunks, its effects, its end. The same methods
  replay a call that's executed and one that's answered from its recording; in an event loop, `Awaited` has the place
  of a call among all that the loop waits for. `Order` is what a cassette keeps of it, `Ending` the end of a recorded
  call that was cancelled, and `Choices` a chosen order.
- Frameworks let threads do things that others can see: `visible`, `in_order` and `steps_in_order` keep the order.
- `SCOPES`, `UNREAD` and `origin_here` find the session that code belongs to; `EXECUTING` is the call it runs for.

Behind the port, *what arrives is admitted when nothing of the program can continue* (decision 133):

- `turn` has the turn: which participant has it, what is ready, what is admitted. `strategies` decide which arrival is
  next: as they come, as recorded, by recorded times, as `choices` has it. `stalls` finds a participant that blocks
  where it can't be seen, and `unordered` reports what is in no order.
- `participants` defines a participant. `threads` lets threads take part, and `loops` lets event loops. `arrivals` has
  those of one call, and `scheduler` all of a session.
- `thread_starts`, `blocking` and `loop_seams` patch the places of Python where all of it takes hold: where threads and
  the work of pools begin, where they wait, and where loops get their callbacks. `task_sets` lets sets of tasks have an
  order, and `python_parts` has what differs from version to version.
- `late` waits until a program cancels again what it had cancelled, `generators` closes those that it has left, and
  `clock` lets the clock of a loop jump.
- `scopes` finds the session that a thread, a task or a callback belongs to, `handles` the owner of a callback of a
  loop, `executing` the call whose code runs, and `lazy_streams` the streams that begin late.
"""

from agenttape_core.scheduling.arrivals import RIGHT_AWAY, Arrivals, Awaited
from agenttape_core.scheduling.choices import ChoicePoint, Choices, parsed_order, ranks_of
from agenttape_core.scheduling.clock import Ending, sleep_in_virtual_time, virtual_loop
from agenttape_core.scheduling.executing import EXECUTING, PASSED_ON
from agenttape_core.scheduling.handles import Looking, answering, timers_of_ours
from agenttape_core.scheduling.late import comes_yet, is_cancellation_requested
from agenttape_core.scheduling.lazy_streams import UNREAD, collections, register_lazy_stream
from agenttape_core.scheduling.participants import (
    in_order,
    is_in_run,
    is_notified_directly,
    steps_in_order,
    trio_here,
    visible,
)
from agenttape_core.scheduling.scheduler import Order, Scheduler, Times
from agenttape_core.scheduling.scopes import SCOPES, Membership, Origin, Scopes, takes_part, taking_part
from agenttape_core.scheduling.task_sets import FuturesInOrder
from agenttape_core.scheduling.thread_starts import (
    REMEMBERED_THREADS,
    Work,
    origin_here,
    session_of_bare_thread,
    submitting,
)

__all__ = [
    "EXECUTING",
    "PASSED_ON",
    "REMEMBERED_THREADS",
    "RIGHT_AWAY",
    "SCOPES",
    "UNREAD",
    "Arrivals",
    "Awaited",
    "ChoicePoint",
    "Choices",
    "Ending",
    "FuturesInOrder",
    "Looking",
    "Membership",
    "Order",
    "Origin",
    "Scheduler",
    "Scopes",
    "Times",
    "Work",
    "answering",
    "collections",
    "comes_yet",
    "in_order",
    "is_cancellation_requested",
    "is_in_run",
    "is_notified_directly",
    "origin_here",
    "parsed_order",
    "ranks_of",
    "register_lazy_stream",
    "session_of_bare_thread",
    "sleep_in_virtual_time",
    "steps_in_order",
    "submitting",
    "takes_part",
    "taking_part",
    "timers_of_ours",
    "trio_here",
    "virtual_loop",
    "visible",
]
