"""Decision models, which `langchain-core` has since 1.8, and the middleware that is built on them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import warnings
from pathlib import Path
from textwrap import dedent
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langsmith.run_helpers import tracing_context
from langsmith.run_trees import RunTree

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_langchain import TapeCallbackHandler, tape
from agenttape_langchain.tape import LATE

from ..kit.replaying import Twice
from .fakes import RunIds, World

decisions = pytest.importorskip("langchain_core.decisions")


class Decider(decisions.BaseDecisionModel):  # type: ignore[misc, name-defined]
    """A remote decision model: it gives another answer each time."""

    world: Any
    model: str = "d"
    label: str = "fast"

    @property
    def _provider(self) -> str:
        return "fake"

    def _classify(self, state: Any, questions: Any) -> Any:
        number = self.world.reach("decision") / 100
        answers: dict[str, Any] = {}
        for key, question in questions.items():
            if question.type == "noul":
                answers[key] = decisions.NoulAnswer(type="noul", noul=number)
            else:
                answers[key] = decisions.ChoiceAnswer(
                    type="choice", choice=self.label, probabilities={self.label: 1.0}, confidence=number
                )
        usage: Any = {"input_tokens": 5, "output_tokens": 2}
        return decisions.ClassifierResponse(model=self.model, answers=answers, usage=usage)


class AsyncDecider(Decider):
    """One with an asynchronous client of its own."""

    async def _aclassify(self, state: Any, questions: Any) -> Any:
        await asyncio.sleep(0)
        return self._classify(state, questions)


class Scripted(GenericFakeChatModel):
    """A chat model that says its lines."""

    model: str = "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


def decide(decider: Any, how: str = "sync", instructions: str = "Is it risky?", config: Any = None) -> Any:
    """Ask if a payment is risky. The ids of messages differ from call to call."""
    question = {"risky": decisions.Noul(instructions=instructions)}
    request = {"state": {"conversation": [HumanMessage("Pay 5 EUR?", id=str(uuid4()))]}, "questions": question}
    if how == "sync":
        return decider.invoke(request, config)
    return asyncio.run(decider.ainvoke(request, config))


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("cls", [Decider, AsyncDecider])
def test_decision_is_replayed(cls: Any, how: str, world: World, twice: Twice) -> None:
    """A decision model isn't asked in a replay, by the other method either, and its answer is the recorded one."""
    recorded = twice(lambda: decide(cls(world=world), how))
    assert [(call.kind, call.name) for call in twice.replay.report.replayed] == [("chat", cls.__name__)]
    assert next(iter(twice.replay.interactions)).outcome.usage.input_tokens == 5
    with twice.replays():
        assert decide(cls(world=world), "async" if how == "sync" else "sync") == recorded


def test_changed_question_is_a_miss(world: World, twice: Twice) -> None:
    """A question that you edit misses, and the miss shows it."""
    twice.record(lambda: decide(Decider(world=world)))
    with pytest.raises(CassetteMissError, match=r"questions\.risky\.instructions"), twice.replays():
        decide(Decider(world=world), instructions="Is it cheap?")


@pytest.mark.parametrize("inside", [False, True])
def test_taped_decision_model(inside: bool, world: World, twice: Twice) -> None:
    """`tape` takes a decision model, alone and inside a binding."""
    decider = Decider(world=world)
    taped = tape(decider.with_config(tags=["a"]) if inside else decider)
    twice(lambda: decide(taped), auto=False)
    assert len(twice.replay.report.replayed) == 1


