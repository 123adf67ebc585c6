"""The part of an import that each framework has to provide: calls, made from exchanges and from plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agenttape_core.integration.importing.http_exchanges import Exchange
from agenttape_core.lifecycle.imported import Importing
from agenttape_core.session import Boundary


@dataclass(frozen=True, slots=True)
class Options:
    """Knowledge of the program that the user of an importer has, and the recording does not.

    Args:
        model_options: Arguments of its models that are not sent: `output_version`.
        schemas: The pydantic classes that it passes as response formats.
        detokenize: Makes text of tokens, given the name of the model, for embeddings of tokens.
    """

    model_options: Mapping[str, Any] = field(default_factory=dict)
    schemas: Sequence[type] = ()
    detokenize: Callable[[str, list[int]], str] | None = None


class Framework(Protocol):
    """A framework whose calls an import makes. One object serves one import: it may remember earlier answers."""

    @property
    def name(self) -> str:
        """Its name, for messages."""

    def chat(self, importing: Importing, exchange: Exchange) -> str:
        """Record an exchange with a chat model, and return its lost parts; empty if it is exact.

        Raises:
            NotImportableError: If no interaction can be made of it.
        """

    def completion(self, importing: Importing, exchange: Exchange) -> str:
        """Record an exchange with a model of texts, as `chat` does."""

    def embedding(self, importing: Importing, exchange: Exchange) -> str:
        """Record an exchange with an embedding model, as `chat` does."""

    def tool_request(self, name: str, arguments: Any) -> tuple[Boundary, dict[str, Any]]:
        """Return the boundary of tools, and the request of a call."""

    def tool_value(self, plain: Any) -> tuple[Any, str]:
        """Return the value of a tool, and the lost parts of it."""

    def retrieval_request(self, query: str) -> tuple[Boundary, dict[str, Any]]:
        """Return the boundary of retrievers, and the request of a call."""

    def documents(self, plain: Any) -> Any:
        """Return the result of a retriever.

        Raises:
            NotImportableError: If it is none.
        """

    def ids_of(self, value: Any) -> tuple[str, ...]:
        """Return the run-specific ids in the value of a tool."""
