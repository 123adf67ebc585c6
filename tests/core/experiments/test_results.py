"""What every experiment is made of: its result in all forms, reports of earlier runs, and work in parallel."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments.engine import Jobs
from agenttape_core.experiments.result import Result, Summary, columns, earlier, read
from agenttape_core.tools.reporting import Finding, Level
from agenttape_core.tools.reporting.forms import write_report


@dataclass(frozen=True, slots=True)
class Slow(Result):
    """The calls of a program that are slow."""

    program: str
    calls: tuple[tuple[str, int], ...]
    level: Level = "error"
    experiment = "slow"

    def summary(self) -> Summary:
        """Return a row and a finding for each call."""
        found = [Finding(f"{name} took {seconds} s", level=self.level) for name, seconds in self.calls]
        rows = columns([(name, f"{seconds} s") for name, seconds in self.calls])
        return Summary(self.program, "desk.yaml", f"{self.program}: {len(found)} slow", rows, found)


def test_one_summary_makes_all_forms(tmp_path: Path) -> None:
    """The text is the line and the table, the findings fail it, and each report has them with the rule and the file."""
    found = Slow("desk:answer", (("look_up", 12), ("ask", 7)))
    assert str(found) == "desk:answer: 2 slow\nlook_up  12 s\nask      7 s"
    assert (found.ok, found.is_whole) == (False, True)
    (checked,) = found.to_checked()
    assert [(one.rule, one.path, one.message) for one in checked.findings] == [
        ("slow", "desk.yaml", "look_up took 12 s"),
        ("slow", "desk.yaml", "ask took 7 s"),
    ]
    for name in ("report.json", "report.md", "report.sarif", "report.trx", "report.txt"):
        write_report(str(tmp_path / name), found.to_checked(), found.to_dict(), str(found))
        assert "look_up" in (tmp_path / name).read_text()


def test_warnings_fail_nothing() -> None:
    """A result with warnings alone, or without a finding, is ok."""
    assert Slow("desk:answer", (("ask", 7),), level="warning").ok
    assert Slow("desk:answer", ()).ok


def test_plain_data_come_back(tmp_path: Path) -> None:
    """What `to_dict` makes plain is read again after JSON, also from a report; another file is refused."""
    found = Slow("desk:answer", (("ask", 7),))
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain == json.loads(json.dumps(asdict(found)))
    assert read(Slow, {**plain, "more": 1}) == found
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"slow": [plain]}))
    assert earlier(report, "slow", lambda one: read(Slow, one)) == [found]
    for text in ("", "[]", '{"slow": 1}', '{"slow": [{"program": "desk"}]}', '{"quick": []}'):
        report.write_text(text)
        with pytest.raises(ConfigurationError, match="not a report of this experiment as JSON"):
            earlier(report, "slow", lambda one: read(Slow, one))


@pytest.mark.parametrize("count", [1, 3])
def test_answers_come_in_order(count: int) -> None:
    """Work in several threads is answered in the order of its items, as in one thread."""
    with Jobs(count) as pool:
        assert list(pool.each(lambda number: number * number, range(20))) == [number * number for number in range(20)]
