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
    from agenttape_core.engine import Mode, OnMiss
    from agenttape_core.lifecycle.open_cassette import CassetteInUse
    from agenttape_core.lifecycle.replay_check import ReplayCheck
    from agenttape_core.lifecycle.request import SessionRequest
    from agenttape_core.lifecycle.sinks import EventsOption
    from agenttape_core.lifecycle.start_session import Opened
    from agenttape_core.lifecycle.variation import Variation
    from agenttape_core.matching import Key, Matcher, OnRepeat, Way
    from agenttape_core.redaction import Rule
    from agenttape_core.session import Session
    from agenttape_core.settings import Accept, CheckReplay, OnError, OnUnrecorded, OnUnused, Pace

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
ResultT = TypeVar("ResultT")


def _keep(_: object) -> None:
    pass


class CassetteBlock:
    """A block of code around which a session is open: a context manager, sync and async."""

    def __init__(self, request: SessionRequest) -> None:
        self.request = request
        self._is_begun = False
        self._in_use: CassetteInUse | None = None

    @property
    def in_use(self) -> CassetteInUse:
        """The cassette, while the block runs. Raises `SessionStateError` if it does not."""
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
        await _in_thread(functools.partial(in_use.settle, error))
        in_use.judge(error)
        return False

    def _begin(self) -> None:
        if self._is_begun:
            raise SessionStateError(f"this {type(self).__name__}(...) is open already; make one for each block")
        self._is_begun = True

    def _did_not_begin(self, error: BaseException) -> None:
        from agenttape_core.lifecycle.failed_blocks import tell_failed

        in_use, self._in_use, self._is_begun = self._in_use, None, False
        if in_use is not None:  # it had been entered, as Ctrl-C came
            in_use.abandon()
        tell_failed(self.request.cassette, None, error)

    def _enter(self, opened: Opened) -> Session:
        from agenttape_core.lifecycle.open_cassette import CassetteInUse

        in_use = CassetteInUse(opened)
        session = in_use.enter()
        self._in_use = in_use
        return session

    def _end(self) -> CassetteInUse:
        in_use = self._in_use or self.in_use  # which raises, if the block does not run
        self._in_use, self._is_begun = None, False
        try:
            in_use.leave()
        except BaseException as error:  # Ctrl-C, which came while it waited for threads
            in_use.settle(error)
            raise
        return in_use


def _open(request: SessionRequest) -> Opened:
    from agenttape_core.lifecycle.open_session import open_session

    return open_session(request)


