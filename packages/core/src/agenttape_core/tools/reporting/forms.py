"""The forms of reports by the suffixes of files."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from agenttape_core.errors import ConfigurationError, counted, visible
from agenttape_core.tools.reporting import Checked, Finding, Judged

# Findings as Markdown, for the summary of a job and the comment on a pull request.

# -- Texts of strangers inside Markdown and XML: what stands in a recording may be anything.


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
_NO_XML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")


def fenced(lines: Sequence[str], language: str = "") -> list[str]:
    """Return lines as a block of code, fenced by more backticks than they hold."""
    clean = [_CONTROL.sub("�", line).replace("\n", "⏎") for line in lines]
    longest = max((len(found) for line in clean for found in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *clean, fence]


def code(text: str) -> str:
    """Return a text as code inside a line, without any markup that a code host would act on."""
    return f"`{_CONTROL.sub('�', text).replace('`', chr(39)).replace('|', '/')}`"


def cell(text: str) -> str:
    """Return a text as code inside a cell of a table."""
    return code(text.replace("\n", "⏎"))


def escaped(text: str) -> str:
    """Return a text for HTML inside Markdown."""
    clean = _CONTROL.sub("�", text).replace("\n", "⏎")
    return clean.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")


def _xml_text(text: str) -> str:
    """Return a text without the characters that no XML may hold, which parsers refuse a whole file for."""
    return _NO_XML.sub("�", text)


_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def commands(checked: Iterable[Checked]) -> Iterator[str]:
    """Yield a command of a workflow for each finding: `::error file=…,line=…,title=…::…`."""
    for run in checked:
        for finding in run.findings:
            facts = {"file": finding.path, "line": str(finding.line or ""), "title": f"{run.name}: {finding.rule}"}
            given = ",".join(f"{key}={_escaped(value, _PROPERTY)}" for key, value in facts.items() if value)
            yield f"::{finding.level} {given}::{_escaped(chr(10).join(finding.lines()), _DATA)}"


def _escaped(text: str, table: dict[str, str]) -> str:
    return "".join(table.get(char, char) for char in visible(text))


_MOST = 200


def headline(checked: Sequence[Checked]) -> str:
    """Return the result in one line."""
    failed = sum(run.has_failed for run in checked)
    total = f"{counted(len(checked), 'run')}, {counted(sum(len(run.judged) for run in checked), 'check')}"
    warnings = sum(each.level == "warning" for run in checked for each in run.findings)
    told = f", {counted(warnings, 'warning')}" if warnings else ""
    result = f"{counted(failed, 'run')} failed" if failed else "all passed"
    return f"{total}: {result}{told}"


def markdown(checked: Sequence[Checked]) -> str:
    """Return the report: the runs that have findings first, each with them."""
    lines = [f"### AgentTape: {headline(checked)}", ""]
    told = [run for run in checked if run.findings]
    if not told:
        return "\n".join(lines)
    lines += ["| run | failed | of |", "|---|---|---|"]
    for run in told[:_MOST]:
        failed = ", ".join(dict.fromkeys(each.rule for each in run.judged if each.findings))
        lines.append(f"| {cell(run.name)} | {cell(failed)} | {len(run.judged)} |")
    if len(told) > _MOST:
        lines.append(f"| … and {counted(len(told) - _MOST, 'more run')} | | |")
    lines.append("")
    for run in told[:_MOST]:
        shown = [line for finding in run.findings for line in finding.lines()]
        lines += [f"<details><summary>{escaped(run.name)}</summary>", "", *fenced(shown), "", "</details>", ""]
    return "\n".join(lines)


# -- Findings as JUnit's XML, by the library `junitparser`, which comes with the extra `checks`.


def junit(checked: Sequence[Checked]) -> Iterable[str]:
    """Return the report in parts: a suite per run, with a case per check. Raises `ConfigurationError` without it."""
    try:
        from junitparser import JUnitXml
    except ImportError:
        raise ConfigurationError("JUnit needs junitparser\n  pip install 'agenttape-core[checks]'") from None
    whole: Any = JUnitXml("agenttape check")
    whole.tests = sum(len(run.judged) for run in checked)
    whole.failures = sum(each.level == "error" for run in checked for each in run.findings)
    whole.errors = whole.skipped = 0
    whole.time = 0.0
    return chain([_opening(whole.tostring().decode())], map(_suite, checked), ["</testsuites>"])


def _opening(element: str) -> str:
    """Return the first tag of an empty element."""
    return f"{element.removesuffix(' />')}>"


def _suite(run: Checked) -> str:
    from junitparser import TestSuite

    suite: Any = TestSuite(_xml_text(run.name))
    for judged in run.judged:
        suite.add_testcase(_case(run, judged))
    if run.path:
        suite.add_property("cassette", _xml_text(run.path))
    suite.update_statistics()
    written: bytes = suite.tostring()
    return written.decode()


def _case(run: Checked, judged: Judged) -> Any:
    from junitparser import Failure, TestCase

    case: Any = TestCase(_xml_text(judged.text), classname=_xml_text(run.name), time=0)
    errors = [each for each in judged.findings if each.level == "error"]
    case.result = [_failure(Failure, _xml_text(each.message), _xml_text(str(each)), judged.rule) for each in errors]
    told = [str(each) for each in judged.findings if each.level != "error"]
    if told:
        case.system_out = _xml_text("\n".join(told))
    return case


def _failure(kind: Any, message: str, text: str, rule: str) -> Any:
    failure = kind(message, rule)
    failure.text = text
    return failure


# -- Findings as SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/), which forges show beside the code.


def sarif(checked: Iterable[Checked], version: str) -> Iterable[str]:
    """Return the report in parts: a result for each finding, at the line of its record."""
    findings = [(run, finding) for run in checked for finding in run.findings]
    rules = sorted({finding.rule for _, finding in findings})
    report = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "agenttape",
                        "version": version,
                        "rules": [{"id": rule, "shortDescription": {"text": f"The check {rule}."}} for rule in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(run, finding, rules) for run, finding in findings],
            }
        ],
    }
    return chain(json.JSONEncoder(indent=2).iterencode(report), ["\n"])


def _result(run: Checked, finding: Finding, rules: list[str]) -> dict[str, Any]:
    _, *details = str(finding).split("\n")
    text = "\n".join([f"{run.name}: {finding.message}", *details])
    known = f"{finding.rule}\0{finding.path}\0{finding.address}\0{finding.message}"
    return {
        "ruleId": finding.rule,
        "ruleIndex": rules.index(finding.rule),
        "level": finding.level,
        "message": {"text": text},
        **({"locations": [_location(finding)]} if finding.path else {}),
        "partialFingerprints": {"finding/v1": hashlib.sha256(known.encode("utf-8", "replace")).hexdigest()[:32]},
    }


def _location(finding: Finding) -> dict[str, Any]:
    uri = quote(PurePath(finding.path).as_posix(), safe="/:@!$&'()*+,;=~-._", errors="replace")
    artifact = {"artifactLocation": {"uri": uri}}
    region = {"region": {"startLine": finding.line}} if finding.line is not None else {}
    place = {"logicalLocations": [{"fullyQualifiedName": finding.address}]} if finding.address else {}
    return {"physicalLocation": {**artifact, **region}, **place}


# -- Findings as TRX, the XML of Visual Studio's test results, which Azure DevOps reads.


_NAMESPACE = "http://microsoft.com/schemas/VisualStudio/TeamTest/2010"
_UNIT_TEST = "13cdc9d9-ddb5-4fa4-a97d-d965ccfc6d4b"
"""The type of a test that is a function; the number is Visual Studio's."""
_LIST = "8c84fa94-04c1-424b-9868-57a2d4851a1d"  # the list of results that are in no other list; it has a fixed id, too


