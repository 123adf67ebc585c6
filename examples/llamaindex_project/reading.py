"""An agent over an index, and a workflow that reads at once. Nothing in this file knows that its runs are recorded."""

# Annotations are evaluated at once: a workflow finds the events of its steps by them.
from pathlib import Path
from typing import Any

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import LLM
from llama_index.core.tools import QueryEngineTool
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step

from library_agent.client import ServiceEmbedding, ServiceLLM

BOOKS = {
    "Tea and Rain": "A traveller walks through Yorkshire for a year.",
    "The Deep": "What lives below two thousand metres, and how we came to know.",
}
PROMPT = "You are a librarian. Look a book up, reserve it, then answer in one sentence."


def reserve(title: str) -> str:
    """Reserve a book."""
    with Path("reserved.txt").open("a", encoding="utf-8") as reserved:
        reserved.write(f"{title}\n")
    return f"{title} is reserved."


async def answer(question: str) -> str:
    """Return the agent's answer to a reader."""
    llm = ServiceLLM(model="gpt-5-mini")
    books = [Document(text=text, id_=title) for title, text in BOOKS.items()]
    index = VectorStoreIndex.from_documents(books, embed_model=ServiceEmbedding())
    engine = index.as_query_engine(llm=llm, similarity_top_k=1)
    look_up = QueryEngineTool.from_defaults(engine, name="look_up", description="Look a book up.")
    agent = FunctionAgent(llm=llm, tools=[look_up, reserve], system_prompt=PROMPT)
    return str(await agent.run(question))


class Book(Event):
    """A book to read."""

    title: str


class Read(Event):
    """A book that was read."""

    title: str
    about: str


class Shelf(Workflow):
    """Reads all books at once, and says what they have in common."""

    def __init__(self, llm: LLM | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._llm = llm or ServiceLLM(model="gpt-5-mini")

    @step
    async def begin(self, ctx: Context, event: StartEvent) -> Book | None:
        """Take the books from the shelf."""
        for title in event.get("titles", BOOKS):
            ctx.send_event(Book(title=title))
        return None

    @step(num_workers=4)
    async def read(self, ctx: Context, event: Book) -> Read:
        """Read a book."""
        about = await self._llm.acomplete(f"In a word, what is this about? {BOOKS[event.title]}")
        ctx.write_event_to_stream(Read(title=event.title, about=about.text))
        return Read(title=event.title, about=about.text)

    @step
    async def compare(self, ctx: Context, event: Read) -> StopEvent | None:
        """Compare them, in the order in which they were read."""
        books = ctx.collect_events(event, [Read] * len(BOOKS))
        if books is None:
            return None
        listed = "; ".join(f"{book.title}: {book.about}" for book in books)
        return StopEvent(result=(await self._llm.acomplete(f"What have these in common? {listed}")).text)


async def compared(llm: LLM | None = None) -> tuple[str, list[str]]:
    """Return what the books have in common, and their titles as they were read."""
    handler = Shelf(llm, timeout=60).run()
    read = [event.title async for event in handler.stream_events() if isinstance(event, Read)]
    return str(await handler), read
