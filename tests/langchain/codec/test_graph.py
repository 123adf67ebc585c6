from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.types import Command, Send, TimeoutPolicy

from agenttape_core.errors import UnreadableValueError, UnrecordableValueError

if TYPE_CHECKING:
    from agenttape_core.schema import ValueCodec

Survives = Callable[[Any], Any]


@pytest.mark.parametrize(
    "command",
    [
        Command(),
        Command(goto="agent"),
        Command(goto=["a", Send("b", {"x": (1,)})], graph=Command.PARENT),
        Command(update={"messages": [ToolMessage("done", tool_call_id="1")]}, goto=("a", "b")),  # type: ignore[arg-type]
        Command(update=[("a", 1)], resume={"id": [1]}),
    ],
    ids=repr,
)
def test_commands_survive(command: Any, survives: Survives, values: ValueCodec) -> None:
    """A command that a tool returned must come back equal, messages in its update included."""
    survives(command)
    assert values.decode(values.encode(command)) == command


def test_the_parent_graph_is_named_by_the_same_object(values: ValueCodec) -> None:
    """`ToolNode` compares a command's graph by identity."""
    decoded = values.decode(json.loads(json.dumps(values.encode(Command(graph=Command.PARENT)))))
    assert decoded.graph is Command.PARENT


def test_a_message_in_two_places_is_one(values: ValueCodec) -> None:
    """A graph gives a message without an id one in place, so copies of it would become two messages."""
    done, other = ToolMessage("done", tool_call_id="1"), ToolMessage("done", tool_call_id="1")
    command = Command(update={"messages": [done, other]}, goto=[Send("a", {"messages": (done,)})])
    decoded = values.decode(values.encode(command))
    first, second = decoded.update["messages"]
    assert decoded == command
    assert decoded.goto[0].arg["messages"][0] is first is not second


def test_only_what_a_command_says_is_written(values: ValueCodec) -> None:
    """Defaults must not be written."""
    assert values.encode(Command(goto="agent")) == {"$command": {"goto": "agent"}}


@pytest.mark.parametrize("timeout", [None, TimeoutPolicy(run_timeout=1.5)])
def test_sends_survive(timeout: Any, values: ValueCodec) -> None:
    """A send must come back equal, with its timeout."""
    send = Send("node", {"message": HumanMessage("x")}, timeout=timeout)
    assert values.decode(values.encode(send)) == send


def test_a_subclass_is_refused(values: ValueCodec) -> None:
    """A subclass would come back as its base: it must be refused while recording."""

    class Special(Send):
        pass

    with pytest.raises(UnrecordableValueError):
        values.encode(Special("node", 1))


@pytest.mark.parametrize(
    "plain",
    [{"$command": {"gotoo": 1}}, {"$command": {"same": [[0]]}}, {"$command": 1}, {"$send": {"node": 1}}, {"$send": []}],
)
def test_malformed_ones_are_refused(plain: Any, values: ValueCodec) -> None:
    """Commands that were edited into something impossible must be refused by our own error."""
    with pytest.raises(UnreadableValueError):
        values.decode(plain)


def test_langgraph_is_never_imported(values: ValueCodec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without LangGraph loaded, a recorded command must be refused with what to import."""
    monkeypatch.delitem(sys.modules, "langgraph.types")
    with pytest.raises(UnreadableValueError, match="import it before the replay"):
        values.decode({"$command": {}})
    assert "langgraph.types" not in sys.modules
