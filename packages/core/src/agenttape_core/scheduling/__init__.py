"""The port of scheduling, and what is behind it: when an answer, a timer or a thread reaches the program.

Code outside of this package knows what this module exports, and none of the words behind it:

- Each session has one `Scheduler`, and each call its `Arrivals`: its chunks, its effects, its end. The same methods
  serve a call that's executed and one that's answered from its recording; in an event loop, `Awaited` has the place
  of a call among all that the loop waits for. `Order` is what a cassette keeps of it, `Ending` the end of a recorded
  call that was cancelled, and `Choices` an order that somebody chooses.
- Frameworks let threads do things that others can see: `visible`, `in_order` and `steps_in_order` keep the order.
- `SCOPES`, `UNREAD` and `origin_here` find the session that code belongs to; `EXECUTING` is the call it runs for.

Behind the port, *what arrives is admitted when nothing of the program can go on* (decision 133):

- `turn` has the turn: who has it, what is ready, what is admitted. `strategies` decide which arrival is next: as they
  come, as recorded, by recorded times, as somebody chooses. `stalls` and `holder` find a participant that blocks where
  nobody sees it, and `unordered`, with `loose`, `older_threads` and `signals`, has what is in no order.
- `threads` lets threads take part, and `strands` says what one is; `loops` lets event loops take part, and
  `unseen_loops` those that are written in C. `arrivals` has those of one call, and `scheduler` all of a session.
- `thread_starts`, `strand_seams`, `locks`, `waits` and `loop_seams` are the places of Python's own where all of it
  takes hold, with `lent_contexts`, `lent_callbacks`, `futures_in_order` and `overdue`; `python_parts` has those that
  differ from version to version.
- `cancellation` and `giving_up` wait until a program cancels again what it had cancelled, `abandoned` and `generators`
  close the generators that it has left, and `finalizers` knows code that is nobody's.
- `choices` has an order that somebody chooses. `virtual_time` and `virtual_sleep` let the clock of a loop jump, and
  `skipped_waits` lets it pass to the end of a back-off. `limits` has the longest waits.
- `scopes` finds the session that a thread, a task or a callback belongs to, `executing` the call whose code runs, and
  `lazy_streams` the streams that begin late.
"""

from agenttape_core.scheduling.arrivals import Arrivals
from agenttape_core.scheduling.awaited import RIGHT_AWAY, Awaited
from agenttape_core.scheduling.cancellation import Ending, is_cancellation_requested
from agenttape_core.scheduling.choices import ChoicePoint, Choices, parsed_order, ranks_of
from agenttape_core.scheduling.executing import EXECUTING, PASSED_ON
from agenttape_core.scheduling.futures_in_order import FuturesInOrder
from agenttape_core.scheduling.giving_up import Work, submitting
from agenttape_core.scheduling.handles import Looking, answering, timers_of_ours
from agenttape_core.scheduling.lazy_streams import UNREAD, Collections, collections, register_lazy_stream
from agenttape_core.scheduling.scheduler import Order, Scheduler, Times
from agenttape_core.scheduling.scopes import SCOPES, Membership, Origin, Scopes, takes_part, taking_part
from agenttape_core.scheduling.steps_in_turn import steps_in_order
from agenttape_core.scheduling.strands import in_order, is_in_run, is_told_at_once, trio_here, visible
from agenttape_core.scheduling.thread_starts import REMEMBERED_THREADS, origin_here, session_of_bare_thread
from agenttape_core.scheduling.virtual_sleep import sleep_in_virtual_time, virtual_loop

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
    "Collections",
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
    "in_order",
    "is_cancellation_requested",
    "is_in_run",
    "is_told_at_once",
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
