"""LangSmith exports: the runs of `client.list_runs()` or of its web page, as JSON or JSON lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage, message_chunk_to_message
from langchain_core.outputs import ChatGeneration, ChatResult, Generation, LLMResult
from langsmith import Client

from agenttape_core import Rule
from agenttape_core.errors import UnrecordableValueError
from agenttape_core.integration import Boundary, ExecutedCall, Position
from agenttape_core.integration.importing import (
    CallFacts,
    Graded,
    Importing,
    ImportReport,
    NotImportableError,
    error_named,
    expect_list,
    expect_mapping,
    is_scalar,
    literal_arguments,
    malformed,
    parse_json,
    read_source,
)
from agenttape_langchain._compat import as_provider_sees
from agenttape_langchain.address import own_tags, placement
from agenttape_langchain.chat_models import CHAT
from agenttape_langchain.importers.foreign_objects import (
    holds_unwritten,
    is_message,
    read_document,
    read_message,
)
from agenttape_langchain.importers.langsmith_service import fetched_run, is_run_id
from agenttape_langchain.llms import COMPLETION
from agenttape_langchain.requests import RETRIEVAL, chat_body, completion_body, retrieval_body, tool_body
from agenttape_langchain.tools import TOOL

# -- LangSmith runs that reach outside, as interactions: a run holds what callbacks received for the call.

_STREAMED = "it was streamed, and LangSmith does not keep the chunks"
_NO_PARAMS = "the export has no invocation_params, so model, tools and sampling of the request are guessed"
_CLASS = "of the class that was its response format, the export has only the name"
_UNWRITTEN = "the export holds one of its values only as text, because LangSmith could not write it"
_ERROR = "of its error, the export has the type and the text, but no attributes"
_ARTIFACT = "the export has the artifact of the tool as JSON, so its types may be lost"
_AS_JSON = "the export has the result as JSON, so its types may be lost"
_NO_END = "it had not ended when it was exported"
_NO_METADATA = "it was recorded below LangChain, so the metadata of its message differ from LangChain's"
_LAST_LINE = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?$")
_REPR = re.compile(r"^([A-Za-z_]\w*)\(")


def import_run(importing: Importing, run: _ForeignRun) -> str:
    """Record a run of a model, a tool or a retriever.

    Returns the losses with their reasons; empty if it is exact. Raises `NotImportableError` if no interaction can be
    made of it.
    """
    boundary, name, body, losses = _request(run)
    value: Any = None
    if run.doubt:
        losses.append(run.doubt)
    if run.error:
        losses.append(_ERROR)
    elif not run.outputs:
        raise NotImportableError(_NO_END)
    else:
        value = _value(run, losses)
    if holds_unwritten([dict(run.inputs), dict(run.outputs), run.extra.get("invocation_params")]):
        losses.append(_UNWRITTEN)
    loss = "; ".join(dict.fromkeys(losses))
    ids = (value.tool_call_id,) if isinstance(value, ToolMessage) else ()
    facts = CallFacts(run.position, run.call_around, ids, run.own_tags, {}, run.duration_ms, loss)
    session_call = importing.session_call(boundary, name, body, facts)
    if run.error:
        session_call.raised(_error(run.error))
    else:
        session_call.returned(value)
    run.session_call = session_call
    return loss


def _request(run: _ForeignRun) -> tuple[Boundary, str, dict[str, Any], list[str]]:
    """Return the boundary, the name and the request of a run, and its lost parts."""
    if run.kind == "tool":
        return TOOL, run.name, tool_body(run.name, _arguments(run.inputs)), []
    if run.kind == "retriever":
        query = run.inputs.get("query")
        if not isinstance(query, str):
            raise NotImportableError("its query is not in the export")
        return RETRIEVAL, run.name, retrieval_body(query, {}), []
    params = run.extra.get("invocation_params")
    losses = [] if isinstance(params, dict) else [_NO_PARAMS]
    if isinstance(params, dict) and str(params.get("response_format")).startswith("<class "):
        losses.append(_CLASS)
    known = params if isinstance(params, dict) else _guessed(run)
    if "prompts" in run.inputs:
        prompts = run.inputs["prompts"]
        if not isinstance(prompts, list) or not all(isinstance(prompt, str) for prompt in prompts):
            raise NotImportableError("its prompts are not texts")
        return COMPLETION, run.class_name, completion_body(prompts, known), losses
    return CHAT, run.class_name, chat_body(as_provider_sees(_messages(run), traced=True), known), losses


def _guessed(run: _ForeignRun) -> dict[str, Any]:
    """Return the parameters of a request that was recorded without them, or below LangChain."""
    own = {key: value for key, value in run.inputs.items() if key not in {"messages", "prompts", "stream"}}
    named = run.metadata.get("ls_model_name")
    return {**({"model": named} if isinstance(named, str) else {}), **own}


def _arguments(inputs: Mapping[str, Any]) -> Any:
    """Return the arguments of a tool, which are exported by name, or as the text that Python makes of them."""
    given = inputs.get("input")
    return literal_arguments(given) if inputs.keys() == {"input"} and isinstance(given, str) else dict(inputs)


def _messages(run: _ForeignRun) -> list[BaseMessage]:
    given = run.inputs.get("messages")
    if isinstance(given, list) and given and isinstance(given[0], list) and not _is_pair(given[0]):
        given = given[0]  # of a batch: each conversation is a run of its own
    if not isinstance(given, list):
        raise NotImportableError("its messages are not in the export")
    return [read_message(message) for message in given]


def _is_pair(value: Sequence[Any]) -> bool:
    return bool(value) and isinstance(value[0], str)


def _value(run: _ForeignRun, losses: list[str]) -> Any:
    if run.kind == "tool":
        return _tool_value(run.outputs, losses)
    if run.kind == "retriever":
        documents = run.outputs.get("documents", run.outputs.get("output"))
        if not isinstance(documents, list):
            raise NotImportableError("its documents are not in the export")
        return [read_document(document) for document in documents]
    if run.was_streamed:
        losses.append(_STREAMED)
    return _completion(run.outputs) if "prompts" in run.inputs else _answer(run.outputs, losses)


def _tool_value(outputs: Mapping[str, Any], losses: list[str]) -> Any:
    value = outputs["output"] if outputs.keys() == {"output"} else dict(outputs)
    if is_message(value):
        message = read_message(value)
        if not is_scalar(getattr(message, "artifact", None)):
            losses.append(_ARTIFACT)
        return message
    if not is_scalar(value):
        losses.append(_AS_JSON)
    return value


def _answer(outputs: Mapping[str, Any], losses: list[str]) -> ChatResult:
    generations = outputs.get("generations")
    if not isinstance(generations, list):
        losses.append(_NO_METADATA)
        return ChatResult(generations=[ChatGeneration(message=_bare(outputs))])
    listed = generations[0] if generations and isinstance(generations[0], list) else generations
    made = [_generation(item) for item in listed]
    llm_output = outputs.get("llm_output")
    return ChatResult(generations=made, llm_output=llm_output if isinstance(llm_output, dict) else None)


def _generation(item: Any) -> ChatGeneration:
    if not isinstance(item, dict) or "message" not in item:
        raise NotImportableError("its answer has no message")
    message, info = read_message(item["message"]), item.get("generation_info")
    if isinstance(message, AIMessageChunk):
        message = message_chunk_to_message(message)
    return ChatGeneration(message=message, generation_info=info if isinstance(info, dict) else None)


def _bare(outputs: Mapping[str, Any]) -> AIMessage:
    """Return the message of an answer that was recorded below LangChain: in OpenAI's form, or the message alone."""
    choices = outputs.get("choices")
    plain = (
        choices[0].get("message") if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
    )
    found = next((value for value in (plain, outputs.get("message"), outputs) if isinstance(value, dict)), None)
    message = read_message(found)
    if not isinstance(message, AIMessage):
        raise NotImportableError("its answer isn't a message of a model")
    return message


