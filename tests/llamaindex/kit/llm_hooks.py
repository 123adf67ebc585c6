"""The properties of an LLM that its author declares, and the calls that the checks make of it."""

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

from .calls import CHATS, COMPLETIONS, finished
from .comparison import content_of
from .suite import KitSuite, needs, shown


class Weather(BaseModel):
    """The weather in a city: the class of structured output."""

    city: str = Field(default="Paris", description="The city.")
    degrees: int = Field(default=20, description="The temperature in degrees Celsius.")


class LLMHooks(KitSuite):
    """The properties in which LLMs differ. `make` has to be defined; the others have defaults."""

    deterministic: ClassVar[bool] = True
    """True if equal questions get equal answers. If not, only the types of answers are compared."""
    completes: ClassVar[bool] = True
    """True if it has `complete` and its three other forms."""
    streams: ClassVar[bool] = True
    """True if it streams."""
    structures: ClassVar[bool] = True
    """True if it can answer `tool_question` with an `output_class`."""
    pickles: ClassVar[bool] = True
    """True if it can be sent to another process."""
    blocks: ClassVar[Sequence[Any]] = ()
    """A block of each sort, besides text, that it takes in a user's message."""
    secrets: ClassVar[Sequence[str]] = ()
    """The secrets that it is made with and must never reveal: keys, tokens."""
    questions: ClassVar[Sequence[str]] = ("Why is the sky blue?", "How deep is the sea?", "Who was Ada Lovelace?")
    """Different questions that it answers with a text."""
    tool_question: ClassVar[str] = "What is the weather in Paris? Use the tool."
    """A question that it answers with a call of one of `tools`, if it is given them."""
    output_class: ClassVar[type[BaseModel]] = Weather
    """The class of structured output."""

    # -- making it -------------------------------------------------------------------------------------------------

    def make(self) -> LLM:
        """Return the LLM. Has to be defined; called more than once for a check."""
        raise NotImplementedError("define make(self), which returns the LLM")

    def make_failing(self) -> LLM:
        """Return an LLM whose every call raises, as if its service were down."""
        raise SkipTest("has no `make_failing` hook")

    def make_breaking(self) -> LLM:
        """Return an LLM whose streams raise after their first chunk."""
        raise SkipTest("has no `make_breaking` hook")

    def tools(self) -> Sequence[BaseTool]:
        """Return the tools that it is given."""
        return [FunctionTool.from_defaults(fn=get_weather)]

    # -- for the checks --------------------------------------------------------------------------------------------

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
        """Make one call to its end, and return the answer, or the list of all chunks."""
        return finished(self.begin(llm, call, question))

    def begin(self, llm: LLM, call: str, question: str | None = None) -> Any:
        """Make one call, and return its value as it is."""
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
        """Expect two answers or lists of chunks to be the same; of one type if the LLM is not deterministic."""
        expect(type(first) is type(second), f"{what}: got a {type(first).__name__} and a {type(second).__name__}")
        if self.deterministic:
            expect(
                content_of(first) == content_of(second),
                f"{what}: got {shown(content_of(first))} and {shown(content_of(second))}",
            )


def get_weather(city: str = "Paris") -> str:
    """Get the weather in a city."""
    return f"It is sunny in {city}."
