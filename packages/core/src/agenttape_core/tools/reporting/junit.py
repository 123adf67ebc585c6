"""Findings as JUnit's XML, by the library `junitparser`, which comes with the extra `checks`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.tools.reporting.findings import Checked, Judged
from agenttape_core.tools.reporting.texts import xml_text


def junit(checked: Iterable[Checked]) -> str:
    """Return the report: a suite for each run, in it a case for each check.

    Args:
        checked: The runs.

    Raises:
        ConfigurationError: If the library is not installed.
    """
    try:
        from junitparser import JUnitXml, TestSuite
    except ImportError:
        raise ConfigurationError("JUnit needs junitparser\n  pip install 'agenttape-core[checks]'") from None
    report: Any = JUnitXml("agenttape check")
    for run in checked:
        suite: Any = TestSuite(xml_text(run.name))
        for judged in run.judged:
            suite.add_testcase(_case(run, judged))
        if run.path:
            suite.add_property("cassette", xml_text(run.path))
        report.add_testsuite(suite)
    report.update_statistics()
    written: bytes = report.tostring()
    return written.decode("utf-8")


def _case(run: Checked, judged: Judged) -> Any:
    from junitparser import Failure, TestCase

    case: Any = TestCase(xml_text(judged.text), classname=xml_text(run.name), time=0)
    errors = [each for each in judged.findings if each.level == "error"]
    case.result = [_failure(Failure, xml_text(each.message), xml_text(str(each)), judged.rule) for each in errors]
    told = [str(each) for each in judged.findings if each.level != "error"]
    if told:
        case.system_out = xml_text("\n".join(told))
    return case


def _failure(kind: Any, message: str, text: str, rule: str) -> Any:
    failure = kind(message, rule)
    failure.text = text
    return failure
