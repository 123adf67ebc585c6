"""The hooks by which an author describes an integration: making, taping and calling an object."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Literal, get_args
from unittest import SkipTest

from agenttape_core.integration import Usage
from agenttape_core.testing.concurrency import Branch, run_in_tasks, run_in_threads
from agenttape_core.testing.world import ScriptedError, World

Shape = Literal["call", "acall", "stream", "astream"]
"""The shapes that a call can have: plain, coroutine, generator, async generator."""

SHAPES: frozenset[str] = frozenset(get_args(Shape))


class Hooks:
    """The differences between integrations. `make` and `tape` are required; the others suit plain functions."""

    shapes: ClassVar[Sequence[Shape]] = ("call",)
    """The shapes of the taped calls."""
    options: ClassVar[Mapping[str, Any]] = {}
    """Options of `use_cassette` that the integration needs."""
    patience: ClassVar[float] = 10.0
    """Seconds after which calls that should run in parallel are given up."""

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

    def ambient(self) -> AbstractContextManager[Any] | None:
        """Return the context manager of an ambient integration, or `None` if there is none.

        If it is installed as an entry point, core enters it with the first session: return `nullcontext()`.
        """
        return None

    def patched(self) -> Sequence[Any]:
        """Return the classes and modules that the ambient integration patches."""
        return ()

    def run_threads(self, works: Sequence[Branch]) -> list[Any]:
        """Run works in parallel threads, and return their results; by default each begins after the one before it.

        Override it if the framework has a special way. It must run each in a copy of this context.
        """
        return run_in_threads(works, self.patience)

    async def run_tasks(self, works: Sequence[Branch]) -> list[Any]:
        """Run works in parallel tasks, and return their results; by default with `asyncio.gather`."""
        return await run_in_tasks(works)
