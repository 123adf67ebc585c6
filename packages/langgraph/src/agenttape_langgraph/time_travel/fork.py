"""`time_travel`: fork a recorded run at any of its steps."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property  # noqa: TID251 - of no session, but of the thread that asks
from pathlib import Path

from agenttape_core import Interaction, Session, Step, compare_cassettes, open_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import Plain, value_codec
from agenttape_core.integration.cassettes import CallRecord, Selector, deriving, project_settings, why_not_run
from agenttape_core.tools.compare import Comparison, named_cassette
from agenttape_langgraph.time_travel.initial_checkpoints import initial_checkpoints
from agenttape_langgraph.time_travel.plan import Edit
from agenttape_langgraph.time_travel.reasked_calls import match_on
from agenttape_langgraph.time_travel.recorded_run import PLAN, RecordedRun, RecordedStep
from agenttape_langgraph.time_travel.request import UNCHANGED, ForkRequest, edited_answers, takes
from agenttape_langgraph.time_travel.script import Enter, Leave, Script, adrive, drive
from agenttape_langgraph.time_travel.thread_run import ThreadEnd, ThreadRun

# -- The reasons why an edited answer was never given: the run did not ask for it.


def never_asked(run: RecordedRun, numbers: Collection[int]) -> str:
    """Return why a run did not diverge from its recording, although calls have other answers.

    `numbers` are the interactions with other answers, none of which the run used.
    """
    reasons = (f"interaction {number}, {_named(run, number)}: {_reason(run, number)}" for number in sorted(numbers))
    return "\n  ".join(["answers=...: the run did not diverge, as it asked for none of these calls", *reasons])


def _named(run: RecordedRun, number: int) -> str:
    item = run.cassette.interaction(number)
    return f"{item.kind} {item.name} at {item.address}"


def _reason(run: RecordedRun, number: int) -> str:
    if run.cassette.interaction(number).address.partition("/")[0] not in run.plan.roots:
        return f"it belongs to no invocation of thread {run.plan.thread_id!r}"
    for around in _around(run, number):
        if not _runs_through(around):
            why = "replay-only" if _is_replay_only(around) else why_not_run(around.acts)
            where = f"it lies inside {around.kind} {around.name}, interaction {around.number}"
            remedy = f"give that call another answer: answers={{{around.number}: ...}}"
            return f"{where}, which was replayed and not run ({why})\n    {remedy}"
    return "the graph does not make this call any more, or it is made inside a call that has another answer"


def _around(run: RecordedRun, number: int) -> Iterator[Interaction]:
    """Yield the calls that an interaction lies inside, the innermost first."""
    parent = run.cassette.interaction(number).parent
    while parent is not None:
        around = run.cassette.interaction(parent)
        yield around
        parent = around.parent if around.parent is not None and around.parent < parent else None


def _runs_through(item: Interaction) -> bool:
    named = Selector(project_settings().step_into).selects(item.kind, item.name, item.address)
    return not _is_replay_only(item) and (named or (item.kind == "tool" and item.acts == []))


def _is_replay_only(item: Interaction) -> bool:
    return Selector(project_settings().replay_only).selects(item.kind, item.name, item.address)


_GAP = "gap"


@dataclass(frozen=True)
class Fork(ThreadEnd):
    """A run that was forked from a recorded one.

    Args:
        original: The recorded cassette.
        cassette: The derived cassette.
        forked_at: The place of the fork and the change there; empty if the run never left the recording.
        prefix: The calls that were replayed before the fork.
        replayed: The calls that were replayed after it: those that do not depend on the change.
        live: The calls that were executed: those that do.
        left_out: Recorded invocations and edits that made no sense after the fork, and why.
    """

    original: Path | str
    cassette: Path | str
    forked_at: str
    prefix: tuple[CallRecord, ...]
    replayed: tuple[CallRecord, ...]
    live: tuple[CallRecord, ...]
    left_out: tuple[str, ...] = ()

    @cached_property
    def diff(self) -> Comparison:
        """The recorded run compared with this one. Steps are compared if both were recorded in a session."""
        first, other = open_cassette(self.original), open_cassette(self.cassette)
        observed = any(step.kind == _GAP for cassette in (first, other) for step in cassette.steps())
        return compare_cassettes(first, other, steps=not observed)

    def __str__(self) -> str:
        lines = [
            f"{self.original} → {self.cassette}",
            f"forked     {self.forked_at or 'nowhere: nothing was changed'}",
            f"before     {len(self.prefix)} replayed",
            f"after      {len(self.replayed)} replayed, {len(self.live)} live",
            *(f"  live   {call_record.kind} {call_record.name} at {call_record.address}" for call_record in self.live),
            *(f"left out   {one}" for one in self.left_out),
            *(f"waits for  {one.value!r}" for one in self.interrupts),
        ]
        return "\n".join(lines)


@takes(ForkRequest)
def time_travel(request: ForkRequest) -> Fork:  # noqa: D417 - its arguments are the fields of the request
    """Run a recorded run again, fork it at a step, and see what would have happened.

    The graph really runs, from the recorded inputs and with the recorded answers of humans. Every call is replayed
    until the fork. After it, calls that were recorded are still replayed, and only those that depend on the change are
    executed: models, and tools that `live` names. The result is written to a derived cassette. The recorded cassette
    and the graph's own saver don't change: the run has a saver in memory.

    Args:
        cassette: The recorded run.
        graph: The compiled graph, in its recorded or its present form.
        thread_id: The thread. It may be left out if the cassette has only one.
        inputs: Inputs that replace recorded ones, by the number of the invocation, for example values that a cassette
            cannot hold.
        config: More configuration of the graph; recorded values need not be repeated.
        context: The context of the run, for graphs with a `context_schema`.
        saver: A saver that holds the thread, if the thread had checkpoints before the recording began; by default the
            graph's own. It is only read.
        redact: The rules that the cassette was recorded with, as in `use_cassette`.
        step: The step to fork after: its number in `steps_of`, or the step itself. The state is changed after it, or
            its question gets another answer. Without a change, the run continues from there with the present graph.
        state_update: New values for the state after the step, as `update_state` takes them. For a step of a subgraph,
            they change the state of the subgraph.
        as_node: The node that the new values come from, as in `update_state`.
        answers: Results that replace recorded ones, by the number or the address of the interaction: a text
            or a message for a model, the returned value for a tool, an exception to be raised.
        resume: Another answer to the question of the step, as `Command(resume=...)` takes it. Without `step`, it
            answers the only question of the run.
        to: The derived cassette; by default `NAME.derived.yaml` beside the recorded one.
        live: Which calls without a recording are executed after the fork: `True` for models, embeddings and retrievals;
            kinds and names, such as `{"chat", "search"}`, the only way to execute tools; `False` for none. Others raise
            a miss.

    Raises:
        ConfigurationError: If the arguments do not fit the recording.
        CassetteMissError: If the graph makes a call before the fork that was not recorded, or one after it that may not
            be executed.
        CassetteError: If a cassette cannot be read or written.
    """
    return drive(_fork(request))


@takes(ForkRequest)
async def atime_travel(request: ForkRequest) -> Fork:
    """Do what `time_travel` does, with the asynchronous methods of the graph and the savers."""
    return await adrive(_fork(request))


def _fork(request: ForkRequest) -> Script[Fork]:
    recorded = RecordedRun(named_cassette(request.cassette), request.thread_id)
    point = _fork_point(recorded, request)
    changes = edited_answers(recorded.cassette, request.answers or {})
    initial = yield from initial_checkpoints(recorded, request)

    def revised(step: Step) -> Step | None:
        return run.revised(step)  # which begins when the session is open

    block = deriving(
        recorded.cassette.path,
        to=request.to,
        changes=changes,
        live=request.live,
        origin=lambda: {**_note(point, changes), PLAN: run.plan.to_plain()},
        # An edited answer is the fork where no step is: the run goes on without a stop.
        on_reached=lambda: run.fork() if point is None else None,
        revise=revised,
        match_on=match_on(recorded),
        redact=request.redact,
    )
    session = yield Enter(block)
    run = ThreadRun(
        request,
        recorded,
        session,
        initial,
        fork_point=point,
        resume=request.resume,
        on_fork=block.allow_execution,
        ends=[one for one in recorded.plan.ends if one.graph != recorded.plan.invocations[-1].address],
    )
    end = yield from run.script()
    if point is not None and not run.has_forked:
        raise ConfigurationError(
            f"the run did not come to {point}: the graph no longer takes the steps that were recorded"
        )
    if changes and not run.has_forked:
        raise ConfigurationError(never_asked(recorded, changes))
    yield Leave()
    return _result(recorded, run, session, end, _place(point, request, changes) if run.has_forked else "")


def _result(recorded: RecordedRun, run: ThreadRun, session: Session, end: ThreadEnd, forked_at: str) -> Fork:
    assert session.written is not None
    replayed = session.report.replayed
    prefix = run.prefix if run.has_forked else len(replayed)
    return Fork(
        state=end.state,
        graph=end.graph,
        config=end.config,
        original=recorded.cassette.path,
        cassette=session.written,
        forked_at=forked_at,
        prefix=replayed[:prefix],
        replayed=replayed[prefix:],
        live=session.report.recorded,
        left_out=tuple(run.left_out),
    )


def _note(point: Edit | None, outcomes: Collection[int]) -> dict[str, Plain]:
    """Return the note of the fork in the header of the derived cassette."""
    place = {"fork": {"graph": point.graph, "superstep": point.superstep}} if point is not None else {}
    return {**place, **({"answers": sorted(outcomes)} if outcomes else {})}


def _place(point: Edit | None, request: ForkRequest, outcomes: Collection[int]) -> str:
    """Return the place of the fork and the change there, in words."""
    edited = [f"edited answer of interaction {number}" for number in sorted(outcomes)]
    if point is None:
        return ", ".join(edited)
    state = ["state changed"] if point.edits_state else []
    answer = ["different answer"] if request.resume is not UNCHANGED else []
    return f"after {point.graph}@{point.superstep}: {', '.join([*state, *answer, *edited]) or 'no change'}"


def _fork_point(run: RecordedRun, request: ForkRequest) -> Edit | None:
    step = run.step(request.step) if request.step is not None else None
    edits = request.state_update is not UNCHANGED
    if request.resume is not UNCHANGED:
        step = _asking(run, step)
        _check_answers(step, request.resume)
    if edits and step is None:
        raise ConfigurationError("state_update=... needs the step after which to change the state: step=...")
    if request.as_node is not None and not edits:
        raise ConfigurationError(
            f"as_node={request.as_node!r} names the node that a state_update comes from, and there is no state_update"
        )
    if step is None:
        return None
    if not edits:
        return step.edit()
    return step.edit(edits_state=True, values=value_codec().encode(request.state_update), as_node=request.as_node)


def _check_answers(step: RecordedStep, resume: object) -> None:
    """Check that an answer to several questions names which it is for, as LangGraph wants it."""
    ids = [one.id for one in step.interrupts]
    if len(ids) <= 1 or (isinstance(resume, dict) and resume and all(key in ids for key in resume)):
        return
    questions = "\n".join(f"  {one.id}  {one.value!r}" for one in step.interrupts)
    raise ConfigurationError(
        f"resume={resume!r}: step {step.number} asks {len(ids)} questions, and each answer needs the id of its own\n"
        f"{questions}\n"
        f"  resume={{{', '.join(f'{one!r}: ...' for one in ids)}}}"
    )


def _asking(run: RecordedRun, step: RecordedStep | None) -> RecordedStep:
    """Return the step whose question gets another answer."""
    if step is not None:
        if not step.interrupts:
            raise ConfigurationError(f"resume=...: step {step.number}, {step.address}, did not stop to ask anything")
        return step
    asking = [one for one in run.steps if one.interrupts and "/" not in one.graph]
    if len(asking) != 1:
        numbers = ", ".join(str(one.number) for one in asking) or "none"
        raise ConfigurationError(
            f"resume=...: expected step=..., the step whose question it answers; steps that ask: {numbers}"
        )
    return asking[0]
