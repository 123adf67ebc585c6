"""Checks: what must be true of a run, whether it is a session, a fixture, a cassette or a line of a trace.

```python
from agenttape_core.checks import at_most, before, never

cassette.check(never("delete_user"), before("look_up", "refund"), at_most(calls=6, tokens=4_000))
```

Each check is a small pure function from a run to findings.
"""

from agenttape_core.checks.calls import after, arguments, before, called, confirmed, exactly, never, output, trajectory
from agenttape_core.checks.checking import AnyCheck, Check, Score, check, check_run
from agenttape_core.checks.judges import judged
from agenttape_core.checks.limits import at_most, no_errors
from agenttape_core.checks.run import Call, Run
from agenttape_core.checks.sources import run_of
from agenttape_core.tools.reporting import Checked, Finding, Judged

__all__ = [
    "AnyCheck",
    "Call",
    "Check",
    "Checked",
    "Finding",
    "Judged",
    "Run",
    "Score",
    "after",
    "arguments",
    "at_most",
    "before",
    "called",
    "check",
    "check_run",
    "confirmed",
    "exactly",
    "judged",
    "never",
    "no_errors",
    "output",
    "run_of",
    "trajectory",
]