class use_cassette(CassetteBlock):  # noqa: N801 - used like a function: a context manager and a decorator
    """Record the calls of a block or function once; replay them from then on.

    A context manager and a decorator, for sync and async code:

        with use_cassette("weather", mode="once") as cassette:
            agent.invoke(question)
        print(cassette.report)

    By default a session replays: recorded calls get their recorded answers, any other call raises `CassetteMissError`,
    and the network is closed. To record, set `mode`.

    You can set each option for a project, as `[tool.agenttape]` in `pyproject.toml`, or for one command, as
    `AGENTTAPE_<OPTION>`. The argument wins over the environment, the environment over the file. `redact`, `auto`,
    `fakes`, `vary` and `to` can only be arguments.

    Args:
        name_or_path: A bare name (`"weather"` means `cassettes/weather.yaml`), a path that ends with `.yaml`, `.yml` or
            `.jsonl`, optionally with `.gz` or `.zst`, or a URL such as `s3://bucket/a.yaml` (with the extra `fsspec`).
        mode: `replay` (the default; VCR's `none`), `once` records if there is no cassette, `add` (VCR's `new_episodes`)
            records missing calls, `update` also drops calls that are no longer made, `record` (VCR's `all`) records
            everything again.
        live: Calls to make for real in any mode, by kind (`"chat"`, `"tool"`), name (`"get_weather"`), number (`4`),
            node (`"planner"`), location or a pattern of places (`"**/planner/**"`). With `"idempotent"`, embeddings,
            and tools that are safe to repeat, are made where they have no recording. The result goes to a derived
            cassette. A selector that selects no recorded call is refused.
        replay_only: Calls to replay in any mode, even `record`, selected like `live`.
        ignore: Paths of a request to leave out when comparing, such as `arguments.now`, `messages[*].name`,
            `**.created_at`. By default the ones the cassette was recorded with.
        on_unused: What to do at the end of a replay about recordings that weren't used: `fail` (the default; `ignore`
            with `on_miss="return"`), `warn` or `ignore`.
        redact: Rules for secrets that the built-in detectors don't know, or `False` to store everything unchanged. A
            rule with the name of a kind of secret replaces its detector; `Rule("email", keep=True)` stores it as is.
        allow_hosts: Hosts that a replay may reach, as `HOST` or `HOST:PORT`, and the words `loopback`, `subprocess` and
            `tracing` (report to tracers such as LangSmith). If calls may be live, the hosts are open inside these calls
            only, and these calls reach no others; `program:HOST` opens a host to all code. By default a replay reaches
            no host, and a live call any.

    Other Parameters:
        cassette_dir: Folder for bare names; by default `cassettes`.
        step_into: Calls whose code runs in a replay, with the calls inside replayed. Tools that had no other side
            effects and made recorded calls are stepped into by default.
        match_on: Rules for finding a recording, tried in turn: `exact` (the same request at the same location),
            `request` (the same request elsewhere), `address` (another request at the same location), `ordered` (the
            next one of the same kind and name), or a function of `(asked, recorded)`. By default
            `("exact", "request")`.
        on_repeat: What to do when a request repeats more often than recorded: `fail`, `last` (replay the last answer
            again) or `cycle` (start over).
        on_miss: What a call without a recording gets: a `CassetteMissError` (`raise`), or an error result with which
            the run continues (`return`); see `report.unrecorded`.
        on_error: What to do with a recording whose block raised: `discard` or `keep`.
        accept: What to put up with: `lossy` replays recordings that hold less than the call returned, `opaque` records
            a value without a codec as a placeholder that a replay can only pass around and show.
        freeze: What keeps its recorded value: `clock` or `clock:ticking`, `uuid`, `random`, `numpy`, `env`. A replay
            freezes what its cassette names.
        pace: How long replayed calls take: `none` (the default), `recorded`, a factor such as 0.1, or `virtual`:
            latencies, timeouts and sleeps of event loops in true order, without waiting for them.
        http: Whether to record HTTP requests that no framework makes: `httpx`, `httpx2`, `requests`, `urllib3`,
            `aiohttp`, `urllib.request`, `http.client`, and SDKs above them. By default as recorded.
        auto: Whether to record every model and tool of the frameworks (the default), or only taped objects.
        check_replay: Whether a decorated function is called again right after it recorded, with the same arguments, to
            check that it replays: `True` warns of a difference, `"fail"` raises it. By default it isn't.
        review: Whether a new recording waits for `agenttape review`, as `NAME.pending.yaml` next to the cassette,
            which doesn't change.
        events: Where to stream the session's events: a file that ends with `.jsonl`, `stderr`, a URL such as
            `nats://127.0.0.1:4222` (with the extra `nats`), or a function. It never fails or delays the run.
        tags: Words for the header of the cassette.
        candidate: A model to try instead of the program's own: a chat model, a name such as `"openai:gpt-5-mini"`, or a
            mapping of calls, selected like `live`, to these; `"own"` calls the program's own model again. Chat calls
            are then live, tools are replayed, and `on_miss` is `return` unless you set it.
        fakes: Functions that answer calls without a recording, by the name of the tool. They get its arguments.
        on_unrecorded: Whether a run that made calls without a recording fails at its end (`fail`), or not (`report`).
        unavailable: The text that a model reads about a tool without a recording.
        vary: What differs from a plain replay: a `Variation` with other outcomes of recorded calls, or another order of
            answers. With changes, recordings that aren't used don't fail the replay unless you set `on_unused`.
        to: The derived cassette that a replay with live or changed calls writes; by default `NAME.derived.yaml`.

    Raises:
        ConfigurationError: An option or setting is not valid; on construction or entry.
        CassetteNotFoundError: If there is no cassette to replay; on entry.
        CassetteError: The file can't be read or written, or is being recorded elsewhere.
        CassetteMissError: A call has no recording; at the call, and again on exit if the program swallowed it.
        UnusedInteractionsError: The run ended without using every recording; on exit.
        ChangeNotReachedError: The run didn't make a call that was to be changed; on exit.
        VerificationError: A decorated function didn't replay, with `check_replay="fail"`.
    """

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        mode: str | Mode | None = None,
        live: Collection[Key] | None = None,
        replay_only: Collection[Key] | None = None,
        ignore: Collection[str] | None = None,
        on_unused: OnUnused | None = None,
        redact: bool | Sequence[Rule] = True,
        allow_hosts: Collection[str] | None = None,
        cassette_dir: str | Path | None = None,
        step_into: Collection[Key] | None = None,
        match_on: Way | Matcher | Sequence[Way | Matcher] | None = None,
        on_repeat: OnRepeat | None = None,
        on_miss: OnMiss | None = None,
        on_error: OnError | None = None,
        accept: Collection[Accept] | None = None,
        freeze: Collection[str] | None = None,
        pace: Pace | None = None,
        http: bool | None = None,
        auto: bool = True,
        check_replay: CheckReplay | None = None,
        review: bool | None = None,
        events: EventsOption | None = None,
        tags: Sequence[str] | None = None,
        candidate: Any = None,
        fakes: Mapping[str, Callable[..., Any]] | None = None,
        on_unrecorded: OnUnrecorded | None = None,
        unavailable: str | None = None,
        vary: Variation | None = None,
        to: str | Path | None = None,
    ) -> None:
        with collecting_late_before("agenttape_core.lifecycle.request"):  # most of what a first session imports
            from agenttape_core.lifecycle.remedy import caller, remedy_for
            from agenttape_core.lifecycle.request import SELECTING, SessionRequest, checked_fakes, checked_target
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
            "on_unrecorded": on_unrecorded,
            "unavailable": unavailable,
            "on_unused": on_unused,
            "on_error": on_error,
            "review": review,
            "accept": accept,
            "pace": pace,
            "http": http,
            "check_replay": check_replay,
            "freeze": freeze,
            "allow_hosts": allow_hosts,
            "tags": tags,
        }
        request = SessionRequest(
            cassette=name_or_path,
            options=explicit(options),
            selects=SELECTING,
            redact=redact,
            auto=auto,
            events=events,
            remedy=remedy_for(caller() if mode is not None else None),
            candidate=candidate,
            fakes=checked_fakes(fakes) if fakes is not None else {},
            derived_as=checked_target(to, mode) if to is not None else None,
        )
        super().__init__(vary.applied_to(request) if vary is not None else request)

    def __enter__(self) -> Session:
        self._refuse_check()
        return super().__enter__()

    async def __aenter__(self) -> Session:
        self._refuse_check()
        return await super().__aenter__()

    def _refuse_check(self) -> None:
        if "check_replay" in self.request.options:
            from agenttape_core.lifecycle.replay_check import refuse_block

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

    `undo` is called with the result if a cancelled caller will never see it.
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
            if (check := _replay_check(request, session, result)) is not None:
                with check:
                    async with CassetteBlock(check.request):
                        replayed = await function(*args, **kwargs)
                    check.compare(replayed)
            return result

        return use_async

    @functools.wraps(function)
    def use(*args: Any, **kwargs: Any) -> Any:
        with CassetteBlock(request) as session:
            result = function(*args, **kwargs)
        if (check := _replay_check(request, session, result)) is not None:
            with check:
                with CassetteBlock(check.request):
                    replayed = function(*args, **kwargs)
                check.compare(replayed)
        return result

    return use


def _replay_check(request: SessionRequest, session: Session, result: object) -> ReplayCheck | None:
    """Return the check of a call's recording, if the options ask for one."""
    from agenttape_core.lifecycle.replay_check import ReplayCheck, checks_replay, has_recorded

    return ReplayCheck(request, session, result) if checks_replay(request) and has_recorded(session) else None
