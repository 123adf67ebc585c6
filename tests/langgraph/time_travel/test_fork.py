"""A recorded run is forked at any step, or by one of its messages."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import RetryPolicy

from agenttape_core import compare_cassettes, open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError
from agenttape_langgraph import atime_travel, replay_thread, steps_of, time_travel

from ..fakes import PlainChat, World
from .conftest import Record
from .threads import ANSWERED, STEPS, Log, approval, fan, loop, observed, taped

# -- A recorded run is forked at any step: calls that do not depend on the change are replayed, others are executed ----

HELLO: Any = [{"log": ["hello"]}]


BOTH = pytest.mark.parametrize("record", [observed, taped])
"""Of a test that reads what only one of the two ways to record might keep."""


def reached(world: World, since: int) -> list[str]:
    """Return the calls that reached the world since."""
    return world.reached[since:]


@BOTH
def test_steps_are_listed(world: World, record: Record, path: Path) -> None:
    """Each superstep of each graph is a step: its nodes, its subgraph, its questions, and the invocation."""
    record(path, approval(world), ANSWERED)
    steps = steps_of(path)
    listed = [(step.nodes, step.namespace, step.superstep, step.invocation) for step in steps]
    assert listed == [
        (("__start__",), (), 0, 1),
        (("greet",), (), 1, 1),
        (("order",), (), 2, 1),
        (("__start__",), ("order",), 0, 1),
        (("pay",), ("order",), 1, 1),
        (("order",), (), 2, 2),
        (("pay",), ("order",), 1, 2),
        (("send",), ("order",), 2, 2),
        (("thank",), (), 3, 2),
    ]
    assert [step.number for step in steps] == list(range(1, 10))
    asked = {step.number: [one.value["question"] for one in step.interrupts] for step in steps if step.interrupts}
    assert asked == {3: ["where to?"], 5: ["where to?"]}
    assert "pay in order  asks {'paid': 'charge 2 of 7'" in str(steps[4])


@pytest.mark.sweep
@BOTH
@pytest.mark.parametrize("step", [None, 1, 7, STEPS + 1])
def test_untouched_replay(world: World, record: Record, path: Path, step: int | None) -> None:
    """A replay from any step without a change executes nothing, ends as recorded, and has no difference."""
    values = record(path, loop(world), HELLO)
    before = len(world.reached)
    fork = time_travel(path, loop(world).compile(), step=step)
    assert fork.values == values
    assert reached(world, before) == []
    assert (fork.live, fork.left_out) == ((), ())
    assert len(fork.prefix) + len(fork.replayed) == STEPS
    assert len(fork.prefix) == (STEPS if step is None else step - 1)
    assert fork.diff.identical, str(fork.diff)


@pytest.mark.parametrize("step", [2, 11, 20])
def test_state_edit(world: World, record: Record, path: Path, step: int) -> None:
    """With a changed state, no call before it is executed, and the calls after it are executed and listed."""
    original = record(path, loop(world), HELLO)["log"]
    written = path.read_bytes()
    before = len(world.reached)
    fork = time_travel(path, loop(world).compile(), step=step, state_update={"log": ["but wait"]})
    log = fork.values["log"]
    assert log[: step + 1] == [*original[:step], "but wait"]
    assert len(log) > STEPS
    live = reached(world, before)
    assert len(live) == len(fork.live) == len(log) - step - 1
    assert [call_record.number for call_record in fork.prefix] == list(range(1, step))
    assert all(call_record.address.startswith("LangGraph/") for call_record in fork.live)
    assert f"{len(live)} live" in str(fork)
    assert path.read_bytes() == written
    divergence = fork.diff.first_divergence
    assert divergence is not None
    kept = [one for one in fork.diff if one.what == "interaction" and one.state == "same"]
    assert [one.first for one in kept] == list(range(1, step))


@BOTH
def test_edited_answer(world: World, record: Record, path: Path) -> None:
    """With an edited answer of the model, calls before it are replayed, and those that depend on it are executed."""
    original = record(path, loop(world), HELLO)["log"]
    before = len(world.reached)
    fork = time_travel(path, loop(world).compile(), answers={6: "something else"})
    log = fork.values["log"]
    assert log[:6] == original[:6]
    assert log[6] == "act: something else"
    assert len(fork.prefix) == 6
    assert len(reached(world, before)) == len(fork.live) == STEPS - 6
    divergence = fork.diff.first_divergence
    assert divergence is not None
    assert (divergence.what, divergence.first, divergence.state) == ("interaction", 6, "changed")
    told = {found.path: found.asked for found in divergence.differences}
    assert "{+something+} {+else+}" in told["outcome.value.$chat_result.message.content"]
    derived = open_cassette(fork.cassette)
    assert derived.interaction(6).tags == ["edited"]
    assert derived.preface.derived_from == path.name
    assert derived.preface.origin["answers"] == [6]


@pytest.mark.parametrize(
    "answer", ["text", AIMessage("text"), ValueError("the model is down")], ids=["text", "message", "error"]
)
def test_answers_of_models(world: World, record: Record, path: Path, answer: Any) -> None:
    """A model's answer may become a text, a message, or an error, by the address of its interaction."""
    record(path, loop(world), HELLO)
    address = open_cassette(path).entries[-1].address
    graph = loop(world).compile()
    if isinstance(answer, Exception):
        with pytest.raises(ValueError, match="the model is down"):
            time_travel(path, graph, answers={address: answer})
    else:
        assert time_travel(path, graph, answers={address: answer}).values["log"][-1] == "act: text"