def trx(checked: Sequence[Checked], moment: datetime) -> Iterator[str]:
    """Yield the report in parts: a unit test for each check of each run. Its ids follow from the names."""
    now = moment.isoformat()
    names = "\n".join(run.name for run in checked)
    root = ET.Element("TestRun", xmlns=_NAMESPACE, id=_id("run", now, names), name="agenttape check")
    yield f'<?xml version="1.0" encoding="utf-8"?>\n{_opening(ET.tostring(root, encoding="unicode"))}\n'
    yield _element(ET.Element("Times", creation=now, queuing=now, start=now, finish=now), 1)
    for name, make in (("Results", _result_of), ("TestDefinitions", _definition), ("TestEntries", _entry)):
        yield from _section(name, (make(*each, now) for each in _each(checked)))
    yield from _section("TestLists", [ET.Element("TestList", name="Results Not in a List", id=_LIST)])
    total, failed = (sum(1 for _ in _each(checked)), sum(judged.has_failed for _, _, judged in _each(checked)))
    counts = {"total": total, "executed": total, "passed": total - failed, "failed": failed}
    summary = ET.Element("ResultSummary", outcome="Failed" if failed else "Completed")
    ET.SubElement(summary, "Counters", {key: str(count) for key, count in counts.items()})
    yield _element(summary, 1)
    yield "</TestRun>\n"


