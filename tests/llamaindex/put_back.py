"""Programs that `verify` replays with old defects put back, by undoing what corrects them.

Only child processes import this with `PUT_BACK` set: there, each program runs without what it depends on.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from unittest.mock import patch

from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import EntityNode, Relation
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_core.scheduling import Scheduler
from agenttape_llamaindex import property_graphs, tools

PLACES = ["Bergen", "Bodø", "Oslo", "Røros", "Tromsø", "Voss"]
BRANCHES = "abc"


@boundary
def tell(what: str) -> str:
    """Return what a model says to a text."""
    return f"heard {what}"


def set_in_a_prompt() -> str:
    """Return what a tool has returned as a model is shown it, which is a set."""
    return str(FunctionTool.from_defaults(lambda: set(PLACES), name="places")().content)


def triplets() -> str:
    """Return the triplets of a property graph, which LlamaIndex keeps in a set."""
    store = SimplePropertyGraphStore()
    store.upsert_nodes([EntityNode(name=name) for name in PLACES])
    store.upsert_relations([Relation(label="NEAR", source_id=PLACES[0], target_id=other) for other in PLACES[1:]])
    return " ".join(other.id for _, _, other in store.get_triplets(relation_names=["NEAR"]))


class _Asked(Event):
    name: str


class _Answered(Event):
    name: str


class _FanOut(Workflow):
    """Asks side by side, and takes the answers as they come: when recorded, the last one comes first."""

    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> _Asked | None:
        self.turns = {name: asyncio.Event() for name in BRANCHES}
        self.turns[BRANCHES[-1]].set()
        self.came: list[str] = []
        for name in BRANCHES:
            ctx.send_event(_Asked(name=name))
        return None

    @step(num_workers=len(BRANCHES))
    async def answer(self, ctx: Context, ev: _Asked) -> _Answered:
        @boundary
        async def find(name: str) -> str:
            await self.turns[name].wait()
            return name

        return _Answered(name=await find(ev.name))

    @step(num_workers=1)
    async def join(self, ev: _Answered) -> StopEvent | None:
        self.came.append(ev.name)
        self.turns[BRANCHES[BRANCHES.index(ev.name) - 1]].set()  # so the loop takes up one after the other
        return StopEvent(result=" ".join(self.came)) if len(self.came) == len(BRANCHES) else None


def fan_out() -> str:
    """Return the answers of the fan-out as they came."""

    async def run() -> str:
        return str(await _FanOut().run())

    return asyncio.run(run())


def _without_order(begin: Callable[..., None]) -> Callable[..., None]:
    return lambda self, recorded=None, **how: begin(self, recorded, **{**how, "imposes": False})


def all_programs() -> dict[str, str]:
    """Run each of the programs under a cassette of its own, tell a model what it returns, and return that."""
    with ExitStack() as undone:
        if "PUT_BACK" in os.environ:
            undone.enter_context(patch.object(tools, "recorded_text", lambda _, text: text))
            undone.enter_context(patch.object(property_graphs, "in_order", lambda real: real))
            undone.enter_context(patch.object(Scheduler, "__init__", _without_order(Scheduler.__init__)))
        found = {}
        for program in (set_in_a_prompt, triplets, fan_out):
            name = program.__name__
            with suppress(CassetteMissError), use_cassette(name, mode="once"):
                found[name] = program()
                tell(found[name])
        return found