def test_edit_in_one_of_several_branches(world: World, record: Record, path: Path) -> None:
    """An edit in one parallel branch executes the later calls of that branch; the others are replayed."""
    original = record(path, fan(world), HELLO)["log"]
    cassette = open_cassette(path)
    entries = {entry.number: entry for entry in cassette.entries}
    draft = next(
        n for n in entries if "draft after part 2" in cassette.interaction(n).request["messages"][0]["content"]
    )
    before = len(world.reached)
    fork = time_travel(path, fan(world).compile(), answers={draft: "a better draft"})
    assert len(reached(world, before)) == 1
    (live,) = fork.live
    assert live.address.startswith(entries[draft].address.partition("/draft@")[0])
    assert "/polish@2/" in live.address
    log = fork.values["log"]
    assert [index for index, (old, new) in enumerate(zip(original, log, strict=True)) if old != new] == [6, 7]
    assert log[6] == "draft: a better draft"
    changed = [change.first for change in fork.diff.changes if change.what == "interaction"]
    assert len(changed) == 2
    assert changed[0] == draft


@BOTH
def test_state_edit_in_a_nested_branch(world: World, record: Record, path: Path) -> None:
    """A state edit in the subgraph of one parallel branch leaves the other branches as they were, and replayed."""
    original = record(path, fan(world), HELLO)["log"]
    drafts = [step for step in steps_of(path) if step.nodes == ("draft",)]
    assert len(drafts) == 4
    chosen = drafts[1]
    before = len(world.reached)
    fork = time_travel(path, fan(world).compile(), step=chosen, state_update={"log": ["remember the tests"]})
    assert len(reached(world, before)) == len(fork.live) == 1
    assert fork.live[0].address.startswith(chosen.graph)
    log = fork.values["log"]
    assert "remember the tests" in log
    assert [line for line in log if line in original] == [
        line for line in original if line != original[5] and "lines" not in line
    ]


@BOTH
def test_another_answer_of_a_human(world: World, record: Record, path: Path) -> None:
    """With another answer to an interrupt, calls before it are replayed, and calls that depend on it are executed."""
    values = record(path, approval(world), ANSWERED)
    assert values["log"][-2].endswith("to to Paris")
    before = len(world.reached)
    fork = time_travel(path, approval(world).compile(), resume="Rome", live={"chat", "ship"})
    assert reached(world, before) == ["ship", "model"]
    assert fork.values["log"][-3:-1][0] == "to Rome"
    assert fork.values["log"][:3] == values["log"][:3]
    assert [call_record.name for call_record in fork.live] == ["ship", "PlainChat"]
    assert {call_record.name for call_record in fork.replayed} == {"charge"}
    assert fork.diff.first_divergence is not None


def test_first_answer_of_a_human(world: World, record: Record, path: Path) -> None:
    """A recorded thread that waits for an answer gets one; calls before the interrupt are not made again."""
    record(path, approval(world), ANSWERED[:1])
    before = len(world.reached)
    fork = time_travel(path, approval(world).compile(), resume="Oslo", live={"chat", "ship"})
    assert reached(world, before) == ["ship", "model"]
    assert fork.values["log"][-2].endswith("to to Oslo")


@BOTH
def test_recorded_answers_are_fed_back(world: World, record: Record, path: Path) -> None:
    """A run that is forked where it asked a human goes on with the answer that the human gave."""
    record(path, approval(world), ANSWERED)
    before = len(world.reached)
    asked = next(step for step in steps_of(path) if step.interrupts)
    fork = time_travel(path, approval(world).compile(), step=asked)
    assert fork.values["log"][-2].endswith("to to Paris")
    assert [call_record.name for call_record in fork.prefix] == ["PlainChat", "charge"]
    assert reached(world, before) == []


