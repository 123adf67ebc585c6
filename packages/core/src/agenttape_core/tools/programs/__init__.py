"""Programs that are replayed again and again with something changed: functions, and tests; and how they end."""

from agenttape_core.tools.programs.failure import Failure, failure_of
from agenttape_core.tools.programs.holding import steady
from agenttape_core.tools.programs.opening import Opening
from agenttape_core.tools.programs.program import Ending, FunctionProgram, Program, program_of, run_to_end
from agenttape_core.tools.programs.source import Source

__all__ = [
    "Ending",
    "Failure",
    "FunctionProgram",
    "Opening",
    "Program",
    "Source",
    "failure_of",
    "program_of",
    "run_to_end",
    "steady",
]
