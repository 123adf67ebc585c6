"""The port of scheduling, and what is behind it: when an answer, a timer or a thread reaches the program.

Code outside of this package knows what this module exports, and none of the words behind it:

- Each session has one `Scheduler`, and each call its `Arrivals`: its chunks, its effects, its end. The same methods
  serve a call that's executed and one that's answered from its recording; in an event loop, `Awaited` has the place
  of a call among all that the loop waits for. `Order` is what a cassette keeps of it, `Ending` the end of a recorded
  call that was cancelled, and `Choices` an order that somebody chooses.
- Frameworks let threads do things that others can see: `visible`, `in_order` and `steps_in_order` keep the order.
- `SCOPES`, `UNREAD` and `origin_here` find the session that code belongs to; `EXECUTING` is the call it runs for.

Behind the port, `scopes` finds the session that a thread, a task or a callback belongs to, `thread_starts` lets threads
remember theirs, and `unread` has the streams that begin late. On them are four subjects, each with modules that decide
over data alone, and modules that act on loops and threads:

- Event loops (decisions 0014, 0038): deliveries between steps. `schedule` has the lines of all loops of a session, and
  `line`, on `followed_line` and `awaited_line`, that of one.
  Decide: `delivery_log` (what of an order is worth keeping), `script` (a recorded group on its way through a replay),
  `phases` and `answered` (the order of one call, and among answers).
  Act: `awaited` and `waiting_calls` (the turn of an awaited call), `held_back`, `program_timers` and `thread_work`
  (timers, and what threads deliver), `handles` (whose a callback is), `scheduling` (a schedule as one loop sees it).
- Threads (decision 0015): gates, at which strands take turns. `taking_turns` begins and ends strands, `strands` says
  what one is, `turns` has who goes next.
  Decide: `interleaving` (an order as text, and as a script), `imposing` (who is next), `loose` (what is in no order).
  `older_threads` and `signals` notice what is in none from the start.
  Act: `holder`, `waits` and `locks` (who waits, and for what), `visiting` (a loop beside threads), `handing_over` and
  `queued_futures` (what passes from a thread to a loop and back), `steps_in_turn` (coroutines of a framework),
  `withdrawing` (work that is cancelled, and the end of the session), `observed_threads` (runs that were only observed).
- The end of calls, streams and loops: `abandoned` closes the generators that a program has left, and `stopping` ends a
  loop at one point of its steps. `cancellation` and `giving_up` wait until a program cancels again what it had
  cancelled; `executing` has the call whose code runs.
- Orders that somebody chooses: `choices` decides; `choosing` and `choosing_threads` act. `virtual_time` and
  `virtual_sleep` let the clock of a loop jump, and `skipped_waits` lets it pass to the end of a back-off.

The places of Python's own where all of it takes hold are `loops`, `strand_seams`, `futures_in_order`, `lent_contexts`,
`lent_callbacks` and `overdue`. `limits` has the longest waits, and `finalizers` the code that is nobody's.
"""

from agenttape_core.scheduling.admission import admitting_scheduler
from agenttape_core.scheduling.awaited import RIGHT_AWAY, Awaited
from agenttape_core.scheduling.cancellation import Ending, is_cancellation_requested
from agenttape_core.scheduling.choices import ChoicePoint, Choices, parsed_order, ranks_of
from agenttape_core.scheduling.executing import EXECUTING
from agenttape_core.scheduling.futures_in_order import FuturesInOrder
from agenttape_core.scheduling.giving_up import submitted, submitting
from agenttape_core.scheduling.handles import Looking, answering, timers_of_ours
from agenttape_core.scheduling.scheduler import Arrivals, Order, Scheduler, Times
from agenttape_core.scheduling.scopes import SCOPES, Membership, Origin, Scopes, takes_part, taking_part
from agenttape_core.scheduling.steps_in_turn import steps_in_order
from agenttape_core.scheduling.strands import in_order, is_in_run, is_told_at_once, visible
from agenttape_core.scheduling.thread_starts import REMEMBERED_THREADS, origin_here, session_of_bare_thread
from agenttape_core.scheduling.unread import UNREAD, Collections, collections, register_lazy_stream
from agenttape_core.scheduling.virtual_sleep import sleep_in_virtual_time, virtual_loop

__all__ = [
    "EXECUTING",
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
    "admitting_scheduler",
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
    "submitted",
    "submitting",
    "takes_part",
    "taking_part",
    "timers_of_ours",
    "virtual_loop",
    "visible",
]