def test_state_edit_at_an_interrupt(world: World, record: Record, path: Path) -> None:
    """The state of a subgraph is changed where it waits for a human, whose recorded answer then follows."""
    record(path, approval(world), ANSWERED)
    asked = next(step for step in steps_of(path) if step.interrupts and step.namespace)
    before = len(world.reached)
    fork = time_travel(
        path, approval(world).compile(), step=asked, state_update={"log": ["edited"]}, as_node="__start__"
    )
    assert "edited" in fork.values["log"]
    assert "charge" not in reached(world, before)
    assert fork.interrupts == ()


def test_answers_that_nobody_asks_for_are_left_out(world: World, record: Record, path: Path) -> None:
    """A recorded answer to a question that the edited run does not ask is left out, and printed."""
    record(path, approval(world), ANSWERED)
    greeted = next(step for step in steps_of(path) if step.nodes == ("greet",))
    fork = time_travel(path, approval(world).compile(), step=greeted, state_update={"log": ["skip"]}, as_node="thank")
    assert fork.left_out == ("invocation 2 (an answer): no question waits for an answer",)
    assert "left out" in str(fork)


def test_live_calls_are_refused(world: World, record: Record, path: Path) -> None:
    """With live=False, for tools by default, and for what is not named, a call without a recording is a miss."""
    record(path, approval(world), ANSWERED)
    before = len(world.reached)
    for live in (False, True, {"chat"}):
        with pytest.raises(CassetteMissError, match="ship"):
            time_travel(path, approval(world).compile(), resume="Rome", live=live)
    assert reached(world, before) == []
    assert not (path.parent / "thread.derived.yaml").exists()
    assert len(time_travel(path, approval(world).compile(), resume="Rome", live={"chat", "ship"}).live) == 2


@BOTH
@pytest.mark.parametrize("live", [True, False])
def test_a_retry_after_an_injected_error_is_replayed(world: World, record: Record, path: Path, live: bool) -> None:
    """The next attempt gets what was recorded: a tool that is retried is not really called, whatever is live."""

    @tool
    def send_mail(to: str) -> str:
        """Send a mail."""
        return f"mail {world.reach('mail')} to {to}"

    builder = StateGraph(Log)
    policy = RetryPolicy(initial_interval=0.01, retry_on=ConnectionError)
    builder.add_node("send", lambda _: {"log": [send_mail.invoke({"to": "ada"})]}, retry_policy=policy)
    builder.add_edge(START, "send")
    values = record(path, builder, HELLO)
    world.gone = True
    fork = time_travel(path, builder.compile(), answers={1: ConnectionError("429")}, live=live)
    assert (fork.values, fork.live, len(fork.prefix + fork.replayed)) == (values, (), 2)
    outcomes = [item.outcome.status for item in open_cassette(fork.cassette).interactions()]
    assert sorted(outcomes) == ["raised", "returned"]
    assert replay_thread(fork.cassette, builder.compile()).values == values
    assert world.trespasses == []


def test_changed_code_before_the_fork_is_a_miss(world: World, record: Record, path: Path) -> None:
    """Calls before the fork must be as recorded: another prompt there is a miss, not a live call."""
    record(path, loop(world), HELLO)
    builder = loop(world)
    other = loop(world)
    other.nodes["act"] = builder.nodes["think"]
    before = len(world.reached)
    with pytest.raises(CassetteMissError, match='in node "act", step 2'):
        time_travel(path, other.compile(), step=9, state_update={"log": []})
    assert reached(world, before) == []


def test_derived_cassettes_replay(world: World, record: Record, path: Path) -> None:
    """A derived cassette holds the new run whole: it is replayed with its edits at no cost, and forked again."""
    record(path, loop(world), HELLO)
    first = time_travel(path, loop(world).compile(), step=5, state_update={"log": ["one"]}, to=path.parent / "one.yaml")
    world.gone = True
    replayed = replay_thread(first.cassette, loop(world).compile())
    assert replayed.values == first.values
    assert len(replayed.report.replayed) == len(first.prefix) + len(first.replayed) + len(first.live)
    again = time_travel(first.cassette, loop(world).compile(), to=path.parent / "two.yaml")
    assert again.diff.identical, str(again.diff)
    world.gone = False
    second = time_travel(first.cassette, loop(world).compile(), answers={9: "two"}, to=path.parent / "three.yaml")
    assert second.values["log"][5] == "one"
    assert any("two" in line for line in second.values["log"])
    assert compare_cassettes(first.cassette, second.cassette, steps=False).counts["same"] == 8