def test_live_decision_model(world: World, tmp_path: Path) -> None:
    """`live={"Decider"}` asks it for real in a replay."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        decide(Decider(world=world))
    with use_cassette(tmp_path / "c.yaml", live={"Decider"}, to=tmp_path / "derived.yaml"):
        decide(Decider(world=world))
    assert len(world.reached) == 2


def test_candidate_is_not_tried_on_a_decision_model(world: World, twice: Twice) -> None:
    """A chat model that you try on a recording answers in place of your chat model, and of no decision model."""

    def run() -> tuple[str, float]:
        said = Scripted(messages=iter([AIMessage("own")])).invoke("hi").text
        return said, decide(Decider(world=world)).nouls["risky"].noul

    assert twice.record(run) == ("own", 0.01)
    other = Scripted(messages=iter([AIMessage("other")]))
    with twice.replays(candidate=other, to=twice.path.with_name("tried.yaml")):
        assert run() == ("other", 0.01)


@pytest.mark.parametrize("how", ["sync", "async"])
def test_observed_decision_is_replayed(how: str, world: World, tmp_path: Path) -> None:
    """What the callback handler records of a decision model replays at the same location."""
    with TapeCallbackHandler(tmp_path / "c.yaml") as handler:
        recorded = decide(Decider(world=world), how, config={"callbacks": [handler]})
    assert handler.errors == []
    world.gone = True
    with use_cassette(tmp_path / "c.yaml") as replay:
        assert decide(Decider(world=world), how) == recorded
    assert [call.match_rule for call in replay.report.replayed] == ["exact"]


def test_observed_failure_of_a_decision_model(world: World, tmp_path: Path) -> None:
    """The handler records that a decision model failed, and a replay raises the error."""

    class Failing(Decider):
        def _classify(self, state: Any, questions: Any) -> Any:
            raise ValueError("overloaded")

    path, decider = tmp_path / "c.yaml", Failing(world=world)
    with TapeCallbackHandler(path) as handler, pytest.raises(ValueError, match="overloaded"):
        decide(decider, config={"callbacks": [handler]})
    assert handler.errors == []
    with pytest.raises(ValueError, match="overloaded"), use_cassette(path):
        decide(decider)


@pytest.mark.parametrize("how", ["sync", "async"])
def test_router_of_models_is_replayed(how: str, world: World, twice: Twice) -> None:
    """An agent with `ModelRouterMiddleware` takes the recorded route, with equal messages and runs."""

    def router(decider: Any) -> Any:
        """Return an agent whose model a decision model chooses."""
        middleware = pytest.importorskip("langchain.agents.middleware")
        from langchain.agents import create_agent

        def said(text: str) -> Any:
            return Scripted(messages=iter([AIMessage(text)]))

        choices = {name: middleware.ModelChoice(model=said(name), criteria=name) for name in ("fast", "strong")}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is in beta
            route = middleware.ModelRouterMiddleware(choices=choices, instructions="Choose.", classifier=decider)
        return create_agent(said("default"), middleware=[route])

    decider = Decider(world=world, label="strong")

    def run() -> Any:
        decider.label = "fast" if world.gone else "strong"
        agent, seen = router(decider), RunIds()
        config: Any = {"callbacks": [seen]}
        inputs: Any = {"messages": [HumanMessage("Prove it.")]}
        end = agent.invoke(inputs, config) if how == "sync" else asyncio.run(agent.ainvoke(inputs, config))
        return [(message.text, message.id) for message in end["messages"]], end["model_route"], seen.runs

    recorded = twice(run)
    assert recorded[0][-1][0] == "strong"
    assert not twice.replay.report.nondeterminism


@pytest.mark.parametrize("how", ["sync", "async"])
def test_auto_mode_is_replayed(how: str, world: World, twice: Twice) -> None:
    """An agent with `AutoModeMiddleware` lets the same tool calls run, without asking its decision model again."""
    middleware = pytest.importorskip("langchain.agents.middleware")
    if not hasattr(middleware, "AutoModeMiddleware"):
        pytest.skip("langchain has no AutoModeMiddleware yet")
    from langchain.agents import create_agent

    decider = Decider(world=world)

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    def run() -> Any:
        calls: Any = [{"name": "pay", "args": {"amount": n}, "id": str(n)} for n in (5, 6)]
        model = Scripted(messages=iter([AIMessage("", tool_calls=calls), AIMessage("done")]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            auto = middleware.AutoModeMiddleware(tools=[pay], instructions="Is it risky?", classifier=decider)
        agent = create_agent(model, [pay], middleware=[auto])
        inputs: Any = {"messages": [HumanMessage("Pay.")]}
        end = agent.invoke(inputs) if how == "sync" else asyncio.run(agent.ainvoke(inputs))
        return [(message.text, message.id) for message in end["messages"]]

    twice(run)
    assert len(world.reached) == 2


@pytest.mark.parametrize("how", ["sync", "async"])
def test_decisions_of_openai_are_replayed(how: str, twice: Twice) -> None:
    """The decision models of `langchain_openai`, which have an interface of their own, aren't asked in a replay.

    The tokens stand on LangSmith's run, too.
    """
    module = pytest.importorskip("langchain_openai.decisions")
    httpx = pytest.importorskip("langchain_openai._compat").httpx
    asked: list[Any] = []

    def answer(request: Any) -> Any:
        asked.append(json.loads(request.content))
        answers = [{"type": "predicate", "name": "risky", "probability": len(asked) / 10}]
        return httpx.Response(200, json={"model": "d", "answers": answers, "usage": {"input_tokens": 3}})

    transport = httpx.MockTransport(answer)

    def run(instructions: str = "Is it?") -> tuple[Any, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is in beta
            model = module.OpenAIDecisions(
                model="d",
                api_key="none",
                base_url="http://decisions.test",
                http_client=httpx.Client(transport=transport),
                http_async_client=httpx.AsyncClient(transport=transport),
            )
        request: Any = {"input": "Pay?", "questions": {"risky": module.Predicate(instructions=instructions)}}
        traced = RunTree(name="around", run_type="chain")
        with tracing_context(parent=traced, enabled="local"):
            return model.invoke(request) if how == "sync" else asyncio.run(model.ainvoke(request)), traced.extra

    recorded = twice(run)
    assert "usage_metadata" in recorded[1]["metadata"]
    assert len(asked) == 1
    with pytest.raises(CassetteMissError), twice.replays():
        run("Is it not?")


@pytest.mark.process
def test_a_late_family_needs_only_its_module() -> None:
    """A family whose module is imported works where the modules of the other late families do not exist."""
    program = dedent("""
        import importlib, os, sys, traceback
        import langchain_core.runnables
        from agenttape_langchain.tape import LATE, late_family

        assert sys.modules.keys().isdisjoint(LATE)
        for module in LATE:
            if os.fork() == 0:  # all that they share is imported once
                try:
                    importlib.import_module(module)
                    for each in LATE:
                        sys.modules.setdefault(each, None)
                    os.write(1, f"{module} {late_family(module).base.__name__}\\n".encode())
                except ModuleNotFoundError:
                    pass  # of another version of the framework
                except BaseException:
                    traceback.print_exc()
                os._exit(0)
            os.wait()
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) > len(LATE) / 2
