"""Checks in the hands of other tools: LangSmith's evaluation, a middleware, readers of prompts with answers."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langsmith import Client, evaluate
from langsmith.schemas import Example

from agenttape_core import Session, use_cassette
from agenttape_core.checks import at_most, called, check_run, never, run_of
from agenttape_core.cli.app import run as command

from .fakes import StreamingChat, World, calling, numbered

ORDER = {"order": "A-7"}


def look_up(order: str) -> str:
    """Find an order."""
    return f"{order} cost 5"


def refund(order: str) -> str:
    """Pay back."""
    return f"paid for {order}"


class LookFirst(AgentMiddleware):
    """Refuses to pay back what nobody has looked up, by a check of the run so far."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        call = request.tool_call
        if call["name"] == "refund" and check_run(run_of(self.session), [called("look_up")]).has_failed:
            return ToolMessage("look it up first", tool_call_id=call["id"], status="error")
        return handler(request)


def answer(session: Session, question: str, *, hasty: bool = True) -> list[str]:
    """Return what was said by an agent that pays back before it looks, if it is hasty."""
    wanted = ["refund"] * hasty + ["look_up", "refund"]

    def reply(messages: Any, number: int) -> Any:
        if number > len(wanted):
            return numbered(messages, number)
        return calling((wanted[number - 1], ORDER), number=number)

    model = StreamingChat(world=World(), reply=reply, model_name="gpt-5-mini")
    agent = create_agent(model, [look_up, refund], middleware=[LookFirst(session)])
    result = agent.invoke({"messages": [("user", question)]})
    return [str(message.content) for message in result["messages"] if message.type == "tool"]


def test_checks_in_a_middleware(tmp_path: Path) -> None:
    """A middleware judges the run so far by the words of the gate, when it is recorded and when it is replayed."""
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "run.yaml", mode=mode) as session:
            said = answer(session, "My money, please.")
        assert said == ["look it up first", "A-7 cost 5", "paid for A-7"], mode


def test_an_evaluation_of_langsmith(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set whose rows carry their recordings is evaluated offline by LangSmith, and checks are its evaluators."""
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    rows = []
    for name in ("hasty", "calm"):
        with use_cassette(tmp_path / f"{name}.yaml", mode="all") as session:
            answer(session, name, hasty=name == "hasty")
        rows.append(
            Example(
                id=uuid5(NAMESPACE_URL, name),
                inputs={"question": name},
                metadata={"cassette": str(tmp_path / f"{name}.yaml")},
            )
        )

    def target(inputs: dict[str, Any]) -> dict[str, Any]:
        with use_cassette(tmp_path / f"{inputs['question']}.yaml", mode="none") as session:
            return {"said": answer(session, inputs["question"], hasty=inputs["question"] == "hasty")}

    def policy(run: Any, example: Any) -> dict[str, Any]:
        result = check_run(run_of(example.metadata["cassette"]), [never("delete_user"), at_most(calls=5)])
        return {"key": "policy", "score": not result.has_failed, "comment": "; ".join(map(str, result.findings))}

    offline = Client(
        api_url="http://127.0.0.1:9", api_key="none", info={"version": "offline"}, auto_batch_tracing=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own about a beta
        found = list(
            evaluate(target, data=rows, evaluators=[policy], upload_results=False, client=offline, max_concurrency=0)
        )
    scores = {
        row["example"].inputs["question"]: (row["run"].outputs["said"][-1], result.key, result.score)
        for row in found
        for result in row["evaluation_results"]["results"]
    }
    assert scores == {"calm": ("paid for A-7", "policy", 1), "hasty": ("paid for A-7", "policy", 0)}


def test_what_other_libraries_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line of an export has what DeepEval's test cases and promptfoo's tests are made of."""
    with use_cassette(tmp_path / "run.yaml", mode="all") as session:
        answer(session, "My money, please.", hasty=False)
    assert command(["export", str(tmp_path / "run.yaml"), "--format", "jsonl-trace"]) == 0
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    deepeval = {
        "input": line["prompt"],
        "actual_output": line["response"],
        "tools_called": [
            {"name": call["name"], "input_parameters": call["arguments"]} for call in line["meta"]["tool_calls"]
        ],
        "token_cost": line["meta"].get("dollars"),
        "completion_time": line["meta"]["seconds"],
    }
    assert deepeval["input"] == "My money, please."
    assert deepeval["actual_output"].startswith("answer 3")
    assert deepeval["tools_called"] == [
        {"name": "look_up", "input_parameters": ORDER},
        {"name": "refund", "input_parameters": ORDER},
    ]
