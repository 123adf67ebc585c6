"""What an author says about an LLM, and how the points ask it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from unittest import SkipTest

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.llms import LLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import BaseTool, FunctionTool
from pydantic import BaseModel, Field

from agenttape_core.testing import expect
from agenttape_llamaindex.testing.asking import CHATS, COMPLETIONS, finished
from agenttape_llamaindex.testing.comparing import said
from agenttape_llamaindex.testing.suite import KitSuite, needs, shown


class Weather(BaseModel):
    """The weather in a city: what structured output is asked for."""

    city: str = Field(default="Paris", description="The city.")
    degrees: int = Field(default=20, description="The temperature in degrees Celsius.")


class LLMHooks(KitSuite):
    """What differs between LLMs. `make` must be given; the rest has defaults."""

    deterministic: ClassVar[bool] = True
    """Whether equal questions get equal answers. If not, only the types of answers are compared."""
    completes: ClassVar[bool] = True
    """Whether it has `complete` and its three other forms."""
    streams: ClassVar[bool] = True
    """Whether it streams."""
    structures: ClassVar[bool] = True
    """Whether it can answer `tool_question` with an `output_class`."""
    pickles: ClassVar[bool] = True
    """Whether it can be sent to another process."""
    blocks: ClassVar[Sequence[Any]] = ()
    """A block of each sort, besides text, that it takes in a user's message."""
    secrets: ClassVar[Sequence[str]] = ()
    """What it was made with, and must never tell: keys, tokens."""
    questions: ClassVar[Sequence[str]] = ("Why is the sky blue?", "How deep is the sea?", "Who was Ada Lovelace?")
    """Different texts that it can be asked, and answers with a text."""
    tool_question: ClassVar[str] = "What is the weather in Paris? Use the tool."
    """A text that it answers with a call of one of `tools`, if it is given them."""
    output_class: ClassVar[type[BaseModel]] = Weather
    """What structured output must be an instance of."""

    # -- making it -------------------------------------------------------------------------------------------------

    def make(self) -> LLM:
        """Return the LLM. Must be given; called more than once for a point."""
        raise NotImplementedError("say how it is made: def make(self)")

    def make_failing(self) -> LLM:
        """Return an LLM whose every call raises, such as one whose service is out of order."""
        raise SkipTest("has no `make_failing` hook")

    def make_breaking(self) -> LLM:
        """Return an LLM whose streams raise after their first chunk."""
        raise SkipTest("has no `make_breaking` hook")

    def tools(self) -> Sequence[BaseTool]:
        """Return the tools that it is given."""
        return [FunctionTool.from_defaults(fn=get_weather)]

    # -- for the points --------------------------------------------------------------------------------------------

    @property
    def calls(self) -> Sequence[str]:
        """The names of the calls that it has, of LlamaIndex's eight."""
        every = (*CHATS, *(COMPLETIONS if self.completes else ()))
        return [call for call in every if self.streams or "stream" not in call]

    def calls_of(self, *wanted: str) -> Sequence[str]:
        """Return those of some calls that it has.

        Raises:
            SkipTest: If it has none of them.
        """
        found = [call for call in wanted if call in self.calls]
        needs(found, f"has no {' or '.join(wanted)}")
        return found

    def streaming(self) -> Sequence[str]:
        """Return the names of its streaming calls."""
        return self.calls_of(*(call for call in (*CHATS, *COMPLETIONS) if "stream" in call))

    def ask(self, llm: LLM, call: str, question: str | None = None) -> Any:
        """Make one call to its end: the answer, or the list of all chunks."""
        return finished(self.begin(llm, call, question))

    def begin(self, llm: LLM, call: str, question: str | None = None) -> Any:
        """Make one call, and return what it returns."""
        text = self.questions[0] if question is None else question
        return getattr(llm, call)(text if call in COMPLETIONS else [ChatMessage(role=MessageRole.USER, content=text)])

    def tool_caller(self) -> FunctionCallingLLM:
        """Return the LLM, if it calls tools.

        Raises:
            SkipTest: If it does not.
        """
        llm = self.make()
        needs(isinstance(llm, FunctionCallingLLM), "is no FunctionCallingLLM")
        needs(llm.metadata.is_function_calling_model, "its metadata says that it calls no tools")
        assert isinstance(llm, FunctionCallingLLM)
        return llm

    def expect_same(self, what: str, first: Any, second: Any) -> None:
        """Expect two answers, or two lists of chunks, to be the same, or of one type if they are a matter of luck."""
        expect(type(first) is type(second), f"{what}: got a {type(first).__name__} and a {type(second).__name__}")
        if self.deterministic:
            expect(said(first) == said(second), f"{what}: got {shown(said(first))} and {shown(said(second))}")


def get_weather(city: str = "Paris") -> str:
    """Tell the weather in a city."""
    return f"It is sunny in {city}."
