"""Recordings of vcrpy and of agenttape 0.1 as calls of LangChain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import ToolMessage

from agenttape_core import Rule
from agenttape_core.integration import Boundary, importing
from agenttape_core.integration.importing import (
    AS_JSON,
    Exchange,
    Importing,
    ImportReport,
    NotImportableError,
    Options,
    is_scalar,
)
from agenttape_langchain.importers.chats import import_chat
from agenttape_langchain.importers.embeddings import import_embedding
from agenttape_langchain.importers.foreign_objects import is_message, read_document, read_message
from agenttape_langchain.importers.requests import History
from agenttape_langchain.requests import retrieval_body, tool_body
from agenttape_langchain.tools import TOOL
from agenttape_langchain.vector_stores import RETRIEVAL


class LangChainCalls:
    """Makes calls of LangChain; see core's `Framework`.

    Args:
        options: The user's knowledge of the program.
    """

    name = "LangChain"

    def __init__(self, options: Options) -> None:
        self._options = options
        self._history = History()

    def chat(self, importing: Importing, exchange: Exchange) -> str:
        """Record an exchange with a chat model, and return what is lost."""
        return import_chat(importing, exchange, self._options, self._history)

    def completion(self, importing: Importing, exchange: Exchange) -> str:
        """Refuse an exchange with a model of texts.

        Raises:
            NotImportableError: Always.
        """
        raise NotImportableError("it is of OpenAI's older completions, whose class of LangChain is not read back")

    def embedding(self, importing: Importing, exchange: Exchange) -> str:
        """Record an exchange with an embedding model, and return what is lost."""
        return import_embedding(importing, exchange, self._options)

    def tool_request(self, name: str, arguments: Any) -> tuple[Boundary, dict[str, Any]]:
        """Return the boundary of tools, and the request of a call."""
        return TOOL, tool_body(name, arguments)

    def tool_value(self, plain: Any) -> tuple[Any, str]:
        """Return the value of a tool, and what is lost of it."""
        if is_message(plain) and plain.get("type") == "tool":
            message = read_message(plain)
            return message, "" if is_scalar(getattr(message, "artifact", None)) else AS_JSON
        return plain, "" if is_scalar(plain) else AS_JSON

    def retrieval_request(self, query: str) -> tuple[Boundary, dict[str, Any]]:
        """Return the boundary of retrievers, and the request of a call."""
        return RETRIEVAL, retrieval_body(query, {})

    def documents(self, plain: Any) -> Any:
        """Return the documents of a retriever."""
        if not isinstance(plain, list):
            raise NotImportableError("its result is no list of documents")
        return [read_document(item) for item in plain]

    def ids_of(self, value: Any) -> tuple[str, ...]:
        """Return the id of the call in the message of a tool."""
        return (value.tool_call_id,) if isinstance(value, ToolMessage) else ()


def import_vcr(
    source: str | Path,
    target: str | Path,
    *,
    overwrite: bool = False,
    redact: bool | Sequence[Rule] = True,
    tags: Sequence[str] = (),
    model_options: Mapping[str, Any] | None = None,
    schemas: Sequence[type] = (),
    detokenize: Callable[[str, list[int]], str] | None = None,
) -> ImportReport:
    """Make a cassette of a vcrpy cassette.

    The answers of OpenAI, Azure, Anthropic and compatible services are parsed by the provider's own package, so a
    replay gives exactly the messages that the program got. Nothing is sent anywhere.

    Args:
        source: The file: YAML or JSON, also compressed by gzip.
        target: The cassette: a bare name under the cassette folder, or a path.
        overwrite: Whether to replace a cassette that is there already.
        redact: Rules beyond the built-in ones, or `False` to keep secrets as they are.
        tags: Words for the header.
        model_options: Arguments of the program's models that are not sent: `output_version="v1"`.
        schemas: The pydantic classes that the program passes as response formats: they are sent as plain schemas.
        detokenize: Makes text of tokens, given the name of the model, for embeddings of tokens.

    Returns:
        The report, with a grade for each exchange.

    Raises:
        CassetteFormatError: If the source is no vcrpy cassette.
        CassetteNotFoundError: If there is none.
        ConfigurationError: If the target is there already, or an option is not valid.
    """
    calls = LangChainCalls(Options(model_options or {}, schemas, detokenize))
    return importing.import_vcr(source, target, calls, overwrite=overwrite, redact=redact, tags=tags)


def import_agenttape01(
    source: str | Path,
    target: str | Path,
    *,
    overwrite: bool = False,
    redact: bool | Sequence[Rule] = True,
    tags: Sequence[str] = (),
    model_options: Mapping[str, Any] | None = None,
    schemas: Sequence[type] = (),
    detokenize: Callable[[str, list[int]], str] | None = None,
) -> ImportReport:
    """Make a cassette of a cassette of the older distribution `agenttape` 0.1.

    Args:
        source: The file. Its folder of assets is read if the file refers to it.
        target: The cassette: a bare name under the cassette folder, or a path.
        overwrite: Whether to replace a cassette that is there already.
        redact: Rules beyond the built-in ones, or `False` to keep secrets as they are.
        tags: Words for the header.
        model_options: As in `import_vcr`.
        schemas: As in `import_vcr`.
        detokenize: As in `import_vcr`.

    Returns:
        The report, with a grade for each interaction.

    Raises:
        CassetteFormatError: If the source is no such cassette.
        CassetteNotFoundError: If there is none.
        ConfigurationError: If the target is there already, or an option is not valid.
    """
    calls = LangChainCalls(Options(model_options or {}, schemas, detokenize))
    return importing.import_agenttape01(source, target, calls, overwrite=overwrite, redact=redact, tags=tags)
