"""The report on changed recordings: which runs took another path, with which tool calls, for how much more."""

from agenttape_core.tools.report.change import Change, Totals, change_of, comment, markdown
from agenttape_core.tools.report.trajectory import Trajectory, trajectory_of

__all__ = ["Change", "Totals", "Trajectory", "change_of", "comment", "markdown", "trajectory_of"]
