"""`use_cassette`: the one entry point. It composes files, freeze, guard and integrations around a session."""

from __future__ import annotations

import functools
import inspect
import time
import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

from agenttape_core.config import OnError, Settings, Unused, cassette_path, load_settings
from agenttape_core.discovery import integrations
from agenttape_core.engine import Mode, Policy, parse_mode
from agenttape_core.errors import (
    CassetteNotFoundError,
    ConfigurationError,
    NetworkBlockedError,
    SessionStateError,
    UnusedInteractionsWarning,
)
from agenttape_core.freeze import Frozen, freezing
from agenttape_core.guard import Guard, guarding
from agenttape_core.matching import Exhausted
from agenttape_core.recorder import EMPTY, finished_header, new_header, redactor_for
from agenttape_core.redaction import Rule
from agenttape_core.remedy import caller, remedy_for
from agenttape_core.schema import Header, Interaction
from agenttape_core.session import Session, context_session, current_scope, executing
from agenttape_core.storage import Cassette, Journal, leftover_journals, open_cassette

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class use_cassette:  # noqa: N801 - used like a function: a context manager, sync and async, and a decorator
    """Record what the agent does once, and replay it ever after.

    Args:
        name_or_path: A bare name lives in `cassette_dir` as `.yaml`; a path with a suffix is used as it is.
        mode: `none` (replay only, the default; alias `replay`), `once` (record if there is no cassette yet),
            `new_episodes` (serve what is recorded, record the rest), `all` (record everything anew; alias `record`).
        cassette_dir: The folder of bare names; by default `cassettes`.
        live: Kinds (`"chat"`, `"tool"`) and names (`"get_weather"`) that are executed for real in any mode. A replay
            with something live writes what happened to a derived cassette and leaves its own untouched.
        frozen: Kinds and names that are only ever served, in any mode.
        exhausted: What to do when a request is asked more often than it was recorded: `fail`, `last` (give the last
            answer again) or `cycle` (start over).
        unused: What to do at the end of a replay that did not ask for everything: `fail`, `warn` or `ignore`.
        on_error: Whether a recording whose body raised is put aside (`discard`) or becomes the cassette (`keep`).
        freeze: What is kept as it was recorded, of `clock`, `uuid`, `random`. A replay freezes what its cassette says.
        redact: Rules beyond the built-in ones, or `False` to keep secrets as they are.
        egress: Hosts that a replay may reach all the same; `loopback` and `subprocess` are such words too.
        ambient: Whether frameworks tape every model and tool; if not, only what you tape takes part.
        tags: Words for the header.

    Every option but `redact` and `ambient` defaults to `[tool.agenttape]` in `pyproject.toml` and to the environment
    variable `AGENTTAPE_<OPTION>`, which wins over the file.

    Raises:
        ConfigurationError: On construction or entry, if an option or a setting is not valid.
        CassetteNotFoundError: On entry, if there is nothing to replay.
        CassetteError: On entry, if the file cannot be read or is being recorded elsewhere; on exit, if it cannot be
            written.
        CassetteMissError: At the call that has no recording, and again on exit if something ate it.
        UnusedInteractionsError: On exit, with `unused="fail"`.
    """

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        mode: str | Mode | None = None,
        cassette_dir: str | Path | None = None,
        live: Collection[str] | None = None,
        frozen: Collection[str] | None = None,
        exhausted: Exhausted | None = None,
        unused: Unused | None = None,
        on_error: OnError | None = None,
        freeze: Collection[str] | None = None,
        redact: bool | Sequence[Rule] = True,
        egress: Collection[str] | None = None,
        ambient: bool = True,
        tags: Sequence[str] | None = None,
    ) -> None:
        chosen = {
            "mode": mode,
            "cassette_dir": cassette_dir,
            "live": live,
            "frozen": frozen,
            "exhausted": exhausted,
            "unused": unused,
            "on_error": on_error,
            "freeze": freeze,
            "egress": egress,
            "tags": tags,
        }
        self._name_or_path = name_or_path
        self._chosen = {key: _checked(key, value) for key, value in chosen.items() if value is not None}
        self._redact = redact
        self._ambient = ambient
        self._used: _Use | None = None
        self._caller = caller() if mode is not None else None

    def __enter__(self) -> Session:
        if self._used is not None:
            raise SessionStateError("this use_cassette(...) is open already; make one for each block")
        settings = load_settings().chosen(self._chosen)
        path = cassette_path(self._name_or_path, settings.cassette_dir)
        remedy = remedy_for(path, explicit_at=self._caller)
        self._used = _Use(path, settings, redact=self._redact, ambient=self._ambient, remedy=remedy)
        try:
            return self._used.open()
        except BaseException:
            self._used = None
            raise

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Literal[False]:
        used, self._used = self._used, None
        if used is None:
            raise SessionStateError("this use_cassette(...) is not open")
        used.close(error)
        return False

    async def __aenter__(self) -> Session:
        return self.__enter__()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Literal[False]:
        return self.__exit__(exc_type, error, traceback)

    def __call__(self, function: FunctionT) -> FunctionT:
        """Decorate a function or coroutine function: each call of it is one use of the cassette."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigurationError(
                f"use_cassette cannot decorate the generator {function.__qualname__}: its body runs in pieces\n"
                "  open the cassette with a `with` block inside it"
            )
        return _decorated(function, self._again)  # type: ignore[return-value]

    def _again(self) -> use_cassette:
        again = use_cassette(self._name_or_path, redact=self._redact, ambient=self._ambient, **self._chosen)
        again._caller = self._caller
        return again


def _checked(key: str, value: Any) -> Any:
    if key in {"live", "frozen", "freeze", "egress", "tags"} and isinstance(value, str):
        raise ConfigurationError(f"{key}={value!r} is a bare string; expected a collection such as {{{value!r}}}")
    return str(value) if isinstance(value, Path | Mode) else value


def _decorated(function: Callable[..., Any], fresh: Callable[[], use_cassette]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def use_async(*args: Any, **kwargs: Any) -> Any:
            async with fresh():
                return await function(*args, **kwargs)

        return use_async

    @functools.wraps(function)
    def use(*args: Any, **kwargs: Any) -> Any:
        with fresh():
            return function(*args, **kwargs)

    return use


class _Use:
    """One use of a cassette, from opening to closing."""

    def __init__(
        self,
        path: Path,
        settings: Settings,
        *,
        redact: bool | Sequence[Rule],
        ambient: bool,
        remedy: Callable[[], list[str]],
    ) -> None:
        self._path = path
        self._settings = settings
        self._redact = redact
        self._ambient = ambient
        self._remedy = remedy
        self._around = ExitStack()
        self._cassette: Cassette | None = None
        self._journal: Journal | None = None
        self._header: Header
        self._session: Session

    def open(self) -> Session:
        settings = self._settings
        mode = parse_mode(settings.mode)
        self._cassette = self._read(mode)
        policy = Policy(
            mode,
            recorded=self._cassette is not None,
            live=frozenset(settings.live),
            frozen=frozenset(settings.frozen),
            exhausted=settings.exhausted,
        )
        prior = self._cassette.header if self._cassette is not None else None
        redactor = redactor_for(self._path, prior, self._redact, settings.redaction_key)
        self._header = new_header(self._path, prior, settings, redactor, replaces=policy.replaces)
        if not policy.offline:
            self._journal = Journal(self._target(policy), self._header)
        self._session = Session(
            self._path,
            policy=policy,
            redactor=redactor,
            source=self._cassette or EMPTY,
            sink=self._journal,
            remedy=self._remedy,
            ambient=self._ambient,
        )
        try:
            self._enter(policy)
        except BaseException:
            self._around.close()
            if self._journal is not None:
                self._journal.abandon(keep=False)
            raise
        return self._session

    def _read(self, mode: Mode) -> Cassette | None:
        try:
            return open_cassette(self._path)
        except CassetteNotFoundError:
            if mode is Mode.NONE:
                remedy = "\n  ".join([*self._remedy(), *map(_recoverable, leftover_journals(self._path))])
                raise CassetteNotFoundError(self._path, "there is no such cassette to replay", remedy=remedy) from None
            return None

    def _target(self, policy: Policy) -> Path:
        if policy.records:
            return self._path
        stem, dot, suffixes = self._path.name.partition(".")
        return self._path.with_name(f"{stem}.derived{dot}{suffixes}")

    def _enter(self, policy: Policy) -> None:
        session, frozen = self._session, self._header.freeze
        if frozen.kinds:
            clock = self._header.volatile.clock
            session.frozen = Frozen(
                kinds=frozen.kinds,
                seed=frozen.seed,
                clock=clock if clock is not None else time.time(),
                scope=current_scope,
            )
        integrations.connect()
        self._around.callback(integrations.disconnect)
        self._around.enter_context(freezing(_frozen_here))
        session.enter()
        self._around.callback(session.leave)
        if policy.offline:
            guard = Guard(name=str(self._path), egress=self._settings.egress, on_block=self._blocked)
            self._around.enter_context(guarding(guard, _may_reach_out))

    def _blocked(self, error: NetworkBlockedError) -> None:
        self._session.report.add_failure(blocked=str(error).partition("\n")[0])
        if context_session() is self._session:
            self._session.latch(error)

    # -- the end -----------------------------------------------------------------------------------------------

    def close(self, error: BaseException | None) -> None:
        self._around.close()
        session = self._session
        session.find_unused()
        failed = error if error is not None else session.failure
        self._settle(failed)
        if session.failure is not None and session.failure is not error:
            if error is None or isinstance(error, Exception):
                raise session.failure from error
            error.add_note(f"AgentTape: {session.failure}")
        if failed is None and not session.policy.records:
            self._judge_unused()

    def _settle(self, failed: BaseException | None) -> None:
        """Write what was recorded, or put it aside."""
        journal = self._journal
        if journal is None:
            return
        session = self._session
        if not session.report.executed and not session.policy.replaces:
            journal.abandon(keep=False)
        elif failed is None or self._settings.on_error == "keep":
            keep = self._kept()
            journal.commit(finished_header(self._header, self._cassette, keep, session, journal.target), keep)
            session.source = open_cassette(journal.target)
            for superseded in leftover_journals(journal.target):
                superseded.unlink(missing_ok=True)
        else:
            left = journal.abandon(keep=bool(session.report.executed))
            if left is not None:
                failed.add_note(
                    f"AgentTape: the run failed, so {journal.target} was left as it was; {_recoverable(left)}"
                )

    def _kept(self) -> list[Interaction]:
        """Return the recordings that stay: all when adding to a cassette, else those that were served."""
        if self._cassette is None:
            return []
        if self._session.policy.mode is Mode.NEW_EPISODES:
            return list(self._cassette.interactions())
        return [self._cassette.interaction(number) for number in self._session.used_numbers()]

    def _judge_unused(self) -> None:
        unused = self._session.unused_error()
        if unused is None or self._settings.unused == "ignore":
            return
        if self._settings.unused == "fail":
            raise unused
        warnings.warn(str(unused), UnusedInteractionsWarning, stacklevel=4)


def _recoverable(journal: Path) -> str:
    return f"an unfinished recording is kept: agenttape_core.recover(Path({str(journal)!r})) makes a cassette of it"


def _frozen_here() -> Frozen | None:
    """Return what is frozen for the caller.

    Inside a boundary that is really executed, time and ids are real. So they are in threads without a context: a
    server that the test runs beside the agent must not draw from the agent's ids.
    """
    session = context_session()
    if session is None or executing() is not None:
        return None
    frozen: Frozen | None = session.frozen
    return frozen


def _may_reach_out() -> bool:
    """Whether the caller belongs to a session that may execute, so that another session's guard leaves it alone."""
    session = context_session()
    return session is not None and not session.policy.offline
