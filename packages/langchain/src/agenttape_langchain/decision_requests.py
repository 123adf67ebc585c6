"""The calls of decision models as plain data, for models that take part and for runs that a handler observes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from agenttape_core.integration import Boundary, Position, Session, Usage
from agenttape_langchain.requests import argument
from agenttape_langchain.session_tree import enclosing_run

_QUESTIONS = "questions"


def _usage(response: Any) -> Usage | None:
    counts = response.usage
    if counts is None:
        return None
    tokens = counts if isinstance(counts, Mapping) else vars(counts)
    return Usage(input_tokens=tokens.get("input_tokens"), output_tokens=tokens.get("output_tokens"))


DECISION = Boundary("chat", usage=_usage, takes_candidates=False)
"""Answers of decision models: `chat`, as LangChain's own traces and token counts say."""


def decision_body(model: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a decision model.

    The request holds the state (or `input`) that it is asked about, and the questions by their ids.
    """
    questions = {str(key): _question(each) for key, each in request[_QUESTIONS].items()}
    rest = {key: argument(value) for key, value in request.items() if key != _QUESTIONS}
    return {"model": model, **rest, _QUESTIONS: questions}


def _question(question: Any) -> Any:
    return argument(question.model_dump(exclude_none=True) if isinstance(question, BaseModel) else question)


def is_decision(run_type: Any, inputs: Any) -> bool:
    """Return whether a chain that begins is the call of a decision model.

    `run_type` is the type of run that LangChain reports with it.
    """
    return run_type == "llm" and isinstance(inputs, Mapping) and isinstance(inputs.get(_QUESTIONS), Mapping)


def position_of_run(session: Session) -> Position | None:
    """Return the position of the run of a decision model; `None` if its leaf method was called by hand."""
    run = enclosing_run(session)
    return run.position if run is not None and run.is_model else None