def _completion(outputs: Mapping[str, Any]) -> LLMResult:
    generations, llm_output = outputs.get("generations"), outputs.get("llm_output")
    listed = generations if isinstance(generations, list) else []
    made = [[_text(item) for item in (group if isinstance(group, list) else [group])] for group in listed]
    if not made:
        raise NotImportableError("its answer has no text")
    return LLMResult(generations=made, llm_output=llm_output if isinstance(llm_output, dict) else None)


def _text(item: Any) -> Generation:
    if not isinstance(item, dict) or not isinstance(item.get("text"), str):
        raise NotImportableError("its answer has no text")
    info = item.get("generation_info")
    return Generation(text=item["text"], generation_info=info if isinstance(info, dict) else None)


def _error(text: str) -> Exception:
    """Return an exception of the type that a traceback names on its last line, or a `repr` at the beginning."""
    first, last = text.partition("\n")[0], text.rstrip().rpartition("\n")[2]
    traced = _LAST_LINE.match(last) if "Traceback (most recent call last)" in text else None
    if traced is not None:
        module, _, name = traced[1].rpartition(".")
        return error_named(module or "builtins", name, traced[2] or "")
    shown = first.partition("Traceback (most recent call last)")[0]
    named = _REPR.match(shown)
    return error_named("builtins", named[1] if named is not None else "Exception", shown)


