"""Clock, ids, randomness and environment that come out the same on every run of a session.

`Frozen` holds what one session keeps fixed, `freezing` puts the stand-ins in place for the whole process, and each
stand-in asks at every call which session the caller belongs to, so that sessions side by side do not disturb each
other. `register_seam` adds the id makers and clocks of a framework.

What is covered, and how:

- `time.time`, `time_ns`, `clock_gettime`, `gmtime`, `localtime`, `ctime`, `asctime`, `strftime`, the module-level
  functions of `random` and `numpy.random`, and the id makers of `uuid_utils`: replaced in every loaded module that
  holds them as a global, even under another name, and in modules that are imported while a session is open.
- `datetime.now`, `utcnow`, `today` and `date.today`: replaced inside the real classes, so every reference to a class is
  covered, and derived classes are.
- `uuid1`, `uuid4`, `uuid6` and `uuid7` of `uuid`, `uuid_utils.compat` and `uuid6`, as far as they have them: replaced
  inside the function object, so every reference is covered, default factories and class attributes from before the
  session included.
- `random.Random()` and whatever numpy makes without a seed: by the one function each that seeds them.
- `time.sleep` and `asyncio.sleep` really sleep, and let the frozen clock pass by as much. Where a framework sleeps
  between two attempts, a replay lets the clock pass and does not sleep. Waits with a timeout that expires pass the
  time too (`waiting`), and so do loops that only read the clock (`frozen`).
- `os.environ` and all that reads it: in the methods of its class, so every reference is covered.

Modules are never imported for this: a module that isn't loaded needs no freezing.

What is never frozen: `perf_counter`, `monotonic`, the event loop's clock, generators with a seed of one's own,
`random.SystemRandom`, `secrets`, `os.urandom`, and file times. If the program itself reads such a clock or draws such
noise, listeners are notified (`modules`).

Direct references that were taken before the session, such as `field(default_factory=datetime.now)`, are covered by
`references`, on CPython.

Limits. C code that calls the system can't be reached, such as pydantic's `PastDatetime`. The modules in
`modules.SKIPPED` keep their direct references.
"""

from agenttape_core.freeze.backoff import is_sleep_ordered, register_backoff
from agenttape_core.freeze.branches import BegunWork, begun_scope
from agenttape_core.freeze.callers import is_drawn_by_program, is_drawn_for_run
from agenttape_core.freeze.entropy_sources import drawer, register_run_ids
from agenttape_core.freeze.environment import Environment
from agenttape_core.freeze.frozen import Frozen, Lookup
from agenttape_core.freeze.frozen_function import Replacement, current, register_real_draws
from agenttape_core.freeze.gc_state import is_collecting
from agenttape_core.freeze.install import freezing, register_seam
from agenttape_core.schema.freeze_kinds import DEFAULT_KINDS, KINDS, TICKING, Kind, check_kinds

__all__ = [
    "DEFAULT_KINDS",
    "KINDS",
    "TICKING",
    "BegunWork",
    "Environment",
    "Frozen",
    "Kind",
    "Lookup",
    "Replacement",
    "begun_scope",
    "check_kinds",
    "current",
    "drawer",
    "freezing",
    "is_collecting",
    "is_drawn_by_program",
    "is_drawn_for_run",
    "is_sleep_ordered",
    "register_backoff",
    "register_real_draws",
    "register_run_ids",
    "register_seam",
]
