"""The outcome of one boundary call."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from agenttape_core.schema.record import Items, Record


class RecordedError(Record):
    """An exception as plain data, never as code."""

    type: str  # `module:QualName` of its class. It is looked up among loaded classes and never imported.
    message: str  # `str(error)`, for readers
    args: list[Any] = Field(default_factory=list)  # the encoded `error.args`
    attributes: dict[str, Any] = Field(default_factory=dict)  # the encoded instance attributes that could be encoded
    bases: Items[str] = Field(default_factory=list)
    """The classes it derives from, nearest first, so that a replay without the type still fits `except` clauses."""


class Usage(Record):
    """Tokens as the provider counted them (OpenTelemetry GenAI: `gen_ai.usage.*`)."""

    input_tokens: int | None = None
    output_tokens: int | None = None


class Effect(Record):
    """A side effect of a call in addition to its result, such as writing to a stream or to the state of its graph."""

    value: Any  # the effect, as the integration writes it that repeats it when the call is replayed
    after: int = 0
    """The number of chunks of a stream that had arrived by then."""


class Outcome(Record):
    """The end of one boundary call.

    `returned` has a `value`; `raised` has an `error`; `streamed` has `chunks`, and `ended` shows whether the stream was
    exhausted, closed early by its reader, or broken by an `error`. A call that the program `cancelled` before it ended
    has the `chunks` so far, if it was a stream.

    A call that was `refused` because it had no recording, in a run that continued, has the text of its error result as
    `value`. For all of them, `effects` lists the call's other effects, in this order, and `arguments` holds the
    arguments that it changed, by name, with their values at the end.
    """

    status: Literal["returned", "raised", "streamed", "cancelled", "refused"]
    value: Any = None
    chunks: list[Any] | None = None
    ended: Literal["exhausted", "closed", "raised"] | None = None
    error: RecordedError | None = None
    usage: Usage | None = None
    effects: Items[Effect] = Field(default_factory=list)
    arguments: dict[str, Any] = Field(default_factory=dict)
    given_up: int | None = None
    """The number of chunks that had arrived (0 for a plain call) when the program abandoned the thread of the call: a
    timeout fired around it, and the call continued. `None` if it did not."""

    @property
    def has_failed(self) -> bool:
        """True if the call brought no whole answer: it raised, its stream broke, or it was cancelled or refused."""
        return self.error is not None or self.status in {"cancelled", "refused"}

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if "raised" in (self.status, self.ended) and self.error is None:
            raise ValueError("what `raised` needs an `error`")
        if self.status == "returned" and self.error is not None:
            raise ValueError("what `returned` has no `error`: it is what `raised`")
        if self.status == "refused" and not isinstance(self.value, str):
            raise ValueError("what was `refused` needs the words of its error result as `value`")
        if self.status == "streamed" and self.chunks is None:
            raise ValueError("what was `streamed` needs `chunks`")
        return self
