"""Read parts of requests back from their wire format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

MessageT = TypeVar("MessageT")

_TOKENS = (
    "its request holds tokens, and the text is not recorded\n"
    "        pass detokenize=lambda model, tokens: tiktoken.encoding_for_model(model).decode(tokens)"
)


class NotImportableError(Exception):
    """A recording of which no interaction can be made.

    Args:
        reason: Why.
    """


class EarlierAnswers(Generic[MessageT]):
    """The answers that were imported so far: an agent sends them back, and means the same messages.

    Over the wire a message loses what belongs to the framework, such as the form of its content; the answer itself
    still has it.
    """

    def __init__(self) -> None:
        self._answers: list[tuple[frozenset[str], str, bool, MessageT]] = []

    def note(self, message: MessageT, ids: Iterable[str], text: str, *, has_calls: bool) -> None:
        """Add an answer.

        Args:
            message: The message.
            ids: The ids of its tool calls and items.
            text: Its text.
            has_calls: Whether it calls tools.
        """
        self._answers.append((frozenset(ids), text, has_calls, message))

    def find(self, ids: Iterable[str], text: str) -> MessageT | None:
        """Return the latest answer that a message on the wire equals.

        Args:
            ids: The ids of its tool calls and items.
            text: Its text.
        """
        wanted = frozenset(ids)
        for known, known_text, has_calls, message in reversed(self._answers):
            if wanted & known or (not wanted and not has_calls and text and known_text == text):
                return message
        return None


def expect(value: Any, where: str, *classes: type) -> Any:
    """Return a part of a request.

    Raises:
        NotImportableError: If it is of none of the classes.
    """
    if not isinstance(value, classes):
        wanted, found = " or ".join(cls.__name__ for cls in classes), type(value).__name__
        raise NotImportableError(f"its request is malformed: expected {wanted} at {where}, found {found}")
    return value


def items(request: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return a list of objects in a request.

    Raises:
        NotImportableError: If it is none.
    """
    found = expect(request.get(key), f"`{key}`", list)
    return [expect(item, f"an item of `{key}`", dict) for item in found]


def embedded_texts(request: Mapping[str, Any], detokenize: Callable[[str, list[int]], str] | None) -> list[str]:
    """Return the texts that a request for embeddings was sent for.

    Args:
        request: The body of the request.
        detokenize: Makes text of tokens, given the name of the model.

    Raises:
        NotImportableError: If it holds none, or tokens without a known text.
    """
    given = request.get("input")
    if isinstance(given, str):
        return [given]
    if not isinstance(given, list) or not given:
        raise NotImportableError("its request holds no text")
    if all(isinstance(item, str) for item in given):
        return given
    tokens: Sequence[Any] = [given] if all(isinstance(item, int) for item in given) else given
    if not all(isinstance(item, list) and all(type(token) is int for token in item) for item in tokens):
        raise NotImportableError("its request holds neither texts nor tokens")
    if detokenize is None:
        raise NotImportableError(_TOKENS)
    return [detokenize(str(request["model"]), item) for item in tokens]
