"""The port of scheduling, and what is behind it: when an answer, a timer or a thread reaches the program.

`scopes` finds the session that a thread, a task or a callback belongs to, and `unread` the streams that begin late. On
them are four subjects, each with modules that decide over data alone, and modules that act on loops and threads:

- Event loops (decisions 0014, 0038): deliveries between steps. `schedule` has the lines of all loops of a session, and
  `line`, on `followed_line` and `awaited_line`, that of one.
  Decide: `delivery_log` (what of an order is worth keeping), `script` (a recorded group on its way through a replay),
  `phases` and `answered` (the order of one call, and among answers).
  Act: `call_turn` and `waiting_calls` (the turn of an awaited call), `held_back`, `program_timers` and `thread_work`
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
