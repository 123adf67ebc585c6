"""Each check of the suite fails on an integration that is broken there, and no other check does.

An integration is broken by a small change of the reference: the body of the request, the session that is asked for, one
of the shapes. The checks that it breaks nothing of must still pass, so each of them tests what its name says.
"""

# ruff: noqa: D103 - what is broken is said by the docstring of each class, or by the name of the function

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agenttape_core.errors import CassetteMissError, SessionStateError
from agenttape_core.integration import (
    Boundary,
    Position,
    Session,
    SessionCall,
    Slot,
    current_session,
    executing,
    intercept,
    times_left,
)
from agenttape_core.integration.threads import task_branch
from agenttape_core.session.session import SCOPES
from agenttape_core.testing import IntegrationConformance, ScriptedError, Shape, World, run_conformance
from agenttape_core.testing.running import checks_of

from .reference import CLIENT, Answer, Client, ClientConformance, Piece, TapedClient, automatic, joined, tape

Suite = type[ClientConformance]
BROKEN: list[tuple[str, Suite]] = []


def breaks(check: str, *shapes: Shape) -> Callable[[type], type]:
    """Note that a taped client, or a suite, is broken so that a check fails; run the suite for these shapes."""

    def note(broken: type) -> type:
        of_shapes = {"shapes": shapes or ("call",), "options": {"freeze": ()}}
        if issubclass(broken, TapedClient):
            suite = type(broken.__name__, (ClientConformance,), {**of_shapes, "taped": broken})
        else:
            suite = type(broken.__name__, (broken,), of_shapes)
        suite.__qualname__ = f"{broken.__qualname__}.<locals>.Suite"  # no child process can import it
        BROKEN.append((check, suite))
        return broken

    return note


def replaying() -> bool:
    session = current_session()
    return session is not None and session.policy.offline


def recording() -> bool:
    session = current_session()
    return session is not None and not session.policy.offline


# -- results -------------------------------------------------------------------------------------------------------


@breaks("test_replayed_answer_equals_the_recorded_one")
class LosesAField(TapedClient):
    """A field of the answer does not come back."""

    def ask(self, question: str) -> Answer:
        return replace(super().ask(question), tokens=0) if replaying() else super().ask(question)


@breaks("test_replayed_answer_equals_the_recorded_one")
class LosesTheId(TapedClient):
    """The id of the answer is made anew."""

    def ask(self, question: str) -> Answer:
        return replace(super().ask(question), id="another") if replaying() else super().ask(question)


class OtherAnswer(Answer):
    """An answer of another type."""


@breaks("test_replayed_answer_equals_the_recorded_one")
class LosesTheType(TapedClient):
    """The answer comes back as another type."""

    def ask(self, question: str) -> Answer:
        answer = super().ask(question)
        return OtherAnswer(**vars(answer)) if replaying() else answer


@breaks("test_recording_makes_the_real_call_once")
class CallsTwice(TapedClient):
    """The real thing is asked twice."""

    def ask(self, question: str) -> Answer:
        answer = super().ask(question)
        if recording() and executing() is None:
            self.world.ask(question)
        return answer


@breaks("test_recording_makes_the_real_call_once")
class ChangesTheAnswer(TapedClient):
    """In a session, the caller gets an answer of another type."""

    def ask(self, question: str) -> Answer:
        answer = super().ask(question)
        return OtherAnswer(**vars(answer)) if current_session() is not None else answer


@breaks("test_replay_never_makes_the_real_call")
class LooksAtTheWorld(TapedClient):
    """The real thing is asked on replay too, and what comes of it is thrown away."""

    def ask(self, question: str) -> Answer:
        answer = super().ask(question)
        if replaying():
            with suppress(AssertionError):
                self.world.ask(question)
        return answer


