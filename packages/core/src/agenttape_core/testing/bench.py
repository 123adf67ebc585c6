"""The bench of the checks: a folder for each, sessions in it, and one way to ask in every shape."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, ClassVar, Literal, get_args
from unittest import SkipTest

from agenttape_core.errors import AgentTapeHalt, CassetteMissError, ConfigurationError
from agenttape_core.integration import Usage
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import PURE_KINDS
from agenttape_core.session import Session
from agenttape_core.testing.concurrency import Branch, run_in_tasks, run_in_threads
from agenttape_core.testing.world import ScriptedError, World, gone

Shape = Literal["call", "acall", "stream", "astream"]
"""The shapes that a call can have: plain, coroutine, generator, async generator."""

SHAPES: frozenset[str] = frozenset(get_args(Shape))


class Hooks:
    """The differences between integrations. `make` and `tape` are required; the others suit plain functions."""

    shapes: ClassVar[Sequence[Shape]] = ("call",)  # the shapes of the taped calls
    options: ClassVar[Mapping[str, Any]] = {}  # options of `use_cassette` that the integration needs
    patience: ClassVar[float] = 10.0  # seconds after which calls that should run in parallel are given up

    # -- the subject -------------------------------------------------------------------------------------------

    def make(self, world: World) -> Any:
        """Return an untaped object or function, whose real work calls the world."""
        raise NotImplementedError("say what is to be taped: def make(self, world)")

    def tape(self, original: Any) -> Any:
        """Return the taped counterpart of what `make` returns."""
        raise NotImplementedError("say how it is taped: def tape(self, original)")

    def variants(self, world: World) -> Sequence[Any]:  # noqa: ARG002 - for those who override it
        """Return taped objects for which the same question is another request: another model, other tools."""
        return ()

    # -- calling it --------------------------------------------------------------------------------------------

    def question(self, text: str) -> Any:
        """Return a question, made of a text that must be part of the request."""
        return text

    def call(self, subject: Any, question: Any) -> Any:
        """Call it and return the answer."""
        return subject(question)

    async def acall(self, subject: Any, question: Any) -> Any:
        """Call it asynchronously and return the answer."""
        return await subject(question)

    def stream(self, subject: Any, question: Any) -> Iterator[Any]:
        """Return the stream of a call. Closing it must close the object below it."""
        chunks: Iterator[Any] = subject(question)
        return chunks

    def astream(self, subject: Any, question: Any) -> AsyncIterator[Any]:
        """Return the asynchronous stream of a call."""
        chunks: AsyncIterator[Any] = subject(question)
        return chunks

    # -- answers ------------------------------------------------------------------------------------------------

    def text(self, answer: Any) -> str:
        """Return the world's text, from an answer or from the list of the chunks of a stream."""
        return "".join(map(self.text, answer)) if isinstance(answer, list) else str(answer)

    def same(self, first: Any, second: Any) -> bool:
        """Return whether two answers, or two chunks, are equal in all that the caller can see."""
        return type(first) is type(second) and bool(first == second)

    def ids(self, answer: Any) -> Sequence[str]:  # noqa: ARG002 - for those who override it
        """Return the ids that an answer carries."""
        return ()

    def change(self, answer: Any) -> None:  # noqa: ARG002 - for those who override it
        """Change an answer or a chunk in place, so that its text differs."""
        raise SkipTest("answers cannot be changed: there is no `change` hook")

    def usage(self, text: str) -> Usage | None:  # noqa: ARG002 - for those who override it
        """Return the token counts that must be recorded for an answer of this text, or `None` if none are."""
        return None

    # -- errors -------------------------------------------------------------------------------------------------

    def error(self) -> Exception:
        """Return an error as the real thing raises it."""
        return ScriptedError("the service is overloaded", status=529)

    def handlers(self) -> Sequence[Callable[[Any], Any]]:
        """Return the framework's retries, fallbacks and error handlers, each as a function that wraps a subject."""
        return ()

    # -- around it ---------------------------------------------------------------------------------------------

    def automatic(self) -> AbstractContextManager[Any] | None:
        """Return the context manager of an automatic integration, or `None` if there is none.

        If it is installed as an entry point, core enters it with the first session: return `nullcontext()`.
        """
        return None

    def patched(self) -> Sequence[Any]:
        """Return the classes and modules that the automatic integration patches."""
        return ()

    def run_threads(self, works: Sequence[Branch]) -> list[Any]:
        """Run works in parallel threads, and return their results; by default each begins after the one before it.

        Override it if the framework has a special way. It must run each in a copy of this context.
        """
        return run_in_threads(works, self.patience)

    async def run_tasks(self, works: Sequence[Branch]) -> list[Any]:
        """Run works in parallel tasks, and return their results; by default with `asyncio.gather`."""
        return await run_in_tasks(works)


QUESTION, OTHER, UNKNOWN = "Why is that?", "When was it?", "What did nobody ever ask before?"
CASSETTE = "cassette.yaml"
_SETTINGS = {"match_on": ("exact", "request"), "on_repeat": "fail", "on_miss": "raise", "on_unused": "fail"}
"""Options that the settings of the author's project must not change."""


class Reading(NamedTuple):
    """The chunks and the error that the reader of a stream got."""

    chunks: list[Any]
    error: BaseException | None  # the error that broke the stream, if one did


class _Connected:
    """Enters an integration with the first session and leaves it with the last one, as core does."""

    def __init__(self, integration: Callable[[], AbstractContextManager[Any] | None]) -> None:
        self._integration = integration
        self._open = 0
        self._stack = ExitStack()
        self._lock = Lock()

    def __enter__(self) -> None:
        with self._lock:
            if not self._open:
                self._stack.enter_context(self._integration() or nullcontext())
            self._open += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._open -= 1
            if not self._open:
                self._stack.close()