def _each(checked: Sequence[Checked]) -> Iterator[tuple[Checked, str, Judged]]:
    """Yield each check with its run and its place there."""
    return ((run, str(at), judged) for run in checked for at, judged in enumerate(run.judged))


def _section(name: str, elements: Iterable[ET.Element]) -> Iterator[str]:
    """Yield an element and those in it, as text."""
    is_empty = True
    for element in elements:
        if is_empty:
            yield f"  <{name}>\n"
        is_empty = False
        yield _element(element, 2)
    yield f"  <{name} />\n" if is_empty else f"  </{name}>\n"


def _element(element: ET.Element, level: int) -> str:
    ET.indent(element, level=level)
    return f"{'  ' * level}{ET.tostring(element, encoding='unicode')}\n"


def _definition(run: Checked, at: str, judged: Judged, now: str) -> ET.Element:
    unit = ET.Element(
        "UnitTest", name=_xml_text(_title(run, judged)), storage="agenttape", id=_id("test", run.name, at)
    )
    ET.SubElement(unit, "Execution", id=_id("execution", now, run.name, at))
    ET.SubElement(
        unit,
        "TestMethod",
        codeBase="agenttape",
        adapterTypeName="executor://agenttape",
        className=_xml_text(run.name),
        name=_xml_text(judged.text),
    )
    return unit


def _entry(run: Checked, at: str, _: Judged, now: str) -> ET.Element:
    test, execution = _id("test", run.name, at), _id("execution", now, run.name, at)
    return ET.Element("TestEntry", testId=test, executionId=execution, testListId=_LIST)


def _result_of(run: Checked, at: str, judged: Judged, now: str) -> ET.Element:
    execution = _id("execution", now, run.name, at)
    result = ET.Element(
        "UnitTestResult",
        executionId=execution,
        testId=_id("test", run.name, at),
        testName=_xml_text(_title(run, judged)),
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
            ET.SubElement(output, "StdOut").text = _xml_text("\n".join(told))
        if errors:
            ET.SubElement(ET.SubElement(output, "ErrorInfo"), "Message").text = _xml_text("\n".join(errors))
    return result


def _title(run: Checked, judged: Judged) -> str:
    return f"{run.name}: {judged.text}"


def _id(*parts: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "agenttape\0" + "\0".join(parts).encode("utf-8", "replace").decode()))


FORMS: Mapping[str, Callable[[Sequence[Checked]], Iterable[str]]] = {
    ".md": lambda checked: [markdown(checked)],
    ".sarif": lambda checked: sarif(checked, version("agenttape-core")),
    ".trx": lambda checked: trx(checked, datetime.now(UTC)),
    ".xml": junit,
}
"""The functions that make a report of runs, in parts, by the suffix of its file."""
WRITTEN = (".json", ".txt", *FORMS)  # the suffixes of the files to which a result is written


def write_report(
    file: str | Path, checked: Sequence[Checked], plain: Any, text: str, *, has_table: bool = True
) -> None:
    """Write a result to a file, in the form of its suffix, and make its folder.

    With `has_table`, the text is more than the findings, so that it also belongs into Markdown.
    """
    path = Path(file)
    parts: Iterable[str]
    if path.suffix == ".json":
        parts = json.JSONEncoder(indent=2, default=str).iterencode(plain)
    elif path.suffix == ".md":
        parts = [markdown(checked), *(f"\n{line}" for line in [*fenced(text.splitlines(), "text"), ""] if has_table)]
    else:
        parts = FORMS[path.suffix](checked) if path.suffix in FORMS else [f"{text}\n"]
    write_parts(path, parts)


def write_parts(path: Path, parts: Iterable[str]) -> None:
    """Write a text to a file, and make its folder. The parts are never all in memory: there may be twenty thousand.

    Raises `ConfigurationError` if the file can't be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.writelines(parts)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror or error}") from None
