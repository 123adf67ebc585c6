"""What is known of an answer of a model, whichever framework made it and however it came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agenttape_core.schema import Outcome
from agenttape_core.tools.reading.answer import answer_text, joined
from agenttape_core.tools.reading.messages import items_of, message_of

_OWN_IDS = ("run-", "run--", "lc_")
"""What the ids begin with that LangChain makes for messages without one."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a model answered, and what its provider said of the answer.

    Args:
        messages: The answers, as `message_of` gives them; more than one if the model was asked for several.
        finish_reasons: Why each ended.
        model: The model that answered, as its provider calls it.
        id: The provider's id of the answer.
        provider: Who answered, as the framework calls it.
        tokens: Tokens of special kinds, by the last words of their attribute of the GenAI conventions.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    finish_reasons: list[str] = field(default_factory=list)
    model: str | None = None
    id: str | None = None
    provider: str | None = None
    tokens: dict[str, int] = field(default_factory=dict)


def answered(outcome: Outcome) -> Answered:
    """Return what is known of an answer.

    Args:
        outcome: The outcome of an interaction of the kind `chat` or `completion`.
    """
    if outcome.value is None and not outcome.chunks:
        return Answered()
    whole = bare(joined(outcome))
    answers = [bare(answer) for answer in _generations(whole)]
    messages = [message for answer in answers if (message := _message(answer)) is not None]
    if not messages and (text := answer_text(outcome)):
        messages = [message_of({"content": text}, "assistant")]
    sources = [source for answer in [*answers, whole] for source in _sources(answer)]
    return Answered(
        messages,
        [reason for answer in answers for reason in _reasons(answer)] or list(_reasons(whole)),
        _first(sources, "model_name", "model"),
        _first(sources, "id", skip=_OWN_IDS),
        _first(sources, "model_provider", "ls_provider"),
        _tokens(sources),
    )


def bare(value: Any) -> Any:
    """Return what a tag stands before: the fields of a framework's object, or the value itself."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    tag, body = next(iter(value.items()))
    if not tag.startswith("$"):
        return value
    if isinstance(body, list) and body and isinstance(body[-1], Mapping):  # of an object: its class, then its fields
        return body[-1]
    return body


def _generations(whole: Any) -> Iterator[Any]:
    generations = whole.get("generations") if isinstance(whole, Mapping) else None
    if not isinstance(generations, list):
        yield whole
        return
    for generation in generations:
        yield from generation if isinstance(generation, list) else [generation]


def _message(answer: Any) -> dict[str, Any] | None:
    if not isinstance(answer, Mapping):
        return message_of({"content": answer}, "assistant") if isinstance(answer, str) else None
    message = bare(answer.get("message", answer.get("text", answer)))
    if isinstance(message, str):
        return message_of({"content": message}, "assistant")
    known = isinstance(message, Mapping) and {"content", "blocks", "tool_calls"} & message.keys()
    return message_of(message, "assistant") if known else None


def _sources(answer: Any) -> Iterator[Mapping[str, Any]]:
    """Yield where something may be said of an answer, the likeliest place first."""
    if not isinstance(answer, Mapping):
        return
    message = bare(answer.get("message"))
    inner = [message.get("response_metadata"), message.get("usage_metadata")] if isinstance(message, Mapping) else []
    places = [*inner, answer.get("llm_output"), answer.get("generation_info"), answer.get("raw"), message]
    for place in map(bare, places):
        if isinstance(place, Mapping):
            yield place
            for key in ("usage", "token_usage"):
                if isinstance(used := bare(place.get(key)), Mapping):
                    yield used


def _reasons(answer: Any) -> Iterator[str]:
    found = [_first([source], "finish_reason", "stop_reason", "done_reason") for source in _sources(answer)]
    choices = [bare(choice) for source in _sources(answer) for choice in items_of(source.get("choices"))]
    found += [_first([choice], "finish_reason") for choice in choices if isinstance(choice, Mapping)]
    yield from list(filter(None, found))[:1]


def _first(sources: list[Mapping[str, Any]], *keys: str, skip: tuple[str, ...] = ()) -> str | None:
    said = (source.get(key) for source in sources for key in keys)
    return next((text for text in said if isinstance(text, str) and text and not text.startswith(skip or "\0")), None)


_TOKENS = {
    "cache_read.input_tokens": (("input_token_details", "cache_read"), ("prompt_tokens_details", "cached_tokens"),
                                ("cache_read_input_tokens",)),
    "cache_creation.input_tokens": (("input_token_details", "cache_creation"), ("cache_creation_input_tokens",)),
    "reasoning.output_tokens": (("output_token_details", "reasoning"),
                                ("completion_tokens_details", "reasoning_tokens")),
}  # fmt: skip
"""Where tokens of special kinds are counted, in the words of LangChain and of providers."""


def _tokens(sources: list[Mapping[str, Any]]) -> dict[str, int]:
    found = {}
    for name, paths in _TOKENS.items():
        counts = (_at(source, path) for path in paths for source in sources)
        count = next((count for count in counts if type(count) is int), None)
        if count is not None:
            found[name] = count
    return found


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = bare(value).get(key) if isinstance(bare(value), Mapping) else None
    return value