@breaks("test_one_call_is_one_interaction")
class RecordsItsOwnParts(TapedClient):
    """The stream that a plain call is made of is recorded beside it."""

    def cross(self, question: str, shape: Shape) -> SessionCall | None:
        session = current_session()
        return self.session_call(session, question, shape) if session is not None else None

    def body(self, question: str, shape: Shape) -> dict[str, Any]:
        return {**super().body(question, shape), "part": self.is_inside_itself()}


@breaks("test_shapes_answer_each_other", "call", "stream")
class SaysHowItIsAsked(TapedClient):
    """The request says whether it was streamed."""

    def body(self, question: str, shape: Shape) -> dict[str, Any]:
        return {**super().body(question, shape), "streamed": shape in {"stream", "astream"}}


@breaks("test_replayed_objects_are_fresh")
class ServesTheSameObject(TapedClient):
    """What was replayed once is replayed again."""

    replayed: ClassVar[dict[tuple[str, str], Answer]] = {}

    def ask(self, question: str) -> Answer:
        answer, session = super().ask(question), current_session()
        if session is None or not replaying():
            return answer
        return self.replayed.setdefault((str(session.path), answer.id), answer)


@breaks("test_what_the_caller_changes_is_not_recorded")
class RecordsLate(TapedClient):
    """An answer is recorded when the session ends."""

    def ask(self, question: str) -> Answer:
        session_call = self.cross(question, "call")
        if session_call is None or session_call.is_replayed:
            return Client.ask(self, question) if session_call is None else session_call.replay()
        try:
            with session_call.executing():
                answer = Client.ask(self, question)
        except ScriptedError as error:
            session_call.raised(error)
            raise
        session_call.session.watch(lambda: session_call.returned(answer))
        return answer


@breaks("test_raised_error_is_replayed")
class ReplaysAnotherError(TapedClient):
    """A recorded error comes back as another type."""

    def ask(self, question: str) -> Answer:
        try:
            return super().ask(question)
        except ScriptedError as error:
            if replaying():
                raise RuntimeError(str(error)) from error
            raise


# -- streams -------------------------------------------------------------------------------------------------------


@breaks("test_replayed_chunks_equal_the_recorded_ones", "call", "astream")
class AddsAChunk(TapedClient):
    """A replayed stream ends with a chunk that was not recorded."""

    async def astream(self, question: str) -> AsyncIterator[Piece]:
        async for piece in super().astream(question):
            yield piece
        if replaying():
            yield Piece("")


@breaks("test_stream_closed_early", "call", "stream")
class ReadsAhead(TapedClient):
    """A stream is read to its end before its reader gets the first chunk."""

    def stream(self, question: str) -> Iterator[Piece]:
        pieces, broken = [], None
        try:
            for piece in super().stream(question):
                pieces.append(piece)  # noqa: PERF402 - what came before an error is kept
        except ScriptedError as error:
            broken = error
        yield from pieces
        if broken is not None:
            raise broken


@breaks("test_stream_broken_midway", "call", "stream")
class HealsStreams(TapedClient):
    """A stream that broke is replayed as one that ended."""

    def stream(self, question: str) -> Iterator[Piece]:
        some = False
        try:
            for piece in super().stream(question):
                some = True
                yield piece
        except ScriptedError:
            if not (some and replaying()):
                raise


# -- sequences -----------------------------------------------------------------------------------------------------


_ANSWERS: Slot[defaultdict[int, dict[str, Any]]] = Slot(lambda _: defaultdict(dict))
"""The answers that a client has had in a session."""


@breaks("test_equal_questions_get_their_answers_in_order")
class RemembersWhileRecording(TapedClient):
    """A question that was asked in this session is not asked again."""

    def ask(self, question: str) -> Answer:
        session = current_session()
        if session is None or replaying():
            return super().ask(question)
        answers = session.extension(_ANSWERS)[id(self.__dict__)]
        if question not in answers:
            answers[question] = super().ask(question)
        return answers[question]


