"""The requests behind the public functions, and functions that take the fields of a request as arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel

from agenttape_core import Change, Rule, raises, returns
from agenttape_core.errors import ConfigurationError
from agenttape_core.integration.cassettes import Cassette, Location
from agenttape_langgraph.time_travel.recorded_run import RecordedStep
from agenttape_langgraph.time_travel.script import Graph

# -- Edited answers: results that the user gives to recorded calls, as changes of those.

Answers = Mapping[int | str, Any]
"""Results of calls, by the number or the address of the interaction.

A text or a message for a chat model, a text for a text model, the returned value for everything else. An exception is
raised, and a change, such as `edits(...)`, is made.
"""


def edited_answers(cassette: Cassette, answers: Answers) -> dict[int, Change]:
    """Return the changes for edited answers, by the number of the interaction.

    Raises `ConfigurationError` if there's no such interaction, or several have the address.
    """
    changes: dict[int, Change] = {}
    for key, answer in answers.items():
        found = [entry.number for entry in cassette.entries if key in (entry.number, entry.address)]
        if len(found) != 1:
            problem = (
                f"the interactions {', '.join(map(str, found))} have it" if found else "it holds no such interaction"
            )
            raise ConfigurationError(
                f"answers={{{key!r}: ...}}: expected the number or the address of one interaction of {cassette.path}; "
                f"{problem}"
            )
        changes[found[0]] = _change(answer)
    return changes


def _change(answer: Any) -> Change:
    if isinstance(answer, Change):
        return answer
    return raises(answer) if isinstance(answer, Exception) else returns(answer)


P = ParamSpec("P")
RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")


class _Unchanged:
    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Any = _Unchanged()
"""The default of an argument for which `None` is a value."""


@dataclass(frozen=True, slots=True, eq=False)
class ThreadRequest:
    """The arguments of `replay_thread`, which describes them.

    Raises:
        ConfigurationError: If the graph is not compiled.
    """

    cassette: str | Location | Cassette
    graph: Graph
    _: KW_ONLY
    thread_id: str | None = None
    inputs: Mapping[int, Any] | None = None
    config: RunnableConfig | None = None
    context: Any = None
    saver: BaseCheckpointSaver[Any] | None = None
    redact: bool | Sequence[Rule] = True

    def __post_init__(self) -> None:
        graph: Any = self.graph
        if not isinstance(graph, Pregel):
            hint = "; compile the builder first" if hasattr(graph, "compile") else ""
            raise ConfigurationError(f"graph: expected a compiled graph, found a {type(graph).__qualname__}{hint}")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ForkRequest(ThreadRequest):
    """The arguments of `time_travel`, which describes them."""

    step: int | RecordedStep | None = None
    state_update: Any = UNCHANGED
    as_node: str | None = None
    answers: Answers | None = None
    resume: Any = UNCHANGED
    to: str | Path | None = None
    live: bool | Collection[str] = True


def takes(request: Callable[P, RequestT]) -> Callable[[Callable[[RequestT], ResultT]], Callable[P, ResultT]]:
    """Let a function of a request be called with the arguments that make the request.

    A function and its asynchronous twin then share one list of arguments. The result has that signature, for `help` and
    for editors.
    """

    def decorate(function: Callable[[RequestT], Any]) -> Callable[P, Any]:
        call: Any
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def call(*args: P.args, **kwargs: P.kwargs) -> Any:
                return await function(request(*args, **kwargs))

        else:

            @functools.wraps(function)
            def call(*args: P.args, **kwargs: P.kwargs) -> Any:
                return function(request(*args, **kwargs))

        parameters = list(inspect.signature(request).parameters.values())
        call.__signature__ = inspect.signature(function).replace(parameters=parameters)
        return call  # type: ignore[no-any-return]

    return decorate
