"""Findings as TRX, the XML of Visual Studio's test results, which Azure DevOps reads."""

from __future__ import annotations

import uuid
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import datetime

from agenttape_core.tools.reporting.findings import Checked, Judged
from agenttape_core.tools.reporting.texts import xml_text

_NAMESPACE = "http://microsoft.com/schemas/VisualStudio/TeamTest/2010"
_UNIT_TEST = "13cdc9d9-ddb5-4fa4-a97d-d965ccfc6d4b"
"""The type of a test that is a function; the number is Visual Studio's."""
_LIST = "8c84fa94-04c1-424b-9868-57a2d4851a1d"
"""The list of results that are in no other list; likewise."""


def trx(checked: Sequence[Checked], moment: datetime) -> str:
    """Return the report: a unit test for each check of each run. Its ids follow from the names.

    Args:
        checked: The runs.
        moment: The time of the check.
    """
    now = moment.isoformat()
    names = "\n".join(run.name for run in checked)
    root = ET.Element("TestRun", xmlns=_NAMESPACE, id=_id("run", now, names), name="agenttape check")
    ET.SubElement(root, "Times", creation=now, queuing=now, start=now, finish=now)
    results, definitions = ET.SubElement(root, "Results"), ET.SubElement(root, "TestDefinitions")
    entries, lists = ET.SubElement(root, "TestEntries"), ET.SubElement(root, "TestLists")
    ET.SubElement(lists, "TestList", name="Results Not in a List", id=_LIST)
    every = [(run, at, judged) for run in checked for at, judged in enumerate(run.judged)]
    for run, at, judged in every:
        test, execution = _id("test", run.name, str(at)), _id("execution", now, run.name, str(at))
        _add_result(results, run, judged, now, (test, execution))
        unit = ET.SubElement(definitions, "UnitTest", name=xml_text(_title(run, judged)), storage="agenttape", id=test)
        ET.SubElement(unit, "Execution", id=execution)
        ET.SubElement(
            unit,
            "TestMethod",
            codeBase="agenttape",
            adapterTypeName="executor://agenttape",
            className=xml_text(run.name),
            name=xml_text(judged.text),
        )
        ET.SubElement(entries, "TestEntry", testId=test, executionId=execution, testListId=_LIST)
    failed = sum(judged.has_failed for _, _, judged in every)
    summary = ET.SubElement(root, "ResultSummary", outcome="Failed" if failed else "Completed")
    counts = {"total": len(every), "executed": len(every), "passed": len(every) - failed, "failed": failed}
    ET.SubElement(summary, "Counters", {key: str(count) for key, count in counts.items()})
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add_result(results: ET.Element, run: Checked, judged: Judged, now: str, ids: tuple[str, str]) -> None:
    test, execution = ids
    result = ET.SubElement(
        results,
        "UnitTestResult",
        executionId=execution,
        testId=test,
        testName=xml_text(_title(run, judged)),
        computerName="agenttape",
        duration="00:00:00.0000000",
        startTime=now,
        endTime=now,
        testType=_UNIT_TEST,
        outcome="Failed" if judged.has_failed else "Passed",
        testListId=_LIST,
        relativeResultsDirectory=execution,
    )
    if judged.findings:
        output = ET.SubElement(result, "Output")
        errors = [str(each) for each in judged.findings if each.level == "error"]
        told = [str(each) for each in judged.findings if each.level != "error"]
        if told:
            ET.SubElement(output, "StdOut").text = xml_text("\n".join(told))
        if errors:
            ET.SubElement(ET.SubElement(output, "ErrorInfo"), "Message").text = xml_text("\n".join(errors))


def _title(run: Checked, judged: Judged) -> str:
    return f"{run.name}: {judged.text}"


def _id(*parts: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "agenttape\0" + "\0".join(parts).encode("utf-8", "replace").decode()))
