"""`agenttape check` over what each framework records, and over the same run in other layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .recorded_kinds import QUESTION

WRONG = {
    "functions": ["no_errors: true", "called: {tool: temperature, times: 1}"],
    "langchain": ["never: temperature", "at_most: {steps: 2}", "exactly: []", "output: {regex: '^No'}"],
    "langgraph": ["before: {first: left, then: right, kind: node}", "never: {tool: join, kind: node}"],
    "llamaindex": ["never: temperature", "called: {tool: temperature, arguments: {city: Oslo}}", "at_most: {calls: 1}"],
}
"""What is not."""


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("layout", ["yaml", "jsonl", "jsonl.gz"])
def test_every_framework(kind: str, layout: str, recorded: Path, command: Any) -> None:
    """Checks pass and fail over a run of each framework, in each layout, and cases find it by its prompt."""
    # What is true of the run of each kind.
    checks = {
        "functions": ["called: {tool: temperature, times: 2}", "never: delete_user", "at_most: {calls: 5}"],
        "langchain": [
            "called: {tool: temperature, arguments: {city: Paris}}",
            "trajectory: {strict: [temperature]}",
            "exactly: {calls: [model, tools, model], kind: node}",
            "at_most: {calls: 3, steps: 3}",
            "no_errors: true",
            "output: {contains: '18 degrees'}",
        ],
        "langgraph": [
            "before: {first: left, then: join, kind: node}",
            "called: {tool: right, kind: node}",
            "never: {tool: lost, kind: node}",
            "no_errors: true",
        ],
        "llamaindex": [
            "called: {tool: temperature, arguments: {city: Paris}}",
            "exactly: [temperature]",
            "no_errors: true",
            "output: {contains: '18 degrees in Paris'}",
        ],
    }

    path = recorded.with_suffix(f".{layout}")
    assert layout == "yaml" or command("cassette", "convert", recorded, path).code == 0
    case = f"cases:\n- prompt: {QUESTION}\n  called: temperature\n" if kind in {"langchain", "llamaindex"} else ""
    Path("right.yaml").write_text("checks: 1\nevery:\n" + "".join(f"- {each}\n" for each in checks[kind]) + case)
    Path("wrong.yaml").write_text("checks: 1\nevery:\n" + "".join(f"- {each}\n" for each in WRONG[kind]))
    right = command("check", path, "--checks", "right.yaml")
    assert (right.code, right.err) == (0, ""), right.out
    wrong = command("check", path, "--checks", "wrong.yaml", "--json")
    assert [check["passed"] for check in wrong.json["runs"][0]["checks"]] == [False] * len(WRONG[kind]) + [True, True]
