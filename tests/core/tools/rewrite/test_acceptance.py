"""A cassette that was recorded before a rule existed replays, once it is redacted, in sessions that have the rule."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.cli.app import run

SECRET = "Bluebird-" + "Seven9"
"""Nothing but a rule gives it away."""
QUESTION = f"What is {SECRET} about?"
RULES = """\
[tool.agenttape]
redaction_rules = [{name = "project", env = "PROJECT"}, {name = "customer", keys = ["customer_id"]}]
"""


def test_replays_after_the_rule(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret is in no byte any more, and a program that holds it gets it back."""
    reached: list[str] = []

    @boundary("tool")
    def tell(question: str, *, customer_id: str) -> dict[str, Any]:
        reached.append("tell")
        return {"asked": json.dumps({"q": question}), "customerId": customer_id, "data": question.encode() * 1000}

    @boundary("chat")
    def speak(question: str) -> Iterator[str]:
        reached.append("speak")
        for at in range(0, len(question), 4):
            yield question[at : at + 4]

    @boundary("tool")
    def refuse(question: str) -> None:
        reached.append("refuse")
        raise LookupError(question)

    def program() -> list[Any]:
        """Ask functions: an error, data that is large enough for a file of its own, and a stream."""
        with pytest.raises(LookupError) as refused:
            refuse(QUESTION)
        return [str(refused.value), tell(QUESTION, customer_id="c-4711"), "".join(speak(QUESTION))]

    with use_cassette("run.yaml", mode="all"):
        recorded = program()
    assert SECRET in Path("run.yaml").read_text()
    reached.clear()

    monkeypatch.setenv("PROJECT", SECRET)
    (project / "pyproject.toml").write_text(RULES)
    assert run(["check", "--only", "secrets", "."]) == 1
    assert run(["cassette", "redact", "."]) == 0
    assert run(["check", "--only", "secrets", "."]) == 0

    for path in project.rglob("*"):
        for piece in (SECRET[:8], SECRET[9:]):
            assert path.is_dir() or piece.encode() not in path.read_bytes(), path
    with use_cassette("run.yaml"):
        assert program() == recorded
    assert reached == []