async def test_asynchronous_fork(world: World, record: Record, path: Path) -> None:
    """An asynchronous fork comes to the same."""
    record(path, approval(world), ANSWERED)
    before = len(world.reached)
    fork = await atime_travel(path, approval(world).compile(), resume="Rome", live={"chat", "ship"})
    assert reached(world, before) == ["ship", "model"]
    greeted = next(step for step in steps_of(path) if step.nodes == ("greet",))
    edited = await atime_travel(
        path, approval(world).compile(), step=greeted, state_update={"log": ["x"]}, to=path.parent / "x.yaml"
    )
    assert edited.values["log"][2] == "x"
    assert fork.values["log"][-3] == "to Rome"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"step": 0}, "has steps 1 to 21"),
        ({"step": 99}, "has steps 1 to 21"),
        ({"step": "3"}, "has steps 1 to 21"),
        ({"state_update": {}}, "needs the step"),
        ({"step": 3, "as_node": "act"}, "there is no state_update"),
        ({"step": 3, "resume": "x"}, "did not stop to ask"),
        ({"resume": "x"}, "steps that ask: none"),
        ({"answers": {77: "x"}}, "it holds no such interaction"),
        ({"answers": {1: 7}}, "expected a text or a message for a chat model"),
        ({"thread_id": "7"}, "holds the threads '42'"),
        ({"to": "SELF"}, "cannot be derived from itself"),
    ],
)
def test_arguments_that_do_not_fit(
    world: World, path: Path, arguments: dict[str, Any], said: str, recorded_loop: Path
) -> None:
    """Arguments that do not fit the recording are refused with those that would."""
    if arguments.get("to") == "SELF":
        arguments = {"to": recorded_loop}
    with pytest.raises(ConfigurationError, match=said):
        time_travel(recorded_loop, loop(world).compile(), **arguments)


def test_what_is_no_graph_is_refused(world: World, recorded_loop: Path) -> None:
    """A builder that is not compiled, or another object, is refused by its type."""
    builder: Any = loop(world)
    with pytest.raises(ConfigurationError, match="found a StateGraph; compile the builder first"):
        time_travel(recorded_loop, builder)
    with pytest.raises(ConfigurationError, match="expected a compiled graph, found a int"):
        replay_thread(recorded_loop, 7)  # type: ignore[arg-type]


def test_signatures_show_every_argument() -> None:
    """`help` and editors show the arguments of a request, of the synchronous function and of the asynchronous one."""
    shown = inspect.signature(time_travel)
    assert list(shown.parameters)[:3] == ["cassette", "graph", "thread_id"]
    assert {shown.parameters[name].default for name in ("step", "to", "live")} == {None, True}
    assert inspect.signature(atime_travel) == shown
    assert inspect.iscoroutinefunction(atime_travel)
    assert set(inspect.signature(replay_thread).parameters) < set(shown.parameters)


# -- A conversation is forked by editing one of its messages -----------------------------------------------------------

ANSWERS = 20


def test_message_is_edited_by_its_id(world: World, tmp_path: Path) -> None:
    """Before an edited message nothing is executed; each answer that follows it is, and is listed."""

    def talking(world: World) -> Any:
        """Two nodes that take turns, until there are twenty answers."""
        model = PlainChat(world=world, reply=lambda messages, n: AIMessage(f"answer {n} to {len(messages)}"))

        def say(state: MessagesState) -> dict[str, Any]:
            return {"messages": [model.invoke(state["messages"])]}

        builder = StateGraph(MessagesState).add_node("think", say).add_node("act", say)
        builder.add_edge(START, "think").add_edge("think", "act")
        return builder.add_conditional_edges("act", lambda state: END if len(state["messages"]) > ANSWERS else "think")

    path, thread = tmp_path / "talk.yaml", {"configurable": {"thread_id": "1"}}
    with use_cassette(path, mode="all"):
        recorded = talking(world).compile(checkpointer=InMemorySaver()).invoke({"messages": [("user", "Hi")]}, thread)
    before = len(world.reached)
    assert (before, len(steps_of(path))) == (ANSWERS, ANSWERS + 1)
    edited = AIMessage("EDITED", id=recorded["messages"][7].id)

    fork = time_travel(
        path, talking(world).compile(), step=8, state_update={"messages": [edited]}, to=tmp_path / "other.yaml"
    )

    messages = fork.values["messages"]
    assert messages[7] == edited
    assert messages[:7] == recorded["messages"][:7]
    assert len(fork.prefix) == 7
    assert len(fork.live) == len(world.reached) - before == len(messages) - 8 == ANSWERS - 7