_KIND_OF = {"llm": "chat", "tool": "tool", "retriever": "retrieval", "embedding": "embeddings"}
_NO_EMBEDDINGS = "LangSmith exports of embeddings have neither the class of the model nor the shape of the call"


def import_langsmith(
    source: str | Path,
    target: str | Path,
    *,
    overwrite: bool = False,
    redact: bool | Sequence[Rule] = True,
    tags: Sequence[str] = (),
    client: Client | None = None,
) -> ImportReport:
    """Make a cassette of the runs in a LangSmith export, or of a run that LangSmith holds.

    The tree of runs gives each call its address, so a replay of the same program finds it in its place.

    Args:
        source: The file: a list of runs, JSON lines, or a mapping with the list under `runs`; also compressed by gzip.
            Or the id of a run, if there's no such file: it is read from LangSmith with all runs below it.
        target: The cassette: a bare name under the cassette folder, or a path.
        overwrite: Whether to replace a cassette that is there already.
        redact: Rules beyond the built-in ones, or `False` to keep secrets in plain text.
        tags: Words for the header.
        client: The client that reads a run; by default one that the environment describes.

    Returns:
        The report, with a grade for each run of a model, a tool or a retriever. All others run again on replay.

    Raises:
        CassetteFormatError: If the source isn't an export of runs.
        CassetteNotFoundError: If there is none.
        ConfigurationError: If the target is there already, an option is not valid, or LangSmith cannot be read.
    """
    path = Path(source)
    is_stored = is_run_id(str(source)) and not path.exists()
    data = fetched_run(str(source), client) if is_stored else parse_json(path, read_source(path))
    with Importing(target, overwrite=overwrite, redact=redact, tags=tags) as importing:
        items = graded_runs(importing, path, data)
    return ImportReport(path, importing.path, tuple(items))


def graded_runs(importing: Importing, path: Path, data: Any) -> list[Graded]:
    """Record the runs of an export, and return the grade of each that reaches outside.

    `data` is a list of runs, or a mapping with the list under `runs`; `path` is for errors. Raises
    `CassetteFormatError` if it isn't an export of runs.
    """
    return [_graded(importing, run) for run in _runs_of(path, data, importing.root) if run.kind in _KIND_OF]


def _graded(importing: Importing, run: _ForeignRun) -> Graded:
    what = f"{run.kind} {run.name}"
    try:
        loss = _imported(importing, run)
    except NotImportableError as error:
        importing.missing(_KIND_OF[run.kind], f"{what}: {error}")
        return Graded(run.place, what, "missing", str(error))
    return Graded(run.place, what, "lossy" if loss else "exact", loss)


def _imported(importing: Importing, run: _ForeignRun) -> str:
    if run.kind == "embedding":
        raise NotImportableError(_NO_EMBEDDINGS)
    try:
        return import_run(importing, run)
    except UnrecordableValueError as error:
        raise NotImportableError(f"it cannot be recorded: {error}") from error


# Exported LangSmith runs as a tree, with their inputs, outputs and durations.


