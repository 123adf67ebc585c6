"""The answers of calls without a recording: those of a function of the user, and the error results of misses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agenttape_core.errors import DriftError
from agenttape_core.schema import FAKED, Outcome
from agenttape_core.session.call import Call
from agenttape_core.session.recorded_errors import record_error
from agenttape_core.session.recording import keep_answer


def miss_result(drift: DriftError, parent: int | None) -> Callable[[Call], Any]:
    """Return the answer of a call that may be neither served nor executed, in a run that lives on.

    Args:
        drift: The error that stands for the miss.
        parent: The number of the call that is executing around it.

    Returns:
        A function that returns the error result of the boundary, or raises a `DriftError`.
    """

    def refused(call: Call) -> Any:
        said = call.session.redactor.text(drift.said)
        keep_answer(call, parent, Outcome(status="refused", value=said))
        return call.boundary.missed(call, drift)

    return refused


def answer_of(fake: Callable[..., Any], body: Mapping[str, Any], parent: int | None) -> Callable[[Call], Any]:
    """Return the answer of a call that a function of the user answers, for want of a recording.

    Args:
        fake: The function. It gets the arguments of the call as it was made.
        body: The request before it was redacted.
        parent: The number of the call that is executing around it.

    Returns:
        A function that returns what the fake returns, as the callers of the boundary expect it, or raises its error.
    """

    def faked(call: Call) -> Any:
        redactor, codec = call.session.redactor, call.session.codec
        try:
            value = call.boundary.faked(call, _called(fake, body))
        except Exception as error:
            with call.session.latching():
                record = record_error(error, codec)
                redacted = type(record).model_validate(redactor.value(record.model_dump()))
            keep_answer(call, parent, Outcome(status="raised", error=redacted), [FAKED])
            raise
        with call.session.latching():
            plain = redactor.value(codec.encode(value))
        keep_answer(call, parent, Outcome(status="returned", value=plain), [FAKED])
        return value

    return faked


def _called(fake: Callable[..., Any], body: Mapping[str, Any]) -> Any:
    given = body.get("arguments", body)
    if isinstance(given, Mapping):
        return fake(**given)
    return fake(*given) if isinstance(given, list | tuple) else fake(given)
