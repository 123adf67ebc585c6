"""Findings as SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/), which forges show beside the code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from agenttape_core.tools.reporting.findings import Checked, Finding


def sarif(checked: Iterable[Checked], version: str) -> str:
    """Return the report: a result for each finding, at the line of its record.

    Args:
        checked: The runs.
        version: The version of AgentTape.
    """
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
    return json.dumps(report, indent=2) + "\n"


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