@breaks("test_one_question_too_many_is_a_miss")
class ServesTheLastAgain(TapedClient):
    """A question that is asked too often gets its last answer again."""

    def ask(self, question: str) -> Answer:
        session = current_session()
        answers = session.extension(_ANSWERS)[id(self.__dict__)] if session is not None else {}
        try:
            answers[question] = super().ask(question)
        except CassetteMissError:
            if question not in answers:
                raise
        return answers[question]


@breaks("test_equal_questions_in_threads")
class CountsBackwardsInThreads(TapedClient):
    """In threads, the recordings of equal questions are taken from the last to the first."""

    def session_call(self, session: Session, question: str, shape: Shape, **where: Any) -> SessionCall:
        if shape == "call" and replaying() and threading.current_thread() is not threading.main_thread():
            left = times_left(session, CLIENT, self.body(question, shape))
            where["position"] = Position("Client" if left == 1 else f"Client#{left}")
        return super().session_call(session, question, shape, **where)


@breaks("test_equal_questions_in_tasks", "acall")
class ForgetsTheTask(TapedClient):
    """The address does not tell one task from the other."""

    def session_call(self, session: Session, question: str, shape: Shape, **where: Any) -> SessionCall:
        return super().session_call(session, question, shape, position=session.root.child("Client"))


@breaks("test_cancelled_call_is_cancelled_again", "acall")
class RecordsCancellation(TapedClient):
    """A cancellation is recorded like an error."""

    async def aask(self, question: str) -> Answer:
        session_call = self.cross(question, "acall")
        if session_call is None or session_call.is_replayed:
            return await Client.aask(self, question) if session_call is None else session_call.replay()
        try:
            with session_call.executing():
                answer = await Client.aask(self, question)
        except (ScriptedError, asyncio.CancelledError) as error:
            session_call.raised(error if isinstance(error, ScriptedError) else RuntimeError("cancelled"))
            raise
        session_call.returned(answer)
        return answer


# -- misses --------------------------------------------------------------------------------------------------------


@breaks("test_another_question_is_a_miss")
class AsksLessThanItsCaller(TapedClient):
    """Questions of some forms are recorded as the same request."""

    def body(self, question: str, shape: Shape) -> dict[str, Any]:
        return {**super().body(question, shape), "question": re.sub("^(Why|When) .*", "a short one", question)}


@breaks("test_another_setup_is_a_miss")
class ForgetsItsSettings(TapedClient):
    """The request does not say how the client is set up."""

    def body(self, question: str, shape: Shape) -> dict[str, Any]:
        return {"question": question}


@breaks("test_miss_passes_through_error_handlers")
class HandlesMisses(TapedClient):
    """A miss is made an ordinary error."""

    def ask(self, question: str) -> Answer:
        try:
            return super().ask(question)
        except CassetteMissError as miss:
            raise RuntimeError(str(miss)) from miss


@breaks("test_eaten_miss_fails_the_session")
class RefusesByItself(TapedClient):
    """A miss is raised before the session knows of it."""

    def session_call(self, session: Session, question: str, shape: Shape, **where: Any) -> SessionCall:
        if (
            replaying()
            and session.policy.on_repeat == "fail"
            and not times_left(session, CLIENT, self.body(question, shape))
        ):
            raise CassetteMissError("no recording for chat Client", f"  cassette {session.path}\n  differs somehow")
        return super().session_call(session, question, shape, **where)


@breaks("test_miss_explains_itself")
class RefusesWithoutAWord(TapedClient):
    """The explanation of a miss is replaced."""

    def session_call(self, session: Session, question: str, shape: Shape, **where: Any) -> SessionCall:
        try:
            return super().session_call(session, question, shape, **where)
        except CassetteMissError as miss:
            raise CassetteMissError("not recorded") from miss


# -- sessions ------------------------------------------------------------------------------------------------------


@breaks("test_outside_a_session_nothing_changes")
class NeedsASession(TapedClient):
    """Outside a session it cannot be called."""

    def ask(self, question: str) -> Answer:
        if current_session() is None:
            raise SessionStateError("no session is open")
        return super().ask(question)


