"""`TapeInbound`: a cassette for each request that an ASGI server answers, so that it can be begun again offline.

Plain ASGI 3.0 (https://asgi.readthedocs.io/en/latest/specs/www.html), whatever framework is inside: FastAPI, Starlette,
LangServe, an A2A server.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import weakref
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from pathlib import Path
from secrets import token_hex
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

from agenttape_core.asgi.exchange import KIND, App, Exchange, Message, Receive, Scope, Send, reading, writing
from agenttape_core.errors import CassetteNotFoundError, ConfigurationError, halt_in
from agenttape_core.lifecycle.observed import RECORDS_NO_MORE, Pause, is_of_disk
from agenttape_core.lifecycle.request import SessionRequest
from agenttape_core.lifecycle.shape_only import Payload
from agenttape_core.lifecycle.sinks import EventsOption
from agenttape_core.lifecycle.use_cassette import CassetteBlock
from agenttape_core.locks import Lock
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction import Rule
from agenttape_core.session import Session, StepEvent, current_session, record_step
from agenttape_core.settings import explicit, given_cassette_dir, load_settings
from agenttape_core.storage import leftover_journals, recover

CORRELATION = ("x-workflow-id", "x-correlation-id", "x-request-id")
"""Headers by which systems join what belongs together."""
_NEEDED = ("content-type", "accept", "a2a-version", "a2a-extensions")
"""Headers without which a request is not understood when it is sent again. None of them holds a secret."""
_log = logging.getLogger("agenttape")


class TapeInbound:
    """ASGI middleware that records each HTTP request into its own cassette.

    The application runs normally: no clock is frozen, no connection refused, and no problem with a
    recording reaches it (the logger `agenttape` has it). The header of a cassette holds the request: method, path,
    query, body and the chosen headers, so `agenttape replay --run FILE --asgi module:app` sends it again. What a
    request has started and that outlives its answer is recorded as well, as long as `patience` allows. In a session,
    such as a replay, the middleware has no effect.

    Args:
        app: The application.
        folder: The folder of the cassettes; each is named after the id of its run. By default the project's, if a
            setting or a variable names one (`cassette_dir`), or else `runs`.
        headers: Headers to keep in addition to the ones needed to understand a request, such as ids of workflows.
        when: Returns whether a request is recorded, given its ASGI scope; by default each is.
        patience: Seconds for which what outlives an answer is recorded.
        suffix: `.jsonl` or `.yaml`, perhaps with `.gz`.
        freeze: The parts of the world that are kept fixed, as in `use_cassette`; by default none. With `uuid` and
            `clock`, the answer of a replay has the recorded ids and times.
        redact: Rules in addition to the built-in ones, or `False` to keep secrets unchanged.
        tags: Words for the headers of the cassettes.
        payload: `full`, or `none` to record the shape of calls without a byte of their contents; that can't be
            replayed.
        events: Receives an event for each call when it ends, as in `use_cassette`.

    Raises:
        ConfigurationError: If an option is wrong.
    """

    def __init__(
        self,
        app: App,
        folder: str | Path | None = None,
        *,
        headers: Collection[str] = CORRELATION,
        when: Callable[[Mapping[str, Any]], bool] = lambda _: True,
        patience: float = 30.0,
        suffix: str = ".jsonl",
        freeze: Collection[str] = (),
        redact: bool | Sequence[Rule] = True,
        tags: Sequence[str] = (),
        payload: Payload = "full",
        events: EventsOption | None = None,
    ) -> None:
        self._app = app
        self._folder = _folder_of(folder)
        self._headers = frozenset(name.lower() for name in (*headers, *_NEEDED))
        self._when = when
        self._patience = patience
        self._suffix = suffix
        self._redact = redact
        self._options = {"freeze": list(freeze), "on_error": "keep", "accept": ["opaque"], "mode": "record"}
        self._tags = list(tags)
        self._payload: Payload = payload
        self._events = events
        self._pause, self._writing = Pause(), Lock()
        self._left: list[tuple[Path, Path]] = []
        """The journals that wait for room, each with the cassette that it will be."""
        self._open: dict[asyncio.Task[None], asyncio.Event] = {}
        """The requests that are being recorded, each with what lets it wait no longer."""
        if payload not in ("full", "none"):
            raise ConfigurationError(f"payload={payload!r}: expected 'full' or 'none'")
        if not suffix.startswith((".jsonl", ".yaml")):
            raise ConfigurationError(f"suffix={suffix!r}: expected .jsonl or .yaml, perhaps with .gz")
        load_settings().chosen(self._request("").options)  # refuses what is wrong now, and not at the first request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request as the application does."""
        if not _in_asyncio():
            _log.error("TapeInbound records servers that run in asyncio, and not in another library such as trio")
            await self._app(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._app(scope, self._closing(receive), send)
        elif scope["type"] != "http" or current_session() is not None or not self._when(scope) or self._is_full():
            await self._app(scope, receive, send)
        else:
            await self._recorded(scope, receive, send)

    async def written(self) -> None:
        """Wait until the cassettes of all requests so far are written: `patience` after their answers at the latest."""
        loop = asyncio.get_running_loop()
        if here := [task for task in self._open if task.get_loop() is loop]:
            await asyncio.wait(here)

    async def aclose(self) -> None:
        """Write the cassettes that still wait for what outlives its answer. The shutdown of a server does it."""
        loop = asyncio.get_running_loop()
        here = {task: hurry for task, hurry in self._open.items() if task.get_loop() is loop}
        for hurry in here.values():
            hurry.set()
        if here:
            await asyncio.wait(here, timeout=self._patience)

    def _closing(self, receive: Receive) -> Receive:
        async def closing() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self.aclose()
            return message

        return closing

    async def _recorded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a separate task answer, which continues until everything that it started has ended."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[None] = loop.create_future()
        hurry = asyncio.Event()
        server = copy_context()
        request = _Request(scope, _in_context(server, receive), _in_context(server, send))
        task = loop.create_task(self._answer(request, answered, hurry))
        self._open[task] = hurry
        task.add_done_callback(functools.partial(self._forget, weakref.ref(answered)))
        try:
            await asyncio.shield(answered)
        except asyncio.CancelledError:
            if not answered.done():  # the server has given the request up
                task.cancel()
                await asyncio.wait([answered])
            if not answered.cancelled():
                answered.exception()
            raise
        finally:
            del answered  # it has the exception, whose traceback has this frame

    def _forget(self, answered: weakref.ref[asyncio.Future[None]], task: asyncio.Task[None]) -> None:
        self._open.pop(task, None)
        failed = asyncio.CancelledError() if task.cancelled() else task.exception()
        if (waiting := answered()) is not None:
            _settle(waiting, failed)

    async def _answer(self, request: _Request, answered: asyncio.Future[None], hurry: asyncio.Event) -> None:
        run_id = token_hex(16)
        scope, receive, send = request
        query = scope.get("query_string", b"").decode("latin-1")
        exchange = Exchange(scope["method"], scope["path"], query, self._kept(scope))
        block = CassetteBlock(self._request(run_id))
        began = perf_counter()
        failed: BaseException | None = None
        session = await self._opened(block)
        if session is not None:
            session.first_input.note_later(exchange.to_plain)
        alive, token = _Alive(), None
        try:
            token = _here.set(alive)
            inner = {**scope, "agenttape": {"run_id": run_id}}
            calls = (lambda: len(session.ledger.executed())) if session is not None else (lambda: 0)
            await self._app(inner, reading(receive, exchange, calls), writing(send, exchange))
        except BaseException as error:  # noqa: BLE001 - handed on below, as it is
            failed = error
        finally:
            if token is not None:
                _here.reset(token)
        _settle(answered, failed)
        if session is not None:
            self._record(session, exchange, began, failed)
        # The frames of a traceback have tasks, and these the context: it would live as long as the exception does here.
        if failed is not None and halt_in(failed) is None:
            failed = _ApplicationError()
        del answered
        gone = asyncio.Event()
        loop = asyncio.get_running_loop()
        weakref.finalize(alive, lambda: loop.is_closed() or loop.call_soon_threadsafe(gone.set)).atexit = False
        del alive, token
        with suppress(asyncio.CancelledError):  # the loop ends, and what is recorded is to be written all the same
            await self._outlived(gone, hurry)
        if session is not None:
            await self._closed(block, failed)

    async def _opened(self, block: CassetteBlock) -> Session | None:
        try:
            await asyncio.to_thread(self._write_left) if self._left else None
            return await block.__aenter__()
        except Exception as error:  # noqa: BLE001 - a server answers, whatever becomes of its recording
            self._could_not(block.request.cassette, error)
            return None

    async def _closed(self, block: CassetteBlock, failed: BaseException | None) -> None:
        path = Path(block.request.cassette)
        try:
            await block.__aexit__(type(failed) if failed is not None else None, failed, None)
        except BaseException as error:  # noqa: BLE001 - as above; what the application raised has been handed on already
            if error is not failed:
                self._could_not(path, error)
            if is_of_disk(error):
                self._left += [(journal, path) for journal in leftover_journals(path)]
        else:
            if not self._left:
                self._pause.end(is_written=True)
            if self._pause.has_ended():
                _log.warning("TapeInbound records again: there is room")

    def _record(self, session: Session, exchange: Exchange, began: float, failed: BaseException | None) -> None:
        """Record the request as a step, with its answer."""
        name = f"{exchange.method} {exchange.path}"
        output = {"status": exchange.status, "body": exchange.answer} if exchange.status is not None else None
        status = "ended" if failed is None else "failed"
        position = session.root
        try:
            record_step(
                session,
                StepEvent(
                    KIND,
                    name,
                    position.address,
                    position.moment(),
                    began,
                    status=status,  # type: ignore[arg-type]
                    error=failed,
                    metadata=exchange.headers,
                    output=output,
                ),
            )
        except Exception as error:  # noqa: BLE001 - as above
            self._could_not(session.path, error)

    def _is_full(self) -> bool:
        """Return whether the disk is full, and this request isn't one that tries again."""
        return self._pause.reason is not None and not self._pause.is_to_try()

    def _write_left(self) -> None:
        """Write what had no room. Raises as `recover` does."""
        with self._writing:  # of two requests, the second finds that it is done
            while self._left:
                journal, cassette = self._left[0]
                with suppress(CassetteNotFoundError):  # another request was faster
                    recover(journal, cassette)
                del self._left[0]

    def _could_not(self, path: object, error: BaseException) -> None:
        until = ""
        if is_of_disk(error):
            self._pause.begin(error)
            until = f"\n  {RECORDS_NO_MORE}"
        if self._pause.is_news(error):
            _log.error("TapeInbound could not record %s: %s%s", path, error, until)

    async def _outlived(self, gone: asyncio.Event, hurry: asyncio.Event) -> None:
        """Wait until all work that a request has started ends, until time is up, or until the server stops."""
        waits = [asyncio.ensure_future(gone.wait()), asyncio.ensure_future(hurry.wait())]
        try:
            await asyncio.wait(waits, timeout=self._patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    def _request(self, run_id: str) -> SessionRequest:
        given = {**self._options, "tags": self._tags or None, "run_id": run_id}
        return SessionRequest(
            cassette=self._folder / f"{run_id}{self._suffix}",
            options=explicit(given),
            redact=self._redact,
            takes_strays=False,
            is_unique=True,
            payload=self._payload,
            events=self._events,
        )

    def _kept(self, scope: Scope) -> dict[str, str]:
        pairs = ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"])
        return {name: value for name, value in pairs if name in self._headers}


class _Request(NamedTuple):
    scope: Scope
    receive: Receive
    send: Send


class _ApplicationError(Exception):
    """Replaces an exception of the application, once the server has it."""


class _Alive:
    """Lives as long as a context does in which something runs that a request has started."""


_here: ContextVar[_Alive | None] = ContextVar("agenttape_inbound", default=None)


def _in_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _settle(answered: asyncio.Future[None], failed: BaseException | None) -> None:
    if answered.done():
        return
    if failed is None:
        answered.set_result(None)
    elif isinstance(failed, asyncio.CancelledError):
        answered.cancel()
    else:
        answered.set_exception(failed)


def _folder_of(given: str | Path | None) -> Path:
    folder = given if given is not None else given_cassette_dir(Path.cwd(), Path.cwd()) or "runs"
    if "://" in str(folder):
        raise ConfigurationError(f"{folder} isn't a local folder: give TapeInbound another as folder=")
    return Path(folder).absolute()


# Code of a server that an application calls while it is recorded: it is none of the application's.

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _in_context(context: Context, function: Callable[_P, Awaitable[_T]]) -> Callable[_P, Awaitable[_T]]:
    """Return a function that runs in a separate context, within the task of its caller.

    A server that resumes reading when an application wants more, or takes the next request of a connection after it has
    answered one, gives later data the context in which it was called. Requests would be found in the session of an
    earlier one.
    """

    async def called(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await _Steps(context, function(*args, **kwargs))

    return called


class _Steps(Awaitable[_T]):
    """An awaitable whose steps are made in a context."""

    def __init__(self, context: Context, awaitable: Awaitable[_T]) -> None:
        self._context = context
        self._awaitable = awaitable

    def __await__(self) -> Generator[Any, Any, _T]:
        coroutine = self._awaited()
        step: Callable[[Any], Any] = coroutine.send
        given: Any = None
        while True:
            try:
                waits_for = self._context.run(step, given)
            except StopIteration as end:
                value: _T = end.value
                return value
            finally:
                del given  # an exception, whose traceback may have this frame
            try:
                step, given = coroutine.send, (yield waits_for)
            except BaseException as error:  # noqa: BLE001 - it is the awaitable's to handle, also a cancellation
                step, given = coroutine.throw, error

    async def _awaited(self) -> _T:
        return await self._awaitable