class Bench(Hooks):
    """The base of every check. A test runner calls `setup_method` before each one, and `teardown_method` after it."""

    folder: Path
    """The folder of the check's cassettes."""

    def setup_method(self) -> None:
        """Make an empty folder. Raises `ConfigurationError` if the suite names no shape, or an unknown one."""
        if not self.shapes or not set(self.shapes) <= SHAPES:
            known = ", ".join(sorted(SHAPES))
            raise ConfigurationError(f"shapes={self.shapes!r}: expected one or more of {known}")
        self._temporary = TemporaryDirectory(prefix="agenttape-conformance-")
        self.folder = Path(self._temporary.name)
        self._connected = _Connected(self.automatic)

    def teardown_method(self) -> None:
        """Remove it."""
        self._temporary.cleanup()

    # -- sessions ----------------------------------------------------------------------------------------------

    @contextmanager
    def session(self, mode: str, name: str = CASSETTE, **options: Any) -> Iterator[Session]:
        """Open a session on a cassette of this check, with the automatic integration around it."""
        given: dict[str, Any] = {**_SETTINGS, **self.options, **options}
        with self._connected, use_cassette(self.folder / name, mode=mode, **given) as session:
            yield session

    def record(self, name: str = CASSETTE, **options: Any) -> Any:
        """Open a session that records everything again."""
        return self.session("all", name, **options)

    def replay(self, name: str = CASSETTE, **options: Any) -> Any:
        """Open a session that only replays."""
        return self.session("none", name, **options)

    @contextmanager
    def missing(self, name: str = CASSETTE) -> Iterator[Session]:
        """Replay something that ends in a miss, which the session raises again at its end."""
        with suppress(CassetteMissError), self.replay(name, on_unused="ignore") as session:
            yield session

    def files(self) -> dict[str, bytes]:
        """Return the files of this check, by their names."""
        return {str(file): file.read_bytes() for file in sorted(self.folder.rglob("*")) if file.is_file()}

    def subject(self, world: World | None = None) -> Any:
        """Return the object under test, taped; by default around a world that is switched off."""
        return self.tape(self.make(world or gone()))

    # -- shapes ------------------------------------------------------------------------------------------------

    def of_shapes(self, *wanted: Shape) -> Sequence[Shape]:
        """Return the ones of some shapes that this integration has. Raises `SkipTest` if it has none of them."""
        found = [shape for shape in wanted if shape in self.shapes]
        if not found:
            raise SkipTest(f"has no {' or '.join(wanted)}, only {', '.join(self.shapes)}")
        return found

    def ask(self, shape: Shape, subject: Any, text: str) -> Any:
        """Ask in one shape: the answer, or the list of all chunks."""
        if shape == "call":
            return self.call(subject, self.question(text))
        if shape == "stream":
            return list(self.stream(subject, self.question(text)))
        return asyncio.run(self.aask(shape, subject, text))

    async def aask(self, shape: Shape, subject: Any, text: str) -> Any:
        """Ask in one of the asynchronous shapes."""
        if shape == "acall":
            return await self.acall(subject, self.question(text))
        return [chunk async for chunk in self.astream(subject, self.question(text))]

    def says(self, shape: Shape, subject: Any, text: str) -> str:
        """Ask in one shape, and return the text of the answer."""
        return self.text(self.ask(shape, subject, text))

    def refused(self, shape: Shape, subject: Any, text: str) -> BaseException | None:
        """Call in one shape, and return the exception, if any."""
        try:
            self.ask(shape, subject, text)
        except (Exception, AgentTapeHalt) as error:  # noqa: BLE001 - the check says which one it expects
            return error
        return None

    def read(
        self,
        shape: Shape,
        subject: Any,
        text: str,
        *,
        most: int | None = None,
        then: Callable[[Any], None] = lambda _: None,
    ) -> Reading:
        """Read a stream chunk by chunk, and close it.

        `most` is the number of chunks after which its reader stops; `then` is called with each chunk.
        """
        if shape == "stream":
            return _read(self.stream(subject, self.question(text)), most, then)
        return asyncio.run(self._aread(subject, text, most, then))

    async def _aread(self, subject: Any, text: str, most: int | None, then: Callable[[Any], None]) -> Reading:
        return await _aread(self.astream(subject, self.question(text)), most, then)


def is_pure(session: Session) -> bool:
    """Return whether all that a session recorded is of kinds whose answers are a function of the request alone."""
    return all(item.kind in PURE_KINDS for item in session.interactions)


def _read(stream: Iterator[Any], most: int | None, then: Callable[[Any], None]) -> Reading:
    chunks: list[Any] = []
    while most is None or len(chunks) < most:
        try:
            chunk = next(stream)
        except StopIteration:
            return Reading(chunks, None)
        except (Exception, AgentTapeHalt) as error:  # noqa: BLE001 - the check says which one it expects
            return Reading(chunks, error)
        chunks.append(chunk)
        then(chunk)
    stream.close()  # type: ignore[attr-defined]
    return Reading(chunks, None)


async def _aread(stream: AsyncIterator[Any], most: int | None, then: Callable[[Any], None]) -> Reading:
    chunks: list[Any] = []
    while most is None or len(chunks) < most:
        try:
            chunk = await anext(stream)
        except StopAsyncIteration:
            return Reading(chunks, None)
        except (Exception, AgentTapeHalt) as error:  # noqa: BLE001 - the check says which one it expects
            return Reading(chunks, error)
        chunks.append(chunk)
        then(chunk)
    await stream.aclose()  # type: ignore[attr-defined]
    return Reading(chunks, None)