@breaks("test_outside_a_session_nothing_changes")
class RecordsAfterTheEnd(TapedClient):
    """What is called after a session is noted beside its cassette."""

    last: ClassVar[list[Path]] = []

    def ask(self, question: str) -> Answer:
        session = current_session()
        if session is not None:
            self.last[:] = [session.path]
        else:
            self.last[0].with_suffix(".late").write_text(question)
        return super().ask(question)


@breaks("test_nested_sessions")
class KeepsItsFirstSession(TapedClient):
    """The session that the object met first is kept until it ends."""

    def session(self) -> Session | None:
        kept: Session | None = self.__dict__.get("kept")
        if kept is None or kept.closed:
            kept = self.__dict__["kept"] = current_session()
        return kept


@breaks("test_two_sessions_at_once")
class TakesTheLatestSession(TapedClient):
    """The session that was opened last, wherever it was, is taken."""

    def session(self) -> Session | None:
        return SCOPES._open[-1] if SCOPES._open else None


@breaks("test_unused_interactions_are_reported")
class HidesWhatIsUnused(TapedClient):
    """The session is kept from looking for what was never asked for."""

    def session_call(self, session: Session, question: str, shape: Shape, **where: Any) -> SessionCall:
        if session.is_replay:
            session.recordings.index.unused = lambda _: []  # type: ignore[method-assign]
        return super().session_call(session, question, shape, **where)


# -- ambience ------------------------------------------------------------------------------------------------------


@breaks("test_automatic_session_tapes_the_original")
class NotAutomatic(ClientConformance):
    """Nothing is patched."""

    @contextmanager
    def automatic(self) -> Iterator[None]:
        yield


