"""`use_cassette`: the entry point of AgentTape, around a block of code or a function."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import agenttape_core.freeze  # noqa: F401 - keeps the real clock, before a test can replace it
from agenttape_core.errors import ConfigurationError, SessionStateError
from agenttape_core.garbage import collecting_late_before

if TYPE_CHECKING:  # imported by the first use, so that `import agenttape_core` stays quick
    from agenttape_core.engine import Lossy, Mode, OnMiss
    from agenttape_core.interventions import Beyond, Changes
    from agenttape_core.lifecycle.cassette_in_use import CassetteInUse
    from agenttape_core.lifecycle.proof import Proof
    from agenttape_core.lifecycle.request import SessionRequest
    from agenttape_core.lifecycle.sinks import EventsOption
    from agenttape_core.lifecycle.start_session import Opened
    from agenttape_core.matching import Key, Matcher, OnRepeat, Way
    from agenttape_core.redaction import Rule
    from agenttape_core.session import Session
    from agenttape_core.settings import Drifting, OnError, OnUnused, Opaque, Pace, Prove

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
ResultT = TypeVar("ResultT")


def _keep(_: object) -> None:
    pass


class CassetteBlock:
    """A block of code around which a session is open: a context manager, sync and async.

    Args:
        request: The session.
    """

    def __init__(self, request: SessionRequest) -> None:
        self.request = request
        self._is_begun = False
        self._in_use: CassetteInUse | None = None

    @property
    def in_use(self) -> CassetteInUse:
        """The cassette, while the block runs.

        Raises:
            SessionStateError: If it does not.
        """
        if self._in_use is None:
            raise SessionStateError(f"this {type(self).__name__}(...) is not open")
        return self._in_use

    def __enter__(self) -> Session:
        self._begin()
        try:
            with collecting_late_before("agenttape_core.lifecycle.open_session"):
                return self._enter(_open(self.request))
        except BaseException as error:
            self._did_not_begin(error)
            raise

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Literal[False]:
        in_use = self._end()
        in_use.leave()
        in_use.settle(error)
        in_use.judge(error)
        return False

    async def __aenter__(self) -> Session:
        self._begin()
        try:
            opened = await _in_thread(functools.partial(_open, self.request), undo=lambda opened: opened.abandon())
            return self._enter(opened)
        except BaseException as error:
            self._did_not_begin(error)
            raise

    async def __aexit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Literal[False]:
        in_use = self._end()
        in_use.leave()
        await _in_thread(functools.partial(in_use.settle, error))
        in_use.judge(error)
        return False

    def _begin(self) -> None:
        if self._is_begun:
            raise SessionStateError(f"this {type(self).__name__}(...) is open already; make one for each block")
        self._is_begun = True

    def _did_not_begin(self, error: BaseException) -> None:
        from agenttape_core.lifecycle.failed_blocks import tell_failed

        self._is_begun = False
        tell_failed(self.request.cassette, None, error)

    def _enter(self, opened: Opened) -> Session:
        from agenttape_core.lifecycle.cassette_in_use import CassetteInUse

        in_use = CassetteInUse(opened)
        session = in_use.enter()
        self._in_use = in_use
        return session

    def _end(self) -> CassetteInUse:
        in_use = self.in_use
        self._in_use, self._is_begun = None, False
        return in_use


def _open(request: SessionRequest) -> Opened:
    from agenttape_core.lifecycle.open_session import open_session

    return open_session(request)


class use_cassette(CassetteBlock):  # noqa: N801 - used like a function: a context manager and a decorator
    """Record what the agent does once, and replay it ever after.

    Args:
        name_or_path: A bare name, for a `.yaml` file in `cassette_dir`; a path that ends with `.yaml`, `.yml` or
            `.jsonl`, also with `.gz` or `.zst` after it; or a URL such as `s3://bucket/a.yaml`, with the extra
            `fsspec`.
        mode: `none` (replay only, the default; alias `replay`), `once` (record if there is no cassette yet),
            `new_episodes` (serve what is recorded, record the rest), `update` (the same, and drop what is no longer
            asked for), `all` (record everything anew; alias `record`).
        cassette_dir: The folder of bare names; by default `cassettes`.
        live: The calls that are executed for real in any mode, by kind (`"chat"`, `"tool"`), name (`"get_weather"`),
            number (`4`), node (`"planner"`), address or a pattern of places (`"**/planner/**"`). A replay with
            something live writes what happened to a derived cassette and leaves its own untouched. With
            `"idempotent"`, embeddings, and tools that say that they may be called again, or only read, are executed
            where a call of them has no recording. A selector that selects no recorded call is refused.
        replay_only: The calls that are only ever served, in any mode, selected like `live`.
        step_into: The calls whose code a replay runs, while the calls that it makes are served. Tools that did
            nothing outside of the process by themselves, and made recorded calls, are run through without being named.
        match_on: How a recording is found for a call, tried in turn: `exact` (the same request at the same address),
            `request` (the same request elsewhere), `address` (another request at the same address), `ordered` (the
            next one of the same kind and name), or a function of `(asked, recorded)` that returns whether it answers.
            By default `("exact", "request")`.
        ignore: Paths of requests that do not count when they are compared, such as `arguments.now`,
            `messages[*].name`, `**.created_at`. By default those that the cassette was recorded with.
        on_repeat: The reaction to a request that is repeated more often than it was recorded: `fail`, `last` (give the
            last answer again) or `cycle` (start over).
        on_miss: The result of a call without a recording: a `CassetteMissError` (`raise`), or an error result with
            which the run goes on (`return`), counted in `report.drift`.
        candidate: A model that is tried in the place of the program's own, whose code stays as it is: a chat model, a
            name such as `"openai:gpt-5-mini"`, or a mapping of calls, selected like `live`, to these. With `"own"`, the
            program's own model is asked again. Chat calls are then live, tools are served, and `on_miss` is `return`
            unless it is given.
        fakes: Functions that answer calls that were never recorded, by the name of the tool. They get its arguments.
        drift: Whether a run that went on after calls without a recording fails at its end (`fail`), or not (`report`).
        unavailable: The words that a model reads of a tool without a recording.
        changes: What comes of recorded calls instead of what was recorded: `raises`, `returns`, `edits`, `cut` or
            `late`, by the number, address, kind or name of the call, or a pattern of places such as `"**/search"`. The
            first attempt is changed, and the next one gets what was recorded; `always` changes each. The session is a
            replay, and recordings that are not asked for do not fail it, unless `on_unused` is given.
        beyond: What a call without a recording gets once a change has landed: a miss (`stop`), the recording at its
            address (`address`), or a real call, if its kind or name is among those that are given here.
        to: The derived cassette that a replay with something live or changed writes; by default `NAME.derived.yaml`
            beside it. A replay with changes that executes nothing writes one only if it is given. A mode that always
            records writes none.
        order: The calls to answer first where several wait in an event loop, in this order: numbers as `agenttape show`
            prints them (`"5,3"`), or a list with addresses. What is not named comes after them, in the recorded order.
            What cannot be reached is said in `report.disorder`. By default, the recorded order is kept.
        on_unused: The reaction to a replay that did not use every recording: `fail`, `warn` or `ignore`; by default
            `fail`, and `ignore` with `on_miss="return"`.
        on_error: Whether a recording whose body raised is put aside (`discard`) or becomes the cassette (`keep`).
        pending: Whether a new recording of what is recorded already waits for review, as `NAME.pending.yaml` beside the
            cassette, which stays as it is. See `agenttape review`.
        opaque: The treatment of a value without a codec: `refuse` to record it, or `keep` an opaque value that can only
            be passed around and shown on replay.
        lossy: The treatment of a recording that holds less than the call returned, because it was only observed or
            comes from another tool: `refuse` it like a missing one, or `serve` it.
        pace: The time that a replay takes for each served call: none (`none`, the default), the recorded time
            (`recorded`), that time multiplied by a number, such as 0.1, or the recorded time in a virtual clock
            (`virtual`): latencies, timeouts and sleeps of event loops in true order, without waiting for them.
        prove: Whether a decorated function that has recorded is called again at once, with the same arguments, to be
            served what it recorded: `True` warns of a difference, `"fail"` raises it. By default it is not.
        tracing: Whether a replay may report to outside tracers such as LangSmith. A recording may, as it always does.
        http: Whether requests of HTTP clients are taped that no framework makes: `httpx`, `httpx2`, `requests`,
            `urllib3`, `aiohttp`, `urllib.request`, `http.client`, and all SDKs above them. By default what the cassette
            was recorded with.
        freeze: The parts of the world to keep as they were recorded: `clock` or `clock:ticking`, `uuid`, `random`,
            `numpy`, `env`. A replay freezes what its cassette names.
        redact: Rules beyond the built-in ones, or `False` to keep secrets as they are. A rule named like a kind of
            secret takes the place of our detector.
        redaction_off: Kinds of secrets that are kept as they are, such as `email`.
        allow_hosts: Hosts that a replay may still reach, as `HOST` or `HOST:PORT`; also the words `loopback` and
            `subprocess`. If calls may be live, the hosts are open inside these calls only, and these calls reach no
            others; write `program:HOST` to open a host to all code of the program. By default a replay reaches
            nothing, and a live call everything.
        events: Where what the session decides is told as it happens: a file that ends with `.jsonl`, to which lines are
            added, `stderr`, a URL such as `nats://127.0.0.1:4222` (with the extra `nats`), or a function that takes
            each event. It never fails or delays the run.
        ambient: Whether frameworks tape every model and tool; if not, only taped objects take part.
        tags: Words for the header.

    Every option but `redact`, `ambient` and `prove` defaults to `[tool.agenttape]` in `pyproject.toml` and to the
    environment variable `AGENTTAPE_<OPTION>`, which wins over the file.

    Raises:
        ConfigurationError: On construction or entry, if an option or a setting is not valid.
        CassetteNotFoundError: On entry, if there is nothing to replay.
        CassetteError: On entry, if the file cannot be read or is being recorded elsewhere; on exit, if it cannot be
            written.
        CassetteMissError: At the call that has no recording, and again on exit if something ate it.
        UnusedInteractionsError: On exit, with `on_unused="fail"`.
        ChangeNotLandedError: On exit, if the run did not make a call that was to be changed.
        VerificationError: By a decorated function, with `prove="fail"`.
    """

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        mode: str | Mode | None = None,
        cassette_dir: str | Path | None = None,
        live: Collection[Key] | None = None,
        replay_only: Collection[Key] | None = None,
        step_into: Collection[Key] | None = None,
        match_on: Way | Matcher | Sequence[Way | Matcher] | None = None,
        ignore: Collection[str] | None = None,
        on_repeat: OnRepeat | None = None,
        on_miss: OnMiss | None = None,
        candidate: Any = None,
        fakes: Mapping[str, Callable[..., Any]] | None = None,
        drift: Drifting | None = None,
        unavailable: str | None = None,
        changes: Changes | None = None,
        beyond: Beyond = "stop",
        to: str | Path | None = None,
        order: str | Sequence[int | str] | None = None,
        on_unused: OnUnused | None = None,
        on_error: OnError | None = None,
        pending: bool | None = None,
        opaque: Opaque | None = None,
        lossy: Lossy | None = None,
        pace: Pace | None = None,
        tracing: bool | None = None,
        http: bool | None = None,
        prove: Prove | None = None,
        freeze: Collection[str] | None = None,
        redact: bool | Sequence[Rule] = True,
        redaction_off: Collection[str] | None = None,
        allow_hosts: Collection[str] | None = None,
        events: EventsOption | None = None,
        ambient: bool = True,
        tags: Sequence[str] | None = None,
    ) -> None:
        from agenttape_core.lifecycle.remedy import caller, remedy_for
        from agenttape_core.lifecycle.request import (
            SELECTING,
            SessionRequest,
            changed_request,
            checked_fakes,
            checked_target,
        )
        from agenttape_core.settings import explicit

        options = {
            "mode": mode,
            "cassette_dir": cassette_dir,
            "live": live,
            "replay_only": replay_only,
            "step_into": step_into,
            "match_on": match_on,
            "ignore": ignore,
            "on_repeat": on_repeat,
            "on_miss": on_miss,
            "drift": drift,
            "unavailable": unavailable,
            "on_unused": on_unused,
            "on_error": on_error,
            "pending": pending,
            "opaque": opaque,
            "lossy": lossy,
            "pace": pace,
            "tracing": tracing,
            "http": http,
            "prove": prove,
            "freeze": freeze,
            "redaction_off": redaction_off,
            "allow_hosts": allow_hosts,
            "tags": tags,
        }
        super().__init__(
            SessionRequest(
                cassette=name_or_path,
                options=explicit(options),
                selects=SELECTING,
                redact=redact,
                ambient=ambient,
                events=events,
                remedy=remedy_for(caller() if mode is not None else None),
                candidate=candidate,
                fakes=checked_fakes(fakes or {}),
                derived_as=checked_target(to, mode),
                **(changed_request(changes, beyond, mode, derives=to is not None) if changes is not None else {}),
                order=order,
            )
        )

    def __enter__(self) -> Session:
        self._refuse_proof()
        return super().__enter__()

    async def __aenter__(self) -> Session:
        self._refuse_proof()
        return await super().__aenter__()

    def _refuse_proof(self) -> None:
        from agenttape_core.lifecycle.proof import refuse_block

        refuse_block(self.request)

    def __call__(self, function: FunctionT) -> FunctionT:
        """Decorate a function or coroutine function: each call of it is one use of the cassette."""
        if inspect.isclass(function):
            raise ConfigurationError(
                f"use_cassette cannot decorate the class {function.__qualname__}: decorate its functions"
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigurationError(
                f"use_cassette cannot decorate the generator {function.__qualname__}: its body runs in pieces\n"
                "  open the cassette with a `with` block inside it"
            )
        return _decorated(function, self.request)  # type: ignore[return-value]


async def _in_thread(work: Callable[[], ResultT], undo: Callable[[ResultT], None] = _keep) -> ResultT:
    """Read and write files outside the event loop, and to the end even if the caller is cancelled.

    Other loops than asyncio's, such as trio's, can't await a thread of asyncio: there, the work is done in place, as a
    `with` block does it everywhere.

    Args:
        work: Touches files.
        undo: Called with the result where a cancelled caller will never see it.
    """
    if not _is_in_task_of_asyncio():
        return work()
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        if working.exception() is None:
            undo(working.result())
        raise


def _is_in_task_of_asyncio() -> bool:
    try:
        return asyncio.current_task() is not None  # `None` in a loop that is a guest of asyncio's
    except RuntimeError:
        return False


def _decorated(function: Callable[..., Any], request: SessionRequest) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def use_async(*args: Any, **kwargs: Any) -> Any:
            async with CassetteBlock(request) as session:
                result = await function(*args, **kwargs)
            if (proof := _proof(request, session, result)) is not None:
                with proof:
                    async with CassetteBlock(proof.request):
                        replayed = await function(*args, **kwargs)
                    proof.compare(replayed)
            return result

        return use_async

    @functools.wraps(function)
    def use(*args: Any, **kwargs: Any) -> Any:
        with CassetteBlock(request) as session:
            result = function(*args, **kwargs)
        if (proof := _proof(request, session, result)) is not None:
            with proof:
                with CassetteBlock(proof.request):
                    replayed = function(*args, **kwargs)
                proof.compare(replayed)
        return result

    return use


def _proof(request: SessionRequest, session: Session, result: object) -> Proof | None:
    """Return the proof of what a call has recorded, where that was asked for."""
    from agenttape_core.lifecycle.proof import Proof, has_recorded, proves

    return Proof(request, session, result) if proves(request) and has_recorded(session) else None