@dataclass(slots=True)
class _ForeignRun:
    """A run."""

    plain: Mapping[str, Any]  # the exported run
    above: _ForeignRun | None = None  # the run that it belongs to, if that is exported
    position: Position = field(default_factory=Position)  # its position in the run tree
    session_call: ExecutedCall | None = None  # its interaction, if it has become one

    @property
    def place(self) -> str:
        """Its place in a report."""
        return f"run {self.plain['id']}"

    @property
    def kind(self) -> str:
        """Its type, such as `llm`, `tool`, `retriever` or `chain`."""
        return str(self.plain.get("run_type"))

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.plain.get("name") or "run")

    @property
    def class_name(self) -> str:
        """The class of its object if the export has it, or else its name."""
        serialized = _mapping(self.plain.get("serialized"))
        named = _items(serialized.get("id"))
        return str(serialized.get("name") or (named[-1] if named else None) or self.name)

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Its inputs."""
        return _mapping(self.plain.get("inputs"))

    @property
    def outputs(self) -> Mapping[str, Any]:
        """Its outputs."""
        return _mapping(self.plain.get("outputs"))

    @property
    def extra(self) -> Mapping[str, Any]:
        """Further facts about it."""
        return _mapping(self.plain.get("extra"))

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Its metadata, including inherited ones."""
        return _mapping(self.extra.get("metadata"))

    @property
    def tags(self) -> list[str]:
        """Its tags, including inherited ones."""
        return [str(tag) for tag in _items(self.plain.get("tags"))]

    @property
    def own_tags(self) -> list[str]:
        """The tags that were meant for this run."""
        return own_tags(self.tags, self.above.tags if self.above is not None else ())

    @property
    def error(self) -> str:
        """The error that it failed with: its `repr`, and mostly its traceback."""
        return str(self.plain.get("error") or "")

    @property
    def doubt(self) -> str:
        """The part of its request that is guessed, and why; empty if none is."""
        return str(self.plain.get("doubt") or "")

    @property
    def was_streamed(self) -> bool:
        """Return whether its answer came in tokens."""
        return any(_mapping(event).get("name") == "new_token" for event in _items(self.plain.get("events")))

    @property
    def duration_ms(self) -> float:
        """Its duration in milliseconds; 0 if the export does not have it."""
        start, end = _time(self.plain.get("start_time")), _time(self.plain.get("end_time"))
        return max((end - start).total_seconds() * 1000, 0.0) if start is not None and end is not None else 0.0

    @property
    def call_around(self) -> ExecutedCall | None:
        """The innermost interaction that it is part of."""
        above = self.above
        while above is not None and above.session_call is None:
            above = above.above
        return above.session_call if above is not None else None


def _runs_of(path: Path, data: Any, root: Position) -> list[_ForeignRun]:
    """Return the runs of an export in the order in which they began, each in its place in the tree."""
    if isinstance(data, dict):
        data = data["runs"] if isinstance(data.get("runs"), list) else [data]
    listed = enumerate(expect_list(path, "the top", data))
    plain = [run for number, item in listed for run in _flat(path, f"[{number}]", item, None)]
    found: dict[str, _ForeignRun] = {}
    for item in sorted(plain, key=_order):
        above = found.get(str(item.get("parent_run_id")))
        run = _ForeignRun(item, above)
        below = above.position if above is not None else root
        run.position = below.child(**placement(_position_name(run), run.tags, dict(run.metadata)))
        found[str(item["id"])] = run
    return list(found.values())


def _flat(path: Path, where: str, item: Any, parent: str | None) -> Iterator[dict[str, Any]]:
    """Yield a run and the children that it holds."""
    plain = expect_mapping(path, where, item)
    if not isinstance(plain.get("id"), str) or not isinstance(plain.get("run_type"), str):
        raise malformed(path, where, "a run with an id and a run_type", plain.get("run_type"))
    yield {**plain, "parent_run_id": plain.get("parent_run_id") or parent}
    for number, child in enumerate(_items(plain.get("child_runs"))):
        yield from _flat(path, f"{where}.child_runs[{number}]", child, plain["id"])


def _order(plain: Mapping[str, Any]) -> tuple[str, str]:
    """Sort as they began: `dotted_order` has the times of all runs around it, and parents before their children."""
    start = _time(plain.get("start_time"))
    return str(plain.get("dotted_order") or ""), start.astimezone(UTC).isoformat() if start is not None else "9999"


def _position_name(run: _ForeignRun) -> str:
    return run.class_name if run.kind == "llm" else run.name


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _time(value: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time
