"""Evaluators of other libraries: how they are called, and what their answers say.

LangSmith's signature, `(inputs, outputs, reference_outputs)`, is that of openevals and agentevals, too. An object with
`evaluate` is called as LlamaIndex's evaluators are, with `query`, `response` and `contexts`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

from agenttape_core.checks.run import Run
from agenttape_core.errors import ConfigurationError

WAYS = ("run", "answer", "messages")
"""The forms of what an evaluator reads: a mapping with `answer` and `messages`, the answer, or the messages."""

_RESULTS = frozenset({"tool", "retrieval"})


class Scored(NamedTuple):
    """One score that an evaluator gave.

    Args:
        name: Its name; empty if the evaluator has none for it.
        value: The score; `None` if there is none.
        comment: The words of the evaluator about it.
    """

    name: str
    value: float | bool | None
    comment: str = ""


def ask(evaluator: Any, run: Run, reference: Any, of: str) -> Any:
    """Return what an evaluator says about a run.

    Args:
        evaluator: The evaluator.
        run: The run.
        reference: What it is compared with; `None` if it is not.
        of: The form of what it reads, one of `WAYS`.

    Raises:
        ConfigurationError: If it takes other arguments, or is asynchronous.
    """
    if not callable(evaluator):
        given: dict[str, Any] = {"query": run.prompt, "response": run.answer, "contexts": _contexts(run)}
        answer = evaluator.evaluate(**given, **({"reference": reference} if reference is not None else {}))
    else:
        answer = evaluator(**_arguments(evaluator, run, reference, of))
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise ConfigurationError(
            "judged: the evaluator is asynchronous\n  wrap it in a function that calls asyncio.run"
        )
    return answer


def scores_of(answer: Any) -> Iterator[Scored]:
    """Yield the scores in the answer of an evaluator: a boolean, a number, a mapping, an object, or several.

    Args:
        answer: The answer.
    """
    if isinstance(answer, list | tuple):
        for each in answer:
            yield from scores_of(each)
    elif isinstance(answer, Mapping) and isinstance(answer.get("results"), list):
        yield from scores_of(answer["results"])
    elif answer is None or isinstance(answer, bool | int | float):
        yield Scored("", answer)
    else:
        yield _scored(dict(answer) if isinstance(answer, Mapping) else _facts(answer))


def _scored(facts: Mapping[str, Any]) -> Scored:
    passing = facts.get("passing")
    value = passing if isinstance(passing, bool) else facts.get("score", facts.get("value"))
    comments = (facts.get(key) for key in ("invalid_reason", "comment", "feedback", "reasoning"))
    comment = next((text for text in comments if isinstance(text, str) and text), "")
    is_score = isinstance(value, bool | int | float) and not facts.get("invalid_result")
    return Scored(str(facts.get("key") or facts.get("name") or ""), value if is_score else None, comment)


def _facts(answer: Any) -> dict[str, Any]:
    names = ("key", "score", "value", "comment", "passing", "feedback", "invalid_result", "invalid_reason")
    return {name: getattr(answer, name) for name in names if hasattr(answer, name)}


def _arguments(evaluator: Any, run: Run, reference: Any, of: str) -> dict[str, Any]:
    messages = run.conversation()
    both = {"answer": run.answer, "messages": messages}
    outputs = {"run": both, "answer": run.answer, "messages": messages}[of]
    inputs = {"run": {"prompt": run.prompt}, "answer": run.prompt, "messages": messages[:1]}[of]
    compared = {"answer": reference} if of == "run" and isinstance(reference, str) else reference
    compared = {"messages": reference} if of == "run" and isinstance(reference, list) else compared
    known: dict[str, Any] = {
        "inputs": inputs,
        "outputs": outputs,
        "reference_outputs": compared,
        "run": SimpleNamespace(inputs=inputs, outputs=outputs, name=run.name),
        "example": SimpleNamespace(inputs=inputs, outputs=compared),
    }
    try:
        parameters = inspect.signature(evaluator).parameters.values()
    except (TypeError, ValueError):
        return {key: known[key] for key in ("inputs", "outputs", "reference_outputs")}
    named = {each.name for each in parameters if each.kind in {each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY}}
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        named |= {"inputs", "outputs", "reference_outputs"}
    needed = [each.name for each in parameters if each.default is each.empty and each.name in named]
    if not named & known.keys() or any(name not in known for name in needed):
        raise ConfigurationError(
            f"judged: the evaluator takes {', '.join(sorted(named)) or 'no arguments'}\n"
            "  expected inputs, outputs and reference_outputs, as LangSmith's evaluators do"
        )
    return {name: value for name, value in known.items() if name in named}


def _contexts(run: Run) -> list[str]:
    results = [call.result for call in run.happened if call.kind in _RESULTS and call.result is not None]
    return [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False, default=str) for each in results]
