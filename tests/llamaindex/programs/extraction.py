"""Objects out of text, in all forms that the framework has."""

# Annotations are evaluated at once: tools find the context among their parameters by its class.
from collections.abc import Sequence
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.prompts import PromptTemplate
from pydantic import BaseModel, Field

from ..scripted import Reply, ScriptedEmbedding, ScriptedLLM, World
from .engines import documents
from .registry import program, shown


class Line(BaseModel):
    """A line of an invoice."""

    what: str
    price: float = Field(description="in euros")


class Invoice(BaseModel):
    """An invoice."""

    number: str
    lines: list[Line]


def clerk(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
    """Fill in an invoice, by a function call or as JSON."""
    filled = {"number": "2026-1", "lines": [{"what": "paper", "price": 2.5}]}
    if tools:
        return [(tools[0], filled)]
    return '{"number": "2026-1", "lines": [{"what": "paper", "price": 2.5}]}'


@program
async def extraction(world: World) -> Any:
    """Objects out of text in all forms that there are."""
    prompt = PromptTemplate("Read this: {text}")
    told = []
    for llm in (ScriptedLLM(world, clerk), ScriptedLLM(world, clerk, function_calling=False)):
        told.append(shown(llm.structured_predict(Invoice, prompt, text="paper, 2.50")))
        told.append(shown(await llm.astructured_predict(Invoice, prompt, text="paper, 2.50")))
        structured = llm.as_structured_llm(Invoice)
        told.append(shown(structured.chat([ChatMessage(role="user", content="paper")]).raw))
        told.append(shown((await structured.achat([ChatMessage(role="user", content="paper!")])).raw))
        told.append([shown(item) for item in llm.stream_structured_predict(Invoice, prompt, text="ink")])
        told.append([shown(i) async for i in await llm.astream_structured_predict(Invoice, prompt, text="pens")])
    engine = VectorStoreIndex.from_documents(documents(), embed_model=ScriptedEmbedding(world)).as_query_engine(
        llm=ScriptedLLM(world, clerk), output_cls=Invoice, response_mode="compact"
    )
    told.append(shown(engine.query("The invoice?").response))
    return told
