"""The check that an evaluator is content. What a judge asks is recorded apart from the run: a gate is offline."""

from __future__ import annotations

import inspect
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agenttape_core.checks.checking import Check, Score
from agenttape_core.checks.run import Run
from agenttape_core.errors import (
    AgentTapeError,
    AgentTapeHalt,
    CassetteMissError,
    CassetteNotFoundError,
    ConfigurationError,
)
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.tools.reporting import Finding

# -- Evaluators of other libraries: how they are called, and what their answers say.


WAYS = ("run", "answer", "messages")
"""The input that an evaluator takes: a mapping with `answer` and `messages`, the answer, or the messages."""

_RESULTS = frozenset({"tool", "retrieval"})


class Scored(NamedTuple):
    """One score that an evaluator gave."""

    name: str  # its name; empty if the evaluator has none for it
    value: float | bool | None  # the score; `None` if there is none
    comment: str = ""  # the words of the evaluator about it


def ask(evaluator: Any, run: Run, reference: Any, of: str) -> Any:
    """Return an evaluator's verdict on a run.

    `of` is the input that it takes, one of `WAYS`. Raises `ConfigurationError` if it takes other arguments, or is
    asynchronous.
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
    """Yield the scores in the answer of an evaluator: a boolean, a number, a mapping, an object, or several."""
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


JUDGE = ".judge.yaml"  # the end of the name of a judge's cassette
_MODE: ContextVar[str | None] = ContextVar("mode of judges", default=None)
"""The mode of judges' sessions, unless the project's mode applies."""
_NO_NAME = re.compile(r"[^\w.-]+")


def judged(
    evaluator: Any,
    /,
    *,
    name: str | None = None,
    reference: Any = None,
    of: str = "run",
    at_least: float = 1.0,
    mode: str | None = None,
) -> Check:
    """Return the check that an evaluator is content with a run.

    The evaluator runs in its own session: its calls to models are recorded next to the run, in
    `RUN.NAME.judge.yaml`, in the current mode, and replayed from then on. Without calls, there's no file.

    Args:
        evaluator: A function of LangSmith's signature, `(inputs, outputs, reference_outputs)`, which returns a
            boolean, a number or a mapping with `score`; or an object with `evaluate`, such as LlamaIndex's.
        name: Its name; by default the function's or the class's.
        reference: What the run is compared with.
        of: What the evaluator reads: `run` (a mapping with `answer` and `messages`), `answer`, or `messages`.
        at_least: The least score that passes, where it is a number.
        mode: The mode of its session; by default the one of the project, of pytest or of the command.

    Raises:
        ConfigurationError: If it isn't an evaluator, or an option is malformed.
    """
    if not callable(evaluator) and not callable(getattr(evaluator, "evaluate", None)):
        raise ConfigurationError(f"judged: expected an evaluator, found {evaluator!r}")
    if of not in WAYS:
        raise ConfigurationError(f"judged: of is one of {', '.join(WAYS)}, found {of!r}")
    if isinstance(at_least, bool) or not isinstance(at_least, int | float):
        raise ConfigurationError(f"judged: at_least is a number, found {at_least!r}")
    called = name or getattr(evaluator, "__name__", None) or type(evaluator).__name__

    def judge(run: Run) -> Iterator[Finding | Score]:
        try:
            with _session(run, called, mode or _MODE.get()):
                found = list(scores_of(ask(evaluator, run, run.as_recorded(reference), of)))
        except ConfigurationError:
            raise
        except CassetteMissError as miss:
            how = "record it: agenttape check --record-judges, or the test in a mode that records"
            yield run.finding(
                f"{called} asked for something that is not recorded; {how}", found=str(miss).partition("\n")[0]
            )
            return
        except (AgentTapeError, AgentTapeHalt, Exception) as error:  # noqa: BLE001 - of an evaluator, it may be any
            yield run.finding(f"{called} raised {type(error).__name__}", found=str(error))
            return
        is_named = name is not None and len(found) == 1
        for each in found or [Scored("", None)]:
            yield from _verdict(run, each._replace(name=called if is_named else each.name or called), at_least)

    return Check("judged", f"judged {called}", judge, ("output",))


def _verdict(run: Run, scored: Scored, at_least: float) -> Iterator[Finding | Score]:
    if scored.value is None:
        yield run.finding(f"{scored.name} gave no score", found=scored.comment)
        return
    yield Score(scored.name, scored.value)
    if isinstance(scored.value, bool):
        if not scored.value:
            yield run.finding(f"{scored.name} is not content", found=scored.comment)
    elif not scored.value >= at_least:
        yield run.finding(f"{scored.name} scored {scored.value:g}, and at least {at_least:g}", found=scored.comment)


@contextmanager
def recording_judges() -> Iterator[None]:
    """Let judges inside the block record missing calls, and drop unused ones."""
    before = _MODE.set("update")
    try:
        yield
    finally:
        _MODE.reset(before)


def judge_path(run: Run, name: str) -> Path:
    """Return the file with a judge's calls about a run. Raises `ConfigurationError` if the run is in no local file."""
    if not run.path or "://" in run.path:
        raise ConfigurationError(f"judged: {run.path or run.name} isn't a local file: {name} has no place to record")
    path = Path(run.path)
    place = path.name.partition(".")[0]
    key = f".{run.key.rpartition('#')[2]}" if run.key else ""
    return path.with_name(f"{place}{key}.{_NO_NAME.sub('-', name)}{JUDGE}")


@contextmanager
def _session(run: Run, name: str, mode: str | None) -> Iterator[None]:
    """Open the session of a judge. If it makes no call, it has no file and needs none."""
    path = judge_path(run, name).resolve()
    was_there = path.exists()
    with ExitStack() as stack:
        try:
            session = stack.enter_context(use_cassette(path, mode=mode, on_unused="ignore"))
        except CassetteNotFoundError:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="agenttape-judge-"))
            session = stack.enter_context(_empty(Path(folder) / path.name))
        yield
    if not was_there and not session.report.recorded:
        path.unlink(missing_ok=True)


def _empty(path: Path) -> use_cassette:
    """Return a replay of an empty cassette, in which each call is a miss."""
    with use_cassette(path, mode="record"):
        pass
    return use_cassette(path, mode="replay")