@breaks("test_without_ambience_only_the_taped_take_part")
class AlwaysAutomatic(ClientConformance):
    """What is not taped is, whatever the session says."""

    @contextmanager
    def automatic(self) -> Iterator[None]:
        real = Client.ask

        def ask(client: Client, question: str) -> Answer:
            if current_session() is None or isinstance(client, TapedClient):
                return real(client, question)
            return tape(client).ask(question)

        with automatic(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(Client, "ask", ask)
            yield


@breaks("test_taped_object_is_taped_once_in_an_automatic_session")
class TapesTheTaped(ClientConformance):
    """What is taped already is recorded once more."""

    @contextmanager
    def automatic(self) -> Iterator[None]:
        real = Client.ask

        def ask(client: Client, question: str) -> Answer:
            session = current_session()
            if session is None or not session.auto or not isinstance(client, TapedClient):
                return real(client, question)
            session_call = session.cross(Boundary("call"), "outer", {"question": question})
            return intercept(session_call, lambda: real(client, question))

        with automatic(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(Client, "ask", ask)
            yield


class PatchedClient(Client):
    """A client of its own, so that what stays patched harms no other test."""


@breaks("test_nothing_stays_patched")
class StaysPatched(ClientConformance):
    """A method is not put back."""

    def make(self, world: World) -> Client:
        return PatchedClient(world)

    @contextmanager
    def automatic(self) -> Iterator[None]:
        with automatic():
            PatchedClient.ask = Client.ask  # type: ignore[method-assign]
            yield

    def patched(self) -> Sequence[Any]:
        return [Client, PatchedClient]


# -- files ---------------------------------------------------------------------------------------------------------


@breaks("test_interactions_are_well_formed")
class InventsAKind(TapedClient):
    """The kind is none of the known ones."""

    boundary = CLIENT._replace(kind="oracle")


@breaks("test_secrets_stay_out_of_the_files")
class NamesTheQuestion(TapedClient):
    """The question is part of the address, where nothing is redacted."""

    def session_call(self, session: Session, question: str, shape: Shape, **where: Any) -> SessionCall:
        position = session.root.child(question, branch=task_branch(session.root))
        return super().session_call(session, question, shape, position=position)


@breaks("test_ids_of_the_run_are_mapped")
class HashesIds(TapedClient):
    """An id of the run is hashed into the request, where it cannot be told from other data."""

    def body(self, question: str, shape: Shape) -> dict[str, Any]:
        found = re.search(r"\w{8}-\w{4}-\w{4}-\w{4}-\w{12}", question)
        hashed = {"hashed": sha256(found[0].encode()).hexdigest()[:12]} if found else {}
        return {**super().body(question, shape), **hashed}


@breaks("test_recording_again_changes_nothing")
class StampsErrors(TapedClient):
    """An error carries the time when it was raised."""

    def ask(self, question: str) -> Answer:
        session_call = self.cross(question, "call")
        if session_call is None:
            return Client.ask(self, question)
        return intercept(session_call, lambda: self._stamped(question))

    def _stamped(self, question: str) -> Answer:
        try:
            return Client.ask(self, question)
        except ScriptedError as error:
            error.at = time.perf_counter()  # type: ignore[attr-defined]
            raise


@breaks("test_order_of_completion_changes_nothing", "acall", "call")
class OrdersByCompletion(TapedClient):
    """Interactions are written in the order in which they ended."""

    def session_call(self, session: Session, question: str, shape: Shape, **where: Any) -> SessionCall:
        session_call = super().session_call(session, question, shape, **where)
        session_call.position = Position(session_call.position.address, branch=session_call.position.branch)
        return session_call


@breaks("test_both_layouts_hold_the_same")
class KnowsTheLayout(TapedClient):
    """The request says how the cassette is written."""

    def session_call(self, session: Session, question: str, shape: Shape, **where: Any) -> SessionCall:
        body = {**self.body(question, shape), "layout": session.path.suffix}
        return session.cross(self.boundary, "Client", body, owner=self.__dict__, **where)


@breaks("test_usage_is_recorded")
class CountsNoTokens(TapedClient):
    """The boundary does not read token counts."""

    boundary = Boundary("chat", join=joined, split=CLIENT.split)


# -- other processes -----------------------------------------------------------------------------------------------


class HashesTheQuestion(TapedClient):
    """The request holds a hash that each process makes in another way."""

    def body(self, question: str, shape: Shape) -> dict[str, Any]:
        return {**super().body(question, shape), "hashed": hash("Client")}


class HashConformance(ClientConformance):
    """The only broken suite that a child process can import."""

    shapes = ("call",)
    options: ClassVar[dict[str, Any]] = {"freeze": ()}
    taped = HashesTheQuestion


BROKEN.append(("test_another_process_finds_the_recordings", HashConformance))


# -- the tests -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("check", "suite"), BROKEN, ids=[suite.__name__ for _, suite in BROKEN])
def test_only_the_broken_point_fails(check: str, suite: Suite, pytestconfig: pytest.Config) -> None:
    """The suite fails at the check that the integration breaks, and nowhere else.

    Without `--every-check`, each check has an eighth of the integrations that break another one.
    """
    known, number = checks_of(suite), [broken for _, broken in BROKEN].index(suite)
    chosen = known if pytestconfig.getoption("every_check") else {check, *known[number % 8 :: 8]}
    failed = {result.check: result.error for result in run_conformance(suite, chosen) if result.outcome == "failed"}
    assert set(failed) == {check}, failed


def test_each_point_is_broken_once() -> None:
    """There is a broken integration for each check of the suite."""
    assert {check for check, _ in BROKEN} == set(checks_of(IntegrationConformance))


@pytest.mark.process
def test_a_child_that_failed_is_replaced() -> None:
    """After a replay that failed in the child process, the next suite is replayed by another one."""
    check = {"test_another_process_finds_the_recordings"}
    outcomes = [run_conformance(suite, check)[0].outcome for suite in (HashConformance, ClientConformance)]
    assert outcomes == ["failed", "passed"]
