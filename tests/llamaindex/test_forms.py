"""Structured answers and tools with validated values replay, and the values are in no file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.llms.custom import CustomLLM
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from pydantic import UUID4, BaseModel, Field, PostgresDsn, SecretStr

from agenttape_core import use_cassette
from agenttape_core.redaction.detection.personal import passes_luhn
from agenttape_llamaindex import tape

FOUND = {
    "email": "ann.lee@acme-mail.com",
    "phone": "+1 415-777-2671",
    "card": "4556 7375 8689 9855",
    "iban": "DE21500500009876543210",
    "session_token": "7f3c2a10-9b8d-4e6f-a1b2-c3d4e5f60718",
    "pin": 4821,
    "password": "Tr0ub4dor&3",
    "database": "postgresql://app:hunter2hunter@db.internal:5432/shop",
}


class Account(BaseModel):
    """An account with validated values."""

    email: str = Field(pattern=r"^[^@\s]+@[^@\s]+\.[a-z]{2,4}$")
    phone: str = Field(pattern=r"^\+1 \d{3}-\d{3}-\d{4}$")
    card: str = Field(pattern=r"^\d{4}( \d{4}){3}$")
    iban: str = Field(pattern=r"^DE\d{20}$")
    session_token: UUID4
    pin: int = Field(ge=1000, le=9999)
    password: SecretStr = Field(min_length=8)
    database: PostgresDsn


def test_an_account_of_a_model_and_of_a_tool(tmp_path: Path) -> None:
    """What checks and takes apart the values of a structured answer goes the same way; none of them is in the file."""

    class Inventor(CustomLLM):
        """A model that makes up an account."""

        @property
        def metadata(self) -> LLMMetadata:
            """Return its name."""
            return LLMMetadata(model_name="inventor")

        @llm_completion_callback()
        def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
            """Answer with JSON."""
            return CompletionResponse(text=json.dumps(FOUND))

        @llm_completion_callback()
        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
            """Refuse to stream."""
            raise NotImplementedError

    def checked(found: Account) -> tuple[Any, ...]:
        """Return what follows from an account, and is the same for all that have its form."""
        assert passes_luhn(found.card)
        url = urlsplit(str(found.database))
        address = found.database.hosts()[0]
        return (url.hostname, url.port, url.username, address["host"], found.session_token.version, len(found.phone))

    def run(llm: Any, tool: Any) -> list[Any]:
        """Let a model and a tool bring the same account up."""
        predicted = llm.structured_predict(Account, PromptTemplate("Invent an account for {name}"), name="Ann")
        looked_up = Account.model_validate(tool.call(name="Ann").raw_output)
        return [checked(predicted), checked(looked_up)]

    def look_up(name: str) -> dict[str, Any]:
        """Look an account up."""
        return {"name": name, **FOUND}

    path = tmp_path / "c.yaml"

    def all_of_it() -> list[Any]:
        return run(tape(Inventor()), tape(FunctionTool.from_defaults(look_up)))

    with use_cassette(path, mode="all"):
        recorded = all_of_it()
    text = path.read_text("utf-8")
    assert [value for value in FOUND.values() if str(value) in text] == []
    assert "hunter2hunter" not in text
    with use_cassette(path):
        assert all_of_it() == recorded
